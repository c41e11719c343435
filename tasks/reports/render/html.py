"""Renders the report as one HTML file, and the pages that are served; they load nothing else.

All text of transcripts, judges and configurations is hostile: the templates escape it, a missing
name is an error instead of a blank, and the content security policy of a page allows one script,
known by its hash, and requests only to the server that the page came from.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final
from urllib.parse import quote

import jinja2
from markupsafe import Markup

from assizes.judge.score import LABELS
from assizes.tasks.reports import formatting
from assizes.tasks.reports.render.charts import charts

_SHADED = frozenset({*(label.replace("_", " ") for label in LABELS), "pass", "yes", "no"})

_FILTERS = (
    formatting.number,
    formatting.count,
    formatting.share,
    formatting.signed_number,
    formatting.money,
    formatting.duration,
    formatting.turns,
    formatting.plural,
    formatting.mark,
    formatting.gate_mark,
    formatting.outcome_mark,
    formatting.labels,
)

_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "script-src 'sha256-{script}'; form-action {own}; connect-src {own}"
)


def html_report(data: Mapping[str, Any], site: Site | None = None) -> str:
    """The report of a run as an HTML page.

    Args:
        data: the data of the report.
        site: the served pages that the report belongs to; `None` for a file of its own.
    """
    return page("report", {"conversations": [], **data, "charts": charts(data)}, site)


def page(name: str, data: Mapping[str, Any], site: Site | None = None) -> str:
    """A page, rendered from the template `<name>.html.j2`."""
    script = Markup(_script())  # a file of this package, so it needs no escaping
    template = _environment().get_template(f"{name}.html.j2")
    policy = policy_of(served=site is not None)
    return template.render(data, site=site, script=script, policy=policy) + "\n"


def policy_of(*, served: bool) -> str:
    """The content security policy of a page; only a served page may send requests to its server."""
    digest = base64.b64encode(hashlib.sha256(_script().encode()).digest()).decode()
    return _POLICY.format(script=digest, own="'self'" if served else "'none'")


@dataclass(frozen=True, slots=True)
class NavigationLink:
    """An entry of the navigation; `here` marks the page that is shown."""

    name: str
    url: str
    here: bool = False


@dataclass(frozen=True, slots=True)
class Site:
    """The served pages that a page links to.

    Attributes:
        places: the entries of the navigation.
        run_id: id of the run whose cases are linked; `None` for no links to cases.
    """

    places: tuple[NavigationLink, ...]
    run_id: str | None = None

    def case_url(self, case_id: str) -> str:
        """The URL of the page of a case of this run."""
        return f"/view/runs/{quote(self.run_id or '', safe='')}/cases/{quote(case_id)}"


@cache
def _script() -> str:
    return files("assizes.tasks.reports").joinpath("templates/page.js").read_text(encoding="utf-8")


def _shade(label: str) -> str:
    """The CSS class of a label: a fixed set, never the label itself."""
    return label.replace(" ", "-") if label in _SHADED else "other"


def _breakable(name: str) -> Markup:
    """A snake_case name that a narrow column may break after an underscore."""
    return Markup("_<wbr>").join(name.split("_"))


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("assizes.tasks.reports"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update({function.__name__: function for function in _FILTERS})
    environment.filters |= {"shade": _shade, "breakable": _breakable}
    return environment
