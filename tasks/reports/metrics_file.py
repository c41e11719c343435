"""The Prometheus text of a run, where a textfile collector finds it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from judge.errors import ConfigurationError
from tasks.reports.prometheus import metrics_text
from tasks.store import RunRecord, Store


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
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as draft:
            draft.write(text)
        Path(draft.name).chmod(0o644)  # the collector is another user
        os.replace(draft.name, path)  # noqa: PTH105  # what is read is always one whole text
    except OSError as error:
        raise ConfigurationError(
            f"[report] metrics {folder!r} cannot be written: {error.strerror}; give a folder"
        ) from error
    return path
