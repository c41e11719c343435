"""Draws the kappas of a metric over time, each with its 95 % interval."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import altair as alt

from assizes.judge.calibration.record import Calibration
from assizes.tasks.reports.render import charts

HEIGHT: Final = 150  # of the drawing, in pixels

DatedCalibration = tuple[datetime, Calibration]


def calibration_chart(metric: str, dated: Sequence[DatedCalibration]) -> charts.ChartImage | None:
    """The chart of the calibrations of a metric; `None` where no kappa is defined."""
    values = [
        {
            "at": at.isoformat(),
            "kappa": calibration.cited_kappa.value,
            "low": calibration.cited_kappa.low,
            "high": calibration.cited_kappa.high,
            "judge": charts.label_of(calibration.judge),
        }
        for at, calibration in dated
        if calibration.cited_kappa.value is not None
    ]
    if not values:
        return None
    last = values[-1]["kappa"]
    title = f"Kappa of {charts.label_of(metric)} over time, with its 95 % interval"
    text = (
        f"Chart of {len(values)} kappas over time; the last is {last:.2f}. "
        "The table of calibrations holds every figure."
    )
    return charts.themed_chart(title, text, lambda theme: _drawing(values, theme), padding=8)


def _drawing(values: Sequence[dict[str, Any]], theme: charts.Theme) -> Any:
    base = alt.Chart(alt.InlineData(list(values)), width=charts.WIDTH, height=HEIGHT).encode(
        x=alt.X(
            "at:T",
            title=None,
            axis=alt.Axis(format="%d %b %Y", tickCount=4),
            scale=alt.Scale(type="utc"),
        )
    )
    scale = alt.Scale(domainMax=1)
    known = base.transform_filter("datum.low !== null")
    return alt.layer(
        known.mark_rule(color=theme.other, strokeWidth=3).encode(
            y=alt.Y("low:Q", title=None, scale=scale), y2="high:Q"
        ),
        base.mark_line(color=theme.main, strokeWidth=1.5).encode(y=alt.Y("kappa:Q", scale=scale)),
        base.mark_point(color=theme.main, filled=True, size=40).encode(
            y=alt.Y("kappa:Q", title=None, scale=scale)
        ),
    )
