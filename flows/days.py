"""Runs over several parts of the transcripts, most often days: each is one evaluation."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, Literal

import httpx
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed
from pydantic import BaseModel, ConfigDict

from assizes.flows.evaluate import evaluate
from assizes.flows.outcome import EXIT_CODES, Conclusion, RunOutcome, reached
from assizes.judge.config.run import RunConfig, Trigger
from assizes.judge.errors import AssizesError, Halted, Inconclusive, NotComparable, OverBudget
from assizes.tasks.context.run_context import forget_frames
from assizes.tasks.intake.parts import Part

log = logging.getLogger(__name__)

PartConclusion = Conclusion | Literal["Failed"]
"""How a part ended; `Failed`: an error kept it from being begun, or from being reported."""

SEVEREST_FIRST: Final[tuple[PartConclusion, ...]] = (
    "Halted",
    "OverBudget",
    "Regression",
    "GateFailed",
    "Failed",
    "Incomplete",
    "NotComparable",
    "Inconclusive",
    "NoData",
    "Passed",
)
"""What several runs come to: the first of these that any of them came to."""

_OF_ERRORS: Final[tuple[tuple[type[AssizesError], Conclusion], ...]] = (
    (Halted, "Halted"),
    (OverBudget, "OverBudget"),
    (NotComparable, "NotComparable"),
    (Inconclusive, "Inconclusive"),
)

_UNKNOWN_FAULT: Final = 4
"""Exit code where an error is none of ours: nothing can be said of the transcripts."""

_REASONS_SAID: Final = 5


class PartOutcome(BaseModel):
    """A part at its end: what `assizes show RUN` says in full."""

    model_config = ConfigDict(frozen=True)

    part: str
    run_id: str | None
    conclusion: PartConclusion
    exit_code: int
    reasons: list[str]
    cases: int = 0  # judged, or tried
    quarantined: int = 0
    cases_pass_rate_pct: float | None = None
    weighted_metrics_score_pct: float | None = None
    cost_usd: float | None = None
    report: str | None = None


class SeriesOutcome(BaseModel):
    """Several runs at their end.

    Attributes:
        conclusion: the severest of the parts'.
        parts: those that were begun, in the order in which they come.
        left: those that were not begun.
        cost_usd: what all sittings of these runs paid; null where no part says.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    conclusion: PartConclusion
    exit_code: int
    reasons: list[str]
    parts: list[PartOutcome]
    left: list[str] = []
    cost_usd: float | None = None


async def judge_part(
    config: RunConfig, trigger: Trigger, part: Part, begun: str | None = None
) -> PartOutcome:
    """One evaluation. Whatever becomes of it is told as a value, so that the others go on.

    Args:
        config: everything about the runs.
        trigger: what started them.
        part: which it is about.
        begun: the id of its run, to go on by what was planned then.
    """
    # Prefect types an async flow called with return_state as if it had been awaited already.
    work: Any = evaluate(
        part.config(config),
        trigger,
        begun,
        part.on,
        "begin" if begun is None else "resume",
        return_state=True,
    )
    try:
        state: State[Any] = await work
    except (httpx.HTTPError, RuntimeError) as error:
        # What befalls the run is in its state: this is the server, away or too busy to take note
        # of the run. Prefect says "Failed to reach API" as a RuntimeError.
        return _fault(part, error, "Failed")
    ended: Any = reached(await state.aresult(raise_on_failure=False))
    if isinstance(ended, RunOutcome):
        return _reached(part, ended)
    if isinstance(ended, BaseException):
        forget_frames(ended)
    return _fault(part, ended, state.name or "Failed")


def conclude_parts(
    name: str, parts: Sequence[PartOutcome], left: Sequence[Part], *, fail: bool, empty_counts: bool
) -> State[SeriesOutcome]:
    """A state named for the severest conclusion.

    Args:
        name: of the runs.
        parts: those that were begun.
        left: those that were not.
        fail: whether anything but `Passed` is a failed state.
        empty_counts: whether a part without data is worth a word where others have some.
    """
    said = [one for one in parts if empty_counts or one.conclusion != "NoData"] or parts
    worst = min(said, key=lambda one: SEVEREST_FIRST.index(one.conclusion), default=None)
    conclusion: PartConclusion = worst.conclusion if worst else "NoData"
    outcome = SeriesOutcome(
        name=name,
        conclusion=conclusion,
        exit_code=worst.exit_code if worst else EXIT_CODES["NoData"],
        reasons=_reasons(said, left),
        parts=list(parts),
        left=[one.label for one in left],
        cost_usd=spent(parts),
    )
    state = Failed if fail and conclusion != "Passed" else Completed
    message = "; ".join(outcome.reasons) or _tally(parts)
    return state(name=conclusion, message=message, data=outcome)


def spent(parts: Sequence[PartOutcome]) -> float | None:
    """What the runs cost together; null where none of them says."""
    known = [one.cost_usd for one in parts if one.cost_usd is not None]
    return sum(known) if known else None


def _reached(part: Part, ended: RunOutcome) -> PartOutcome:
    summary = ended.summary
    paid = summary.total_platform_cost_usd if summary.spent_usd is None else summary.spent_usd
    return PartOutcome(
        part=part.label,
        run_id=ended.run_id,
        conclusion=ended.conclusion,
        exit_code=ended.exit_code,
        reasons=ended.reasons,
        cases=summary.counts.get("judged", 0) + summary.counts.get("errored", 0),
        quarantined=summary.counts.get("quarantined", 0),
        cases_pass_rate_pct=summary.cases_pass_rate_pct,
        weighted_metrics_score_pct=summary.weighted_metrics_score_pct,
        cost_usd=paid,
        report=ended.reports.get("html"),
    )


def _fault(part: Part, error: Any, state: str) -> PartOutcome:
    """A part of which there is no outcome; the log says why."""
    what = "" if isinstance(error, AssizesError) else f"{state}: "
    if what and isinstance(error, BaseException):
        what = f"{type(error).__name__}: "
    said = " ".join(f"{what}{error}".split())
    ended = next((name for kind, name in _OF_ERRORS if isinstance(error, kind)), "Failed")
    log.error("%s could not be judged: %s%s", part.label, what, error)
    code = error.exit_code if isinstance(error, AssizesError) else _UNKNOWN_FAULT
    return PartOutcome(
        part=part.label, run_id=None, conclusion=ended, exit_code=code, reasons=[said]
    )


def _reasons(parts: Sequence[PartOutcome], left: Sequence[Part]) -> list[str]:
    """The severest first; with several parts each reason says which it is about."""
    ordered = sorted(
        (one for one in parts if one.conclusion != "Passed"),
        key=lambda one: SEVEREST_FIRST.index(one.conclusion),
    )
    said = [f"{one.part}: {one.conclusion}: {'; '.join(one.reasons)}" for one in ordered]
    unsaid = len(said) - _REASONS_SAID
    rest = [f"and {unsaid} more"] if unsaid > 0 else []
    waiting = [f"{len(left)} not begun: {left[0].label} and on"] if left else []
    return [*said[:_REASONS_SAID], *rest, *waiting]


def _tally(parts: Sequence[PartOutcome]) -> str:
    counted = Counter(one.conclusion for one in parts)
    return ", ".join(f"{counted[one]} {one}" for one in SEVEREST_FIRST if counted[one])
