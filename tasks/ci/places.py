"""Where a case stands in the repository: the file of its suite or transcript, and the line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from assizes.judge.config.run import RunConfig
from assizes.tasks.ci.repository import Repository
from assizes.tasks.suites.suite_folder import CASES, suite_in_use

MAX_FILE_BYTES: Final = 64 << 20
"""The largest file whose lines are counted, in bytes; in a larger one a case has line 1."""

_LINES: Final = (".jsonl", ".ndjson", ".jsonlines")
"""How the names of files end that hold a record on each line."""


class CasePlace(NamedTuple):
    """A line of a file of the repository."""

    path: str  # relative to the root, with `/`
    line: int = 1  # from 1


class CasePlaces:
    """The places of the cases of a run; files are read when the first case of them is asked for."""

    def __init__(self, repository: Repository | None, config: RunConfig, folder: Path) -> None:
        """Read the lines of the suite, if the run is over one; `folder` is that of the command."""
        self._repository, self._folder = repository, folder
        self._lines: dict[Path, list[int]] = {}  # line by position, of each file
        self._of_suite: Mapping[str, CasePlace] = {}
        used = suite_in_use(config)
        if used is not None and (path := self._relative(folder / used.folder / CASES)) is not None:
            numbers = _lines_of_ids(folder / used.folder / CASES)
            self._of_suite = {case: CasePlace(path, line) for case, line in numbers.items()}

    def of(self, case_id: str, uri: str | None, position: int | None) -> CasePlace | None:
        """The place of a case, from its row of table `cases`; `None`: not in the repository."""
        if (place := self._of_suite.get(case_id)) is not None:
            return place
        plain = (uri or "").removeprefix("file://")
        if not plain or "://" in plain:
            return None
        file = self._folder / plain
        if (path := self._relative(file)) is None:
            return None
        return CasePlace(path, self._line(file, position))

    def _relative(self, path: Path) -> str | None:
        if self._repository is None or not path.is_file():
            return None
        return self._repository.relative(path)

    def _line(self, file: Path, position: int | None) -> int:
        if position is None or not file.name.lower().endswith(_LINES):
            return 1
        if file not in self._lines:
            # Blank lines have no position.
            self._lines[file] = [number for number, text in _numbered(file) if text.strip()]
        lines = self._lines[file]
        return lines[position] if position < len(lines) else 1


def _lines_of_ids(file: Path) -> dict[str, int]:
    """The line of each case of a suite, by its id."""
    numbers: dict[str, int] = {}
    for number, text in _numbered(file):
        with suppress(ValueError, RecursionError):
            record: Any = json.loads(text)
            if isinstance(record, dict) and isinstance(record.get("case_id"), str):
                numbers.setdefault(record["case_id"], number)
    return numbers


def _numbered(file: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a file with their numbers, from 1; none of a file that is too large."""
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            return
        with file.open("rb") as opened:
            yield from enumerate(opened, 1)
    except OSError:
        return
