"""What `assizes ci` leaves behind: a summary, a comment, and files for the CI service."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from assizes.deployments.commands.output import check_separate
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import ConfigurationError
from assizes.tasks.ci.annotations import code_quality
from assizes.tasks.ci.findings import CaseFindings, case_findings
from assizes.tasks.ci.places import CasePlaces
from assizes.tasks.ci.sarif import sarif_report
from assizes.tasks.ci.step_summary import SUMMARY_BYTES, change_comment, step_summary
from assizes.tasks.ci.verdict import CiVerdict
from assizes.tasks.reports.render.ci import junit_report
from assizes.tasks.reports.stored import read_report, write_report_files
from assizes.tasks.store import open_store

if TYPE_CHECKING:
    from assizes.flows.outcome import RunOutcome

GITLAB_FILE: Final = Path("gl-code-quality-report.json")
"""Where the code quality report for GitLab is written, unless an option says otherwise."""

_STEP_SUMMARY: Final = "GITHUB_STEP_SUMMARY"
_STEP_OUTPUT: Final = "GITHUB_OUTPUT"


@dataclass(frozen=True, slots=True)
class CiFiles:
    """The files that are wanted; `None`: not written, or where the service wants it."""

    summary: Path | None = None  # Markdown
    comment: Path | None = None  # Markdown
    junit: Path | None = None
    sarif: Path | None = None
    code_quality: Path | None = None

    def check_separate(self) -> None:
        """Check that no two of them are one file; raises `ConfigurationError`."""
        named = {
            f"--{field.name.replace('_', '-')}": getattr(self, field.name) for field in fields(self)
        }
        check_separate(named, "ci")


@dataclass(frozen=True, slots=True)
class CiOutput:
    """Everything that is told of a run, read from its store."""

    verdict: CiVerdict
    data: Mapping[str, Any]  # of the report
    findings: CaseFindings
    junit: str
    reports: Mapping[str, str]  # suffix -> path or URI


def read_output(
    outcome: RunOutcome, verdict: CiVerdict, config: RunConfig, places: CasePlaces
) -> CiOutput:
    """Read a run from its store, and write its report.

    Raises:
        ConfigurationError: the report cannot be written to the configured place.
    """
    with open_store(config.store) as store:
        record = store.run(outcome.run_id)
        report = read_report(store, record, outcome.comparison)
        findings = case_findings(store, record, outcome.comparison, places)
        junit = junit_report(report.data, store.scan(record.run_id, "cases"))
    reports = write_report_files(report, config.report)
    return CiOutput(verdict, report.data, findings, junit, reports)


def write_outputs(output: CiOutput, files: CiFiles, service: str) -> dict[str, str]:
    """Write the files that are wanted, and those that the service reads; returns where they are.

    Raises:
        ConfigurationError: a file cannot be written.
    """
    if service == "gitlab" and files.code_quality is None:
        files = replace(files, code_quality=GITLAB_FILE)
    contents = dict(_contents(output, files))
    for name, (path, text) in contents.items():
        _write(path, text, f"--{name.replace('_', '-')}")
    if service == "github":
        _append_summary(output)
        _append_outputs(output.verdict)
    return {name: str(path) for name, (path, _) in contents.items()}


def _contents(output: CiOutput, files: CiFiles) -> Iterator[tuple[str, tuple[Path, str]]]:
    verdict, data, findings = output.verdict, output.data, output.findings
    renderings = {
        "summary": lambda: step_summary(verdict, data, findings, SUMMARY_BYTES),
        "comment": lambda: change_comment(verdict, data, findings),
        "junit": lambda: output.junit,
        "sarif": lambda: sarif_report(verdict, findings, version("assizes")),
        "code_quality": lambda: code_quality(verdict, findings),
    }
    for field in fields(files):
        if (path := getattr(files, field.name)) is not None:
            yield field.name, (path, renderings[field.name]())


def _append_summary(output: CiOutput) -> None:
    """Append the summary to the file that GitHub shows, in the room that is left in it."""
    if not (name := os.environ.get(_STEP_SUMMARY)):
        return
    path = Path(name)
    room = SUMMARY_BYTES - (path.stat().st_size if path.is_file() else 0)
    text = step_summary(output.verdict, output.data, output.findings, max(0, room))
    _write(path, text, f"${_STEP_SUMMARY}", mode="ab")


def _append_outputs(verdict: CiVerdict) -> None:
    """Append what later steps can ask for; no value holds text of a transcript."""
    if name := os.environ.get(_STEP_OUTPUT):
        values = {
            "run-id": verdict.run_id,
            "verdict": verdict.word,
            "exit-code": str(verdict.exit_code),
        }
        lines = "".join(f"{key}={value}\n" for key, value in values.items())
        _write(Path(name), lines, f"${_STEP_OUTPUT}", mode="ab")


def _write(path: Path, text: str, option: str, mode: str = "wb") -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open(mode) as file:
            file.write(text.encode("utf-8", "replace"))
    except OSError as error:
        why = error.strerror or error
        raise ConfigurationError(f"{option} {str(path)!r} cannot be written: {why}") from error
