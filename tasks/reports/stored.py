"""The report of a run as it stands in the store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from assizes.judge.comparison.compare import RunComparison
from assizes.judge.config.run import ReportConfig
from assizes.judge.summary.run_summary import RunSummary
from assizes.tasks.reports import formatting
from assizes.tasks.reports.data.case_page import case_table_rows, conversations
from assizes.tasks.reports.data.report import report_data, verdict_with_attribution
from assizes.tasks.reports.render.files import write_report
from assizes.tasks.runs.anchor_runs import stored_attribution
from assizes.tasks.runs.calibrations import citation_lines, citations
from assizes.tasks.store import RunRecord, Store


@dataclass(frozen=True, slots=True)
class StoredReport:
    """The report of a run as read from its store, which may be closed since.

    Attributes:
        record: the run.
        data: all that it shows but what was said.
        heard: rows of table cases of those to read first, in their order.
    """

    record: RunRecord
    data: dict[str, Any]
    first_case_rows: list[dict[str, Any] | None]

    def with_conversations(self) -> dict[str, Any]:
        """The data with what was said in the cases to read first: fetches their transcripts."""
        first = self.data["cases"]["read_first"]
        return {
            **self.data,
            "conversations": conversations(self.record, first, self.first_case_rows),
        }


def read_report(store: Store, record: RunRecord, comparison: RunComparison | None) -> StoredReport:
    """The report of a stored, summed-up run; no transcript is fetched."""
    data = stored_report_data(store, record, comparison)
    cases = store.scan(record.run_id, "cases")
    return StoredReport(record, data, case_table_rows(data["cases"]["read_first"], cases))


def stored_report_data(
    store: Store, record: RunRecord, comparison: RunComparison | None
) -> dict[str, Any]:
    """Everything the report of a stored, summed-up run shows, but what was said in its cases."""
    cases, scores, asks = (store.scan(record.run_id, name) for name in ("cases", "scores", "asks"))
    summary = RunSummary.model_validate(record.summary)
    cited = [formatting.clean(one, 500) for one in citation_lines(citations(store, record))]
    attribution = stored_attribution(store, record, comparison)
    data = report_data(record, summary, cases, scores, asks, comparison)
    return {
        **data,
        "verdict": verdict_with_attribution(data["verdict"], attribution),
        "calibration": cited,
        "attribution": attribution
        and {**attribution.model_dump(mode="json"), "sentence": attribution.sentence()},
    }


def write_report_files(report: StoredReport, target: ReportConfig) -> dict[str, str]:
    """Write the report; where the files lie, by suffix.

    The JSON and Markdown files of one run are the same bytes however often they are written; the
    HTML file is as long as the transcripts of the cases to read first are there.

    Raises:
        ConfigurationError: when they cannot be written there.
    """
    return write_report(report.with_conversations(), target.uri, target.storage_options)


def render_stored_report(
    store: Store, record: RunRecord, comparison: RunComparison | None, target: ReportConfig
) -> tuple[dict[str, Any], dict[str, str]]:
    """Read and write the report of a run in a store that stays open: its data, and where it lies.

    Raises:
        ConfigurationError: when it cannot be written there.
    """
    report = read_report(store, record, comparison)
    return report.data, write_report_files(report, target)
