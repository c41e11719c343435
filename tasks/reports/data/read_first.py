"""Why a case is to be read first: its change since the baseline and its judge's own sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from assizes.judge.comparison.cases import CaseStatus
from assizes.judge.comparison.compare import RunComparison
from assizes.judge.rubrics.rubric import OUTCOMES
from assizes.judge.score import ACCEPTABLE
from assizes.judge.verdicts.fixes import fix_for
from assizes.tasks.reports.schema import parts

# (passed in the baseline, in the candidate) -> text; none where a run has no verdict
FLIPS: Final[dict[tuple[bool | None, bool | None], str]] = {
    (True, False): "passed → failed",
    (False, True): "failed → passed",
    (True, True): "passed both times",
    (False, False): "failed both times",
}


class CaseChange(NamedTuple):
    """How a case changed since the baseline."""

    status: CaseStatus
    flip: str  # both verdicts; empty where a run has none
    baseline_score: float | None
    fallen: tuple[str, ...]  # metrics that got worse, the largest fall first


def case_changes(comparison: RunComparison | None) -> dict[str, CaseChange]:
    """The changes of the compared cases by their ids; none without a baseline."""
    return {
        case.test_case_id: CaseChange(
            case.status,
            FLIPS.get((case.baseline_passed, case.candidate_passed), ""),
            case.baseline_score,
            tuple(
                delta.metric
                for delta in sorted(
                    case.metric_deltas,
                    # A flip of a yes/no metric has no delta; it is the largest fall.
                    key=lambda delta: (delta.delta is not None, delta.delta or 0.0, delta.metric),
                )
                if delta.status == "regression"
            ),
        )
        for case in (comparison.test_case_comparisons if comparison else ())
    }


def reason_of(
    line: parts.CaseLine,
    outcomes: Sequence[parts.OutcomeLine],
    findings: Sequence[parts.Finding],
    fallen: Sequence[str],
) -> parts.Reason | None:
    """The sentence of the judge that tells why to read a case; `None` where no judge says any.

    The root cause comes first, then an expected outcome that decided, then the metrics that fell
    since the baseline, then the lowest score. A case that passed as before needs no reason.
    """
    if line.status != "judged" or (line.passed and line.change != "regression"):
        return None
    code = next((finding.failure_code for finding in _by_weight(findings, fallen)), None)
    if line.gate == OUTCOMES and line.root_cause is None:
        for outcome in outcomes:
            if not outcome.passed and outcome.justification:
                return parts.Reason(
                    metric=OUTCOMES,
                    text=outcome.justification,
                    expected=outcome.statement,
                    failure_code=code,
                )
    first = [finding for finding in findings if finding.metric == line.root_cause]
    for finding in (*first, *_by_weight(findings, fallen), *findings):
        if finding.justification and finding.status == "scored" and not finding.part:
            return parts.Reason(
                metric=finding.metric,
                text=finding.justification,
                expected=None,
                failure_code=finding.failure_code or code,
            )
    return None


def fix_of(findings: Sequence[parts.Finding], fallen: Sequence[str]) -> str | None:
    """What to try about the worst finding of a case; `None` where no advice would fit."""
    fixes = (fix_for(item.metric, item.failure_code) for item in _by_weight(findings, fallen))
    return next((fix for fix in fixes if fix is not None), None)


def _by_weight(findings: Sequence[parts.Finding], fallen: Sequence[str]) -> Iterator[parts.Finding]:
    """The low headline findings of a case: those that fell since the baseline, then the others."""
    low = [
        finding
        for finding in findings
        if not finding.part and finding.value is not None and finding.value < ACCEPTABLE / 5
        if finding.failure_code
    ]
    places = {metric: place for place, metric in enumerate(fallen)}
    # Stable: the lowest finding comes first among those that did not fall.
    yield from sorted(low, key=lambda finding: places.get(finding.metric, len(places)))
