"""The numbers of a run corrected for the judge's errors by the labels that people gave in its store.

The estimates are those of `judge/labels/corrected.py`. They are computed when they are read, as
labels come after the run has ended. `judge/labels/carrying.py` says which labels count.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final, NamedTuple

import polars as pl

from assizes.judge.calibration.cascade_result import promise_lines
from assizes.judge.config.gates import VERDICT
from assizes.judge.labels.carrying import LabelOrigin
from assizes.judge.labels.corrected import (
    DISPUTED,
    CorrectedNumber,
    JudgedCase,
    LabelledRun,
    corrected_change,
    corrected_number,
)
from assizes.judge.labels.rate_check import RateCheck, rate_check
from assizes.judge.statistics.prediction_powered import CorrectedEstimate
from assizes.judge.verdicts.executions import IS_PASS, collect_rows
from assizes.tasks.runs.calibrations import citation_lines, citations
from assizes.tasks.runs.labels.label_sources import CountingLabels, LabelReader
from assizes.tasks.store import RunRecord, Store

_KEY: Final = ("case_id", "repetition")
_HALF_A_LEVEL: Final = 0.1
_MAX_TAGS: Final = 20  # tags of a case that make slices, at most


class LabelledNumber(NamedTuple):
    """A number of a run, corrected by labels, and what its labels are; both 0..1."""

    number: CorrectedNumber  # of the verdict: the pass rate
    cases: int  # judged cases
    by_hand: bool  # no label has a chance: the labelled cases are taken as chosen at random
    origin: LabelOrigin | None = None  # None: no label counts
    check: RateCheck | None = None  # of a share of passes; None: there is nothing to check by

    @property
    def disputed(self) -> int:
        """The number of cases on which raters differ and nobody has decided."""
        return self.number.left_out.get(DISPUTED, 0)

    @property
    def name(self) -> str:
        """The name of the number in sentences."""
        return "pass rate" if self.number.metric == VERDICT else self.number.metric

    def line(self) -> str:
        """The number as a line of a report."""
        number, now = self.number, self.number.estimate
        said = f"the judge says {_percent(number.raw or 0.0)} %"
        if now is None:
            return f"{self.name}: not corrected, {number.why_not}; {said}"
        guess = ", if the labelled cases were chosen at random" if self.by_hand else ""
        return f"{self.name} corrected by {number.labels} labels: {span(now)}{guess}; {said}"

    def lines(self) -> Iterator[str]:
        """The number, where its labels come from, which do not count and why, and its check."""
        yield self.line()
        parts = [] if self.origin is None else [self.origin.sentence()]
        left = [f"{count} {reason}" for reason, count in self.number.left_out.items()]
        parts += [f"not counted: {'; '.join(left)}"] if left else []
        if parts:
            yield f"{self.name}: {'; '.join(parts)}"
        if self.check is not None:
            yield f"{self.name}: {self.check.sentence()}"


class LabelledSide(NamedTuple):
    """One run with the labels that count for one of its metrics."""

    run: LabelledRun
    by_hand: bool  # no label has a chance
    is_share: bool  # labels and judge say 0 or 1
    origin: LabelOrigin | None


def corrected_numbers(
    store: Store, run_id: str, reader: LabelReader | None = None
) -> list[LabelledNumber]:
    """The corrected numbers of a run (its full id), of the verdict first; empty without labels.

    `reader` has read the labels of the store before.
    """
    reader = reader or LabelReader(store)
    if reader.is_empty:
        return []
    record = store.run(run_id)
    sides = [labelled_side(reader, record, metric) for metric in reader.metrics(run_id)]
    return [_labelled_number(side) for side in sides if side.run.judged and _has_labels(side)]


def _has_labels(side: LabelledSide) -> bool:
    return bool(side.run.labels or side.run.left_out)


def _labelled_number(side: LabelledSide) -> LabelledNumber:
    number = corrected_number(side.run, share=side.is_share)
    check = rate_check(side.run, number.estimate) if side.is_share else None
    return LabelledNumber(number, len(side.run.judged), side.by_hand, side.origin, check)


def corrected_differences(
    store: Store, baseline: str, candidate: str
) -> dict[str, CorrectedEstimate | None]:
    """The corrected numbers of a run minus those of a baseline, by metric that both have labels of.

    Both are named by their full ids. The difference of a metric is `None` for too few labels.
    """
    reader = LabelReader(store)
    records = [store.run(name) for name in (baseline, candidate)]
    common = set(reader.metrics(baseline)) & set(reader.metrics(candidate))
    differences = {}
    for metric in sorted(common):
        before, after = (labelled_side(reader, record, metric) for record in records)
        if before.run.labels and after.run.labels:
            differences[metric] = corrected_difference_of(before, after)
    return differences


def corrected_difference_of(before: LabelledSide, after: LabelledSide) -> CorrectedEstimate | None:
    """The corrected difference of one metric; `None` where one run has too few labels."""
    return corrected_change(before.run, after.run, share=before.is_share and after.is_share)


def errors_by_case(store: Store, run_id: str, metric: str) -> dict[tuple[str, int], bool]:
    """Whether the judge erred on each labelled execution of a run (its full id), for one metric.

    It erred where its value differs from the label by more than half a level of 0 to 5.
    """
    run = labelled_side(LabelReader(store), store.run(run_id), metric).run
    judged = {(case.case_id, case.repetition): case.value for case in run.judged}
    return {
        key: abs((judged[key] or 0.0) - value) > _HALF_A_LEVEL
        for key, (value, _) in run.labels.items()
    }


def trust_lines(store: Store, record: RunRecord) -> list[str]:
    """What people say of a run's numbers, as lines of a report.

    The numbers that their labels correct come first, then how far the judge agrees with people.
    """
    numbers = corrected_numbers(store, record.run_id)
    lines = [line for number in numbers for line in number.lines()]
    return [*lines, *citation_lines(citations(store, record)), *promise_lines(record.config)]


def span(estimate: CorrectedEstimate) -> str:
    """An estimate and its 95 % interval in percent, such as `71.2 % [64.0, 77.6]`."""
    low, high = _percent(estimate.low), _percent(estimate.high)
    return f"{_percent(estimate.value)} % [{low}, {high}]"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def labelled_side(reader: LabelReader, record: RunRecord, metric: str) -> LabelledSide:
    """The judged cases of a run with the labels that count for a metric.

    The labels of another run correct the number over the cases that both runs hold.
    """
    counting = reader.counting(record, metric)
    judged = _judged_cases(reader.store, record.run_id, metric)
    if counting.origin is not None and not counting.origin.is_own:
        shared = counting.source.cases
        judged = [case for case in judged if (case.case_id, case.repetition) in shared]
    return _labelled_side(record.run_id, metric, judged, counting)


def _labelled_side(
    run_id: str, metric: str, judged: list[JudgedCase], counting: CountingLabels
) -> LabelledSide:
    settled = counting.settled
    by_hand = settled["probability"].null_count() == settled.height
    if by_hand:  # with one label among them that has a chance, the others count for nothing
        chance = min(1.0, settled.height / max(1, len(judged)))
        settled = settled.with_columns(probability=pl.lit(chance))
    run = LabelledRun.of(run_id, metric, judged, settled)
    left = Counter(run.left_out)
    left.update(counting.source.left_out)
    said = {case.value for case in judged} | {value for value, _ in run.labels.values()}
    run = replace(run, left_out=dict(sorted(left.items())))
    return LabelledSide(run, by_hand, said <= {0.0, 1.0}, counting.origin)


def _judged_cases(store: Store, run_id: str, metric: str) -> list[JudgedCase]:
    """The cases that the judge gave a value, 0..1, with their clusters and slices."""
    facts = ("cluster", "agent", "agent_version", "tags")
    cases = store.scan(run_id, "cases")
    if metric == VERDICT:
        passed = IS_PASS.cast(pl.Float64).alias("value")
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
