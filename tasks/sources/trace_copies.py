"""Traces as transcript objects: what a trace store answers is kept in files that their content names.

A run reads these files and nothing else, so it can be resumed, shown and repeated when the server
has changed or is away. Equal traces give equal files, and so the same run.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from assizes.judge.config.traces import TracesConfig
from assizes.judge.config.transcripts import TranscriptsConfig
from assizes.judge.errors import ConfigurationError, Inconclusive
from assizes.judge.rows import as_json
from assizes.tasks.runtime.places import replace_file
from assizes.tasks.sources.listing import TranscriptSource, file_etag
from assizes.tasks.trace_stores.address import StoreAddress, parse_address
from assizes.tasks.trace_stores.connection import connection_to
from assizes.tasks.trace_stores.facts import is_wanted
from assizes.tasks.trace_stores.journal import PageJournal, PlacedPiece, conversation_hash
from assizes.tasks.trace_stores.readers import open_reader
from assizes.tasks.trace_stores.reading import TimeWindow, as_line

log = logging.getLogger(__name__)

_MOST_CONVERSATIONS: Final = 50  # of one file: a forgotten conversation makes its file another one
_OVERLAP: Final = timedelta(hours=1)
"""How far a reading goes back behind the end of the one before: traces arrive late."""

_NEVER: Final = "9999"  # sorts a trace whose start is not known behind all others
FORGOTTEN: Final = "forgotten"
"""The file, in the folder of the copies, with hashes of the conversations that are never kept."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """One conversation: its pieces in the journal, in the order of its file."""

    id: str
    started: str
    pieces: list[PlacedPiece]


def check_trace_store(config: TranscriptsConfig) -> str:
    """Ask the server of a trace store for the project, and return what to say about it.

    Raises:
        ConfigurationError: a variable of the environment is missing, or there is no such project.
        TraceStoreError: the server cannot be reached, or refuses the keys.
    """
    address = parse_address(config.uri)
    if config.trace_settings.use == "copies":
        return f"{config.uri}: copies in {config.trace_settings.copies}, no server is asked"
    reader = open_reader(address)
    try:
        reader.check()
    finally:
        reader.close()
    return f"{config.uri}: at {connection_to(address.kind).base_url}"


def trace_sources(
    config: TranscriptsConfig,
    window: tuple[datetime, datetime] | None = None,
    on_pieces: Callable[[int], None] = lambda _: None,
) -> list[TranscriptSource]:
    """Read the traces of a time into local files, and return these as transcript objects.

    Without a window, it is that of `[transcripts.traces]`. With `since_last`, only what is newer than
    at the reading before is asked for. `on_pieces` gets the number of spans or traces so far.

    Raises:
        ConfigurationError: the server is not known or has no such project, or the copies cannot be
            written, or there is none where copies alone are to be used.
        TraceStoreError: the server cannot be reached, or answers something unexpected.
        Inconclusive: there is no trace.
    """
    address, settings = parse_address(config.uri), config.trace_settings
    since, until = window or (settings.since, settings.until)
    since, until = _later(since, settings.since), _earlier(until, settings.until)
    folder = copies_folder(settings, address)
    grows = config.since_last and until is None  # a time that has an end is read as a whole
    key = as_json([grows, since and since.isoformat(), until and until.isoformat()])
    with locked_pages(folder) as pages:
        forgotten = forgotten_hashes(Path(settings.copies))
        journal = PageJournal.load(pages / f"{_digest(key, 8)}.jsonl", forgotten)
        if settings.use == "copies":
            if journal.window is None or not journal.is_complete:
                raise ConfigurationError(
                    f"[transcripts.traces] use: there is no whole copy of {config.uri!r} for this "
                    f'time in {settings.copies!r}; use = "server" makes one'
                )
        else:
            bounds = TimeWindow(since, until or datetime.now(UTC))
            journal = _filled(journal, address, bounds, on_pieces, grows=grows)
        kept = TimeWindow(since, until or datetime.max.replace(tzinfo=UTC))
        sources = _written(journal, folder, (address, settings, kept))
    if not sources:
        raise Inconclusive(
            f"no traces in {config.uri!r} {_time_text(since, until)}; [transcripts.traces] says which "
            "are wanted"
        )
    return sources


def copies_folder(settings: TracesConfig, address: StoreAddress) -> Path:
    """The folder with the copies of one project."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", address.name)[:40].lstrip(".")
    return Path(settings.copies, address.kind, f"{name}-{_digest(address.uri, 4)}")


def _filled(
    journal: PageJournal,
    address: StoreAddress,
    bounds: TimeWindow,
    on_pieces: Callable[[int], None],
    *,
    grows: bool,
) -> PageJournal:
    """The journal with all pages of the window; an unfinished one is continued first."""
    server = connection_to(address.kind).base_url
    is_other = journal.server not in (None, server)
    is_begun = bool(journal.pieces) and not journal.is_complete
    if is_other or not (grows or is_begun):
        journal.remove()
        journal = PageJournal(journal.path, journal.forgotten)
    reader = open_reader(address)
    try:
        if is_begun and journal.window is not None:
            log.info("goes on with the pages of %s that an earlier process read", address.uri)
            journal.read_on(reader, on_pieces)
        last = None if journal.window is None else journal.window.until
        # The time of an earlier process is over, and more traces may have come since.
        if last is None or bounds.until > last:
            since = bounds.since if last is None else _later(bounds.since, last - _OVERLAP)
            journal.begin(TimeWindow(since, bounds.until), server)
            journal.read_on(reader, on_pieces)
    finally:
        reader.close()
    return journal


