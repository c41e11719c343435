"""From a rubric that scores one conversation to a question about two."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from assizes.judge.errors import ConfigurationError
from assizes.judge.families.custom.toml_judges import CustomRubric
from assizes.judge.families.rag import Input, yes_no_rubrics
from assizes.judge.prompts.prompt_texts import DATA_RULE
from assizes.judge.rubrics.rubric import (
    KIND,
    Rubric,
    documents,
    is_aligned,
    rubric_section,
    rubrics,
    toml_table,
    validate_table,
)

OVERALL: Final = "overall"
"""The name of the question that is asked where no rubric is named."""

MAX_FILE_BYTES: Final = 256 * 1024
"""The most bytes of a rubric file that is named by its path."""

Shown = Literal["conversation", "answer"]
"""What is compared: whole conversations, or the last answers of both."""

_OVERALL: Final = """\
Which agent served the user better? First, the better one does what the user asked for, no less and
nothing else, as far as the rules it was given allow. Then, it says nothing that is wrong or made up,
and leaves the user with less left to do. A richer or better written answer does not make up for one
that does something else than was asked."""

_RULES: Final = f"""\
You compare how two AI agents dealt with the same case. Say which did better, or that neither did.

# Rules
- Judge by the question below alone, on what you are shown; do not invent problems.
- Which one is shown first was decided without looking at them: the place means nothing.
- Length, tone, formatting and confidence mean nothing by themselves: words that add nothing do not make an answer better.
- Say tie where neither is better. Do not look for a reason to prefer one.
- {DATA_RULE}"""

_REPLY: Final = """\
# Reply
One JSON object, nothing else, with these keys in this order:
- rationale: one to three sentences on both, before the decision
- better: "first", "second" or "tie", nothing else"""

_SCALED: Final = """\
The text below describes how a single one is rated. Rate both by it, and compare the ratings; where
both fall on the same level, say which is clearly better on that level, or tie."""


@dataclass(frozen=True, slots=True)
class PairRubric:
    """A question about two sides of a case, and what of them is shown."""

    name: str
    text: str
    shown: Shown = "conversation"
    inputs: tuple[Input, ...] = ()  # of answers: without one of these there is nothing to compare
    optional: tuple[Input, ...] = ()  # of answers: shown where a case has it

    @property
    def system(self) -> str:
        """The system message, which is equal for all pairs."""
        return "\n\n".join([_RULES, f"# Question\n{self.text.strip()}", _REPLY])

    def content_hash(self) -> str:
        """The first 16 hex digits of the SHA-256 over the system message and what is shown."""
        shown = "\x00".join((self.system, self.shown, *self.inputs, "", *self.optional))
        return hashlib.sha256(shown.encode("utf-8", "surrogatepass")).hexdigest()[:16]


OVERALL_QUESTION: Final = PairRubric(OVERALL, _OVERALL)
"""The question which of two agents served the user better."""


def pair_rubric(name: str, folders: Sequence[str] = ()) -> PairRubric:
    """The question that a rubric becomes: `overall`, a metric, a yes/no judge, or a TOML file.

    `name` is the name of a built-in rubric or of one in a rubric folder, or the path of a file that
    ends in `.toml`.

    Raises:
        ConfigurationError: there is no such rubric, the file cannot be used, or the rubric rates
            retrieved chunks, of which two sides have different ones.
    """
    if name.endswith(".toml"):
        return _of_table(_file_table(name), name)
    if name == OVERALL:
        return OVERALL_QUESTION
    known = _named_rubrics(folders)
    if name not in known:
        raise ConfigurationError.unknown("rubric", name, sorted((OVERALL, *known)), "--rubric")
    question = known[name]
    if question is None:
        raise ConfigurationError(_no_chunks(name))
    return question


def _named_rubrics(folders: Sequence[str]) -> dict[str, PairRubric | None]:
    """The questions by name; `None` for a rubric that rates retrieved chunks."""
    known: dict[str, PairRubric | None] = {
        name: None
        if rubric.step == "retrieval"
        else PairRubric(
            name, _comparing_text(rubric.prompt), "answer", rubric.inputs, rubric.optional
        )
        for name, rubric in yes_no_rubrics().items()
    }
    known |= {rubric.name: _of_metric(rubric) for rubric in rubrics(folders)}
    for where, table in documents(folders):
        if KIND not in table:
            continue
        rubric = validate_table(CustomRubric, table, where)
        former = known.get(rubric.name)
        if rubric.kind == "RETRIEVAL":
            known[rubric.name] = None
        elif is_aligned(table) and former is not None:  # its inputs stay those of the built-in one
            known[rubric.name] = PairRubric(
                rubric.name,
                _comparing_text(rubric.prompt()),
                "answer",
                former.inputs,
                former.optional,
            )
        else:
            known[rubric.name] = _of_judge(rubric)
    return known


def _of_table(table: Mapping[str, Any], where: str) -> PairRubric:
    if KIND not in table:
        return _of_metric(validate_table(Rubric, table, where))
    rubric = validate_table(CustomRubric, table, where)
    if rubric.kind == "RETRIEVAL":
        raise ConfigurationError(_no_chunks(rubric.name))
    return _of_judge(rubric)


def _of_metric(rubric: Rubric) -> PairRubric:
    return PairRubric(rubric.name, _comparing_text(rubric_section(rubric)))


def _of_judge(rubric: CustomRubric) -> PairRubric:
    return PairRubric(
        rubric.name, _comparing_text(rubric.prompt()), "answer", rubric.inputs, tuple(rubric.shows)
    )


def _comparing_text(text: str) -> str:
    return f"{_SCALED}\n\n{text.strip()}"


def _no_chunks(name: str) -> str:
    return (
        f"--rubric {name!r} rates retrieved chunks one by one, and two runs retrieved different "
        "ones; name a rubric of answers or of conversations"
    )


def _file_table(name: str) -> dict[str, Any]:
    path = Path(name)
    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise ConfigurationError(
                f"{name}: has {size:,} bytes; a rubric has at most {MAX_FILE_BYTES:,}"
            )
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{name}: cannot be read: {error}") from error
    return toml_table(text, name)
