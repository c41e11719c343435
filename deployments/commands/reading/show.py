"""`assizes runs`, `show`, `metrics` and `judges`: list stored runs, and the catalogue of judges."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from assizes.deployments.commands.output import (
    judge_line,
    print_gates,
    print_json,
    print_line,
    print_metrics,
    print_published,
    print_table,
    print_text,
    print_votes,
    print_warnings,
)
from assizes.deployments.commands.stores import opened_store
from assizes.tasks.runs.calibrations import citation_lines, citations
from assizes.tasks.runs.run_lock import INTERRUPTED, displayed_status

RUN_FIELDS = ("run_id", "name", "trigger", "status", "judge_model", "started_at", "finished_at")
"""Columns of table runs that the JSON documents show."""


def show_runs(file: Path | None, uri: str | None, *, as_json: bool) -> int:
    """Print the runs of a store, newest first."""
    with opened_store(file, uri) as store:
        rows = [
            _run_fields(row) | {"status": displayed_status(store, row["run_id"], row["status"])}
            for row in store.runs().iter_rows(named=True)
        ]
        store_uri = store.uri
    if as_json:
        print_json(rows)
    elif rows:
        columns = ("run", "status", "judge", "started", "#score", "#pass %")
        shown = [
            (
                row["run_id"],
                row["status"],
                row["judge_model"],
                f"{row['started_at']:%Y-%m-%d %H:%M}",
                row["weighted_metrics_score_pct"],
                row["cases_pass_rate_pct"],
            )
            for row in rows
        ]
        print_table("", columns, shown)
    else:
        print_line(f"no runs in {store_uri}")
    return 0


def _run_fields(row: dict[str, Any]) -> dict[str, Any]:
    summary = json.loads(row["summary"]) if row["summary"] else {}
    numbers = ("weighted_metrics_score_pct", "cases_pass_rate_pct", "outcome", "coverage")
    return {field: row[field] for field in RUN_FIELDS} | {
        name: summary.get(name) for name in numbers
    }


def show_run(run_id: str, file: Path | None, uri: str | None, *, as_json: bool) -> int:
    """Print one run: its status, metrics, gates, counts and costs.

    Raises:
        UnknownRun: the store has no such run.
    """
    from assizes.judge.summary.run_summary import RunSummary

    with opened_store(file, uri) as store:
        record = store.run(run_id)
        record = replace(record, status=displayed_status(store, record.run_id, record.status))
        calibration = citation_lines(citations(store, record))
    if as_json:
        fields = {name: getattr(record, name) for name in (*RUN_FIELDS, "config", "summary")}
        fields["calibration"] = calibration
        print_json(fields)
        return 0
    print_line(judge_line(record.judge_model))
    print_line(f"status: {record.status}, started {record.started_at:%Y-%m-%d %H:%M} UTC")
    if record.status == INTERRUPTED:
        print_line(f"nobody is at work on it: `assizes resume {record.run_id}` goes on")
    if record.summary is not None:
        summary = RunSummary.model_validate(record.summary)
        print_warnings(summary)
        print_metrics(record.run_id, summary)
        print_published(summary)
        print_votes(summary)
        print_gates(summary)
    for line in calibration:
        print_line(f"judge beside people: {line}")
    return 0


def show_metrics(folders: Sequence[str], *, as_json: bool) -> int:
    """Print every conversation metric, opt-in metrics included (seed 000: available metrics)."""
    from assizes.judge.catalog import metrics_listing

    listing = metrics_listing(folders)
    if as_json:
        print_json(listing)
        return 0
    rows = [
        (
            metric["name"],
            metric["tier"],
            metric["score_type"],
            f"{metric['default_weight']:g}",
            "yes" if metric["include_in_defaults"] else "opt-in",
            metric["description"],
        )
        for metric in listing["data"]
    ]
    columns = ("metric", "tier", "scale", "#weight", "default", "measures")
    print_table("", columns, rows)
    return 0


def show_judges(folders: Sequence[str], file: Path | None, *, as_json: bool) -> int:
    """Print every judge: its scale, its gate, what it needs, and whether it works offline.

    Args:
        folders: folders with the user's own judges.
        file: configuration whose own judges are listed too; `None`: none.
        as_json: print one JSON document.

    Raises:
        ConfigurationError: the configuration, a rubric folder or a judge cannot be used.
    """
    from assizes.deployments.settings import read_config
    from assizes.judge.catalog import judges_listing
    from assizes.judge.config.judging import JudgeConfig

    config = read_config(file).judge if file else JudgeConfig()
    all_folders = (*config.rubrics, *(folder for folder in folders if folder not in config.rubrics))
    listing = judges_listing(config.model_copy(update={"rubrics": all_folders}))
    if as_json:
        print_json(listing)
        return 0
    for judge in listing:
        _print_judge(judge)
    return 0


def _print_judge(judge: dict[str, Any]) -> None:
    """Print a judge: name, scale and gate; description; needs; the options that only it has."""
    from assizes.judge.families.entry import JudgeOptions

    facts = [
        ", ".join(judge["scale"]),
        f"gate {judge['gate']}" if judge["gate"] else "no gate",
        "also offline" if judge["offline"] else "needs a language model",
    ]
    print_line(f"{judge['name']:<22} {'; '.join(facts)}")
    lines = [judge["description"], f"needs {', '.join(judge['needs']) or 'nothing'}"]
    if own := [name for name in judge["options"] if name not in JudgeOptions.model_fields]:
        lines.append(f"options {', '.join(own)}")
    for line in lines:
        print_text(textwrap.fill(line, 100, initial_indent="    ", subsequent_indent="    "))
