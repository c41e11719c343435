"""The flow `nightly`, and what it shares with other series: a run for each part, mostly a day."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from datetime import date
from typing import Any, Final

import httpx
from prefect import flow
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Completed, Failed
from pydantic import BaseModel, ConfigDict

from assizes.flows.evaluate import evaluate, evaluate_uncompared
from assizes.flows.outcome import EXIT_CODES, RunOutcome, parse_outcome
from assizes.flows.server import finds_server
from assizes.judge.config.run import RunConfig, StartMode, Trigger
from assizes.judge.errors import AssizesError, Halted, Inconclusive, NotComparable, OverBudget
from assizes.judge.verdicts.run_outcome import Conclusion, PartConclusion
from assizes.tasks.context.run_context import clear_error_frames
from assizes.tasks.intake.run_sources import RunPart, check_dated, yesterday
from assizes.tasks.intake.series_requests import check_has_begun
from assizes.tasks.list_due_nights import due_nights
from assizes.tasks.runtime.process import redacts_secrets

log = logging.getLogger(__name__)

SEVEREST_FIRST: Final[tuple[PartConclusion, ...]] = (
    *("Halted", "OverBudget", "Regression", "GateFailed", "Failed"),
    *("Incomplete", "NotComparable", "Inconclusive", "NoData", "Passed"),
)
"""Conclusions in order of severity: a series has the first that one of its parts has."""

_OF_ERRORS: Final[tuple[tuple[type[AssizesError], Conclusion], ...]] = (
    (Halted, "Halted"),
    (OverBudget, "OverBudget"),
    (NotComparable, "NotComparable"),
    (Inconclusive, "Inconclusive"),
)

_MAX_REASONS: Final = 5  # parts whose reasons an outcome names, at most


class PartOutcome(BaseModel):
    """How the run of one day or URI ended, in short; `assizes show RUN` shows all of it."""

    model_config = ConfigDict(frozen=True)

    part: str  # its label: a day or a URI
    run_id: str | None  # `None`: no run was begun, or its outcome is not known
    conclusion: PartConclusion
    exit_code: int
    reasons: list[str]  # why the run did not pass
    cases: int = 0  # judged, or tried in vain
    quarantined: int = 0  # records that could not be read
    cases_pass_rate_pct: float | None = None  # 0..100
    weighted_metrics_score_pct: float | None = None  # 0..100
    cost_usd: float | None = None  # paid by all processes of the run; `None`: unknown
    report: str | None = None  # path or URI of the HTML report


class SeriesOutcome(BaseModel):
    """How a nightly run or a backfill over several days ended, with the outcome of each day."""

    model_config = ConfigDict(frozen=True)

    name: str  # of the configuration
    conclusion: PartConclusion  # the severest of a part
    exit_code: int  # of the part with that conclusion
    reasons: list[str]  # why parts did not pass, and how many were not begun
    parts: list[PartOutcome]  # the parts that were begun, in their order
    left: list[str] = []  # labels of the parts that were not begun
    cost_usd: float | None = None  # sum over the parts; `None`: known of no part


async def judge_part(
    config: RunConfig,
    trigger: Trigger,
    part: RunPart,
    begun: str | None = None,  # id of a run of the part, which is resumed by its stored plan
    *,
    compares_later: bool = False,  # whether a baseline chosen by a rule waits
) -> PartOutcome:
    """Evaluate one part; an error becomes part of the outcome, so that the other parts go on."""
    evaluation = evaluate_uncompared if compares_later else evaluate
    manner: StartMode = "begin" if begun is None else "resume"
    # Prefect types an async flow called with return_state as if it had been awaited already.
    work: Any = evaluation(part.config(config), trigger, begun, part.day, manner, return_state=True)
    try:
        state: State[Any] = await work
    except (httpx.HTTPError, RuntimeError) as error:
        # An error of the run would be in its state. This one is of the Prefect server, which is
        # away or too busy to record the run; Prefect raises "Failed to reach API" as RuntimeError.
        return _failed_part(part, error, "Failed")
    outcome: Any = parse_outcome(await state.aresult(raise_on_failure=False))
    if isinstance(outcome, RunOutcome):
        return _part_outcome(part, outcome)
    if isinstance(outcome, BaseException):
        clear_error_frames(outcome)  # else Prefect keeps DuckDB connections alive
    return _failed_part(part, outcome, state.name or "Failed")


def conclude_parts(
    config: RunConfig,
    parts: Sequence[PartOutcome],
    left: Sequence[RunPart],
    *,
    no_data_counts: bool,
) -> State[SeriesOutcome]:
    """A Prefect state named for the severest conclusion; its data is the `SeriesOutcome`.

    `left` are the parts that were not begun. `no_data_counts`: whether a part without data
    (`NoData`) may decide the conclusion while others have data.
    """
    shown_parts = [part for part in parts if no_data_counts or part.conclusion != "NoData"] or parts
    worst = min(shown_parts, key=lambda part: SEVEREST_FIRST.index(part.conclusion), default=None)
    conclusion: PartConclusion = worst.conclusion if worst else "NoData"
    outcome = SeriesOutcome(
        name=config.name,
        conclusion=conclusion,
        exit_code=worst.exit_code if worst else EXIT_CODES["NoData"],
        reasons=_reasons(shown_parts, left),
        parts=list(parts),
        left=[part.label for part in left],
        cost_usd=total_cost_usd(parts),
    )
    state = Failed if config.runner.fail_flow and conclusion != "Passed" else Completed
    counts = Counter(part.conclusion for part in parts)
    tally = ", ".join(f"{counts[name]} {name}" for name in SEVEREST_FIRST if counts[name])
    message = "; ".join(outcome.reasons) or tally
    return state(name=conclusion, message=message, data=outcome)


def total_cost_usd(parts: Sequence[PartOutcome]) -> float | None:
    """The sum of the parts' costs in USD; `None`: the cost of no part is known."""
    known = [part.cost_usd for part in parts if part.cost_usd is not None]
    return sum(known) if known else None


