"""What our own runs leave in folders and buckets, so that it is never taken for transcripts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

_STORE_MARK: Final = "_assizes.json"
_STORE_FOLDERS: Final = ("runs", "comparisons")
_REPORT: Final = ("report.json", "report.html", "report.md")


def is_own_output(path: str, exists: Callable[[str], bool]) -> bool:
    """Whether an object is part of a Parquet store or of a report, told by what lies beside it.

    Args:
        path: slash-separated, with or without a bucket.
        exists: whether there is an object of that path; asked about few, and often the same.
    """
    *folders, name = path.split("/")
    if name == _STORE_MARK:
        return True
    if name in _REPORT and all(
        exists("/".join([*folders, report_name])) for report_name in _REPORT
    ):
        return True
    return any(
        folder in _STORE_FOLDERS and exists("/".join([*folders[:place], _STORE_MARK]))
        for place, folder in enumerate(folders)
    )
