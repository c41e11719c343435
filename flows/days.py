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
from assizes.flows.outcome import EXIT_CODES, Conclusion, RunOutcome, parse_outcome
from assizes.judge.config.run import RunConfig, Trigger
from assizes.judge.errors import AssizesError, Halted, Inconclusive, NotComparable, OverBudget
from assizes.tasks.context.run_context import clear_error_frames
from assizes.tasks.intake.days import RunPart

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

_MAX_REASONS: Final = 5


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
    config: RunConfig, trigger: Trigger, part: RunPart, begun: str | None = None
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
        part.day,
        "begin" if begun is None else "resume",
        return_state=True,
    )
    try:
        state: State[Any] = await work
    except (httpx.HTTPError, RuntimeError) as error:
        # What befalls the run is in its state: this is the server, away or too busy to take note
        # of the run. Prefect says "Failed to reach API" as a RuntimeError.
        return _failed_part(part, error, "Failed")
    outcome: Any = parse_outcome(await state.aresult(raise_on_failure=False))
    if isinstance(outcome, RunOutcome):
        return _part_outcome(part, outcome)
    if isinstance(outcome, BaseException):
        clear_error_frames(outcome)
    return _failed_part(part, outcome, state.name or "Failed")


def conclude_parts(
    name: str,
    parts: Sequence[PartOutcome],
    left: Sequence[RunPart],
    *,
    fail: bool,
    empty_counts: bool,
) -> State[SeriesOutcome]:
    """A state named for the severest conclusion.

    Args:
        name: of the runs.
        parts: those that were begun.
        left: those that were not.
        fail: whether anything but `Passed` is a failed state.
        empty_counts: whether a part without data is worth a word where others have some.
    """
    shown_parts = [part for part in parts if empty_counts or part.conclusion != "NoData"] or parts
    worst = min(shown_parts, key=lambda part: SEVEREST_FIRST.index(part.conclusion), default=None)
    conclusion: PartConclusion = worst.conclusion if worst else "NoData"
    outcome = SeriesOutcome(
        name=name,
        conclusion=conclusion,
        exit_code=worst.exit_code if worst else EXIT_CODES["NoData"],
        reasons=_reasons(shown_parts, left),
        parts=list(parts),
        left=[part.label for part in left],
        cost_usd=total_cost_usd(parts),
    )
    state = Failed if fail and conclusion != "Passed" else Completed
    message = "; ".join(outcome.reasons) or _tally(parts)
    return state(name=conclusion, message=message, data=outcome)


def total_cost_usd(parts: Sequence[PartOutcome]) -> float | None:
    """What the runs cost together; null where none of them says."""
    known = [part.cost_usd for part in parts if part.cost_usd is not None]
    return sum(known) if known else None


def _part_outcome(part: RunPart, outcome: RunOutcome) -> PartOutcome:
    summary = outcome.summary
    paid = summary.total_platform_cost_usd if summary.spent_usd is None else summary.spent_usd
    return PartOutcome(
        part=part.label,
        run_id=outcome.run_id,
        conclusion=outcome.conclusion,
        exit_code=outcome.exit_code,
        reasons=outcome.reasons,
        cases=summary.counts.get("judged", 0) + summary.counts.get("errored", 0),
        quarantined=summary.counts.get("quarantined", 0),
        cases_pass_rate_pct=summary.cases_pass_rate_pct,
        weighted_metrics_score_pct=summary.weighted_metrics_score_pct,
        cost_usd=paid,
        report=outcome.reports.get("html"),
    )


def _failed_part(part: RunPart, error: Any, state: str) -> PartOutcome:
    """A part of which there is no outcome; the log says why."""
    what = "" if isinstance(error, AssizesError) else f"{state}: "
    if what and isinstance(error, BaseException):
        what = f"{type(error).__name__}: "
    reason = " ".join(f"{what}{error}".split())
    conclusion = next((name for kind, name in _OF_ERRORS if isinstance(error, kind)), "Failed")
    log.error("%s could not be judged: %s%s", part.label, what, error)
    code = error.exit_code if isinstance(error, AssizesError) else _UNKNOWN_FAULT
    return PartOutcome(
        part=part.label, run_id=None, conclusion=conclusion, exit_code=code, reasons=[reason]
    )


def _reasons(parts: Sequence[PartOutcome], left: Sequence[RunPart]) -> list[str]:
    """The severest first; with several parts each reason says which it is about."""
    ordered = sorted(
        (part for part in parts if part.conclusion != "Passed"),
        key=lambda part: SEVEREST_FIRST.index(part.conclusion),
    )
    lines = [f"{part.part}: {part.conclusion}: {'; '.join(part.reasons)}" for part in ordered]
    hidden_count = len(lines) - _MAX_REASONS
    rest = [f"and {hidden_count} more"] if hidden_count > 0 else []
    waiting = [f"{len(left)} not begun: {left[0].label} and on"] if left else []
    return [*lines[:_MAX_REASONS], *rest, *waiting]


def _tally(parts: Sequence[PartOutcome]) -> str:
    counts = Counter(part.conclusion for part in parts)
    return ", ".join(
        f"{counts[conclusion]} {conclusion}" for conclusion in SEVEREST_FIRST if counts[conclusion]
    )
