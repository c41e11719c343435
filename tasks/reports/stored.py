"""Makes the report of a run from what the store holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from assizes.judge.comparison.compare import RunComparison
from assizes.judge.config.places import ReportConfig
from assizes.judge.history.anchors import Attribution
from assizes.judge.summary.run_summary import RunSummary
from assizes.tasks.reports import formatting
from assizes.tasks.reports.data.case_page import case_table_rows, conversations
from assizes.tasks.reports.data.report import report_data
from assizes.tasks.reports.data.verdict import verdict_with_attribution
from assizes.tasks.reports.render.files import write_report
from assizes.tasks.reports.schema.report import Attributed
from assizes.tasks.runs.anchor_runs import stored_attribution
from assizes.tasks.runs.calibrations import citation_lines, citations
from assizes.tasks.store import RunRecord, Store


@dataclass(frozen=True, slots=True)
class StoredReport:
    """The report of a run as read from its store; the store may be closed afterwards.

    Attributes:
        record: the run.
        data: the data of the report, without any conversation.
        first_case_rows: rows of table `cases` of the cases to read first, in their order; `None`
            where a row could not be found.
    """

    record: RunRecord
    data: dict[str, Any]
    first_case_rows: list[dict[str, Any] | None]

    def with_conversations(self) -> dict[str, Any]:
        """The data with the conversations of the cases to read first; fetches their transcripts."""
        first = self.data["cases"]["read_first"]
        return {
            **self.data,
            "conversations": conversations(self.record, first, self.first_case_rows),
        }


def read_report(store: Store, record: RunRecord, comparison: RunComparison | None) -> StoredReport:
    """Read the report of a run that has a summary; no transcript is fetched."""
    data = stored_report_data(store, record, comparison)
    cases = store.scan(record.run_id, "cases")
    return StoredReport(record, data, case_table_rows(data["cases"]["read_first"], cases))


def stored_report_data(
    store: Store, record: RunRecord, comparison: RunComparison | None
) -> dict[str, Any]:
    """The data of the report of a run that has a summary, without any conversation."""
    cases, scores, asks = (store.scan(record.run_id, name) for name in ("cases", "scores", "asks"))
    summary = RunSummary.model_validate(record.summary)
    cited = [formatting.clean(line, 500) for line in citation_lines(citations(store, record))]
    attribution = stored_attribution(store, record, comparison)
    data = report_data(record, summary, cases, scores, asks, comparison)
    return {
        **data,
        "verdict": verdict_with_attribution(data["verdict"], attribution),
        "calibration": cited,
        "attribution": None if attribution is None else _attribution_part(attribution),
    }


def _attribution_part(attribution: Attribution) -> dict[str, Any]:
    fields = {**attribution.model_dump(), "sentence": attribution.sentence()}
    return Attributed.model_validate(fields).model_dump()


def write_report_files(report: StoredReport, target: ReportConfig) -> dict[str, str]:
    """Write the files of a report; returns where each file is, by its suffix.

    The JSON and the Markdown file of a run are the same bytes each time they are written. The HTML
    file is the same as long as the transcripts of the cases to read first can be fetched.

    Raises:
        ConfigurationError: the files cannot be written to the configured place.
    """
    return write_report(report.with_conversations(), target.uri, target.storage_options)


def render_stored_report(
    store: Store, record: RunRecord, comparison: RunComparison | None, target: ReportConfig
) -> tuple[dict[str, Any], dict[str, str]]:
    """Read and write the report of a run; returns its data, and where each file is, by suffix.

    Raises:
        ConfigurationError: the files cannot be written to the configured place.
    """
    report = read_report(store, record, comparison)
    return report.data, write_report_files(report, target)
