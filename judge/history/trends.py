"""Trends: the series of all runs of one name, with their control charts and incidents.

A problem often moves many series at once. They become one incident, so that a reader is told once.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from assizes.judge.config.gates import SeriesConfig
from assizes.judge.history import control_charts
from assizes.judge.history.control_charts import (
    ChartReading,
    ChartSide,
    ControlChart,
    Limits,
    Point,
)
from assizes.judge.statistics.exact import rounded_value
from assizes.judge.statistics.intervals import CONFIDENCE, ValueInterval, wilson, z_of

SAME_PROBLEM_RUNS: Final = 3
"""Series that leave their references within this many runs of each other belong to one incident."""

SHOWN_SERIES: Final = 6
"""The one-line text of an incident names at most this many series."""

State = Literal["new", "persisting", "resolved"]


@dataclass(frozen=True, slots=True)
class Series:
    """One number of every run of a name, the runs in order of the days that they are about."""

    name: str  # `pass_rate`, `overall_score`, `agent_latency_ms` or a metric
    points: Sequence[Point]
    slice_of: str = ""  # such as `tags.intent=refund`; empty: all cases
    falls_when_worse: bool = True  # false for latency
    span: float = 1.0  # width of the scale, 1 for a share; 0: it has no upper end
    is_rate: bool = False  # the share of cases that are yes, as the pass rate

    @property
    def label(self) -> str:
        """The name of the series, with its slice in brackets if it has one."""
        return f"{self.name} [{self.slice_of}]" if self.slice_of else self.name


class _TrendPart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class CorrectedPoint(_TrendPart):
    """What labels of people make of the value of one run; `None` where too few labels count."""

    value: float | None
    low: float | None = Field(description="95 % interval")
    high: float | None
    labels: int = Field(description="labels that count")
    note: str = Field(
        description="where the labels come from, how old they are, which do not count"
    )


class TrendPoint(_TrendPart):
    """One run of a series, with its 95 % interval and the signals of the charts."""

    run_id: str
    at: datetime = Field(description="beginning of the day it is about, else when it began; UTC")
    value: float = Field(description="as judged then")
    bridged: float = Field(description="on the scale of the judge of today, where that is known")
    low: float = Field(description="95 % interval of the bridged value")
    high: float
    items: int  # scores behind the value
    judge: str  # fingerprint
    usable: bool = Field(description="false: coverage under its floor; no chart reads it")
    z: float | None = Field(description="towards worse; null while the reference is learnt")
    signals: tuple[str, ...] = ()  # charts of both sides that are beyond their limits
    corrected: CorrectedPoint | None = Field(
        default=None, description="by labels of people; no chart reads it; null: no labels"
    )


class Trend(_TrendPart):
    """A series with its points, its reference and its present state."""

    series: str
    slice_of: str
    reference: float | None = Field(description="the usual mean; null while it is learnt")
    reference_runs: int = Field(description="runs of this judge so far, up to those needed")
    state: Literal["learning", "quiet", "worse", "better"]
    points: tuple[TrendPoint, ...]


class Incident(_TrendPart):
    """All series that left their references at about the same time and in the same direction."""

    incident: str = Field(description="stays the same while the problem does")
    side: ChartSide
    state: State
    series: tuple[str, ...]  # labels
    opened_run: str
    opened_at: datetime
    resolved_run: str | None = None
    resolved_at: datetime | None = None
    runs: int = Field(description="runs from its opening to its end, or to the last run")
    exploratory: bool = Field(description="seen in slices only")

    def line(self) -> str:
        """The incident as one line: its series, since when it is open, and whether it is over."""
        word = self.state.upper() if self.side == "worse" else self.state
        shown = ", ".join(self.series[:SHOWN_SERIES])
        left = len(self.series) - SHOWN_SERIES
        more = f" and {left} more" if left > 0 else ""
        when = f"since {self.opened_at:%Y-%m-%d} (run {self.opened_run}), {self.runs} runs"
        over = f", resolved {self.resolved_at:%Y-%m-%d}" if self.resolved_at else ""
        hint = "; in slices only, exploratory" if self.exploratory else ""
        return f"{word} {self.side} [{self.incident}]: {shown}{more}; {when}{over}{hint}"


class Trends(_TrendPart):
    """All series and incidents of one run name."""

    name: str
    runs: int
    series: tuple[Trend, ...]
    incidents: tuple[Incident, ...]
    notes: tuple[str, ...] = ()


@dataclass
class _Episode:
    """A time in which a series was away from its reference."""

    series: Series
    side: ChartSide
    opened: int  # position in the order of all runs
    resolved: int | None = None  # None: still away


Bridges = Mapping[tuple[str, str], Mapping[str, float]]
"""By (earlier judge, later judge): how much more the later judge gives, by name of the series."""


def trends(
    name: str, series: Sequence[Series], config: SeriesConfig, bridges: Bridges | None = None
) -> Trends:
    """Put every series of runs with this name on its control charts, and join the incidents.

    `bridges` are the differences between judges that judged the same anchors.
    """
    points = {point.run_id: point for item in series for point in item.points}
    runs = sorted(points, key=lambda run_id: _order_key(points[run_id]))
    times = {run_id: point.at for run_id, point in points.items()}
    order = {run_id: place for place, run_id in enumerate(runs)}
    whole = sum(not item.slice_of for item in series)
    series_trends, episodes = [], []
    for item in series:
        # Whole runs share one rate of false alarms, slices another: these must not hide a fall.
        limits = Limits.of(config, len(series) - whole if item.slice_of else whole)
        trend, of_series = _watch_series(item, config, limits, bridges or {}, order)
        series_trends.append(trend)
        episodes += of_series
    return Trends(
        name=name,
        runs=len(order),
        series=tuple(series_trends),
        incidents=tuple(_incident(name, group, runs, times) for group in _problems(episodes)),
    )


def _order_key(point: Point) -> tuple[date, datetime, str]:
    return point.at.date(), point.begun or point.at, point.run_id


def _bridge_points(points: Sequence[Point], name: str, bridges: Bridges) -> list[tuple[Point, str]]:
    """Move the values of earlier judges to the scale of the latest: (point, judge of its scale)."""
    pairs: list[tuple[Point, str]] = []
    offset, scale, later = 0.0, "", ""
    for point in reversed(points):
        if later and point.judge != later:
            # What the later judge gives more, back in time from the newest run. Without a bridge
            # the series breaks, and the earlier judge keeps its own scale.
            step = bridges.get((point.judge, later), {}).get(name)
            offset, scale = (0.0, point.judge) if step is None else (offset + step, scale)
        later, scale = point.judge, scale or point.judge
        pairs.append((replace(point, value=point.value + offset), scale))
    return pairs[::-1]


def _watch_series(
    series: Series, config: SeriesConfig, limits: Limits, bridges: Bridges, order: Mapping[str, int]
) -> tuple[Trend, list[_Episode]]:
    moved = _bridge_points(series.points, series.name, bridges)
    originals = {point.run_id: point.value for point in series.points}
    episodes: list[_Episode] = []
    points: list[TrendPoint] = []
    usual, learnt, state = None, 0, "learning"
    # Each scale learns a reference of its own. That of the newest run comes last and gives the
    # state, also where its judge had judged before the others.
    for scale in reversed(dict.fromkeys(scale for _, scale in reversed(moved))):
        part = [point for point, of in moved if of == scale]
        usual = control_charts.reference(part, config)
        learnt = min(config.reference_runs, sum(point.usable for point in part))
        point_readings = _chart_readings(part, series, usual, config, limits)
        points += [
            _trend_point(point, originals[point.run_id], series, readings)
            for point, readings in point_readings
        ]
        new_episodes = _episodes(series, point_readings, order)
        episodes += new_episodes
        still = {episode.side for episode in new_episodes if episode.resolved is None}
        # Of two open sides the worse one counts.
        state = max(still, default="learning" if usual is None else "quiet")
    points.sort(key=lambda point: order[point.run_id])
    trend = Trend(
        series=series.name,
        slice_of=series.slice_of,
        reference=None if usual is None else rounded_value(usual.mean),
        reference_runs=learnt,
        state=state,
        points=tuple(points),
    )
    return trend, episodes


_PointReadings = tuple[Point, Mapping[ChartSide, ChartReading]]


def _chart_readings(
    points: Sequence[Point],
    series: Series,
    usual: control_charts.Reference | None,
    config: SeriesConfig,
    limits: Limits,
) -> list[_PointReadings]:
    """The readings for each run; none for unusable runs and those that the reference comes from."""
    if usual is None:
        return [(point, {}) for point in points]
    down = -1 if series.falls_when_worse else 1
    span = series.span or 0.01 * abs(usual.mean)  # no upper end: a hundredth of the usual value
    charts: dict[ChartSide, ControlChart] = {
        "worse": ControlChart(usual, config, limits, down, span),
        "better": ControlChart(usual, config, limits, -down, span),
    }
    readings: list[_PointReadings] = []
    learnt = 0
    for point in points:
        learnt += point.usable
        reads = charts if point.usable and learnt > usual.runs else {}
        readings.append((point, {side: chart.read(point) for side, chart in reads.items()}))
    return readings


def _episodes(
    series: Series, point_readings: Sequence[_PointReadings], order: Mapping[str, int]
) -> list[_Episode]:
    episodes: list[_Episode] = []
    for side in ("worse", "better"):
        current: _Episode | None = None
        for point, readings in point_readings:
            is_open = side in readings and readings[side].open
            if is_open and current is None:
                current = _Episode(series, side, order[point.run_id])
                episodes.append(current)
            elif side in readings and not is_open and current is not None:
                current.resolved, current = order[point.run_id], None
    return episodes


def _trend_point(
    point: Point, original: float, series: Series, readings: Mapping[ChartSide, ChartReading]
) -> TrendPoint:
    worse, most = readings.get("worse"), series.span or math.inf
    interval = _interval(point, is_rate=series.is_rate).clip(0.0, most)
    signals = {name for reading in readings.values() for name in reading.signals}
    return TrendPoint(
        run_id=point.run_id,
        at=point.at,
        value=rounded_value(original),
        bridged=rounded_value(point.value),
        low=rounded_value(interval.low),
        high=rounded_value(interval.high),
        items=point.items,
        judge=point.judge,
        usable=point.usable,
        z=rounded_value(worse.z) if worse else None,
        signals=tuple(sorted(signals)),
    )


def _interval(point: Point, *, is_rate: bool) -> ValueInterval:
    """The 95 % interval of a run's value: of a rate that of Wilson at the effective number of cases."""
    value, quantile = point.value, z_of(CONFIDENCE)
    if is_rate and 0 <= value <= 1:  # a bridged rate can lie beyond
        variance = value * (1 - value)
        # Where all cases agree, nothing is seen of how clusters hang together.
        return wilson(value, variance / point.se**2 if point.se else point.items, quantile)
    return ValueInterval(value - quantile * point.se, value + quantile * point.se)


