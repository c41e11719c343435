"""The charts of reports and pages.

Each is an SVG in a `data:` URI for an `<img>` element, once for light and once for dark pages.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import lru_cache
from typing import Any, Final

import altair as alt
import vl_convert

from assizes.tasks.reports import formatting

WIDTH: Final = 560  # width of a chart, in pixels
MAX_BARS: Final = 12  # bars of a chart, at most; the table beside the chart holds all rows

_MAX_DRAWN: Final = 90  # charts that a server keeps, of the last reports; each takes some 60 kB

_ROW: Final = 26  # height of a bar, in pixels
_LABEL_PX: Final = 180  # width of the column of names, in pixels
_LABEL_CHARS: Final = 80  # characters of a name in a chart, at most
_FITTED: Final = {"padding": 4, "autosize": alt.AutoSizeParams(type="fit-x")}
_NAMES_AXIS: Final = alt.Axis(
    labelLimit=_LABEL_PX, minExtent=_LABEL_PX, domain=False, ticks=False, grid=False
)
_UNCUT: Final = alt.Axis(labelLimit=0)  # numbers are short, and to measure for a limit takes long
_COUNTS_AXIS: Final = alt.Axis(tickMinStep=1, tickCount=5, labelLimit=0)  # none at half a case
_LEGEND: Final = alt.Legend(title=None, orient="top", labelLimit=0)

_JAVASCRIPT_OBJECT_NAMES: Final = frozenset(
    {
        *("__proto__", "constructor", "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable"),
        *("toLocaleString", "toString", "valueOf", "__defineGetter__", "__defineSetter__"),
        *("__lookupGetter__", "__lookupSetter__"),
    }
)
"""Names that every JavaScript object has; a bar with such a name breaks the drawing."""


@dataclass(frozen=True, slots=True)
class Theme:
    """The colours of a chart, which differ in lightness as well as in hue."""

    text: str  # labels and rules; colours are CSS hex values
    grid: str
    main: str  # this run, and what passed
    other: str  # the baseline, and intervals
    bad: str  # failures and signals


LIGHT: Final = Theme("#3d4450", "#dfe3e8", "#2f5d8a", "#a9b8c8", "#b4532a")
DARK: Final = Theme("#c3cad4", "#363d48", "#7fb0de", "#566474", "#e0875c")

_DARK_OF: Final = dict(zip(astuple(LIGHT), astuple(DARK), strict=True))
_COLOUR: Final = re.compile('((?:fill|stroke)=")(#[0-9a-f]{6})')  # in the attributes of an SVG


@dataclass(frozen=True, slots=True)
class ChartImage:
    """A chart: two drawings as `data:` URIs, a text that says what they show, and a title."""

    light: str  # `data:` URI of an SVG
    dark: str
    alt: str  # what the drawing shows, for who does not see it
    title: str


def report_charts(data: Mapping[str, Any]) -> dict[str, ChartImage]:
    """The charts of a report by name, without those that would be empty."""
    shown = {
        "metrics": data["metrics"],
        "scores": data["scores"]["bins"],
        "failure_codes": data["failure_codes"]["shown"][:MAX_BARS],
    }
    drawn = {name: _draw_chart(name, json.dumps(values)) for name, values in shown.items()}
    return {name: chart for name, chart in drawn.items() if chart is not None}


@lru_cache(maxsize=_MAX_DRAWN)  # a chart shows these values and nothing else
def _draw_chart(name: str, values: str) -> ChartImage | None:
    """A chart of values, which are JSON, so that a server draws it once."""
    draw = {
        "metrics": _metric_means,
        "scores": _score_distribution,
        "failure_codes": _failure_codes,
    }[name]
    return draw(json.loads(values))


def _metric_means(metrics: Sequence[Mapping[str, Any]]) -> ChartImage | None:
    levels = [item for item in metrics if item["mean"] is not None and item["unit"] == "0-5"]
    shown = levels[:MAX_BARS]
    if not shown:
        return None
    has_baseline = any(metric["baseline_mean"] is not None for metric in shown)
    names = ["this run", "baseline"] if has_baseline else ["this run"]
    values = [
        {"metric": label_of(metric["metric"]), "run": run, "mean": metric[key]}
        for metric in shown
        # Without a baseline there is one name, and the second key is left out.
        for run, key in zip(names, ("mean", "baseline_mean"), strict=False)
        if metric[key] is not None
    ]
    # Two long names may be cut to the same label; they then share a row.
    height = _ROW * len(names) * len({value["metric"] for value in values})
    worst = min(shown, key=lambda metric: (metric["mean"], metric["metric"]))
    return themed_chart(
        "Mean level of each metric, 0 to 5" + (", against the baseline" if has_baseline else ""),
        f"Bar chart of mean levels of {len(shown)} metrics; lowest is "
        f"{worst['metric']} at {worst['mean']:.2f}. The metrics table holds every figure.",
        lambda theme: (
            alt.Chart(alt.InlineData(values), width=WIDTH, height=height)
            .mark_bar(height={"band": 0.82})
            .encode(
                # `sort=None` keeps the order of the data.
                y=alt.Y("metric:N", sort=None, title=None, axis=_NAMES_AXIS),
                yOffset=alt.YOffset("run:N", sort=names),
                x=alt.X("mean:Q", title=None, axis=_UNCUT, scale=alt.Scale(domain=[0, 5])),
                color=alt.Color(
                    "run:N",
                    scale=alt.Scale(domain=names, range=[theme.main, theme.other][: len(names)]),
                    legend=_LEGEND if has_baseline else None,
                ),
            )
        ),
        **_FITTED,
    )


def _score_distribution(bins: Sequence[Mapping[str, Any]]) -> ChartImage | None:
    sizes = [bucket["passed"] + bucket["not_passed"] for bucket in bins]
    if not any(sizes):
        return None
    words = ["passed", "not passed"]
    values = [
        # `order` fixes which of the two verdicts is stacked first.
        {**bucket, "verdict": word, "cases": bucket[word.replace(" ", "_")], "order": order}
        for bucket in bins
        for order, word in enumerate(words)
    ]
    fullest = bins[sizes.index(max(sizes))]  # the lowest of several
    tens = alt.Axis(values=list(range(0, 101, 10)), labelLimit=0)
    return themed_chart(
        "Cases by overall score, 0 to 100",
        f"Histogram of overall scores; most cases lie between {fullest['from']} and "
        f"{fullest['to']}, split by verdict.",
        lambda theme: (
            alt.Chart(alt.InlineData(values), width=WIDTH, height=180)
            .mark_bar(binSpacing=2)
            .encode(
                x=alt.X("from:Q", bin="binned", title=None, axis=tens),  # the bins are given
                x2="to:Q",
                y=alt.Y("cases:Q", title="cases", axis=_COUNTS_AXIS),
                color=alt.Color(
                    "verdict:N",
                    scale=alt.Scale(domain=words, range=[theme.main, theme.bad]),
                    legend=_LEGEND,
                ),
                order="order:Q",
            )
        ),
        **_FITTED,
    )


def _failure_codes(codes: Sequence[Mapping[str, Any]]) -> ChartImage | None:
    values = [{"code": label_of(code["code"]), "count": code["count"]} for code in codes]
    if not values:
        return None
    return themed_chart(
        "Most frequent failure codes",
        f"Bar chart of failure codes; most frequent is {values[0]['code']}, "
        f"{values[0]['count']} times.",
        lambda theme: (
            alt.Chart(alt.InlineData(values), width=WIDTH, height=_ROW * len(values))
            .mark_bar(height={"band": 0.7}, color=theme.bad)
            .encode(
                y=alt.Y("code:N", sort=None, title=None, axis=_NAMES_AXIS),
                x=alt.X("count:Q", title=None, axis=_COUNTS_AXIS),
            )
        ),
        **_FITTED,
    )


def label_of(text: str) -> str:
    """A name in a form that vl-convert can draw; the table beside the chart has the full name."""
    # vl-convert ends the whole process at a character that XML cannot hold (NUL, U+FFFE), and cuts
    # a long label between the two halves of a character beyond U+FFFF.
    line = formatting.clean_line(text, _LABEL_CHARS)
    drawn = "".join(sign if sign <= "\uffff" else "\ufffd" for sign in line)
    return f"{drawn}\u00a0" if drawn in _JAVASCRIPT_OBJECT_NAMES else drawn


def themed_chart(
    title: str, text: str, drawing: Callable[[Theme], Any], **layout: Any
) -> ChartImage:
    """A chart, drawn for light and for dark pages; `layout` is as in `svg_of`.

    The dark drawing is the light one in other colours, which takes half the time.
    """
    svg = svg_of(drawing(LIGHT), LIGHT, background="transparent", **layout)
    drawings = svg, _COLOUR.sub(lambda match: f"{match[1]}{_DARK_OF.get(match[2], match[2])}", svg)
    light, dark = (
        f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}" for svg in drawings
    )
    # An attack: markup in the name of a metric. Inside an `<img>` no script runs.
    return ChartImage(light, dark, alt=text, title=title)


def svg_of(drawing: Any, theme: Theme, **layout: Any) -> str:
    """An Altair chart as SVG in the colours of a theme; `layout` are properties of the chart."""
    axis = {
        **dict.fromkeys(("labelColor", "titleColor"), theme.text),
        **dict.fromkeys(("gridColor", "domainColor", "tickColor"), theme.grid),
        **{"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal"},  # in pixels
        "labelPadding": 6,
    }
    styled = drawing.properties(**layout).configure(
        font="system-ui, sans-serif",
        axis=axis,
        legend={"labelColor": theme.text, "labelFontSize": 12, "symbolType": "square"},
        title={"color": theme.text},
        view={"stroke": None},  # no frame
    )
    # An attack: with no allowed URL, no drawing makes this process fetch anything.
    svg: str = vl_convert.vegalite_to_svg(styled.to_dict(), allowed_base_urls=[])
    return svg
