"""`assizes report`: the report of a stored run, written anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assizes.deployments.commands.output import print_json, print_line, print_text
from assizes.deployments.commands.stores import opened_store
from assizes.deployments.settings import read_optional_config
from assizes.judge.errors import ConfigurationError, StoreError
from assizes.tasks.reports.render.brief import brief_report
from assizes.tasks.reports.render.junit import junit_report
from assizes.tasks.reports.stored import read_report, stored_report_data, write_report_files
from assizes.tasks.runs.stored_comparison import stored_comparison
from assizes.tasks.store import RunRecord, Store


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """What to write, and where.

    Attributes:
        output: folder or URI of the three files; null: as configured.
        junit: file for JUnit XML, in their place; null: none.
        brief: a few lines of Markdown on stdout, in their place.
    """

    output: str | None = None
    junit: Path | None = None
    brief: bool = False


def write_stored_report(
    run_id: str, wanted: ReportOptions, file: Path | None, store: str | None, *, as_json: bool
) -> int:
    """Write the three files and say where they lie; or one for CI.

    Returns:
        0: the exit code that gates a job is that of the run or of the comparison.

    Raises:
        UnknownRun: the store has no such run.
        StoreError: the run is not finished yet.
        ConfigurationError: the files cannot be written there, or options that do not go together.
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
            return _for_ci(opened, record, stored_report_data(opened, record, comparison), wanted)
        report = read_report(opened, record, comparison)
    links = write_report_files(report, target)  # transcripts are fetched when the store is closed
    if as_json:
        print_json(links)
    else:
        for link in links.values():
            print_line(link)
    return 0


def _for_ci(store: Store, record: RunRecord, data: Mapping[str, Any], wanted: ReportOptions) -> int:
    if wanted.junit is not None:
        _write(wanted.junit, junit_report(data, store.scan(record.run_id, "cases")))
    if wanted.brief:
        print_text(brief_report(data).rstrip())
    return 0


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        why = error.strerror or error
        raise ConfigurationError(f"--junit {str(file)!r} cannot be written: {why}") from error
