"""`assizes report` and `export-metrics`: files about a stored run, written again from its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assizes.deployments.commands.output import print_json, print_line, print_lines, print_text
from assizes.deployments.commands.stores import opened_store
from assizes.deployments.settings import read_optional_config
from assizes.judge.errors import ConfigurationError, StoreError
from assizes.tasks.reports.render.ci import brief_report, junit_report
from assizes.tasks.reports.render.prometheus import metrics_text, write_metrics
from assizes.tasks.reports.stored import read_report, stored_report_data, write_report_files
from assizes.tasks.runs.stored_comparison import stored_comparison
from assizes.tasks.store import RunRecord, Store


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """What `assizes report` writes: its three files, or in their place a summary for CI."""

    output: str | None = None  # folder or URI for the three files; None: as configured
    junit: Path | None = None  # file for JUnit XML
    brief: bool = False  # some lines of Markdown on stdout


def write_stored_report(
    run_id: str, wanted: ReportOptions, file: Path | None, store: str | None, *, as_json: bool
) -> None:
    """Write the three files of a report and print their addresses; or write a summary for CI.

    Raises:
        UnknownRun: the store has no such run.
        StoreError: the run is not finished yet.
        ConfigurationError: a file cannot be written, or the options exclude one another.
    """
    if (wanted.brief or wanted.junit) and (as_json or wanted.output):
        option = "--json" if as_json else "--output"
        raise ConfigurationError(
            f"{option} goes with the three files of a report; give it without --junit and --brief"
        )
    configured = read_optional_config(file).report
    target = configured.model_copy(update={"uri": wanted.output}) if wanted.output else configured
    with opened_store(file, store) as opened:
        record = opened.run(run_id)
        if record.summary is None:
            raise StoreError(f"run {record.run_id!r} is {record.status}: no summary to report yet")
        comparison = stored_comparison(opened, record)
        if wanted.brief or wanted.junit:
            _for_ci(opened, record, stored_report_data(opened, record, comparison), wanted)
            return
        report = read_report(opened, record, comparison)
    # Transcripts are fetched after the store is closed, so that a run may write to it meanwhile.
    links = write_report_files(report, target)
    if as_json:
        print_json(links)
    else:
        print_lines(links.values())


def _for_ci(
    store: Store, record: RunRecord, data: Mapping[str, Any], wanted: ReportOptions
) -> None:
    # A CI job is gated by the exit code of the run or the comparison, not by this command's.
    if (file := wanted.junit) is not None:
        try:
            document = junit_report(data, store.scan(record.run_id, "cases"))
            file.write_text(document, encoding="utf-8")
        except OSError as error:
            why = error.strerror or error
            raise ConfigurationError(f"--junit {str(file)!r} cannot be written: {why}") from error
    if wanted.brief:
        print_text(brief_report(data).rstrip())


def export_metrics(run_id: str, folder: str | None, file: Path | None, uri: str | None) -> None:
    """Print the numbers of a run as Prometheus text, or write that text into a folder.

    Raises:
        UnknownRun: the store has no such run.
    """
    with opened_store(file, uri) as store:
        record = store.run(run_id)
        if folder is None:
            print_text(metrics_text(store, record).rstrip("\n"))
        else:
            print_line(str(write_metrics(store, record, folder)))
