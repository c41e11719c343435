"""A list beside a DuckDB file of what was committed to it.

A DuckDB file whose write-ahead log was cut short opens without a word and holds less: whole
transactions are gone, and what is left looks right. So each commit is also noted in
`<file>.commits`, after the transaction: one line, on disk before the commit is acknowledged. A file
that lacks what its journal lists is damaged. Lines carry a checksum; one that was cut short or
altered counts as not written.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from assizes.judge.rows import COMPLETE, as_json
from assizes.tasks.runtime.failpoints import failpoint
from assizes.tasks.store.objects.folder import sync_folder

_CRC_DIGITS: Final = 8
_MAX_NAMED_SHARDS: Final = 3
"""So many lost shards of a run are named."""


@dataclass(slots=True)
class CommitState:
    """What a store holds: the SHA of every shard, and how every run that ended did so.

    `shards` keeps all SHAs that a shard ever had, the newest last: deleting a subject changes it.
    """

    store: str | None = None
    shards: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    endings: dict[str, str] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Nothing was ever committed."""
        return not self.shards and not self.endings

    def add_entry(self, entry: Mapping[str, Any]) -> None:
        """Take in one line."""
        if "store" in entry:
            self.store = entry["store"]
        elif "shard" in entry:
            self.shards.setdefault((entry["run"], entry["shard"]), []).append(entry["sha"])
        else:
            self.endings[entry["run"]] = entry["ended"]


class Journal:
    """The journal of one DuckDB file; `path` is null for a store in memory, which has none."""

    def __init__(self, file: Path | None) -> None:
        self.path = file and file.with_name(f"{file.name}.commits")

    def read(self) -> CommitState:
        """What is listed; nothing where there is no journal."""
        state = CommitState()
        if self.path is not None and self.path.exists():
            for line in self.path.read_bytes().split(b"\n"):
                if (entry := _decode_line(line)) is not None:
                    state.add_entry(entry)
        return state

    def note_shard(self, run_id: str, shard_id: str, sha: str) -> None:
        """Note a committed shard."""
        self._append([{"run": run_id, "shard": shard_id, "sha": sha}])

    def note_end(self, run_id: str, status: str) -> None:
        """Note how a run ended."""
        self._append([{"run": run_id, "ended": status}])

    def catch_up(self, journal_state: CommitState, file_state: CommitState) -> None:
        """Note what the file holds and the journal does not: a writer died between the two."""
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
        """Rename the journal of a store that is no more; where it is now."""
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
    """What a journal lists and its file does not hold, in words, run by run; empty when nothing.

    A SHA that the journal does not know is newer than it: a writer died between file and journal.
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


def shard_entries(
    rows: Iterable[tuple[str, str, str]],
) -> Iterator[tuple[tuple[str, str], list[str]]]:
    """Rows (run, shard, sha) of a file as the shards of a `Committed`."""
    for run_id, shard_id, sha in rows:
        yield (run_id, shard_id), [sha]
