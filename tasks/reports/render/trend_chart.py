"""Draws the trends of a run name as SVG: values, 95 % intervals, reference, signals, new judges."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from functools import lru_cache
from itertools import islice
from typing import Any, Final

import altair as alt

from assizes.judge.history.trends import Trend, Trends
from assizes.tasks.reports.render import charts

MAX_SERIES: Final = 12  # series that are drawn, at most
HEIGHT: Final = 110  # height of the panel of one series, in pixels
_TICKS: Final = 4  # dates under a chart, about

_MAX_DRAWN: Final = 60
"""Charts of the last pages that a server keeps; each takes some 60 kB."""


def trend_charts(trends: Trends) -> list[charts.ChartImage]:
    """A drawing of each of at most twelve series, for light and for dark pages.

    Those that left their reference come first.
    """
    return [_chart(trend) for trend in _first_series(trends)]


def trend_chart(trends: Trends) -> str:
    """One SVG with the same series as panels; runs with a signal are marked."""
    panels = [
        _panel(trend, charts.LIGHT).properties(title=_title(trend))
        for trend in _first_series(trends)
    ]
    drawing = alt.vconcat(*panels, spacing=14).resolve_scale(x="shared", y="independent")
    return charts.svg_of(drawing, charts.LIGHT, background="white", padding=8)


def _first_series(trends: Trends) -> list[Trend]:
    """The series to draw: those that are worse, those that are better, and others in their order."""
    left = ("worse", "better")
    ordered = sorted(
        trends.series,
        key=lambda trend: left.index(trend.state) if trend.state in left else len(left),
    )
    return ordered[:MAX_SERIES]


@lru_cache(maxsize=_MAX_DRAWN)  # a chart shows what its trend holds, and takes 0.1 s to draw
def _chart(trend: Trend) -> charts.ChartImage:
    title = _title(trend)
    text = f"Line chart of {title}, {len(trend.points)} runs; the table above has the last value."
    return charts.themed_chart(title, text, lambda theme: _panel(trend, theme), padding=8)


def _title(trend: Trend) -> str:
    name = f"{trend.series} [{trend.slice_of}]" if trend.slice_of else trend.series
    return f"{charts.label_of(name)}: {trend.state}"


def _time_axis(times: list[datetime], *, are_days: bool) -> alt.Axis:
    """The dates under a chart; where round ones would all read alike, those of some runs."""
    label, unit = (
        ("%d %b", timedelta(days=1)) if are_days else ("%d %b %H:%M", timedelta(minutes=1))
    )
    if max(times) - min(times) >= _TICKS * unit:
        return alt.Axis(format=label, tickCount=_TICKS)
    by_label: dict[str, datetime] = {}
    for at in sorted(times):
        by_label.setdefault(at.astimezone(UTC).strftime(label), at)
    values = [1000 * at.timestamp() for at in islice(by_label.values(), _TICKS)]  # milliseconds
    return alt.Axis(format=label, values=values)


def _panel(trend: Trend, theme: charts.Theme) -> Any:
    points = [point.model_dump(mode="json") for point in trend.points]
    values = [
        {
            **{name: point[name] for name in ("at", "bridged", "low", "high")},
            # Without a reference there is nothing to differ from yet.
            "signal": bool(point["signals"]) and trend.reference is not None,
            "new_judge": place > 0 and point["judge"] != points[place - 1]["judge"],
        }
        for place, point in enumerate(points)
    ]
    corrected = [
        {"at": point["at"], **point["corrected"]}
        for point in points
        if point["corrected"] is not None and point["corrected"]["value"] is not None
    ]
    are_days = all(point.at.time() == time.min for point in trend.points)
    axis = _time_axis([point.at for point in trend.points], are_days=are_days)
    # In UTC: west of it, the axis would show the beginning of a day as the day before.
    base = alt.Chart(alt.InlineData(values), width=charts.WIDTH, height=HEIGHT).encode(
        x=alt.X("at:T", title=None, axis=axis, scale=alt.Scale(type="utc"))
    )
    scale = alt.Scale(zero=False)  # scores near 95 would be a flat line on an axis from 0
    line = base.encode(y=alt.Y("bridged:Q", title=None, scale=scale))
    # Drawn in this order: interval, line, runs, and runs with a signal on top of them.
    layers: list[Any] = [
        # Where the judge became another one: its model, its settings or a rubric.
        base.mark_rule(color=theme.text, strokeDash=[1, 3]).transform_filter("datum.new_judge"),
        base.mark_area(color=theme.other, opacity=0.45).encode(
            y=alt.Y("low:Q", title=None, scale=scale), y2="high:Q"
        ),
        line.mark_line(color=theme.main, strokeWidth=1.5),
        line.mark_point(color=theme.main, filled=True, size=14),
        line.mark_point(color=theme.bad, filled=True, size=46).transform_filter("datum.signal"),
    ]
    if corrected:  # a diamond with its interval, beside the line of the judge
        people = alt.Chart(alt.InlineData(corrected)).encode(x=alt.X("at:T", title=None))
        low = alt.Y("low:Q", title=None, scale=scale)
        layers.append(people.mark_rule(color=theme.text).encode(y=low, y2="high:Q"))
        mark = people.mark_point(color=theme.text, filled=True, shape="diamond", size=60)
        layers.append(mark.encode(y=alt.Y("value:Q", title=None, scale=scale)))
    if trend.reference is not None:
        usual = alt.Chart(alt.InlineData([{"usual": trend.reference}]))
        rule = usual.mark_rule(color=theme.text, strokeDash=[4, 3])
        layers.append(rule.encode(y=alt.Y("usual:Q", scale=scale)))
    return alt.layer(*layers)
