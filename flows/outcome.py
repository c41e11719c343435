"""What a run comes to: an exit code, a Prefect state, and the facts behind both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed
from pydantic import BaseModel, ConfigDict

from assizes.flows.shards import Losses
from assizes.judge.comparison.compare import Ending, RunComparison
from assizes.judge.errors import Halted, OverBudget
from assizes.judge.history.anchors import Attribution
from assizes.judge.rows import COMPLETE
from assizes.judge.summary.summary import RunSummary
from assizes.tasks.reports.data.outcomes import REGRESSION, outcome_of
from assizes.tasks.store import RunRecord
from assizes.tasks.summarise import Against

Conclusion = Literal[
    "Passed",
    "GateFailed",
    "Regression",
    "NotComparable",
    "Inconclusive",
    "Incomplete",
    "OverBudget",
    "Halted",
    "NoData",
]

EXIT_CODES: dict[Conclusion, int] = {
    "Passed": 0,
    "GateFailed": 1,
    "Regression": 1,
    "NotComparable": 3,
    "Inconclusive": 4,
    "Incomplete": 4,
    "OverBudget": 5,
    "Halted": 130,
    "NoData": 4,
}

CONCLUSIONS: Final[Mapping[str, Conclusion]] = {
    "passed": "Passed",
    "failed": "GateFailed",
    REGRESSION: "Regression",
    "inconclusive": "Inconclusive",
    "undecided": "Inconclusive",
    "not_comparable": "NotComparable",
}
"""What a whole run comes to, by the word of its report."""

ALLOW: Final = (
    "a change need not be the agent's; [comparison] allow = true (--allow) compares all the same"
)

REASONS_SAID: Final = 5
"""So many reasons for lost shards are told; the log holds them all."""


class RunOutcome(BaseModel):
    """The end of a run as callers see it; the CLI prints it, Prefect keeps it as JSON."""

    model_config = ConfigDict(frozen=True)

    run_id: str
    judge_model: str
    conclusion: Conclusion
    exit_code: int
    reasons: list[str]
    summary: RunSummary
    comparison: RunComparison | None
    attribution: Attribution | None = None
    reports: dict[str, str]


def reached(found: Any) -> Any:
    """What a subflow `evaluate` ended with: a `RunOutcome`, or an error.

    Where a flow run is taken up again, Prefect gives back what its finished subflows returned, as
    the JSON that was kept.
    """
    return RunOutcome.model_validate(found) if isinstance(found, dict) else found


async def subflow_outcome(work: Any) -> Any:
    """What an `evaluate` that was called with `return_state` ends with, as `reached` says it.

    `work` is what is to be awaited; Prefect types it as if it had been already.
    """
    return reached(await (await work).aresult(raise_on_failure=False))


def conclude(
    record: RunRecord,
    summary: RunSummary,
    against: Against,
    lost: Losses,
    reports: dict[str, str],
    *,
    fail: bool,
) -> State[Any]:
    """A state named for the conclusion. Anything but `Passed` is a failed state when `fail`.

    Args:
        record: the run at its end.
        summary: its summary.
        against: its comparison, if one was wanted.
        lost: why shards could not be judged.
        reports: where the reports lie, by suffix.
        fail: whether the flow fails with the run.
    """
    conclusion, reasons = _conclusion(record, summary, against, lost)
    outcome = RunOutcome(
        run_id=record.run_id,
        judge_model=record.judge_model,
        conclusion=conclusion,
        exit_code=EXIT_CODES[conclusion],
        reasons=reasons,
        summary=summary,
        comparison=against.comparison,
        attribution=against.attribution,
        reports=reports,
    )
    state = Failed if fail and conclusion != "Passed" else Completed
    message = "; ".join(reasons) or "every gate passed"
    return state(name=conclusion, message=message, data=outcome)


def _conclusion(
    record: RunRecord, summary: RunSummary, against: Against, lost: Losses
) -> tuple[Conclusion, list[str]]:
    """The name of the most severe finding, and what is to be said of it and of the others."""
    if record.status != COMPLETE:
        return _unfinished(summary, lost)
    if record.plan.get("due") == 0:
        return _nothing(summary)
    ending, beside = _beside(against)
    found = against.attribution
    moved = [found.sentence()] if found is not None and found.judge_moved else []
    outcome = outcome_of(record.status, summary.outcome, ending, judge_moved=bool(moved))
    if outcome == "inconclusive":
        return CONCLUSIONS[outcome], [*moved, _why_inconclusive(summary)]
    gates = [] if ending == "regressed" else _failed_gates(summary)
    return CONCLUSIONS[outcome], [*moved, *gates, *beside]


def _nothing(summary: RunSummary) -> tuple[Conclusion, list[str]]:
    """Records that cannot be read are there: of them it cannot be said that there was nothing."""
    counts = summary.counts
    if broken := counts["quarantined"]:
        return "Inconclusive", [
            f"nothing to judge: {broken} of {counts['read']} records quarantined"
        ]
    return "NoData", [f"no_data: nothing to judge in {counts['read']} records read"]


def _beside(against: Against) -> tuple[Ending, list[str]]:
    """What the baseline says, and why; of one that could not be compared with, nothing."""
    if against.comparison is None:
        return ("inconclusive", [against.fault]) if against.fault else ("fine", [])
    verdict = against.comparison.verdict
    why = [] if verdict.ending == "fine" else list(verdict.why)
    return verdict.ending, [*why, ALLOW] if verdict.ending == "not_comparable" else why


def _unfinished(summary: RunSummary, lost: Losses) -> tuple[Conclusion, list[str]]:
    """What stopped a run, what it has spent, and how it goes on."""
    left = summary.counts.get("not_attempted", 0)
    spent = _spent(summary)
    if isinstance(lost.stop, OverBudget):
        on = "go on with the same command and a larger limit; kept replies cost nothing"
        return "OverBudget", [str(lost.stop), f"{left} cases were not attempted; {on}", *spent]
    if isinstance(lost.stop, Halted):
        on = "go on with the same command; kept replies cost nothing"
        return "Halted", [str(lost.stop), f"{left} cases were not attempted; {on}", *spent]
    why = f"{left} cases could not be judged; run again to resume"
    if not left and not lost:  # the input was not all there
        return "Incomplete", [one for one in summary.warnings if one.startswith("vanished")]
    return "Incomplete", [why, *_losses(lost.reasons)]


def _spent(summary: RunSummary) -> list[str]:
    if summary.spent_usd is None:
        return []
    return [f"spent so far, over all sittings: {summary.spent_usd:.6f} USD"]


def _losses(lost: Mapping[str, int]) -> list[str]:
    """Why shards were lost, the most frequent reasons first."""
    ordered = sorted(lost, key=lambda reason: (-lost[reason], reason))
    said = [
        f"{reason} ({lost[reason]} {'shard' if lost[reason] == 1 else 'shards'})"
        for reason in ordered[:REASONS_SAID]
    ]
    unsaid = len(ordered) - len(said)
    return [*said, f"and {unsaid} more reasons"] if unsaid else said


def _why_inconclusive(summary: RunSummary) -> str:
    if summary.coverage is None or summary.weighted_metrics_score_pct is None:
        return "no case has a verdict"
    return f"coverage {summary.coverage:.1%} is under its floor {summary.min_coverage:.1%}"


def _failed_gates(summary: RunSummary) -> list[str]:
    gates = []
    if summary.metrics_passed is False:
        gates.append(
            f"weighted metrics score {summary.weighted_metrics_score_pct:.2f} is under "
            f"{summary.metrics_pass_threshold:g}"
        )
    if summary.cases_passed is False:
        gates.append(
            f"cases pass rate {summary.cases_pass_rate_pct:.2f} % is under "
            f"{summary.cases_pass_threshold:g} %"
        )
    return gates