def _problems(episodes: Sequence[_Episode]) -> list[list[_Episode]]:
    """The episodes in groups that each become one incident, in order of time.

    An episode joins the first group of its side that began not long before and is not all over.
    """
    groups: list[list[_Episode]] = []
    for episode in sorted(episodes, key=lambda e: (e.opened, e.series.slice_of, e.series.name)):
        for group in groups:
            near = episode.opened - group[0].opened <= SAME_PROBLEM_RUNS
            open_still = any(
                other.resolved is None or other.resolved >= episode.opened for other in group
            )
            if episode.side == group[0].side and near and open_still:
                group.append(episode)
                break
        else:
            groups.append([episode])
    return groups


def _incident(
    name: str, group: Sequence[_Episode], runs: Sequence[str], times: Mapping[str, datetime]
) -> Incident:
    opened, last = group[0].opened, len(runs) - 1
    ends = [episode.resolved for episode in group]
    done = max((end for end in ends if end is not None), default=None)
    resolved = done if None not in ends else None
    state: State = "new" if opened == last else "persisting"
    # The id must stay the same from run to run, so it is of the opening only.
    key = f"{name}\n{group[0].side}\n{runs[opened]}"
    return Incident(
        incident=hashlib.sha256(key.encode()).hexdigest()[:8],
        side=group[0].side,
        state="resolved" if resolved is not None else state,
        series=tuple(dict.fromkeys(episode.series.label for episode in group)),
        opened_run=runs[opened],
        opened_at=times[runs[opened]],
        resolved_run=None if resolved is None else runs[resolved],
        resolved_at=None if resolved is None else times[runs[resolved]],
        runs=(last if resolved is None else resolved) - opened + 1,
        exploratory=all(episode.series.slice_of for episode in group),
    )
