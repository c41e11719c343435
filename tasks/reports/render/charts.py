"""Draws the charts of a report as self-contained images, without any network.

Each chart is an SVG in a `data:` URI for an `<img>` element. Inside an image no script runs and
nothing is fetched, whatever the name of a metric or of a failure code contains. Each chart has one
drawing for light pages and one for dark pages.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import altair as alt
import vl_convert

from assizes.tasks.reports.formatting import clean_line

WIDTH: Final = 560
"""Width of a chart, in pixels."""

MAX_BARS: Final = 12
"""Bars of a chart, at most; the table beside the chart holds all rows."""

_ROW: Final = 26
_LABEL_PX: Final = 180
_LABEL_CHARS: Final = 80


@dataclass(frozen=True, slots=True)
class Theme:
    """The colours of a chart, which differ in lightness as well as in hue."""

    text: str
    grid: str
    main: str
    other: str
    bad: str


LIGHT: Final = Theme("#3d4450", "#dfe3e8", "#2f5d8a", "#a9b8c8", "#b4532a")
DARK: Final = Theme("#c3cad4", "#363d48", "#7fb0de", "#566474", "#e0875c")


@dataclass(frozen=True, slots=True)
class ChartImage:
    """A chart: two drawings as `data:` URIs, a text that says what they show, and a title."""

    light: str
    dark: str
    alt: str
    title: str


def charts(data: Mapping[str, Any]) -> dict[str, ChartImage]:
    """The charts of a report by name, without those that would be empty."""
    drawn = {
        "metrics": _metric_means(data["metrics"]),
        "scores": _score_distribution(data["scores"]),
        "failure_codes": _failure_codes(data["failure_codes"]["shown"]),
    }
    return {name: chart for name, chart in drawn.items() if chart is not None}


def _metric_means(metrics: Sequence[Mapping[str, Any]]) -> ChartImage | None:
    shown = [metric for metric in metrics if metric["mean"] is not None and metric["unit"] == "0-5"]
    shown = shown[:MAX_BARS]
    if not shown:
        return None
    has_baseline = any(metric["baseline_mean"] is not None for metric in shown)
    names = ["this run", "baseline"] if has_baseline else ["this run"]
    values = [
        {"metric": label_of(metric["metric"]), "run": run, "mean": metric[key]}
        for metric in shown
        for run, key in zip(names, ("mean", "baseline_mean"), strict=False)
        if metric[key] is not None
    ]
    worst = min(shown, key=lambda metric: (metric["mean"], metric["metric"]))
    return _themed_chart(
        "Mean level of each metric, 0 to 5" + (", against the baseline" if has_baseline else ""),
        f"Bar chart of mean levels of {len(shown)} metrics; lowest is "
        f"{worst['metric']} at {worst['mean']:.2f}. The metrics table holds every figure.",
        lambda theme: _means_drawing(values, names, theme),
    )


def _means_drawing(values: list[dict[str, Any]], names: list[str], theme: Theme) -> alt.Chart:
    rows = len({value["metric"] for value in values})
    drawing: alt.Chart = (
        alt.Chart(_inline(values), width=WIDTH, height=_ROW * len(names) * rows)
        .mark_bar(height={"band": 0.82})
        .encode(
            y=_names_axis("metric"),
            yOffset=alt.YOffset("run:N", sort=names),
            x=alt.X("mean:Q", title=None, scale=alt.Scale(domain=[0, 5])),
            color=_colours("run", names, [theme.main, theme.other]),
        )
    )
    return drawing


def _score_distribution(scores: Mapping[str, Any]) -> ChartImage | None:
    bins = scores["bins"]
    if not any(bucket["passed"] + bucket["not_passed"] for bucket in bins):
        return None
    values = [
        {
            "from": bucket["from"],
            "to": bucket["to"],
            "verdict": word,
            "cases": bucket[key],
            "order": order,
        }
        for bucket in bins
        for order, (word, key) in enumerate((("passed", "passed"), ("not passed", "not_passed")))
    ]
    fullest = max(
        bins, key=lambda bucket: (bucket["passed"] + bucket["not_passed"], -bucket["from"])
    )
    return _themed_chart(
        "Cases by overall score, 0 to 100",
        f"Histogram of overall scores; most cases lie between {fullest['from']} and "
        f"{fullest['to']}, split by verdict.",
        lambda theme: _distribution_drawing(values, theme),
    )


def _distribution_drawing(values: list[dict[str, Any]], theme: Theme) -> alt.Chart:
    drawing: alt.Chart = (
        alt.Chart(_inline(values), width=WIDTH, height=180)
        .mark_bar(binSpacing=2)
        .encode(
            x=alt.X(
                "from:Q", bin="binned", title=None, axis=alt.Axis(values=list(range(0, 101, 10)))
            ),
            x2="to:Q",
            y=alt.Y("cases:Q", title="cases", axis=alt.Axis(tickMinStep=1, tickCount=5)),
            color=_colours("verdict", ["passed", "not passed"], [theme.main, theme.bad]),
            order="order:Q",
        )
    )
    return drawing


def _failure_codes(codes: Sequence[Mapping[str, Any]]) -> ChartImage | None:
    values = [
        {"code": label_of(failure["code"]), "count": failure["count"]}
        for failure in codes[:MAX_BARS]
    ]
    if not values:
        return None
    return _themed_chart(
        "Most frequent failure codes",
        f"Bar chart of failure codes; most frequent is {values[0]['code']}, "
        f"{values[0]['count']} times.",
        lambda theme: (
            alt.Chart(_inline(values), width=WIDTH, height=_ROW * len(values))
            .mark_bar(height={"band": 0.7}, color=theme.bad)
            .encode(
                y=_names_axis("code"),
                x=alt.X("count:Q", title=None, axis=alt.Axis(tickMinStep=1, tickCount=5)),
            )
        ),
    )


_JAVASCRIPT_OBJECT_NAMES: Final = frozenset(
    {
        *("__proto__", "constructor", "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable"),
        *("toLocaleString", "toString", "valueOf", "__defineGetter__", "__defineSetter__"),
        *("__lookupGetter__", "__lookupSetter__"),
    }
)
"""Names that every JavaScript object has; a bar with such a name breaks the drawing."""


def label_of(text: str) -> str:
    """A name in a form that vl-convert can draw; the table beside the chart has the full name."""
    # vl-convert ends the whole process at a character that XML cannot hold (NUL, U+FFFE), and cuts
    # a long label between the two halves of a character beyond U+FFFF.
    line = clean_line(text, _LABEL_CHARS)
    drawn = "".join(sign if sign <= "\uffff" else "\ufffd" for sign in line)
    return f"{drawn}\u00a0" if drawn in _JAVASCRIPT_OBJECT_NAMES else drawn


def _inline(values: list[dict[str, Any]]) -> alt.InlineData:
    return alt.InlineData(values=values)


def _names_axis(field: str) -> alt.Y:
    axis = alt.Axis(
        labelLimit=_LABEL_PX, minExtent=_LABEL_PX, domain=False, ticks=False, grid=False
    )
    return alt.Y(f"{field}:N", sort=None, title=None, axis=axis)


def _colours(field: str, names: list[str], colours: list[str]) -> alt.Color:
    legend = alt.Legend(title=None, orient="top") if len(names) > 1 else None
    scale = alt.Scale(domain=names, range=colours[: len(names)])
    return alt.Color(f"{field}:N", scale=scale, legend=legend)


def _themed_chart(title: str, text: str, drawing: Callable[[Theme], alt.Chart]) -> ChartImage:
    light, dark = (_image(drawing(theme), theme) for theme in (LIGHT, DARK))
    return ChartImage(light=light, dark=dark, alt=text, title=title)


def axis_of(theme: Theme) -> dict[str, Any]:
    """Settings of the axes, in the colours of a theme."""
    return {
        "labelColor": theme.text,
        "titleColor": theme.text,
        "gridColor": theme.grid,
        "domainColor": theme.grid,
        "tickColor": theme.grid,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "labelPadding": 6,
    }


def data_uri(svg: str) -> str:
    """A drawing as a `data:` URI, the source of an `<img>` element."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()


def _image(drawing: alt.Chart, theme: Theme) -> str:
    styled = drawing.properties(
        background="transparent", padding=4, autosize=alt.AutoSizeParams(type="fit-x")
    ).configure(
        font="system-ui, sans-serif",
        axis=axis_of(theme),
        legend={"labelColor": theme.text, "labelFontSize": 12, "symbolType": "square"},
        view={"stroke": None},
    )
    return data_uri(vl_convert.vegalite_to_svg(styled.to_dict(), allowed_base_urls=[]))
