"""PublishedFigure figures beside ours: equal at the printed decimals, or different for a stated reason."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from assizes.tasks.recorded.values import RecordedSet

By = Literal["authors", "set"]

_OTHER_RUNS: Final = (
    *("NISTRetrieval-instruct1", "NISTRetrieval-instruct2", "NISTRetrieval-reason0"),
    *("NISTRetrieval-reason2", "Olz-exp", "Olz-multiprompt", "RMITIR-llama70B", "TREMA-direct"),
    *("TREMA-naiveBdecompose", "TREMA-other", "TREMA-questions", "TREMA-sumdecompose"),
    *("h2oloo-zeroshot1", "prophet-setting2", "willia-umbrela2", "willia-umbrela3"),
)
"""The 16 of LLMJudge's 33 published runs whose labels are not in the set."""

NOT_HERE: Final[Sequence[tuple[str, str, str]]] = (
    *(
        (
            "LLMJudge",
            f"kappa and alpha of {run}",
            "the set holds the labels and the published figures of 17 of 33 runs, without this one",
        )
        for run in _OTHER_RUNS
    ),
    (
        "LLMBar",
        "kappa_False and kappa_True of the authors' statistics.json",
        "their code maps the second output to 0 and compares it with labels 1 and 2",
    ),
    (
        "DevAI",
        "figures of the paper for its third coding agent",
        "the set holds the verdicts on two of three agents",
    ),
    (
        "XSTest",
        "figures of the authors for two further models",
        "the set holds the answers of three of five models",
    ),
)
"""Figures that cannot be reproduced from the sets: set, figure, reason."""


class PublishedFigure(BaseModel):
    """A published figure beside ours, both as text with the same number of decimals."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dataset: str
    figure: str = Field(description="subject and measure")
    by: By = Field(description="who printed it: the authors, or the description of the set")
    published: str
    ours: str

    @property
    def is_equal(self) -> bool:
        """Whether ours equals the published one at the printed decimals."""
        return self.ours == self.published


@cache
def published_figures() -> Mapping[str, Mapping[By, Mapping[str, str]]]:
    """The figures as printed, by set, by who printed them, and by name."""
    text = Path(__file__).with_name("published.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def compared_figures(recorded: RecordedSet) -> Iterator[PublishedFigure]:
    """Every published figure of a set beside ours; `missing` where we compute none."""
    for by, figures in published_figures().get(recorded.name, {}).items():
        for name, printed in figures.items():
            ours = recorded.figures.get(name)
            text = "missing" if ours is None else as_printed(ours, printed)
            yield PublishedFigure(
                dataset=recorded.name, figure=name, by=by, published=printed, ours=text
            )


def as_printed(ours: float | str, printed: str) -> str:
    """Our figure with the decimals, the leading zero and the thousands separator of the printed one."""
    if isinstance(ours, str):
        return ours
    decimals = len(printed.partition(".")[2])
    text = f"{ours:,.{decimals}f}" if "," in printed else f"{ours:.{decimals}f}"
    if not float(text.replace(",", "")):
        text = text.removeprefix("-")  # no -.0000
    bare = printed.removeprefix("-").startswith(".")
    return text.replace("0.", ".", 1) if bare and text.removeprefix("-").startswith("0.") else text
