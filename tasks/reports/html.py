"""The report as one HTML file: no script, no network, nothing beside it.

Everything a transcript, a judge or a configuration said is text: the templates escape it, a missing
name is an error instead of a blank, and the page's own policy forbids scripts and requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import jinja2
from markupsafe import Markup

from judge.score import LABELS
from tasks.reports import words
from tasks.reports.charts import charts

_SHADED = frozenset({*(label.replace("_", " ") for label in LABELS), "pass", "yes", "no"})

_FILTERS = (
    words.number,
    words.count,
    words.share,
    words.signed,
    words.money,
    words.duration,
    words.turns,
    words.plural,
    words.mark,
    words.reached,
    words.held,
    words.labels,
)


def html_report(data: Mapping[str, Any]) -> str:
    """The whole page."""
    return _environment().get_template("report.html.j2").render(data, charts=charts(data)) + "\n"


def _shade(label: str) -> str:
    """The CSS class of a label: a fixed set, never the label itself."""
    return label.replace(" ", "-") if label in _SHADED else "other"


def _breakable(name: str) -> Markup:
    """A snake_case name that a narrow column may break after an underscore."""
    return Markup("_<wbr>").join(name.split("_"))


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("tasks.reports"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update({one.__name__: one for one in _FILTERS})
    environment.filters |= {"shade": _shade, "breakable": _breakable}
    return environment
