"""Summary and comparison of evaluations, with the form in which a notebook shows them."""

from __future__ import annotations

from typing import Any, Final

from assizes.deployments.library.blocks import DisplayBlock, block_html, block_text
from assizes.judge.comparison.compare import ALLOW_HINT, ComparisonVerdict, RunComparison
from assizes.judge.summary.run_summary import RunSummary
from assizes.tasks.reports.formatting import money

CHANGED_CASES: Final = 20
"""Most changed cases that the form of a comparison lists."""

LIBRARY_ALLOW_HINT: Final = (
    "a change need not be the agent's; compare(candidate, {'allow': True}) compares all the same"
)
"""`ALLOW_HINT` for callers from Python."""

_ENDINGS: Final = {
    "fine": "not worse",
    "regressed": "regression",
    "inconclusive": "inconclusive",
    "not_comparable": "not comparable",
}


class EvaluationSummary(RunSummary):
    """The numbers of an evaluation; a notebook shows them as a table."""

    def blocks(self) -> list[DisplayBlock]:
        """The metrics, then the gates with their thresholds."""
        rows = [
            (
                metric.name,
                None if metric.is_binary else metric.mean_raw,
                _percent(metric.pass_rate),
                f"{metric.scored}/{metric.scored + metric.failed}",
                metric.skipped or None,
            )
            for metric in self.metrics
            if metric.scored or metric.failed
        ]
        silent = [metric.name for metric in self.metrics if not (metric.scored or metric.failed)]
        columns = ("metric", "#mean", "#passed", "#scored", "#skipped")
        gates = [
            (
                "weighted metrics score",
                self.weighted_metrics_score_pct,
                self.metrics_pass_threshold,
                self.metrics_passed,
            ),
            (
                "cases pass rate %",
                self.cases_pass_rate_pct,
                self.cases_pass_threshold,
                self.cases_passed,
            ),
        ]
        return [
            DisplayBlock(columns=columns, rows=rows),
            DisplayBlock(
                lines=[f"no case has anything to score for: {', '.join(silent)}"] if silent else ()
            ),
            DisplayBlock(columns=("gate", "#value", "#threshold", "result"), rows=gates),
            DisplayBlock(lines=[f"warning: {warning}" for warning in self.warnings]),
            DisplayBlock(lines=[f"judge cost: {money(self.total_platform_cost_usd)}"]),
        ]

    def __repr__(self) -> str:
        return block_text(self.blocks())

    def __str__(self) -> str:
        return repr(self)

    def _repr_html_(self) -> str:
        return block_html(self.blocks())


class EvaluationVerdict(ComparisonVerdict):
    """The verdict of a comparison; its text is the conclusion with the reasons."""

    @property
    def conclusion(self) -> str:
        """`not worse`, `regression`, `inconclusive` or `not comparable`."""
        return _ENDINGS[self.ending]

    @property
    def why(self) -> tuple[str, ...]:
        """The reasons, with the call in place of the command that helps."""
        return tuple(reason.replace(ALLOW_HINT, LIBRARY_ALLOW_HINT) for reason in super().why)

    def blocks(self) -> list[DisplayBlock]:
        """The conclusion, then a line for each reason."""
        return [DisplayBlock(self.conclusion, self.why)]

    def __repr__(self) -> str:
        return ": ".join(filter(None, (self.conclusion, "; ".join(self.why))))

    def __str__(self) -> str:
        return repr(self)

    def _repr_html_(self) -> str:
        return block_html(self.blocks())


class EvaluationComparison(RunComparison):
    """A candidate beside its baseline; a notebook shows the verdict, the metrics and the cases."""

    verdict: EvaluationVerdict

    @classmethod
    def from_comparison(cls, comparison: RunComparison) -> EvaluationComparison:
        """The same comparison, with its form for people."""
        fields: dict[str, Any] = dict(comparison)
        verdict = EvaluationVerdict.model_construct(**dict(comparison.verdict))
        return cls.model_construct(**(fields | {"verdict": verdict}))

    @property
    def corrected_lines(self) -> tuple[str, ...]:
        """What labels of people say of the changes, a line for each number; empty without labels."""
        corrected = self.corrected
        if corrected is None:
            return ()
        first = (corrected.sentence, corrected.fell_back)
        changes = (f"corrected by labels: {change.line}" for change in corrected.changes)
        return (*(line for line in first if line), *changes)

    def blocks(self) -> list[DisplayBlock]:
        """The verdict, what labels say, the metrics of both runs, and the cases that changed."""
        metrics = [
            (metric.metric, metric.baseline_avg, metric.candidate_avg, metric.delta)
            for metric in self.aggregate.per_metric_aggregate_deltas
        ]
        changed = [
            (case.test_case_id, case.status, case.baseline_score, case.candidate_score)
            for case in self.test_case_comparisons
            if case.status != "unchanged"
        ]
        counts = (
            f"{self.aggregate.total_regressions} cases worse, "
            f"{self.aggregate.total_improvements} better, "
            f"{self.aggregate.total_unchanged} unchanged, {self.aggregate.total_errors} with errors"
        )
        more = len(changed) - CHANGED_CASES
        return [
            *self.verdict.blocks(),
            DisplayBlock(lines=self.corrected_lines),
            DisplayBlock(columns=("metric", "#baseline", "#candidate", "#change"), rows=metrics),
            DisplayBlock(lines=[counts]),
            DisplayBlock(
                columns=("case", "status", "#baseline", "#candidate"), rows=changed[:CHANGED_CASES]
            ),
            DisplayBlock(lines=[f"and {more} more changed cases"] if more > 0 else ()),
            DisplayBlock(lines=[f"warning: {warning}" for warning in self.warnings]),
        ]

    def __repr__(self) -> str:
        return block_text(self.blocks())

    def __str__(self) -> str:
        return repr(self)

    def _repr_html_(self) -> str:
        return block_html(self.blocks())


def _percent(fraction: float | None) -> str | None:
    return None if fraction is None else f"{100 * fraction:.0f} %"
