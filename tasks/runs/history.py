"""Reads the runs of one name from a store and makes series of them, for trends."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from itertools import pairwise
from typing import Final, NamedTuple

import polars as pl

from assizes.judge.calibration.calibrate import judge_fingerprint
from assizes.judge.comparison.runs import TOOL
from assizes.judge.config.gates import VERDICT, SeriesConfig
from assizes.judge.errors import ConfigurationError, StoreError
from assizes.judge.history.anchors import change
from assizes.judge.history.control_charts import Point
from assizes.judge.history.trends import Bridges, Series, Trends, trends
from assizes.judge.rows import COMPLETE
from assizes.judge.verdicts.executions import collect_rows
from assizes.tasks.runs.anchor_runs import anchor_runs, overall_scores
from assizes.tasks.runs.labels_and_grades import answering_models
from assizes.tasks.store import RunRecord, Store
from assizes.tasks.store.record import DAY

PASS_RATE: Final = "pass_rate"
OVERALL: Final = "overall_score"
LATENCY: Final = "agent_latency_ms"

MAX_RUBRIC_NOTES: Final = 20
"""The most changes of rubrics that a history names, the latest."""

_COLUMNS: Final[Mapping[str, str]] = {PASS_RATE: "passed", OVERALL: OVERALL, LATENCY: LATENCY}
_SPANS: Final[Mapping[str, float]] = {OVERALL: 100.0, LATENCY: 0.0}  # widths; 0: no upper end
_SLICES: Final = ("agent", "agent_version")
_KEY: Final = ("case_id", "repetition")


@dataclass(frozen=True, slots=True)
class RunRange:
    """Which runs of a store belong to a history."""

    name: str | None = None  # `None`: the name of the newest run
    since: datetime | None = None  # aware; runs about the day of this moment (UTC) or a later one
    last: int | None = None  # how many at most, the newest
    until: date = date.max  # runs about this day or an earlier one


class _SeriesKey(NamedTuple):
    """Which series of a history."""

    name: str  # a metric, or one of `_COLUMNS`
    slice_of: str  # such as `tags.intent=refund`; empty: the whole run


class _Mean(NamedTuple):
    """The mean of a series over the cases that share a value of a slice."""

    series: str
    of: str  # the value of the slice
    mean: float
    se: float  # standard error of the mean, clustered
    items: int  # number of values


def stored_trends(store: Store, run_range: RunRange, config: SeriesConfig) -> Trends:
    """The trends of the complete runs of one name.

    Where two judges judged the same anchors, their values are bridged.

    Raises:
        StoreError: the store has no complete run of that name.
        ConfigurationError: the configuration names a slice or a series that does not exist.
    """
    records = _records(store, run_range)
    groups: dict[_SeriesKey, list[Point]] = defaultdict(list)
    for record in records:
        for key, point in _points(store, record, config.slices):
            groups[key].append(point)
    names = {key.name for key in groups}
    for name in config.metrics:
        if name not in names:
            raise ConfigurationError.unknown("series", name, names, "[series] metrics")
    chosen = set(config.metrics) or names
    ranks = {name: rank for rank, name in enumerate(_COLUMNS)}
    series = [
        Series(
            name=key.name,
            points=points,
            slice_of=key.slice_of,
            falls_when_worse=key.name != LATENCY,
            span=_SPANS.get(key.name, 1.0),
        )
        for key, points in groups.items()
        if key.name in chosen
    ]
    # The series of whole runs come first, and the columns of cases before the metrics.
    series.sort(key=lambda item: (item.slice_of, ranks.get(item.name, len(ranks)), item.name))
    found = trends(records[0].name, series, config, _bridges(store, records[0].name))
    return found.model_copy(update={"notes": (*found.notes, *_rubric_notes(records))})


def _rubric_notes(records: Sequence[RunRecord]) -> list[str]:
    """Where the rubric of a metric became another one: a line for each metric and change."""
    notes = []
    for before, after in pairwise(records):
        old, new = (_rubric_hashes(record) for record in (before, after))
        notes += [
            f"from run {after.run_id} ({after.day:%Y-%m-%d}) on, {metric} is judged by another "
            f"rubric, {new[metric]} in place of {old[metric]}"
            for metric in sorted(old.keys() & new.keys())
            if old[metric] != new[metric]
        ]
    return notes[-MAX_RUBRIC_NOTES:]


def _rubric_hashes(record: RunRecord) -> dict[str, str]:
    fingerprints = record.config.get("fingerprints", {})
    prefix = "metric:"
    return {
        name.removeprefix(prefix): value
        for name, value in fingerprints.items()
        if name.startswith(prefix)
    }


def _bridges(store: Store, name: str) -> Bridges:
    """How much more each judge gives than the judge before it, on anchors that both judged."""
    runs = [(_run_judge(store, run), run) for run in anchor_runs(store, name)]
    shifts = {}
    # Where the judge changes between two anchor runs, these are the nearest to the change.
    for (former, before), (later, after) in pairwise(runs):
        score_change = change(overall_scores(store, before), overall_scores(store, after))
        if former == later or score_change is None or not score_change.paired:
            continue
        old, new = (
            {series.name: point.value for series, point in _points(store, run, ())}
            for run in (before, after)
        )
        shifts[former, later] = {series: new[series] - old[series] for series in old.keys() & new}
    # Days that a later judge judged can lie before those of an earlier one.
    back = {(b, a): {name: -gap for name, gap in gaps.items()} for (a, b), gaps in shifts.items()}
    return back | shifts


def _records(store: Store, run_range: RunRange) -> list[RunRecord]:
    """The complete runs by the days that they are about, the earliest first.

    Runs that only replayed cached replies are left out.
    """
    complete_runs = store.run_index().filter(pl.col("status") == COMPLETE)
    usable = complete_runs.filter(pl.col("cache_use").ne_missing("replay_only"), "ended")
    rows = list(usable.iter_rows(named=True))
    # The table of runs has the newest first.
    name, since = run_range.name or (rows[0]["name"] if rows else None), run_range.since
    first = since.astimezone(UTC).date() if since else date.min
    rows = [row for row in rows if row["name"] == name and first <= row["day"] <= run_range.until]
    if not rows:
        known = ", ".join(sorted(set(complete_runs["name"]))) or "none"
        raise StoreError(f"{store.uri} holds no complete run named {name!r}; there are: {known}")
    rows.sort(key=lambda row: (row["day"], row["started_at"], row["run_id"]))
    recent_rows = rows[-run_range.last :] if run_range.last else rows
    stored = store.rows_of_runs([row["run_id"] for row in recent_rows])
    records = [RunRecord.of_row(row, {}) for row in stored.iter_rows(named=True)]
    return sorted(records, key=lambda run: (run.day, run.started_at, run.run_id))


def _points(
    store: Store, record: RunRecord, slices: Sequence[str]
) -> Iterable[tuple[_SeriesKey, Point]]:
    """One run as a point of each series: of the whole run first, then of every slice."""
    judge, summary = _run_judge(store, record), record.summary
    usable = summary is not None and summary.get("outcome") != "inconclusive"
    cases = store.scan(record.run_id, "cases").filter(pl.col("status") == "judged")
    values = _values(store, record, cases, slices)
    sliced = ["", *slices]  # empty: the whole run
    for place, name in enumerate(sliced):
        of = pl.lit("") if not name else pl.col(f"slice_{place}")
        labelled = values.with_columns(of=of)
        # A case that called several tools counts in the slice of each.
        known = (labelled.explode("of") if name == TOOL else labelled).drop_nulls("of")
        for mean in _means(known):
            point = Point(
                *(record.run_id, _shown_time(record), mean.mean, mean.se, mean.items),
                judge=judge,
                usable=usable,
                begun=record.started_at,
            )
            yield _SeriesKey(mean.series, f"{name}={mean.of}" if name else ""), point


def _shown_time(record: RunRecord) -> datetime:
    """The beginning of the day that a run is about; of a run of no one day, when it began."""
    of_one_day = DAY in record.config
    return datetime.combine(record.day, time.min, UTC) if of_one_day else record.started_at


def _run_judge(store: Store, record: RunRecord) -> str:
    """The fingerprint of everything about the judge that decides the verdicts of a run."""
    models = answering_models(store, record.run_id)
    return judge_fingerprint(record.config, "", VERDICT, models)


def _cluster_and_slices(slices: Sequence[str]) -> list[pl.Expr]:
    """Column `cluster`, and a column `slice_1`, `slice_2`, ... for the value of each slice.

    The column of slice `tool` holds lists; a case can call several. A name that is no slice raises
    `ConfigurationError`.
    """
    columns = [pl.coalesce("cluster", "case_id").alias("cluster")]  # alone, a case is a cluster
    for place, name in enumerate(slices, 1):
        if name in _SLICES:
            column = pl.col(name)
        elif name == TOOL:
            column = pl.col("tools")
        elif name.startswith("tags.") and name != "tags.":
            # A quote in the name of a tag would end the key within the JSON path.
            escaped = name.removeprefix("tags.").replace("'", "\\'")
            column = pl.col("tags").str.json_path_match(f"$['{escaped}']")
        else:
            known = [*_SLICES, TOOL, "tags.NAME"]
            raise ConfigurationError.unknown("slice", name, known, "[series] slices")
        columns.append(column.alias(f"slice_{place}"))
    return columns


def _values(
    store: Store, record: RunRecord, cases: pl.LazyFrame, slices: Sequence[str]
) -> pl.LazyFrame:
    """The values of the cases and of their scores, by series, with cluster and slices."""
    groups = _cluster_and_slices(slices)
    case_values = [
        cases.select(
            pl.lit(name).alias("series"), pl.col(column).cast(pl.Float64).alias("value"), *groups
        )
        for name, column in _COLUMNS.items()
    ]
    scores = store.scan(record.run_id, "scores").filter(pl.col("part") == "")
    scored = scores.filter(pl.col("status") == "scored")
    score_values = (
        scored.select(*_KEY, pl.col("metric").alias("series"), "value")
        .drop_nulls("value")
        .join(cases.select(*_KEY, *groups), on=_KEY, how="inner")
        .drop(*_KEY)
    )
    return pl.concat([pl.concat(case_values).drop_nulls("value"), score_values])


def _means(values: pl.LazyFrame) -> Iterable[_Mean]:
    """The mean of each series and value of a slice, with its standard error (Miller 2024)."""
    # The last digits of a sum depend on the order of its terms, and Polars leaves out a sort ahead
    # of a sum, except where the groups keep their order.
    clusters = (
        values.sort("series", "of", "cluster", "value")
        .group_by("series", "of", "cluster", maintain_order=True)
        .agg(total=pl.col("value").sum(), n=pl.len())
    )
    total, items = pl.col("total"), pl.col("n")
    mean = total.sum() / items.sum()
    rows = collect_rows(
        clusters.group_by("series", "of", maintain_order=True).agg(
            mean=mean,
            n=items.sum(),
            squares=((total - mean * items) ** 2).sum(),
            clusters=pl.len(),
        )
    )
    for row in rows.iter_rows(named=True):
        count, n = row["clusters"], row["n"]
        # SE = sqrt(C / (C - 1) * sum over C clusters of (sum of residuals)^2) / n; unknown for one.
        variance = count / (count - 1) * row["squares"] if count > 1 else 0.0
        yield _Mean(row["series"], row["of"], row["mean"], variance**0.5 / n, n)
