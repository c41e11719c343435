"""`assizes metrics-export`: Prometheus text of a stored run."""

from __future__ import annotations

from pathlib import Path

from assizes.deployments.commands.output import print_line, print_text
from assizes.deployments.commands.stores import opened_store
from assizes.tasks.reports.render.prometheus import metrics_text, write_metrics


def export_metrics(run_id: str, folder: str | None, file: Path | None, uri: str | None) -> int:
    """Print the text, or write it into a folder as a run with `[report] metrics` does.

    Raises:
        UnknownRun: the store has no such run.
    """
    with opened_store(file, uri) as store:
        record = store.run(run_id)
        if folder is None:
            print_text(metrics_text(store, record).rstrip("\n"))
        else:
            print_line(str(write_metrics(store, record, folder)))
    return 0