def _part_outcome(part: RunPart, outcome: RunOutcome) -> PartOutcome:
    summary, counts = outcome.summary, outcome.summary.counts
    # The ledger counts what every process paid, also for replies that no row holds.
    paid = summary.total_platform_cost_usd if summary.spent_usd is None else summary.spent_usd
    return PartOutcome(
        part=part.label,
        run_id=outcome.run_id,
        conclusion=outcome.conclusion,
        exit_code=outcome.exit_code,
        reasons=outcome.reasons,
        cases=counts.get("judged", 0) + counts.get("errored", 0),
        quarantined=counts.get("quarantined", 0),
        cases_pass_rate_pct=summary.cases_pass_rate_pct,
        weighted_metrics_score_pct=summary.weighted_metrics_score_pct,
        cost_usd=paid,
        report=outcome.reports.get("html"),
    )


def _failed_part(part: RunPart, error: Any, state: str) -> PartOutcome:
    """The outcome of a part whose run returned none, by its error or the name of its state."""
    what = "" if isinstance(error, AssizesError) else f"{state}: "
    if what and isinstance(error, BaseException):
        what = f"{type(error).__name__}: "
    reason = " ".join(f"{what}{error}".split())  # on one line
    conclusion = next((name for kind, name in _OF_ERRORS if isinstance(error, kind)), "Failed")
    log.error("%s could not be judged: %s%s", part.label, what, error)
    code = error.exit_code if isinstance(error, AssizesError) else 4  # 4: inconclusive
    return PartOutcome(
        part=part.label, run_id=None, conclusion=conclusion, exit_code=code, reasons=[reason]
    )


def _reasons(parts: Sequence[PartOutcome], left: Sequence[RunPart]) -> list[str]:
    """A line for each part with reasons, the severest first, and one for the parts left."""
    lines = [
        f"{part.part}: {part.conclusion}: {'; '.join(part.reasons)}"
        for part in sorted(parts, key=lambda part: SEVEREST_FIRST.index(part.conclusion))
        if part.conclusion != "Passed" or part.reasons  # a pass may leave something open
    ]
    hidden_count = len(lines) - _MAX_REASONS
    rest = [f"and {hidden_count} more"] if hidden_count > 0 else []
    waiting = [f"{len(left)} not begun: {left[0].label} and on"] if left else []
    return [*lines[:_MAX_REASONS], *rest, *waiting]


def _run_name() -> str:
    config: RunConfig = flow_run.parameters["config"]
    return f"nightly-{config.name}-{flow_run.parameters.get('on') or _night(config)}"


@redacts_secrets
@finds_server
@flow(name="nightly", flow_run_name=_run_name, result_serializer="json")
async def nightly(config: RunConfig, on: date | None = None) -> State[SeriesOutcome]:
    """Judge the transcripts of the last whole day, after those of nights that were missed.

    Each night is an `evaluate` run; a finished run costs nothing again. A night without transcripts
    is a run too, with the conclusion `NoData`.

    Args:
        config: everything about the runs; `[nightly]` has the time zone of the days, and how many
            missed nights are judged as well.
        on: the only day to judge; None: the last whole day, and the missed nights.

    Returns:
        A state named for the severest conclusion of these nights; its data is the `SeriesOutcome`.

    Raises:
        ConfigurationError: the transcripts' URI has no placeholder for a day, or `on` lies in the
            future.
    """
    check_dated(config.transcripts.uri)
    if on:
        check_has_begun(on, config.nightly.time_zone)
    nights = [on] if on else await due_nights(config, _night(config))
    outcomes: list[PartOutcome] = []
    for night in nights:
        # A spent budget or a stop holds for the nights after it as well.
        if outcomes and outcomes[-1].conclusion in ("Halted", "OverBudget"):
            break
        outcomes.append(await judge_part(config, "nightly", RunPart(night)))
    left = [RunPart(night) for night in nights[len(outcomes) :]]
    return conclude_parts(config, outcomes, left, no_data_counts=True)


def _night(config: RunConfig) -> date:
    """The day before the scheduled start; a flow run that starts late still judges this day."""
    return yesterday(flow_run.scheduled_start_time, config.nightly.time_zone)
