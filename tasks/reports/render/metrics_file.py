"""The Prometheus text of a run, where a textfile collector finds it."""

from __future__ import annotations

from pathlib import Path

from assizes.judge.errors import ConfigurationError
from assizes.tasks.reports.render.files import replace_file
from assizes.tasks.reports.render.prometheus import metrics_text
from assizes.tasks.store import RunRecord, Store


def write_metrics(store: Store, record: RunRecord, folder: str) -> Path:
    """Write `assizes-<name>-<trigger>.prom`, whole or not at all.

    Raises:
        ConfigurationError: the folder cannot be written.
        Inconclusive: the run was never summed up.
    """
    text = metrics_text(store, record)
    path = Path(folder, f"assizes-{record.name}-{record.trigger}.prom")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, text.encode())
    except OSError as error:
        raise ConfigurationError(
            f"[report] metrics {folder!r} cannot be written: {error.strerror}; give a folder"
        ) from error
    return path
