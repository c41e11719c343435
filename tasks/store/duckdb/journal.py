"""The journal of a DuckDB file: a list beside the file of the commits made to it.

DuckDB opens a file whose write-ahead log was cut short without an error: whole transactions are
gone, and the rest looks right. So each commit is also appended to `<file>.commits` after its
transaction: one line, synced to disk before the commit is acknowledged. A file that lacks what its
journal lists is damaged. Each line carries a checksum; a line that was cut short or altered is
ignored.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from assizes.judge.rows import COMPLETE, as_json
from assizes.tasks.runtime.failpoints import failpoint
from assizes.tasks.store.objects.folder import sync_folder

_CRC_DIGITS: Final = 8
"""Hexadecimal digits of the CRC-32 at the beginning of a line."""

_MAX_NAMED_SHARDS: Final = 3
"""Lost shards of a run that an error message names, at most."""


@dataclass(slots=True)
class CommitState:
    """The commits that a journal lists or a file holds.

    Attributes:
        store: the id of the DuckDB file; None while it has none.
        shards: every digest that a shard has had, the newest last, by run id and shard id. Deleting
            the rows of a subject changes the digest.
        endings: the status of each run that ended, by run id.
    """

    store: str | None = None
    shards: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    endings: dict[str, str] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether no shard was committed and no run has ended."""
        return not self.shards and not self.endings

    def add_entry(self, entry: Mapping[str, Any]) -> None:
        """Add one decoded line of a journal."""
        if "store" in entry:
            self.store = entry["store"]
        elif "shard" in entry:
            self.shards.setdefault((entry["run"], entry["shard"]), []).append(entry["sha"])
        else:
            self.endings[entry["run"]] = entry["ended"]


class Journal:
    """The journal of one DuckDB file; `path` is None for a store in memory, which has no journal."""

    def __init__(self, file: Path | None) -> None:
        self.path = file and file.with_name(f"{file.name}.commits")

    def read(self) -> CommitState:
        """The commits that the journal lists; empty where there is no journal."""
        state = CommitState()
        if self.path is not None and self.path.exists():
            for line in self.path.read_bytes().split(b"\n"):
                if (entry := _decode_line(line)) is not None:
                    state.add_entry(entry)
        return state

    def note_shard(self, run_id: str, shard_id: str, sha: str) -> None:
        """Append a committed shard; `sha` is the digest of its rows."""
        self._append([{"run": run_id, "shard": shard_id, "sha": sha}])

    def note_end(self, run_id: str, status: str) -> None:
        """Append the status with which a run ended."""
        self._append([{"run": run_id, "ended": status}])

    def catch_up(self, journal_state: CommitState, file_state: CommitState) -> None:
        """Append what the file holds and the journal lacks: a writer died between the two writes."""
        lines: list[dict[str, Any]] = []
        if journal_state.store != file_state.store:
            lines.append({"store": file_state.store})
        for (run_id, shard_id), shas in file_state.shards.items():
            if journal_state.shards.get((run_id, shard_id), [])[-1:] != shas[-1:]:
                lines.append({"run": run_id, "shard": shard_id, "sha": shas[-1]})
        for run_id, status in file_state.endings.items():
            if journal_state.endings.get(run_id) != status:
                lines.append({"run": run_id, "ended": status})
        if lines:
            self._append(lines)

    def set_aside(self, store: str) -> Path | None:
        """Rename the journal of a file that is gone; returns its new path, None without a journal."""
        if self.path is None or not self.path.exists():
            return None
        aside = self.path.with_name(f"{self.path.name}.{store[:8]}")
        self.path.rename(aside)
        return aside

    def _append(self, lines: Iterable[Mapping[str, Any]]) -> None:
        if self.path is None:
            return
        data = b"".join(_encode_line(line) for line in lines)
        failpoint("journal.append.before")
        is_new = not self.path.exists()
        with self.path.open("ab") as file:
            # A line that a killed writer left unfinished must not run into the next one.
            file.write(b"\n" + data if file.tell() and not self._has_whole_last_line() else data)
            failpoint("journal.append.half", before=lambda: _halve_last_line(file.name, len(data)))
            file.flush()
            os.fsync(file.fileno())
        if is_new:
            sync_folder(self.path.parent)
        failpoint("journal.append.after")

    def _has_whole_last_line(self) -> bool:
        assert self.path is not None  # the caller has looked
        with self.path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"


def missing_commits(journal_state: CommitState, file_state: CommitState) -> list[str]:
    """Descriptions, run by run, of what a journal lists and its file lacks; empty when it is whole.

    A digest that the journal does not list is newer than the journal: a writer died between the
    write to the file and the write to the journal. So that digest is no damage.
    """
    missing: dict[str, list[str]] = {}
    for (run_id, shard_id), shas in journal_state.shards.items():
        file_sha = file_state.shards.get((run_id, shard_id), [""])[-1]
        if file_sha == "" or file_sha in shas[:-1]:
            missing.setdefault(run_id, []).append(shard_id)
    descriptions = [_shards_text(run_id, shards) for run_id, shards in sorted(missing.items())]
    for run_id, status in sorted(journal_state.endings.items()):
        if run_id not in missing and file_state.endings.get(run_id) != status:
            descriptions += [f"the end of run {run_id}"] if status == COMPLETE else []
    return descriptions


def _shards_text(run_id: str, shards: list[str]) -> str:
    some = ", ".join(sorted(shards)[:_MAX_NAMED_SHARDS])
    more = f" and {len(shards) - _MAX_NAMED_SHARDS} more" if len(shards) > _MAX_NAMED_SHARDS else ""
    plural = "s" if len(shards) > 1 else ""
    return f"{len(shards)} shard{plural} of run {run_id} ({some}{more})"


def _encode_line(line: Mapping[str, Any]) -> bytes:
    body = as_json(dict(line)).encode()
    return b"%08x %b\n" % (zlib.crc32(body), body)


def _decode_line(line: bytes) -> dict[str, Any] | None:
    crc, _, body = line.partition(b" ")
    if len(crc) != _CRC_DIGITS or b"%08x" % zlib.crc32(body) != crc:
        return None
    entry: dict[str, Any] = json.loads(body)
    return entry


def _halve_last_line(name: str, size: int) -> None:
    """Leave the last line half written, as a full disk or a power cut would."""
    with Path(name).open("r+b") as file:
        file.seek(0, os.SEEK_END)
        file.truncate(max(0, file.tell() - size // 2))
