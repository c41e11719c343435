"""The comparison of two stored runs, with the changes that labels of people correct."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from assizes.judge.comparison.compare import RunComparison
from assizes.judge.comparison.corrected_verdict import (
    PASS_RATE,
    MeasuredLabels,
    corrected_comparison,
)
from assizes.judge.config.gates import VERDICT, ComparisonConfig
from assizes.judge.labels.rate_check import judge_errors, rate_by_errors
from assizes.judge.statistics.prediction_powered import MIN_LABELS
from assizes.tasks.runs.corrected import (
    LabelledNumber,
    LabelledSide,
    corrected_difference_of,
    corrected_numbers,
    labelled_side,
)
from assizes.tasks.runs.labels.label_sources import LabelReader, verdict_judge
from assizes.tasks.store import RunRecord, Store

_ROLES: Final = ("baseline", "candidate")


def comparison_with_labels(
    store: Store, comparison: RunComparison, thresholds: ComparisonConfig
) -> RunComparison:
    """The comparison with its corrected verdict; unchanged where no label counts for either run."""
    reader = LabelReader(store)
    if reader.is_empty:
        return comparison
    ids = (comparison.baseline_run_id, comparison.candidate_run_id)
    before, after = (store.run(run_id) for run_id in ids)
    names = sorted(
        {metric for run_id in ids for metric in reader.metrics(run_id)},
        key=lambda name: (name != VERDICT, name),
    )
    measured = []
    for metric in names:
        sides = labelled_side(reader, before, metric), labelled_side(reader, after, metric)
        if any(side.run.labels for side in sides) and all(side.run.judged for side in sides):
            measured.append(_measured(store, (before, after), metric, sides))
    lines = [
        f"{role}: {line}"
        for role, record in zip(_ROLES, (before, after), strict=True)
        for number in corrected_numbers(store, record.run_id, reader)
        for line in _origin_lines(number)
    ]
    return corrected_comparison(comparison, measured, lines if measured else [], thresholds)


def _origin_lines(number: LabelledNumber) -> Iterator[str]:
    yield from number.lines()


def _measured(
    store: Store,
    records: tuple[RunRecord, RunRecord],
    metric: str,
    sides: tuple[LabelledSide, LabelledSide],
) -> MeasuredLabels:
    before, after = sides
    counts = (len(before.run.labels), len(after.run.labels))
    estimate = corrected_difference_of(before, after) if all(counts) else None
    means = [_mean(side) for side in sides]
    return MeasuredLabels(
        measure=PASS_RATE if metric == VERDICT else metric,
        raw=None if None in means else (means[1] or 0.0) - (means[0] or 0.0),
        estimate=estimate,
        labels=counts,
        paired=len(before.run.labels.keys() & after.run.labels.keys()),
        why_not=None if estimate is not None else _why_not(store, records, metric, sides),
    )


def _mean(side: LabelledSide) -> float | None:
    values = [case.value for case in side.run.judged if case.value is not None]
    return sum(values) / len(values) if values else None


def _why_not(
    store: Store,
    records: tuple[RunRecord, RunRecord],
    metric: str,
    sides: tuple[LabelledSide, LabelledSide],
) -> str:
    """Why there is no corrected change, and what can be said of the run without labels."""
    counts = [len(side.run.labels) for side in sides]
    short = [role for role, count in zip(_ROLES, counts, strict=True) if count < MIN_LABELS]
    if len(short) != 1:
        return (
            f"{counts[0]} labels count for the baseline and {counts[1]} for the candidate; labels "
            f"in {MIN_LABELS} clusters are needed in each"
        )
    place = _ROLES.index(short[0])
    known, bare = sides[1 - place], sides[place]
    mean = _mean(bare)
    shown = (
        "" if mean is None else f", so its {100 * mean:.1f} % are the judge's own and uncorrected"
    )
    reason = f"only {counts[place]} labels count for the {short[0]}{shown}"
    if metric != VERDICT or not (known.is_share and bare.is_share):
        return reason
    if verdict_judge(store, records[0]) != verdict_judge(store, records[1]):
        return f"{reason}; the error rates of another judge say nothing about it"
    rate = rate_by_errors(bare.run, judge_errors(known.run))
    if rate is None:
        return reason
    span = f"[{100 * (rate.low or 0.0):.1f}, {100 * (rate.high or 1.0):.1f}]"
    return (
        f"{reason}; if the judge errs there as it does in the {_ROLES[1 - place]}, which no label "
        f"shows, they are {100 * (rate.value or 0.0):.1f} % {span}"
    )