def _written(
    journal: PageJournal, folder: Path, wanted: tuple[StoreAddress, TracesConfig, TimeWindow]
) -> list[TranscriptSource]:
    """Write the wanted conversations, and return the files, oldest first."""
    address, settings, window = wanted
    sources: list[TranscriptSource] = []
    day, count = "", 0  # of the file that is next to be written
    lines: list[bytes] = []
    for conversation in _conversations(journal, window):
        if journal.forgotten and conversation_hash(conversation.id) in journal.forgotten:
            continue
        values = list(journal.values(conversation.pieces))
        if not is_wanted(address.kind, values, settings):
            continue
        if lines and (count == _MOST_CONVERSATIONS or conversation.started[:10] != day):
            sources.append(_write_file(folder, day, lines))
            lines, count = [], 0
        day, count = conversation.started[:10], count + 1
        lines += [as_line(value) for value in values]
    return [*sources, _write_file(folder, day, lines)] if lines else sources


def _conversations(journal: PageJournal, window: TimeWindow) -> Iterator[Conversation]:
    """The conversations of the traces that began in a window, in order of their start and id."""
    traces: dict[str, list[tuple[str, str, PlacedPiece]]] = {}
    for (trace, key), piece in journal.pieces.items():
        traces.setdefault(trace, []).append((piece.started or _NEVER, key, piece))
    by_id: dict[str, list[tuple[str, str, list[PlacedPiece]]]] = {}
    for trace, pieces in traces.items():
        started = min(pieces)[0]
        if started == _NEVER or _is_within(started, window):
            conversation = journal.conversations.get(trace, trace)
            in_order = [placed for *_, placed in sorted(pieces)]
            by_id.setdefault(conversation, []).append((started, trace, in_order))
    conversations = []
    for name, parts in by_id.items():
        started = min(parts)[0]
        if started != _NEVER:  # else only scores, of a trace or session of another time
            all_pieces = [piece for *_, part in sorted(parts) for piece in part]
            conversations.append(Conversation(name, started, all_pieces))
    yield from sorted(conversations, key=lambda each: (each.started, each.id))


def _is_within(started: str, window: TimeWindow) -> bool:
    try:
        moment = datetime.fromisoformat(started)
    except ValueError:  # no time that anybody knows
        return True
    moment = moment.replace(tzinfo=moment.tzinfo or UTC)
    return (window.since is None or moment >= window.since) and moment < window.until


def _write_file(folder: Path, day: str, lines: list[bytes]) -> TranscriptSource:
    content = b"".join(lines)
    path = folder / f"{_safe(day)}-{hashlib.blake2b(content, digest_size=8).hexdigest()}.jsonl"
    if not path.exists():
        try:
            replace_file(path, content)
            path.chmod(0o600)
        except OSError as error:
            raise _cannot_write(path, error) from error
    state = path.stat()
    name = path.as_posix()
    etag = file_etag(name, state.st_mtime_ns, state.st_size, state.st_ino)
    return TranscriptSource(name, etag, state.st_size)


def _safe(day: str) -> str:
    return day if re.fullmatch(r"[0-9-]{10}", day) else "undated"


@contextmanager
def locked_pages(folder: Path) -> Iterator[Path]:
    """The folder of the journals, which one process at a time reads into; others wait."""
    pages = folder / "pages"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)  # traces hold what people said
        pages.mkdir(exist_ok=True, mode=0o700)
        lock = (pages / ".lock").open("a")
    except OSError as error:
        raise _cannot_write(pages, error) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield pages


def _cannot_write(path: Path, error: OSError) -> ConfigurationError:
    return ConfigurationError(
        f"[transcripts.traces] copies: {str(path)!r} cannot be written: {error.strerror}"
    )


def forgotten_hashes(copies: Path) -> frozenset[str]:
    """The hashes of the conversations that are never kept again."""
    path = copies / FORGOTTEN
    return frozenset(path.read_text().split()) if path.exists() else frozenset()


def _digest(text: Any, size: int) -> str:
    return hashlib.blake2b(str(text).encode(), digest_size=size).hexdigest()


def _later(first: datetime | None, second: datetime | None) -> datetime | None:
    return max((each for each in (first, second) if each is not None), default=None)


def _earlier(first: datetime | None, second: datetime | None) -> datetime | None:
    return min((each for each in (first, second) if each is not None), default=None)


def _time_text(since: datetime | None, until: datetime | None) -> str:
    begin = f"from {since.isoformat()} " if since else ""
    return f"{begin}{f'to {until.isoformat()}' if until else 'until now'}"
