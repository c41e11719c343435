"""The outcome of a run: its conclusion, exit code and Prefect state, and the reasons for them."""

from __future__ import annotations

import shlex
from typing import Any, Final

from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed
from pydantic import BaseModel, ConfigDict

from assizes.flows.shards import ShardFailures
from assizes.judge.comparison.compare import Ending, RunComparison
from assizes.judge.errors import AssizesError, Halted, OverBudget
from assizes.judge.history.anchors import Attribution
from assizes.judge.rows import COMPLETE
from assizes.judge.summary.run_summary import RunSummary
from assizes.judge.verdicts.run_outcome import CONCLUSIONS, Conclusion, outcome_of
from assizes.tasks.reports.data.report import failure_reasons, rerun_hint
from assizes.tasks.reports.formatting import plural
from assizes.tasks.reports.schema.causes import Causes
from assizes.tasks.store import RunRecord
from assizes.tasks.summarise import BaselineResult

EXIT_CODES: dict[Conclusion, int] = {
    "Passed": 0,
    "GateFailed": 1,
    "Regression": 1,
    "NotComparable": 3,
    "Inconclusive": 4,
    "Incomplete": 4,
    "OverBudget": 5,
    "Halted": 130,  # as after SIGINT: 128 + 2
    "NoData": 4,  # never a pass
}

MAX_REASONS: Final = 5  # reasons for lost shards in an outcome, at most; the log has all of them


class RunOutcome(BaseModel):
    """The end of a run as callers see it: the CLI prints it, Prefect stores it as JSON."""

    model_config = ConfigDict(frozen=True)

    run_id: str
    judge_model: str  # names of the models that judged, joined by commas
    conclusion: Conclusion  # the name of the final state
    exit_code: int  # of the command line
    reasons: list[str]  # why it did not pass, in order, or what a pass leaves open; what goes on
    summary: RunSummary
    comparison: RunComparison | None  # with the baseline; `None`: there was none
    attribution: Attribution | None = None  # whether agent or judge changed; `None`: no anchors
    causes: Causes | None = None  # what the failures have in common; `None`: nothing was found
    reports: dict[str, str]  # suffix -> path or URI


def parse_outcome(result: Any) -> Any:
    """The result of a subflow `evaluate`: a `RunOutcome`, or an error."""
    # Prefect gives a retried flow run the results of its finished subflows as JSON.
    return RunOutcome.model_validate(result) if isinstance(result, dict) else result


# Prefect types an async flow called with return_state as if it had been awaited already.
async def subflow_outcome(subflow: Any) -> RunOutcome | AssizesError:
    """The outcome of a subflow `evaluate`, or its `AssizesError`; any other error is raised."""
    outcome = parse_outcome(await (await subflow).aresult(raise_on_failure=False))
    if isinstance(outcome, RunOutcome | AssizesError):
        return outcome
    raise outcome


def to_state(
    record: RunRecord,
    summary: RunSummary,
    baseline_result: BaselineResult,
    failures: ShardFailures,
    reports: dict[str, str],  # suffix -> path or URI
    *,
    fail: bool,  # whether any conclusion but `Passed` is a failed state
) -> State[Any]:
    """A Prefect state named for the conclusion of a run; its data is the `RunOutcome`."""
    outcome = run_outcome(record, summary, baseline_result, failures, reports)
    state = Failed if fail and outcome.conclusion != "Passed" else Completed
    message = "; ".join(outcome.reasons) or "every gate passed"
    return state(name=outcome.conclusion, message=message, data=outcome)


def run_outcome(
    record: RunRecord,
    summary: RunSummary,
    baseline_result: BaselineResult,
    failures: ShardFailures,
    reports: dict[str, str],
    resume: str | None = None,
) -> RunOutcome:
    """The conclusion of a run, with its reasons; `reports` are paths or URIs by suffix.

    `resume` says in the reasons what goes on with the run; `None`: the command `assizes resume`.
    """
    go_on = resume or f"`assizes resume {shlex.quote(record.run_id)}`"
    conclusion, reasons = _conclusion(record, summary, baseline_result, failures, go_on)
    if conclusion == "Passed" and summary.task_unjudged is not None:
        reasons = [*reasons, summary.task_unjudged]
    reasons = [*reasons, *baseline_result.of_suite, *failure_reasons(record, summary)]
    if (hint := rerun_hint(record, summary, resume)) is not None:
        before = "this run had ended before, nothing was judged now; "
        reasons.append(f"{before if failures.had_ended else ''}{hint}")
    return RunOutcome(
        run_id=record.run_id,
        judge_model=record.judge_model,
        conclusion=conclusion,
        exit_code=EXIT_CODES[conclusion],
        reasons=reasons,
        summary=summary,
        comparison=baseline_result.comparison,
        attribution=baseline_result.attribution,
        causes=baseline_result.causes,
        reports=reports,
    )


