"""The report of a run as it stands in the store."""

from __future__ import annotations

from typing import Any

from judge.compare import RunComparison
from judge.config import ReportConfig
from judge.summary import RunSummary
from tasks.anchor_runs import stored_attribution
from tasks.calibrations import citation_lines, citations
from tasks.reports import words
from tasks.reports.data import report_data, unblamed
from tasks.reports.files import write_report
from tasks.store import RunRecord, Store


def stored_report_data(
    store: Store, record: RunRecord, comparison: RunComparison | None
) -> dict[str, Any]:
    """Everything the report of a stored, summed-up run shows."""
    cases, scores, asks = (store.scan(record.run_id, name) for name in ("cases", "scores", "asks"))
    summary = RunSummary.model_validate(record.summary)
    cited = [words.clean(one, 500) for one in citation_lines(citations(store, record))]
    found = stored_attribution(store, record, comparison)
    data = report_data(record, summary, cases, scores, asks, comparison)
    return {
        **data,
        "verdict": unblamed(data["verdict"], found),
        "calibration": cited,
        "attribution": found and {**found.model_dump(mode="json"), "sentence": found.sentence()},
    }


def render_stored(
    store: Store, record: RunRecord, comparison: RunComparison | None, target: ReportConfig
) -> tuple[dict[str, Any], dict[str, str]]:
    """The report of a stored run: its data, and where the written files lie by suffix.

    The files of one run are the same bytes however often they are written.

    Raises:
        ConfigurationError: when they cannot be written there.
    """
    data = stored_report_data(store, record, comparison)
    return data, write_report(data, target.uri, target.storage_options)
