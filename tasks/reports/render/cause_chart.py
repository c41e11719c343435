"""Draws the share of cases that show a cause, run by run, with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import altair as alt

from assizes.tasks.reports.render import charts

HEIGHT: Final = 140  # in pixels


def cause_chart(name: str, points: Sequence[Any]) -> charts.ChartImage:
    """One drawing for light and for dark pages.

    `points` have `at` (a time), `share`, `low` and `high` (0..1, or `None`), the oldest first.
    """
    values = [
        {
            "at": point.at.isoformat(),
            **{key: 100 * (getattr(point, key) or 0.0) for key in ("share", "low", "high")},
            "is_sure": point.low is not None,
        }
        for point in points
    ]
    title = charts.label_of(name)
    text = f"Line chart of the share of {title} in {len(points)} runs; the table has the numbers."
    return charts.themed_chart(title, text, lambda theme: _drawing(values, theme), padding=8)


def _drawing(values: list[dict[str, Any]], theme: charts.Theme) -> Any:
    axis = alt.Axis(format="%d %b", tickCount=4)
    base = alt.Chart(alt.InlineData(values), width=charts.WIDTH, height=HEIGHT).encode(
        x=alt.X("at:T", title=None, axis=axis, scale=alt.Scale(type="utc"))
    )
    line = base.encode(y=alt.Y("share:Q", title="% of the judged cases"))
    interval = base.transform_filter("datum.is_sure").encode(y="low:Q", y2="high:Q")
    return alt.layer(
        interval.mark_rule(color=theme.other, strokeWidth=3),
        line.mark_line(color=theme.main, strokeWidth=1.5),
        line.mark_point(color=theme.main, filled=True, size=30),
    )
