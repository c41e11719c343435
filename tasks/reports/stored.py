"""Makes the report of a run from what the store holds, and writes it as HTML, Markdown and JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import polars as pl

from assizes.judge.calibration.cascade_result import promise_lines
from assizes.judge.comparison.compare import RunComparison
from assizes.judge.config.run import ReportConfig
from assizes.judge.summary.run_summary import RunSummary
from assizes.tasks.reports import formatting
from assizes.tasks.reports.data.case_rows import conversations
from assizes.tasks.reports.data.causes import causes_part
from assizes.tasks.reports.data.corrected import corrected_part
from assizes.tasks.reports.data.first_look import without_blame
from assizes.tasks.reports.data.report import report_data, verdict_with_attribution
from assizes.tasks.reports.render.html import html_report
from assizes.tasks.reports.render.markdown import markdown_report
from assizes.tasks.reports.schema.causes import Causes
from assizes.tasks.reports.schema.corrected import Corrected
from assizes.tasks.reports.schema.report import Attributed
from assizes.tasks.runs.anchor_runs import stored_attribution
from assizes.tasks.runs.calibrations import citation_lines, citations
from assizes.tasks.runs.corrected import corrected_numbers
from assizes.tasks.runs.stored_causes import stored_causes, unexplained_cases
from assizes.tasks.runtime.places import explain_write_errors, replace_file
from assizes.tasks.store import RunRecord, Store
from assizes.tasks.store.record import checked_id

_LOCAL: Final = "file://"


@dataclass(frozen=True, slots=True)
class StoredReport:
    """The report of a run as read from its store; the store may be closed afterwards."""

    record: RunRecord
    data: dict[str, Any]  # without any conversation
    first_case_rows: list[dict[str, Any] | None]  # of table `cases`; `None`: a row was not found

    def with_conversations(self) -> dict[str, Any]:
        """The data with the conversations of the cases to read first; fetches their transcripts."""
        first = self.data["cases"]["read_first"]
        shown = conversations(self.record, first, self.first_case_rows)
        return {**self.data, "conversations": shown}


def read_report(store: Store, record: RunRecord, comparison: RunComparison | None) -> StoredReport:
    """Read the report of a run that has a summary; no transcript is fetched."""
    data = stored_report_data(store, record, comparison)
    keys = [(case["case_id"], case["repetition"]) for case in data["cases"]["read_first"]]
    in_ids = pl.col("case_id").is_in([case_id for case_id, _ in keys])
    cases = store.scan(record.run_id, "cases").filter(in_ids).collect()
    rows = {(row["case_id"], row["repetition"]): row for row in cases.to_dicts()}
    return StoredReport(record, data, [rows.get(key) for key in keys])


def stored_report_data(
    store: Store, record: RunRecord, comparison: RunComparison | None
) -> dict[str, Any]:
    """The data of the report of a run that has a summary, without any conversation."""
    cases, scores, asks = (store.scan(record.run_id, name) for name in ("cases", "scores", "asks"))
    summary = RunSummary.model_validate(record.summary)
    numbers = corrected_numbers(store, record.run_id)
    lines = [line for number in numbers for line in number.lines()]
    lines += [*citation_lines(citations(store, record)), *promise_lines(record.config)]
    cited = [formatting.clean(line, 500) for line in lines]
    corrected = corrected_part(numbers, summary, comparison)
    attribution = stored_attribution(store, record, comparison)
    data = report_data(record, summary, cases, scores, asks, comparison)
    attributed = None
    if attribution is not None:
        fields = {**attribution.model_dump(), "sentence": attribution.sentence()}
        attributed = Attributed.model_validate(fields).model_dump()
    verdict, first = verdict_with_attribution(data["verdict"], attribution), data["first_look"]
    if verdict["outcome"] != data["verdict"]["outcome"]:  # a regression became undecided
        first = without_blame(first)
    data = {**data, "verdict": verdict, "first_look": first}
    causes = _causes_part(store, record.run_id)
    more = {
        "corrected": None if corrected is None else corrected.model_dump(),
        "causes": None if causes is None else causes.model_dump(),
    }
    return {**data, **more, "calibration": cited, "attribution": attributed}


def _causes_part(store: Store, run_id: str) -> Causes | None:
    """The causes of the failures of a run as its report shows them; `None` where none is stored."""
    causes = stored_causes(store, run_id)
    if causes is None:
        return None
    return causes_part(causes.causes, unexplained_cases(store, run_id, causes))


def corrected_detail(store: Store, record: RunRecord) -> Corrected | None:
    """What labels of people say of a run by itself; `None` where no label counts."""
    summary = RunSummary.model_validate(record.summary) if record.summary else None
    return corrected_part(corrected_numbers(store, record.run_id), summary)


def write_report_files(report: StoredReport, target: ReportConfig) -> dict[str, str]:
    """Write the files of a report; returns where each file is, by its suffix.

    Raises:
        ConfigurationError: the files cannot be written to the configured place.
    """
    # JSON and Markdown are the same bytes each time; HTML while the transcripts can be fetched.
    return write_report(report.with_conversations(), target.uri, target.storage_options)


def write_report(
    data: Mapping[str, Any], uri: str, storage_options: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """Render and write the three files of a report; returns where each is, by its suffix.

    They are `<uri>/<run_id>/report.{html,md,json}`, the same bytes for the same data; nobody reads
    half a file. `uri` is a folder or an fsspec URI, `storage_options` are those of its file system.

    Raises:
        ConfigurationError: the files cannot be written there.
    """
    run_id = checked_id(data["run"]["run_id"], "run id")  # an attack: `../` in an id in a path
    texts = {"html": html_report(data), "md": markdown_report(data), "json": json_report(data)}
    with explain_write_errors(uri, "report folder"):
        if "://" in uri and not uri.startswith(_LOCAL):
            import fsspec

            folder = f"{uri.rstrip('/')}/{run_id}"
            system, path = fsspec.core.url_to_fs(folder, **(storage_options or {}))
            for suffix, text in texts.items():
                # An object store shows an object only once its upload has ended.
                system.pipe_file(f"{path}/report.{suffix}", text.encode())
            return {suffix: f"{folder}/report.{suffix}" for suffix in texts}
        # A `file://` URI is percent-encoded, a plain path is not: `100%25` is a name there.
        local = Path(unquote(uri.removeprefix(_LOCAL)) if uri.startswith(_LOCAL) else uri) / run_id
        local.mkdir(parents=True, exist_ok=True)
        for suffix, text in texts.items():
            replace_file(local / f"report.{suffix}", text.encode())
    return {suffix: str(local / f"report.{suffix}") for suffix in texts}


def json_report(data: Mapping[str, Any]) -> str:
    """The data of a report as JSON with sorted keys, without the conversations."""
    figures = {name: value for name, value in data.items() if name != "conversations"}
    return json.dumps(figures, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
