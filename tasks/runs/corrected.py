"""The numbers of a run corrected for the judge's errors by the labels that people gave in its store.

The estimates are those of `judge/labels/corrected.py`. They are computed when they are read, as
labels come after the run has ended.
"""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

import polars as pl

from assizes.judge.config.gates import VERDICT
from assizes.judge.labels.corrected import (
    DISPUTED,
    CorrectedNumber,
    JudgedCase,
    LabelledRun,
    corrected_change,
    corrected_number,
)
from assizes.judge.labels.current import settled_labels
from assizes.judge.statistics.prediction_powered import CorrectedEstimate
from assizes.judge.verdicts.executions import collect_rows
from assizes.tasks.runs.calibrations import citation_lines, citations
from assizes.tasks.store import RunRecord, Store

_KEY: Final = ("case_id", "repetition")
_HALF_A_LEVEL: Final = 0.1
_MAX_TAGS: Final = 20  # tags of a case that make slices, at most


class LabelledNumber(NamedTuple):
    """A number of a run, corrected by labels, and what its labels are; both 0..1."""

    number: CorrectedNumber  # of the verdict: the pass rate
    cases: int  # judged cases
    by_hand: bool  # no label has a chance: the labelled cases are taken as chosen at random

    @property
    def disputed(self) -> int:
        """The number of cases on which raters differ and nobody has decided."""
        return self.number.left_out.get(DISPUTED, 0)

    def line(self) -> str:
        """The number as a line of a report."""
        number, now = self.number, self.number.estimate
        name = "pass rate" if number.metric == VERDICT else number.metric
        said = f"the judge says {_percent(number.raw or 0.0)} %"
        if now is None:
            return f"{name}: not corrected, {number.why_not}; {said}"
        guess = ", if the labelled cases were chosen at random" if self.by_hand else ""
        return f"{name} corrected by {number.labels} labels: {span(now)}{guess}; {said}"


class _Sides(NamedTuple):
    run: LabelledRun
    by_hand: bool
    is_share: bool  # labels and judge say 0 or 1


def corrected_numbers(store: Store, run_id: str) -> list[LabelledNumber]:
    """The corrected numbers of a run (its full id), of the verdict first; empty without labels."""
    settled = _settled(store, run_id)
    metrics = sorted(settled["metric"].unique(), key=lambda name: (name != VERDICT, name))
    sides = [_labelled_run(store, run_id, metric, settled) for metric in metrics]
    return [
        LabelledNumber(
            corrected_number(side.run, share=side.is_share), len(side.run.judged), side.by_hand
        )
        for side in sides
        if side.run.judged  # else the run no longer has the metric
    ]


def corrected_differences(
    store: Store, baseline: str, candidate: str
) -> dict[str, CorrectedEstimate | None]:
    """The corrected numbers of a run minus those of a baseline, by metric that both have labels of.

    Both are named by their full ids. The difference of a metric is `None` for too few labels.
    """
    before, after = _settled(store, baseline), _settled(store, candidate)
    differences = {}
    for metric in sorted(set(before["metric"]) & set(after["metric"])):
        first = _labelled_run(store, baseline, metric, before)
        second = _labelled_run(store, candidate, metric, after)
        share = first.is_share and second.is_share
        differences[metric] = corrected_change(first.run, second.run, share=share)
    return differences


def judge_errors(store: Store, run_id: str, metric: str) -> dict[tuple[str, int], bool]:
    """Whether the judge erred on each labelled execution of a run (its full id), for one metric.

    It erred where its value differs from the label by more than half a level of 0 to 5.
    """
    run = _labelled_run(store, run_id, metric, _settled(store, run_id)).run
    judged = {(case.case_id, case.repetition): case.value for case in run.judged}
    return {
        key: abs((judged[key] or 0.0) - value) > _HALF_A_LEVEL
        for key, (value, _) in run.labels.items()
    }


def trust_lines(store: Store, record: RunRecord) -> list[str]:
    """What people say of a run's numbers, as lines of a report.

    The numbers that their labels correct come first, then how far the judge agrees with people.
    """
    numbers = [number.line() for number in corrected_numbers(store, record.run_id)]
    return numbers + citation_lines(citations(store, record))


def span(estimate: CorrectedEstimate) -> str:
    """An estimate and its 95 % interval in percent, such as `71.2 % [64.0, 77.6]`."""
    low, high = _percent(estimate.low), _percent(estimate.high)
    return f"{_percent(estimate.value)} % [{low}, {high}]"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def _settled(store: Store, run_id: str) -> pl.DataFrame:
    labels, queues = (
        store.people.rows(table).filter(pl.col("run_id") == run_id)
        for table in ("labels", "queues")
    )
    return settled_labels(labels, queues)


def _labelled_run(store: Store, run_id: str, metric: str, settled: pl.DataFrame) -> _Sides:
    judged = _judged_cases(store, run_id, metric)
    of_metric = settled.filter(pl.col("metric") == metric)
    by_hand = of_metric["probability"].null_count() == of_metric.height
    if by_hand:  # with one label among them that has a chance, the others count for nothing
        chance = min(1.0, of_metric.height / max(1, len(judged)))
        of_metric = of_metric.with_columns(probability=pl.lit(chance))
    run = LabelledRun.of(run_id, metric, judged, of_metric)
    said = {case.value for case in judged} | {value for value, _ in run.labels.values()}
    return _Sides(run, by_hand, said <= {0.0, 1.0})


def _judged_cases(store: Store, run_id: str, metric: str) -> list[JudgedCase]:
    """The cases that the judge gave a value, 0..1, with their clusters and slices."""
    facts = ("cluster", "agent", "agent_version", "tags")
    cases = store.scan(run_id, "cases")
    if metric == VERDICT:
        passed = pl.col("passed").cast(pl.Float64).alias("value")
        rows = cases.filter(pl.col("status") == "judged").select(*_KEY, passed, *facts)
    else:
        judge, _, name = metric.rpartition("/")
        of_metric = (pl.col("metric") == name) & (pl.col("part") == "")
        if judge:
            of_metric &= pl.col("judge") == judge
        scores = store.scan(run_id, "scores").filter(of_metric).select(*_KEY, "value")
        rows = scores.join(cases.select(*_KEY, *facts), on=_KEY)
    known = collect_rows(rows.filter(pl.col("value").is_not_null()).sort(_KEY))
    return [
        JudgedCase(row["case_id"], row["repetition"], row["cluster"], row["value"], _slices(row))
        for row in known.iter_rows(named=True)
    ]


def _slices(row: dict[str, Any]) -> tuple[str, ...]:
    named = [f"{name}={row[name]}" for name in ("agent", "agent_version") if row[name]]
    tags = json.loads(row["tags"] or "{}")
    return (*named, *(f"tags.{name}={tags[name]}" for name in sorted(tags)[:_MAX_TAGS]))