def _conclusion(
    record: RunRecord,
    summary: RunSummary,
    baseline_result: BaselineResult,
    failures: ShardFailures,
    go_on: str,
) -> tuple[Conclusion, list[str]]:
    """The most severe conclusion of a run, and the reasons for it and for lesser ones."""
    if record.status != COMPLETE:
        return _unfinished_conclusion(go_on, summary, failures)
    if record.plan.get("due") == 0:
        read = summary.counts["read"]
        if broken := summary.counts["quarantined"]:  # they may have been cases
            hint = f"`assizes rejects {record.run_id}` says why"
            counted = f"nothing to judge: {broken} of {read} records quarantined"
            return "Inconclusive", [f"{counted}; {hint}"]
        return "NoData", [f"no_data: nothing to judge in {read} records read"]
    comparison, attribution = baseline_result.comparison, baseline_result.attribution
    ending: Ending = "inconclusive" if baseline_result.fault else "fine"  # a fault is no pass
    why_worse = [baseline_result.fault] if baseline_result.fault else []
    if comparison is not None:
        ending = comparison.verdict.ending
        why_worse = [] if ending == "fine" else list(comparison.verdict.why)
    moved = [attribution.sentence()] if attribution is not None and attribution.judge_moved else []
    outcome = outcome_of(
        record.status,
        summary.outcome,
        ending,
        judge_moved=bool(moved),
        surely_failed=summary.surely_failed,
    )
    gates, short = _failed_gates(summary), _shortfall(summary)
    if outcome == "inconclusive":
        is_open = summary.weighted_metrics_score_pct is None  # gates say nothing without a verdict
        return CONCLUSIONS[outcome], [*moved, *short, *([] if is_open else gates)]
    if ending == "regressed":  # a fall beside too few scores is no regression
        return CONCLUSIONS[outcome], [*moved, *([] if short else why_worse), *gates, *short]
    return CONCLUSIONS[outcome], [*moved, *gates, *short, *why_worse]


def _shortfall(summary: RunSummary) -> list[str]:
    """Why the gates cannot be decided, as one line; empty where they can."""
    if summary.outcome != "inconclusive":
        return []
    if summary.coverage is None or summary.weighted_metrics_score_pct is None:
        return ["no case has a verdict"]
    return [f"coverage {summary.coverage:.1%} is under its floor {summary.min_coverage:.1%}"]


def _unfinished_conclusion(
    go_on: str, summary: RunSummary, failures: ShardFailures
) -> tuple[Conclusion, list[str]]:
    """The conclusion of an incomplete run: what stopped it, what it spent, how to resume it."""
    left = summary.counts.get("not_attempted", 0)
    if isinstance(failures.stop, OverBudget | Halted):
        is_over = isinstance(failures.stop, OverBudget)
        option = " (--set)" if go_on.startswith("`") else ""
        larger = f" with a larger limit{option}" if is_over else ""
        hint = f"{left} cases were not attempted; {go_on}{larger} judges them"
        reasons = [str(failures.stop), f"{hint}; replies in the cache cost nothing"]
        if summary.spent_usd is not None:
            reasons.append(f"spent so far, over all sessions: {summary.spent_usd:.6f} USD")
        return "OverBudget" if is_over else "Halted", reasons
    if not (left or failures.reasons or failures.stop):  # the input was not all there
        return "Incomplete", [
            warning for warning in summary.warnings if warning.startswith("vanished")
        ]
    counts = sorted(failures.reasons.items(), key=lambda item: (-item[1], item[0]))
    lines = [
        f"{reason} ({count} {'shard' if count == 1 else 'shards'})"
        for reason, count in counts[:MAX_REASONS]
    ]
    if hidden_count := len(counts) - len(lines):
        lines.append(f"and {hidden_count} more reasons")
    unjudged = plural(left, "case")
    return "Incomplete", [f"{unjudged} could not be judged; {go_on} judges them", *lines]


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
