"""Publishes a report in the Prefect UI: as Markdown, as a table of metrics, as a link to the file.

The keys of the artifacts depend on the name of the run only: the UI shows a timeline of its runs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prefect.artifacts import (
    acreate_link_artifact,
    acreate_markdown_artifact,
    acreate_table_artifact,
)

from assizes.tasks.reports import formatting
from assizes.tasks.reports.markdown_text import code, plain
from assizes.tasks.reports.render.markdown import markdown_report
from assizes.tasks.runtime.progress import ignore_server_errors


async def publish_artifacts(
    data: Mapping[str, Any],
    links: Mapping[str, str],
    *,
    keys: tuple[str, str] = ("assizes-report", "assizes-metrics"),
) -> None:
    """Create the artifacts of a run.

    Errors of the Prefect server are ignored: the run is judged, paid for and stored without it.

    Args:
        data: the data of the report.
        links: where the written files are, by suffix; without `html` there is no link.
        keys: keys of the Markdown and of the table; the name of the run is appended to each.
    """
    report, metrics = keys
    name = artifact_key(data["run"]["name"])
    where = f"\n\nThe full report: {code(links['html'], 500)}\n" if "html" in links else ""
    verdict = f"{data['verdict']['word']}: {data['run']['run_id']}"
    text, table = markdown_report(data) + where, metrics_table(data)
    with ignore_server_errors("the report"):
        await acreate_markdown_artifact(text, key=f"{report}-{name}", description=verdict)
        await acreate_table_artifact(table, key=f"{metrics}-{name}", description=verdict)
        if "html" in links:
            link = link_uri(links["html"])
            await acreate_link_artifact(link, "the full report", f"{report}-link-{name}", verdict)


def link_uri(path: str) -> str:
    """A URI unchanged; the path of a file as a `file://` URI, which browsers open."""
    return path if "://" in path else Path(path).absolute().as_uri()


def metrics_table(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row for each metric; the Prefect UI renders the texts as Markdown."""
    return [
        {
            "metric": plain(metric["metric"]),
            "tier": plain(metric["tier"] or ""),
            "weight": metric["weight"],
            "mean": None if metric["mean"] is None else round(metric["mean"], 2),
            "unit": plain(metric["unit"]),
            "passed": None if metric["pass_rate"] is None else round(metric["pass_rate"], 4),
            "change": None if metric["delta"] is None else round(metric["delta"], 2),
            "scored": metric["scored"],
            "failed": metric["failed"],
            "skipped": metric["skipped"],
            "labels": plain(formatting.labels(metric["labels"]), 1000),
        }
        for metric in data["metrics"]
    ]


def artifact_key(name: str) -> str:
    """A name as part of an artifact key; Prefect allows lower-case letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "run"
