"""Renders the report as one HTML file, and the pages that are served.

All text of transcripts, judges and configurations is hostile: the templates escape it, and the
content security policy of a page allows one script, known by its hash, and requests only to the
server that the page came from.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final
from urllib.parse import quote, urlencode

import jinja2
from markupsafe import Markup

from assizes.judge.score import LABELS
from assizes.tasks.reports import formatting

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
    # Imported here, because Altair is slow to import, and most commands draw nothing.
    from assizes.tasks.reports.render.charts import report_charts

    first = with_interval_bars(data["first_look"])
    shown = {**data, "first_look": first, "charts": report_charts(data)}
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
