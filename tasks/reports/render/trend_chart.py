"""Draws the trends of a run name as SVG: values, 95 % intervals, reference and signals."""

from __future__ import annotations

from typing import Any, Final

import altair as alt
import vl_convert

from assizes.judge.history.trends import Trend, Trends
from assizes.tasks.reports.render.charts import (
    DARK,
    LIGHT,
    WIDTH,
    ChartImage,
    Theme,
    axis_of,
    data_uri,
    label_of,
)

MAX_SERIES: Final = 12
"""Series that are drawn, at most."""

HEIGHT: Final = 110
"""Height of the panel of one series, in pixels."""


def trend_charts(trends: Trends) -> list[ChartImage]:
    """One drawing for each of the first twelve series, for light and for dark pages."""
    return [_chart(trend) for trend in trends.series[:MAX_SERIES]]


def trend_chart(trends: Trends) -> str:
    """One SVG with a panel for each of the first twelve series; runs with a signal are marked."""
    panels = [
        _panel(trend, LIGHT).properties(title=_title(trend)) for trend in trends.series[:MAX_SERIES]
    ]
    drawing = alt.vconcat(*panels, spacing=14).resolve_scale(x="shared", y="independent")
    return _svg(drawing, LIGHT, "white")


def _chart(trend: Trend) -> ChartImage:
    light, dark = (
        data_uri(_svg(_panel(trend, theme), theme, "transparent")) for theme in (LIGHT, DARK)
    )
    title = _title(trend)
    alt_text = (
        f"Line chart of {title}, {len(trend.points)} runs; the table above has the last value."
    )
    return ChartImage(light=light, dark=dark, alt=alt_text, title=title)


def _title(trend: Trend) -> str:
    name = f"{trend.series} [{trend.slice_of}]" if trend.slice_of else trend.series
    return f"{label_of(name)}: {trend.state}"


def _svg(drawing: Any, theme: Theme, background: str) -> str:
    styled = drawing.properties(background=background, padding=8).configure(
        font="system-ui, sans-serif",
        axis=axis_of(theme),
        title={"color": theme.text},
        view={"stroke": None},
    )
    svg: str = vl_convert.vegalite_to_svg(styled.to_dict(), allowed_base_urls=[])
    return svg


def _panel(trend: Trend, theme: Theme) -> Any:
    values = [_value(point.model_dump(mode="json"), trend) for point in trend.points]
    base = alt.Chart(alt.InlineData(values=values), width=WIDTH, height=HEIGHT).encode(
        x=alt.X("at:T", title=None, axis=alt.Axis(format="%d %b %H:%M", tickCount=4))
    )
    scale = alt.Scale(zero=False)
    line = base.encode(y=alt.Y("bridged:Q", title=None, scale=scale))
    layers: list[Any] = [
        base.mark_area(color=theme.other, opacity=0.45).encode(
            y=alt.Y("low:Q", title=None, scale=scale), y2="high:Q"
        ),
        line.mark_line(color=theme.main, strokeWidth=1.5),
        line.mark_point(color=theme.main, filled=True, size=14),
        line.mark_point(color=theme.bad, filled=True, size=46).transform_filter("datum.signal"),
    ]
    if trend.reference is not None:
        usual = alt.Chart(alt.InlineData(values=[{"usual": trend.reference}]))
        rule = usual.mark_rule(color=theme.text, strokeDash=[4, 3])
        layers.append(rule.encode(y=alt.Y("usual:Q", scale=scale)))
    return alt.layer(*layers)


def _value(point: dict[str, Any], trend: Trend) -> dict[str, Any]:
    fields = {name: point[name] for name in ("at", "bridged", "low", "high")}
    return {**fields, "signal": bool(point["signals"]) and trend.reference is not None}
