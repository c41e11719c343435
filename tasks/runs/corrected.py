"""The numbers of a run corrected for the judge's errors by the labels that people gave in its store.

The estimates are those of `judge/statistics/prediction_powered.py`. They are computed when they are
read, as labels come after the run has ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import polars as pl

from assizes.judge.config.gates import VERDICT
from assizes.judge.labels.current import settled_labels
from assizes.judge.statistics.prediction_powered import (
    CorrectedEstimate,
    LabelledCases,
    corrected_mean,
)
from assizes.judge.verdicts.executions import collect_rows
from assizes.tasks.runs.calibrations import citation_lines, citations
from assizes.tasks.store import RunRecord, Store


class LabelledNumber(NamedTuple):
    """One number of a run as the judge says it, and corrected by labels; both 0..1."""

    metric: str  # or `verdict`, whose number is the pass rate
    judged: float  # mean over all judged cases
    cases: int  # judged cases
    labels: int  # of these, those on which people settled
    divided: int  # of these, those on which raters disagree and nobody adjudicated
    by_hand: bool  # no label has a chance: the labelled cases are taken as chosen at random
    estimate: CorrectedEstimate | None  # None: too few labels

    def line(self) -> str:
        """The number as a line of a report."""
        name = "pass rate" if self.metric == VERDICT else self.metric
        said = f"the judge says {100 * self.judged:.1f} %"
        if self.estimate is None:
            return f"{name}: {self.labels} labels are too few to correct it; {said}"
        now = self.estimate
        span = f"{100 * now.value:.1f} % [{100 * now.low:.1f}, {100 * now.high:.1f}]"
        guess = ", if the labelled cases were chosen at random" if self.by_hand else ""
        return f"{name} corrected by {self.labels} labels: {span}{guess}; {said}"


def corrected_numbers(store: Store, run_id: str) -> list[LabelledNumber]:
    """The corrected numbers of a run (its full id), of the verdict first; empty without labels."""
    rows = store.people.rows("labels").filter(pl.col("run_id") == run_id)
    if rows.is_empty():
        return []
    settled = settled_labels(rows)
    metrics = sorted(settled["metric"].unique(), key=lambda name: (name != VERDICT, name))
    numbers = [
        _corrected(store, run_id, name, settled.filter(pl.col("metric") == name))
        for name in metrics
    ]
    return [number for number in numbers if number is not None]


def trust_lines(store: Store, record: RunRecord) -> list[str]:
    """What people say of a run's numbers, as lines of a report.

    The numbers that their labels correct come first, then how far the judge agrees with people.
    """
    numbers = [number.line() for number in corrected_numbers(store, record.run_id)]
    return numbers + citation_lines(citations(store, record))


def _corrected(
    store: Store, run_id: str, metric: str, settled: pl.DataFrame
) -> LabelledNumber | None:
    judged = _judged_values(store, run_id, metric)
    if judged.is_empty():
        return None  # labels of a metric that the run no longer has
    by_hand = settled["probability"].null_count() == settled.height
    if not by_hand:
        # Nobody knows with which chance a person picks a case, so such labels cannot be weighed.
        settled = settled.filter(pl.col("probability").is_not_null())
    key = ["case_id", "repetition"]
    rows = judged.join(
        settled.select(*key, pl.col("value").alias("label"), "probability"), on=key, how="left"
    )
    labels = rows["label"].drop_nulls()
    cases = LabelledCases.of(
        rows["judged"].to_numpy(),
        rows["label"].fill_null(float("nan")).to_numpy(),
        rows["probability"].fill_null(1.0).to_numpy(),
        rows["cluster"].rank("dense").to_numpy() - 1,
    )
    values: Mapping[float, Any] = dict.fromkeys([*labels, *rows["judged"]])
    return LabelledNumber(
        metric=metric,
        judged=float(rows["judged"].mean() or 0.0),  # type: ignore[arg-type]
        cases=rows.height,
        labels=labels.len(),
        divided=settled["value"].null_count(),
        by_hand=by_hand,
        estimate=corrected_mean(cases, share=set(values) <= {0.0, 1.0}) if labels.len() else None,
    )


def _judged_values(store: Store, run_id: str, metric: str) -> pl.DataFrame:
    """The judge's value of each judged case, 0..1, with the cluster of the case."""
    key = ["case_id", "repetition"]
    cluster = pl.coalesce("cluster", "case_id").alias("cluster")
    cases = store.scan(run_id, "cases")
    if metric == VERDICT:
        passed = pl.col("passed").cast(pl.Float64).alias("judged")
        rows = cases.filter(pl.col("status") == "judged").select(*key, passed, cluster)
    else:
        judge, _, name = metric.rpartition("/")
        of_metric = (pl.col("metric") == name) & (pl.col("part") == "")
        if judge:
            of_metric &= pl.col("judge") == judge
        scores = store.scan(run_id, "scores").filter(of_metric)
        rows = scores.select(*key, pl.col("value").alias("judged")).join(
            cases.select(*key, cluster), on=key
        )
    return collect_rows(rows.filter(pl.col("judged").is_not_null()).sort(key))
