"""The verdict of a run as a report shows it: its outcome, the reasons, and the gates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from assizes.judge.history.anchors import Attribution
from assizes.judge.summary.run_summary import RunSummary
from assizes.tasks.reports import formatting
from assizes.tasks.reports.data.intervals import interval_of
from assizes.tasks.reports.data.outcomes import REGRESSION, outcome_of
from assizes.tasks.reports.schema.comparison import Comparison
from assizes.tasks.reports.schema.report import Dimension, Verdict
from assizes.tasks.runs.baselines import named_baseline
from assizes.tasks.store import RunRecord

_HEADLINES: Final = {
    "passed": ("PASSED", "Every gate was reached."),
    "failed": ("FAILED", "A gate was missed:"),
    REGRESSION: ("REGRESSION", "This run is worse than its baseline:"),
    "inconclusive": ("INCONCLUSIVE", "Too little could be judged to say anything:"),
    "not_comparable": ("NOT COMPARABLE", "This run and its baseline were not judged alike:"),
    "undecided": ("INCONCLUSIVE", "The data cannot tell whether this run is worse:"),
    "judge_moved": ("INCONCLUSIVE", "The judge moved, so no fall is held against the agent:"),
    "incomplete": (
        "INCOMPLETE",
        "The run has not ended; the figures cover what was judged so far.",
    ),
}


def run_verdict(run: RunRecord, summary: RunSummary, compared: Comparison | None) -> Verdict:
    """The verdict of a run.

    Args:
        run: the run.
        summary: the summary of the run.
        compared: the comparison with the baseline; `None` without one.
    """
    dimensions = _dimensions(summary)
    missed = [
        f"{dimension.name.lower()} gate: {dimension.shown}, needs {dimension.needs}"
        for dimension in dimensions
        if dimension.passed is False
    ]
    ending, why = _baseline_ending(run, compared)
    outcome = outcome_of(run.status, summary.outcome, ending)
    if outcome == "incomplete":
        left = summary.counts.get("not_attempted", 0)
        reasons = [f"{formatting.plural(left, 'case')} could not be judged"]
    elif outcome == "inconclusive":
        reasons = missed or ["No case has a verdict."]
    elif outcome == REGRESSION:
        reasons = [*why, *missed]
    else:
        reasons = missed if outcome == summary.outcome else why
    word, headline = _HEADLINES[outcome]
    return Verdict(
        outcome=outcome,
        word=word,
        headline=headline,
        reasons=reasons,
        cautions=[formatting.clean_line(warning, 500) for warning in summary.warnings],
        dimensions=dimensions,
    )


def _baseline_ending(run: RunRecord, compared: Comparison | None) -> tuple[str, list[str]]:
    """How the comparison ended, and why; inconclusive where a named baseline was not compared."""
    if compared is not None:
        return compared.ending, compared.why
    if (baseline_name := named_baseline(run.config)) is None:
        return "fine", []
    return "inconclusive", [
        f"no comparison with its baseline {formatting.name_of(baseline_name)} is stored"
    ]


def verdict_with_attribution(
    verdict: Mapping[str, Any], attribution: Attribution | None
) -> dict[str, Any]:
    """The verdict, in which a regression becomes undecided if the anchors show a moved judge."""
    if attribution is None or not attribution.judge_moved or verdict["outcome"] != REGRESSION:
        return dict(verdict)
    word, headline = _HEADLINES["judge_moved"]
    return {**verdict, "outcome": "undecided", "word": word, "headline": headline}


def _dimensions(summary: RunSummary) -> list[Dimension]:
    """The two gates of seed 001 and the coverage that both of them need, on a scale of 0..100."""
    coverage = None if summary.coverage is None else summary.coverage * 100
    floor = summary.min_coverage * 100
    score, rate = summary.weighted_metrics_score_pct, summary.cases_pass_rate_pct
    return [
        Dimension(
            name="Metrics",
            meaning="Mean overall score of the cases with a verdict.",
            value=_rounded(score),
            threshold=round(summary.metrics_pass_threshold, 9),
            passed=summary.metrics_passed,
            shown=formatting.number(score),
            needs=f"{summary.metrics_pass_threshold:g} of 100",
            interval=interval_of(summary.intervals, "weighted_metrics_score_pct"),
        ),
        Dimension(
            name="Cases",
            meaning=(
                f"{summary.passed_count:,} of {summary.total_executions:,} passed; "
                "an error is no pass."
            ),
            value=_rounded(rate),
            threshold=round(summary.cases_pass_threshold, 9),
            passed=summary.cases_passed,
            shown=_percent(rate),
            needs=f"{summary.cases_pass_threshold:g} %",
            interval=interval_of(summary.intervals, "cases_pass_rate_pct"),
        ),
        Dimension(
            name="Coverage",
            meaning="Scores that could be had, of those that were due.",
            value=_rounded(coverage),
            threshold=round(floor, 9),
            # 7 digits: 0.07 * 100 is not exactly 7.
            passed=None if coverage is None else round(coverage, 7) >= round(floor, 7),
            shown=_percent(coverage),
            needs=f"{round(floor, 7):g} %",
            interval=None,
        ),
    ]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 9)


def _percent(value: float | None) -> str:
    """A value of 0..100 as percent."""
    return formatting.share(None if value is None else round(value / 100, 9))
