"""Renders the report as one HTML file, the pages that are served, and the charts in them.

All text of transcripts, judges and configurations is hostile: the templates escape it, and the
content security policy of a page allows one script, known by its hash, and requests only to the
server that the page came from. Each chart is an SVG in a `data:` URI for an `<img>` element, once
for light and once for dark pages.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, Final
from urllib.parse import quote, urlencode

import altair as alt
import jinja2
import vl_convert
from markupsafe import Markup

from assizes.judge.score import LABELS
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

_SHADED: Final = frozenset({*(label.replace("_", " ") for label in LABELS), "pass", "yes", "no"})

_FILTERS: Final = (
    *("number", "count", "share", "signed_number", "money", "duration"),
    *("plural", "mark", "gate_mark", "labels", "id_of", "line_of"),
)
"""Functions of `formatting` that templates may call."""

# An attack: text that slips through the escaping can run no script and send nothing elsewhere.
# The templates have style attributes, hence 'unsafe-inline' for styles only.
_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "script-src 'sha256-{script}'; form-action {own}; connect-src {own}"
)

_JAVASCRIPT_OBJECT_NAMES: Final = frozenset(
    {
        *("__proto__", "constructor", "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable"),
        *("toLocaleString", "toString", "valueOf", "__defineGetter__", "__defineSetter__"),
        *("__lookupGetter__", "__lookupSetter__"),
    }
)
"""Names that every JavaScript object has; a bar with such a name breaks the drawing."""


@dataclass(frozen=True, slots=True)
class NavigationLink:
    """An entry of the navigation; `here` marks the page that is shown."""

    name: str
    url: str
    here: bool = False


@dataclass(frozen=True, slots=True)
class Site:
    """The served pages that a page links to."""

    places: tuple[NavigationLink, ...]  # the entries of the navigation
    run_id: str | None = None  # the run whose cases are linked; `None`: no links to cases

    def case_url(self, case_id: str) -> str:
        """The URL of the page of a case of this run."""
        # An attack: a browser resolves `..` in a path, so that an id would lead to another page.
        if not {".", ".."}.isdisjoint(case_id.split("/")):
            return f"/view/case?{urlencode({'run': self.run_id or '', 'case': case_id})}"
        # The route takes the rest of the path as the id of the case, / included.
        return f"/view/runs/{quote(self.run_id or '', safe='')}/cases/{quote(case_id)}"

    def causes_url(self) -> str:
        """The URL of the page of the causes of this run."""
        return f"/view/runs/{quote(self.run_id or '', safe='')}/causes"

    def cause_url(self, cause_id: str) -> str:
        """The URL of the page of one cause of this run."""
        return f"{self.causes_url()}/{quote(cause_id, safe='')}"

    def pair_url(self, baseline: str, candidate: str, case_id: str) -> str:
        """The URL of the page of a case of two runs side by side."""
        query = {"baseline": baseline, "candidate": candidate, "case": case_id}
        return f"/view/compare/case?{urlencode(query)}"

    def cases_url(self, **fields: str) -> str:
        """The URL of the list of those cases of this run that match every field (`CaseQuery`)."""
        return f"/view/runs/{quote(self.run_id or '', safe='')}/cases?{urlencode(fields)}"


def html_report(data: Mapping[str, Any], site: Site | None = None) -> str:
    """The report of a run as an HTML page; `site` is `None` for a file of its own."""
    shown = {**data, "first_look": with_interval_bars(data["first_look"]), "charts": charts(data)}
    return page("report", {"conversations": [], **shown}, site)


def with_interval_bars(first_look: Mapping[str, Any]) -> dict[str, Any]:
    """The data of a first screen with a `bar` for each change.

    It says how wide the parts before, within and after the interval are drawn. All bars have one
    scale, with 0 in the middle; `bar` is `None` for a change without an interval.
    """
    changes = first_look["changes"]
    bounds = [bound for item in changes for bound in (item["low"], item["high"])]
    widest = max((abs(bound) for bound in bounds if bound is not None), default=0.0)
    bars = [{**item, "bar": _bar(item["low"], item["high"], widest)} for item in changes]
    return {**first_look, "changes": bars}


def _bar(low: float | None, high: float | None, widest: float) -> tuple[int, int, int] | None:
    if low is None or high is None or not widest:
        return None
    # Of 200 units, 100 lie on each side of 0; no interval is drawn thinner than 2 of them.
    start, stop = (round(100 + 95 * bound / widest) for bound in (low, high))
    stop = max(stop, start + 2)
    return start, stop - start, 200 - stop


def page(
    name: str, data: Mapping[str, Any], site: Site | None = None, script: str = "page.js"
) -> str:
    """A page, rendered from the template `<name>.html.j2`, with one script of this package."""
    # Files of this package need no escaping.
    own = {"script": Markup(_file(script)), "style": Markup(_file("style.css"))}
    policy = policy_of(served=site is not None, script=script)
    template = _environment().get_template(f"{name}.html.j2")
    links = site.cases_url if site is not None and site.run_id is not None else _cases_in_file
    return template.render(data, site=site, cases_url=links, policy=policy, **own) + "\n"


def _cases_in_file(**fields: str) -> str:
    """A link to the table of all cases of the same page, which page.js filters by these fields."""
    return f"#cases?{urlencode(fields)}"


def policy_of(*, served: bool, script: str = "page.js") -> str:
    """The content security policy of a page; only a served page may send requests to its server."""
    # CSP level 2: a script between tags runs if the SHA-256 of its text is listed.
    digest = base64.b64encode(hashlib.sha256(_file(script).encode()).digest()).decode()
    return _POLICY.format(script=digest, own="'self'" if served else "'none'")


@cache
def _file(name: str) -> str:
    return files("assizes.tasks.reports").joinpath(f"templates/{name}").read_text(encoding="utf-8")


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("assizes.tasks.reports"),
        autoescape=True,  # by default jinja escapes nothing
        undefined=jinja2.StrictUndefined,  # a missing name is an error instead of a blank
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        **{name: getattr(formatting, name) for name in _FILTERS},
        # The CSS class of a label is one of a fixed set, never the label itself.
        "shade": lambda label: label.replace(" ", "-") if label in _SHADED else "other",
        "filters": _filters_of,
        # What surely got worse comes first; the order of the rest stays.
        "fallen_first": lambda metrics: sorted(
            metrics, key=lambda item: not (item["delta_sure"] and item["delta"] < 0)
        ),
        "grown_first": lambda codes: sorted(codes, key=_not_grown),
        # A narrow column may break a snake_case name after an underscore.
        "breakable": lambda name: Markup("_<wbr>").join(formatting.line_of(name).split("_")),
    }
    return environment


def _not_grown(code: Mapping[str, Any]) -> bool:
    shift = code["shift"]
    return not (shift and shift["sure"] and shift["delta"] > 0)


def _filters_of(case: Mapping[str, Any]) -> str:
    """The filters that a case of the table of all cases matches, as JSON for page.js."""
    values = [
        *(("failure_code", code) for code in case["failure_codes"]),
        *(("metric", metric) for metric in case["low_metrics"]),
        *(("tool", tool) for tool in case["tools"]),
        *((name, case[name]) for name in ("agent_version", "root_cause") if case[name]),
    ]
    return json.dumps([f"{name}={value}" for name, value in values], ensure_ascii=False)


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


def charts(data: Mapping[str, Any]) -> dict[str, ChartImage]:
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
