"""Reads the runs of one name from a store and makes series of them, for trends."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias

import polars as pl

from assizes.judge.calibration.calibrate import judge_fingerprint
from assizes.judge.comparison.runs import TOOL
from assizes.judge.config.gates import VERDICT, SeriesConfig
from assizes.judge.errors import ConfigurationError, StoreError
from assizes.judge.history.anchors import change
from assizes.judge.history.control_charts import Point
from assizes.judge.history.trends import Bridges, Series, Trends, trends
from assizes.judge.rows import COMPLETE
from assizes.judge.verdicts.executions import IS_PASS, collect_rows
from assizes.tasks.runs.anchor_runs import anchor_runs, overall_scores
from assizes.tasks.runs.labels.labels_and_grades import answering_models
from assizes.tasks.runs.series.run_series import Mean, RunSeries, run_series
from assizes.tasks.store import RunRecord, Store
from assizes.tasks.store.listing.run_index import index_row

PASS_RATE: Final = "pass_rate"
OVERALL: Final = "overall_score"
LATENCY: Final = "agent_latency_ms"

MAX_RUBRIC_NOTES: Final = 20
"""The most changes of rubrics that a history names, the latest."""

_COLUMNS: Final[Mapping[str, pl.Expr]] = {
    PASS_RATE: IS_PASS,
    OVERALL: pl.col(OVERALL),
    LATENCY: pl.col(LATENCY),
}
"""The value of a judged case in each series of whole cases."""

_SPANS: Final[Mapping[str, float]] = {OVERALL: 100.0, LATENCY: 0.0}  # widths; 0: no upper end
_SLICES: Final = ("agent", "agent_version")
_KEY: Final = ("case_id", "repetition")

_Row: TypeAlias = Mapping[str, Any]  # of the index of runs


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


def stored_trends(store: Store, run_range: RunRange, config: SeriesConfig) -> Trends:
    """The trends of the complete runs of one name.

    Where two judges judged the same anchors, their values are bridged.

    Raises:
        StoreError: the store has no complete run of that name.
        ConfigurationError: the configuration names a slice or a series that does not exist.
    """
    rows = _rows(store, run_range)
    groups: dict[_SeriesKey, list[Point]] = defaultdict(list)
    for row, series in zip(rows, _series(store, rows), strict=True):
        for key, point in _points(store, row, series, config.slices):
            groups[key].append(point)
    names = {key.name for key in groups}
    for name in config.metrics:
        if name not in names:
            raise ConfigurationError.unknown("series", name, names, "[series] metrics")
    chosen = set(config.metrics) or names
    ranks = {name: rank for rank, name in enumerate(_COLUMNS)}
    chosen_series = [
        Series(
            name=key.name,
            points=points,
            slice_of=key.slice_of,
            falls_when_worse=key.name != LATENCY,
            span=_SPANS.get(key.name, 1.0),
            is_rate=key.name == PASS_RATE,
        )
        for key, points in groups.items()
        if key.name in chosen
    ]
    # The series of whole runs come first, and the columns of cases before the metrics.
    chosen_series.sort(
        key=lambda item: (item.slice_of, ranks.get(item.name, len(ranks)), item.name)
    )
    name = rows[0]["name"]
    found = trends(name, chosen_series, config, _bridges(store, name))
    return found.model_copy(update={"notes": (*found.notes, *_rubric_notes(store, rows))})


def _rubric_notes(store: Store, rows: Sequence[_Row]) -> list[str]:
    """Where the rubric of a metric became another one: a line for each metric and change."""
    changes = [pair for pair in pairwise(rows) if pair[0]["rubrics"] != pair[1]["rubrics"]]
    notes: list[str] = []
    for pair in reversed(changes):  # the latest are shown: the settings of others are not read
        before, after = _records(store, pair)
        old, new = (_rubric_hashes(record) for record in (before, after))
        notes[:0] = [
            f"from run {after.run_id} ({after.day:%Y-%m-%d}) on, {metric} is judged by another "
            f"rubric, {new[metric]} in place of {old[metric]}"
            for metric in sorted(old.keys() & new.keys())
            if old[metric] != new[metric]
        ]
        if len(notes) >= MAX_RUBRIC_NOTES:
            break
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
    records = anchor_runs(store, name)
    runs = list(
        zip(_series(store, [index_row(run.row()) for run in records]), records, strict=True)
    )
    shifts = {}
    # Where the judge changes between two anchor runs, these are the nearest to the change.
    for (former, before), (later, after) in pairwise(runs):
        if former.judge == later.judge:
            continue
        score_change = change(overall_scores(store, before), overall_scores(store, after))
        if score_change is None or not score_change.paired:
            continue
        old, new = ({mean.series: mean.mean for mean in run.means} for run in (former, later))
        gaps = {series: new[series] - old[series] for series in old.keys() & new}
        shifts[former.judge, later.judge] = gaps
    # Days that a later judge judged can lie before those of an earlier one.
    back = {(b, a): {name: -gap for name, gap in gaps.items()} for (a, b), gaps in shifts.items()}
    return back | shifts


def _rows(store: Store, run_range: RunRange) -> list[_Row]:
    """The complete runs by the days that they are about, the earliest first, as rows of the index.

    Runs that only replayed cached replies are left out.
    """
    complete_runs = store.run_index().filter(pl.col("status") == COMPLETE)
    usable = complete_runs.filter(pl.col("cache_use").ne_missing("replay_only"), "ended")
    # The index has the newest first.
    name, since = run_range.name or next(iter(usable["name"]), None), run_range.since
    first = since.astimezone(UTC).date() if since else date.min
    of_name = usable.filter(pl.col("name").eq_missing(pl.lit(name, pl.String)))
    rows: list[_Row] = [
        row for row in of_name.iter_rows(named=True) if first <= row["day"] <= run_range.until
    ]
    if not rows and first > date.min and not of_name.is_empty():
        newest = max(of_name["day"])
        raise StoreError(
            f"{store.uri} holds no complete run named {name!r} about {first} or a later day; the "
            f"newest is about {newest}: give --since {newest} or an earlier day"
        )
    if not rows:
        known = ", ".join(sorted(set(complete_runs["name"]))) or "none"
        raise StoreError(f"{store.uri} holds no complete run named {name!r}; there are: {known}")
    rows.sort(key=lambda row: (row["day"], row["started_at"], row["run_id"]))
    return rows[-run_range.last :] if run_range.last else rows


def _records(store: Store, rows: Iterable[_Row]) -> list[RunRecord]:
    """The records of rows of the index, in the same order."""
    run_ids = [row["run_id"] for row in rows]
    stored = store.rows_of_runs(run_ids).iter_rows(named=True)
    records = {row["run_id"]: RunRecord.of_row(row, {}) for row in stored}
    return [records[run_id] for run_id in run_ids]


def _series(store: Store, rows: Sequence[_Row]) -> list[RunSeries]:
    """The series over all cases of runs, by their rows of the index."""

    def read(record: RunRecord) -> RunSeries:
        values = _values(store, record.run_id, ())
        means = list(_means(values.with_columns(of=pl.lit(""))))
        return RunSeries(_run_judge(store, record), means)

    found = run_series(store, [row["run_id"] for row in rows], read)
    return [found[row["run_id"]] for row in rows]


def _points(
    store: Store, row: _Row, series: RunSeries, slices: Sequence[str]
) -> Iterable[tuple[_SeriesKey, Point]]:
    """One run as a point of each series: of the whole run first, then of every slice."""
    for mean in series.means:
        yield _SeriesKey(mean.series, ""), _point(row, series, mean)
    if not slices:
        return
    values = _values(store, row["run_id"], slices)
    for place, name in enumerate(slices, 1):
        labelled = values.with_columns(of=pl.col(f"slice_{place}"))
        # A case that called several tools counts in the slice of each.
        known = (labelled.explode("of") if name == TOOL else labelled).drop_nulls("of")
        for mean in _means(known):
            yield _SeriesKey(mean.series, f"{name}={mean.of}"), _point(row, series, mean)


def _point(row: _Row, series: RunSeries, mean: Mean) -> Point:
    return Point(
        *(row["run_id"], _shown_time(row), mean.mean, mean.se, mean.items),
        judge=series.judge,
        usable=row["outcome"] != "inconclusive",
        begun=row["started_at"],
    )


def _shown_time(row: _Row) -> datetime:
    """The beginning of the day that a run is about; of a run of no one day, when it began."""
    began: datetime = row["started_at"]
    return datetime.combine(row["day"], time.min, UTC) if row["dated"] else began


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


def slices_of_cases(store: Store, run_id: str) -> list[str]:
    """The slices of which the cases of a run have values: columns first, then `tags.NAME`."""
    rows = collect_rows(store.scan(run_id, "cases").select(*_SLICES, "tools", "tags"))
    values = {name: rows[name] for name in _SLICES} | {TOOL: rows["tools"].explode()}
    known = [name for name, column in values.items() if column.drop_nulls().len()]
    tags = {tag for text in rows["tags"].unique().drop_nulls() for tag in json.loads(text)}
    return [*known, *(f"tags.{tag}" for tag in sorted(tags))]


def _values(store: Store, run_id: str, slices: Sequence[str]) -> pl.LazyFrame:
    """The values of the judged cases and of their scores, by series, with cluster and slices."""
    cases = store.scan(run_id, "cases").filter(pl.col("status") == "judged")
    groups = _cluster_and_slices(slices)
    case_values = [
        cases.select(pl.lit(name).alias("series"), column.cast(pl.Float64).alias("value"), *groups)
        for name, column in _COLUMNS.items()
    ]
    scores = store.scan(run_id, "scores").filter(pl.col("part") == "")
    scored = scores.filter(pl.col("status") == "scored")
    score_values = (
        scored.select(*_KEY, pl.col("metric").alias("series"), "value")
        .drop_nulls("value")
        .join(cases.select(*_KEY, *groups), on=_KEY, how="inner")
        .drop(*_KEY)
    )
    return pl.concat([pl.concat(case_values).drop_nulls("value"), score_values])


def _means(values: pl.LazyFrame) -> Iterable[Mean]:
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
        yield Mean(row["series"], row["of"], row["mean"], variance**0.5 / n, n)
