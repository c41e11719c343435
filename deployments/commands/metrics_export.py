"""`assizes metrics-export`: Prometheus text of a stored run."""

from __future__ import annotations

from pathlib import Path

from deployments.commands.output import print_line
from deployments.commands.stores import store_config
from tasks.reports.metrics_file import write_metrics
from tasks.reports.prometheus import metrics_text
from tasks.store import open_store


def export_metrics(run_id: str, folder: str | None, file: Path | None, uri: str | None) -> int:
    """Print the text, or write it into a folder as a run with `[report] metrics` does."""
    with open_store(store_config(file, uri)) as store:
        record = store.run(run_id)
        if folder is None:
            print_line(metrics_text(store, record).rstrip("\n"))
        else:
            print_line(str(write_metrics(store, record, folder)))
    return 0
