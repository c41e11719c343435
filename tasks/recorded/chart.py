"""Draws the kappa of every judge with its interval, a panel for each set and task, and the agreement of people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import altair as alt

from assizes.tasks.recorded.table import WorthRow
from assizes.tasks.recorded.values import ALL
from assizes.tasks.reports.render import charts

WIDTH: Final = 480  # of a panel, in pixels
STEP: Final = 18  # height of a judge's line, in pixels
# More room than the labels need here: a browser's letters may be wider than those of the drawing.
LABELS: Final = alt.Axis(labelLimit=320, minExtent=340)
_KINDS: Final = {"recorded": "main", "floor": "bad", "model": "text"}


def kappa_chart(rows: Sequence[WorthRow]) -> str:
    """The chart as SVG, in the colours of a light page."""
    theme = charts.LIGHT
    panels = []
    for dataset, task in dict.fromkeys((row.dataset, row.task) for row in rows):
        own = [row for row in rows if (row.dataset, row.task) == (dataset, task)]
        panels.append(_panel(f"{dataset}: {task}", own, theme))
    drawing = alt.vconcat(*panels, spacing=18)
    return charts.svg_of(drawing, theme, background="white", padding=10)


def line_label(row: WorthRow) -> str:
    """The judge, with the part of the set that it is about."""
    part = "" if row.part == ALL else f" on {row.part}"
    return charts.label_of(f"{row.judge}{part}")


def _panel(title: str, rows: Sequence[WorthRow], theme: charts.Theme) -> Any:
    values = [
        {
            "judge": line_label(row),
            "kappa": row.cited_kappa.value,
            "low": row.cited_kappa.low,
            "high": row.cited_kappa.high,
            "people": row.ceiling_kappa,
            "colour": getattr(theme, _KINDS[row.kind]),
        }
        for row in rows
    ]
    base = alt.Chart(
        alt.InlineData(values),
        width=WIDTH,
        height=STEP * len(values),
        title=alt.TitleParams(charts.label_of(title), anchor="start", frame="group", fontSize=13),
    ).encode(y=alt.Y("judge:N", title=None, sort=None, axis=LABELS))
    scale = alt.Scale(domain=[-0.7, 1])
    x_axis = alt.Axis(title="kappa with its 95 % interval; the tick is the agreement of people")
    return alt.layer(
        base.transform_filter("datum.low !== null")
        .mark_rule(color=theme.other, strokeWidth=3)
        .encode(x=alt.X("low:Q", scale=scale, title=None, axis=x_axis), x2="high:Q"),
        base.transform_filter("datum.people !== null")
        .mark_tick(color=theme.text, thickness=2, size=STEP - 4)
        .encode(x=alt.X("people:Q", scale=scale)),
        base.transform_filter("datum.kappa !== null")
        .mark_point(filled=True, size=45, opacity=1)
        .encode(x=alt.X("kappa:Q", scale=scale), color=alt.Color("colour:N", scale=None)),
    )
