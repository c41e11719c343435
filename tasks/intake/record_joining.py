"""Joins the pieces of conversations, such as spans, into a file with a line for each conversation.

Pieces of one conversation are joined on disk in two passes. The first writes the pieces one behind
the other and notes where each stands and to which conversation it belongs; the second copies them
conversation by conversation. Only ids, byte ranges and facts about the file are held in memory.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Final

from assizes.judge.errors import DataError
from assizes.judge.formats import Format
from assizes.judge.formats.shared.containers import LIST_MARK, PieceFormat
from assizes.judge.formats.shared.parsing import strict_json
from assizes.tasks.sources.listing import BOM, SourceFolder, TranscriptSource, is_file
from assizes.tasks.sources.spool import Spool
from assizes.tasks.sources.unread import link_error

_MANIFEST_BYTES: Final = 1 << 20  # a larger object is read as transcripts, never as a manifest

_STRAY: Final = "\0"
"""Begins the key of a record that is no piece; `strict_json` lets no such character into an id."""


def joined_lines_path(
    spool: Spool, sources: Sequence[TranscriptSource], format_: PieceFormat
) -> Path:
    """One file with a line for each conversation, from all pieces that the objects hold or name.

    A record that is no piece stays a line of its own.

    Raises:
        DataError: as `Spool.lines_path`; `too_large` for a document of pieces over the bound;
            `vanished` for an object that a manifest names and that is not there; `gzip_corrupt`
            or `zstd_corrupt` for a broken object, unless its pieces are to be salvaged.
    """
    named = [
        named_source
        for source in sources
        for named_source in _manifest_sources(spool, source, format_) or [source]
    ]
    paths = [spool.lines_path(named_source) for named_source in named]
    faults = [fault for each in named if (fault := spool.salvage_fault(each)) is not None]
    if faults and not spool.bounds.salvage_pieces:  # a conversation could lack its end
        raise faults[0]
    kind = "\n".join([format_.name, *(f"{other.uri} {other.etag}" for other in sources[1:])])
    document_bytes = spool.bounds.document_bytes
    return spool.derived_path(
        sources[0], kind, lambda target: _write_lines(paths, target, format_, document_bytes)
    )


def manifest_digest(spool: Spool, source: TranscriptSource, format_: PieceFormat) -> str | None:
    """A digest that pins the objects that a manifest names, 32 hex digits; `None`: no manifest.

    The named objects are pinned when a spool first asks for them: a later reader that computes the
    same digest reads the same bytes.

    Raises:
        DataError: `vanished` for a named object that is not there.
    """
    if not (sources := _manifest_sources(spool, source, format_)):
        return None
    body = json.dumps([[named_source.uri, named_source.etag] for named_source in sources])
    return hashlib.blake2b(body.encode(), digest_size=16).hexdigest()


def check_manifest_digest(
    spool: Spool, source: TranscriptSource, format_: Format, planned: str
) -> None:
    """Check that a manifest names what it did when `manifest_digest` returned `planned`.

    Raises:
        DataError: `changed`, or `vanished`.
    """
    if not isinstance(format_, PieceFormat) or manifest_digest(spool, source, format_) != planned:
        raise DataError("changed", f"{source.uri!r} names objects that are no longer as planned")


def _manifest_sources(
    spool: Spool, source: TranscriptSource, format_: PieceFormat
) -> list[TranscriptSource]:
    """The objects that a manifest names, as they were when the spool was first asked for them."""
    path = spool.lines_path(source)
    if path.stat().st_size > _MANIFEST_BYTES:
        return []
    try:
        keys = format_.other_objects(strict_json(path.read_bytes()))
    except DataError:
        return []
    if not keys:
        return []
    # The manifest lies in a folder of the export; what it names lies in the folders beside that.
    base = f"{source.uri.rsplit('/', 2)[0]}/" if source.uri.count("/") > 1 else ""
    uris = dict.fromkeys(f"{base}{_last_steps(key)}" for key in keys)  # in order, each once
    # A link would let whoever writes the export have any file of this machine read.
    home = None if "://" in base else SourceFolder(Path(base))
    for uri in uris:
        if home is not None and is_file(uri) and not home.contains(Path(uri)):
            raise link_error(uri)

    def write_listing(target: Path) -> None:
        sources = [spool.current_source(uri) for uri in uris]
        rows = [[named.uri, named.etag, named.size] for named in sources]
        target.write_text(json.dumps(rows), "utf-8")

    # Kept as a file of the spool: every later call sees the same etags.
    listing = spool.derived_path(source, f"named\n{format_.name}", write_listing)
    return [TranscriptSource(*fields) for fields in json.loads(listing.read_text("utf-8"))]


def _last_steps(key: str) -> str:
    """The last two steps of a key, which begins at the bucket of the export: a copy lies anywhere.

    Raises:
        DataError: `vanished` for a key that no export writes, such as one with `..`.
    """
    steps = key.split("/")[-2:]
    if {"", ".", ".."} & set(steps):
        raise DataError("vanished", f"a manifest names {key!r}, which is no file of an export")
    return "/".join(steps)


def _write_lines(
    paths: Iterable[Path], target: Path, format_: PieceFormat, document_bytes: int
) -> None:
    # Offset and size of each piece in the temporary file, by part.
    ranges: dict[str, list[tuple[int, int]]] = {}
    conversation_ids: dict[str, str] = {}  # part -> conversation
    facts: set[str] = set()
    values = (entry for path in paths for entry in _values(path, document_bytes))
    with tempfile.TemporaryFile(dir=target.parent) as file:

        def append(part: str, text: bytes) -> None:  # `tell` is evaluated before `write`
            ranges.setdefault(part, []).append((file.tell(), file.write(text)))

        for number, (value, line) in enumerate(values):
            parsed = value
            try:
                parsed = value if line is None else strict_json(line)
                pieces = list(format_.pieces(parsed))
            except DataError:
                # No piece: kept as it is, so that judging rejects it with its own reason.
                stray = _json_bytes(value) if line is None else line
                mark = LIST_MARK if isinstance(parsed, list) else b""
                append(f"{_STRAY}{number}", stray + mark + b"\n")
                continue
            for piece in pieces:
                append(piece.part, _json_bytes(piece.value))
                facts.update(format_.file_facts.told(piece.value))
                if piece.conversation_id is not None:
                    conversation_ids.setdefault(piece.part, piece.conversation_id)
        # Conversations stand in the order of their first pieces.
        conversations: dict[str, list[tuple[int, int]]] = {}
        for part, places in ranges.items():
            conversations.setdefault(conversation_ids.get(part, part), []).extend(places)
        with target.open("wb") as out:
            for name, places in conversations.items():
                texts = [_bytes_at(file, *place) for place in places]
                is_stray = name.startswith(_STRAY)
                out.writelines(texts if is_stray else _joined(texts, format_, facts))


def _joined(texts: list[bytes], format_: PieceFormat, facts: Collection[str]) -> Iterator[bytes]:
    split = format_.split_conversation
    if split is None and not facts:
        yield b"[" + b",".join(texts) + b"]\n"
        return
    values = format_.file_facts.marked([strict_json(text) for text in texts], facts)
    for conversation in split(values) if split else [values]:
        yield _json_bytes(conversation) + b"\n"


def _values(path: Path, document_bytes: int) -> Iterator[tuple[Any, bytes | None]]:
    """The values of a document as `(value, None)`, or the unparsed lines as `(None, line)`."""
    if _is_document(path):
        if (size := path.stat().st_size) > document_bytes:
            raise DataError(
                "too_large",
                f"a document of {size} bytes; [transcripts] max_document_mb allows fewer",
            )
        whole = strict_json(path.read_bytes())
        yield from ((item, None) for item in (whole if isinstance(whole, list) else [whole]))
        return
    with path.open("rb") as stream:
        for line in stream:  # unparsed: a broken line must stay what it is
            if body := line.removeprefix(BOM).strip():
                yield None, body


def _is_document(path: Path) -> bool:
    """Whether a file is one JSON document: its first line begins a list or ends within a value."""
    with path.open("rb") as stream:
        first = next((line for line in stream if line.strip()), b"").removeprefix(BOM).strip()
    return first.startswith(b"[") or first[-1:] in (b"{", b"[", b",", b":")


def _bytes_at(file: IO[bytes], offset: int, size: int) -> bytes:
    file.seek(offset)
    return file.read(size)


def _json_bytes(value: Any) -> bytes:
    # Neither spaces nor line ends: each value is one line, and no list ends with `LIST_MARK`.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
