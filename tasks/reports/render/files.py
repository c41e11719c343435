"""Writes a report to `<uri>/<run_id>/report.{html,md,json}`, in a folder or at any fsspec URI."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from assizes.tasks.reports.render.html import html_report
from assizes.tasks.reports.render.markdown import markdown_report
from assizes.tasks.runtime.failpoints import failpoint
from assizes.tasks.runtime.places import explain_write_errors
from assizes.tasks.store.record import checked_id

_LOCAL: Final = "file://"


def json_report(data: Mapping[str, Any]) -> str:
    """The data of a report as JSON with sorted keys, without the conversations."""
    figures = {name: value for name, value in data.items() if name != "conversations"}
    return json.dumps(figures, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def write_report(
    data: Mapping[str, Any], uri: str, storage_options: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """Render and write the three files of a report; readers never see half a file.

    The same data gives the same bytes.

    Args:
        data: the data of the report.
        uri: a folder, or an fsspec URI such as `s3://bucket/reports`.
        storage_options: options of the file system behind a URI.

    Returns:
        Where each file is, by its suffix: `html`, `md`, `json`.

    Raises:
        ConfigurationError: the files cannot be written there.
    """
    run_id = checked_id(data["run"]["run_id"], "run id")
    texts = {
        "html": html_report(data),
        "md": markdown_report(data),
        "json": json_report(data),
    }
    with explain_write_errors(uri, "report folder"):
        if "://" in uri and not uri.startswith(_LOCAL):
            return _write_remote(f"{uri.rstrip('/')}/{run_id}", texts, storage_options or {})
        folder = unquote(uri.removeprefix(_LOCAL)) if uri.startswith(_LOCAL) else uri
        return _write_local(Path(folder) / run_id, texts)


def _write_local(folder: Path, texts: Mapping[str, str]) -> dict[str, str]:
    folder.mkdir(parents=True, exist_ok=True)
    written = {}
    for suffix, text in texts.items():
        target = folder / f"report.{suffix}"
        replace_file(target, text.encode())
        written[suffix] = str(target)
    return written


def replace_file(target: Path, content: bytes) -> None:
    """Replace a file at once: readers see either the old file or the new one, never a part."""
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    fresh = Path(name)
    try:
        half = len(content) // 2
        with os.fdopen(handle, "wb") as file:
            file.write(content[:half])
            failpoint("report.half", before=file.flush)
            file.write(content[half:])
        fresh.chmod(0o644)
        failpoint("report.written")
        fresh.replace(target)
        failpoint("report.replaced")
    finally:
        fresh.unlink(missing_ok=True)


def _write_remote(
    folder: str, texts: Mapping[str, str], storage_options: Mapping[str, Any]
) -> dict[str, str]:
    """Write the files to an object store, which shows an object only once its upload has ended."""
    import fsspec

    system, path = fsspec.core.url_to_fs(folder, **storage_options)
    for suffix, text in texts.items():
        system.pipe_file(f"{path}/report.{suffix}", text.encode())
    return {suffix: f"{folder}/report.{suffix}" for suffix in texts}
