"""Turns an object into a file of lines: a line for each record or each joined conversation.

Pieces of one conversation are joined on disk in two passes. The first writes the pieces one behind
the other and notes where each stands and to which conversation it belongs; the second copies them
conversation by conversation. Only ids and byte ranges are held in memory.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from assizes.judge.errors import DataError
from assizes.judge.formats import Format
from assizes.judge.formats.shared.containers import PieceFormat
from assizes.judge.formats.shared.parsing import strict_json
from assizes.tasks.sources.archives import archive_to_lines, is_archive
from assizes.tasks.sources.listing import SourceFolder, is_file, link_error
from assizes.tasks.sources.spool import Spool
from assizes.tasks.sources.transcript_source import BOM, TranscriptSource

_MANIFEST_BYTES: Final = 1 << 20

_STRAY: Final = "\0"
"""Begins the key of a record that is no piece; `strict_json` lets no such character into an id."""


class _PieceRange(NamedTuple):
    """The bytes of one piece in the temporary file of all pieces."""

    offset: int
    size: int


def plain_path(spool: Spool, source: TranscriptSource) -> Path:
    """The local file of a source; for an archive the file of its records as lines.

    Raises:
        DataError: as `Spool.path`; `parquet`, `archive` or `bomb` for an archive.
        ConfigurationError: as `Spool.path`.
    """
    path = spool.path(source)
    if not is_archive(path):
        return path
    return spool.derived_path(
        source, "lines", lambda target: archive_to_lines(path, target, spool.bounds)
    )


def lines_path(spool: Spool, source: TranscriptSource, format_: Format) -> Path:
    """The file of lines from which a format reads its records.

    Raises:
        DataError: as `plain_path`; `too_large` for a document of pieces over the bound; `vanished`
            for an object that a manifest names and that is not there.
    """
    if not isinstance(format_, PieceFormat):
        return plain_path(spool, source)
    return joined_lines_path(spool, [source], format_)


def joined_lines_path(
    spool: Spool, sources: Sequence[TranscriptSource], format_: PieceFormat
) -> Path:
    """One file with a line for each conversation, from all pieces that the objects hold or name.

    Raises:
        DataError: as `lines_path`.
    """
    paths = [
        plain_path(spool, named_source)
        for source in sources
        for named_source in _manifest_sources(spool, source, format_) or [source]
    ]
    cap = spool.bounds.document_bytes
    kind = "\n".join(
        [format_.name, *(f"{other_source.uri} {other_source.etag}" for other_source in sources[1:])]
    )
    return spool.derived_path(
        sources[0], kind, lambda target: write_joined_lines(paths, target, format_, cap)
    )


def manifest_digest(spool: Spool, source: TranscriptSource, format_: Format) -> str | None:
    """A digest that pins the objects that a manifest names, 32 hex digits.

    `None` where the object is no manifest. The named objects are pinned when a spool first asks for
    them: a later reader that computes the same digest reads the same bytes.

    Raises:
        DataError: `vanished` for a named object that is not there.
    """
    sources = _manifest_sources(spool, source, format_) if isinstance(format_, PieceFormat) else []
    if not sources:
        return None
    body = json.dumps([[named_source.uri, named_source.etag] for named_source in sources])
    return hashlib.blake2b(body.encode(), digest_size=16).hexdigest()


def check_manifest_digest(
    spool: Spool, source: TranscriptSource, format_: Format, planned: str
) -> None:
    """Check that the objects that a manifest names are those that were planned.

    Args:
        spool: fetches the objects.
        source: the manifest.
        format_: reads the manifest.
        planned: what `manifest_digest` returned during planning.

    Raises:
        DataError: `changed`, or `vanished`.
    """
    if manifest_digest(spool, source, format_) != planned:
        raise DataError("changed", f"{source.uri!r} names objects that are no longer as planned")


def _manifest_sources(
    spool: Spool, source: TranscriptSource, format_: PieceFormat
) -> list[TranscriptSource]:
    """The objects that a manifest names, as they were when the spool was first asked for them."""
    path = plain_path(spool, source)
    if path.stat().st_size > _MANIFEST_BYTES or not (keys := _keys(path, format_)):
        return []
    base = f"{source.uri.rsplit('/', 2)[0]}/" if source.uri.count("/") > 1 else ""
    # A key begins at the bucket of the export, but a copy may lie anywhere: use its last two steps.
    uris = dict.fromkeys(f"{base}{_steps(key)}" for key in keys)
    home = None if "://" in base else SourceFolder(Path(base))
    for uri in uris:
        if home is not None and is_file(uri) and not home.contains(Path(uri)):
            raise link_error(uri)

    def write_listing(target: Path) -> None:
        sources = [spool.current_source(uri) for uri in uris]
        target.write_text(
            json.dumps(
                [
                    [named_source.uri, named_source.etag, named_source.size]
                    for named_source in sources
                ]
            ),
            "utf-8",
        )

    listing = spool.derived_path(source, f"named\n{format_.name}", write_listing)
    return [TranscriptSource(*fields) for fields in json.loads(listing.read_text("utf-8"))]


def _steps(key: str) -> str:
    """The last two steps of a key.

    Raises:
        DataError: `vanished` for a key that no export writes, such as one with `..`.
    """
    steps = key.split("/")[-2:]
    if {"", ".", ".."} & set(steps):
        raise DataError("vanished", f"a manifest names {key!r}, which is no file of an export")
    return "/".join(steps)


def _keys(path: Path, format_: PieceFormat) -> list[str]:
    try:
        return format_.other_objects(strict_json(path.read_bytes()))
    except DataError:
        return []


def write_joined_lines(
    paths: Iterable[Path], target: Path, format_: PieceFormat, document_bytes: int
) -> None:
    """Write one line for each conversation; a record that is no piece stays a line of its own.

    Args:
        paths: documents, or files of lines.
        target: the file to write.
        format_: cuts records into pieces.
        document_bytes: the largest document that is parsed.

    Raises:
        DataError: `too_large`, or the fault of a malformed document.
    """
    parts: dict[str, list[_PieceRange]] = {}
    wholes: dict[str, str] = {}
    values = (entry for path in paths for entry in _values(path, document_bytes))
    with tempfile.TemporaryFile(dir=target.parent) as pieces:
        for number, (value, line) in enumerate(values):
            try:
                new_pieces = list(format_.pieces(value if line is None else strict_json(line)))
            except DataError:
                stray = _json_bytes(value) if line is None else line
                parts[f"{_STRAY}{number}"] = [_append_piece(pieces, stray)]
                continue
            for piece in new_pieces:
                parts.setdefault(piece.part, []).append(
                    _append_piece(pieces, _json_bytes(piece.value))
                )
                if piece.conversation_id is not None:
                    wholes.setdefault(piece.part, piece.conversation_id)
        with target.open("wb") as out:
            out.writelines(_conversations(pieces, _places_by_conversation(parts, wholes), format_))


def _places_by_conversation(
    parts: dict[str, list[_PieceRange]], wholes: dict[str, str]
) -> Iterator[tuple[bool, list[_PieceRange]]]:
    """The pieces of each conversation, conversations in the order of their first pieces.

    Each item is a flag and byte ranges; the flag is `False` for a record that is no piece.
    """
    conversations: dict[str, list[_PieceRange]] = {}
    for part, places in parts.items():
        conversations.setdefault(wholes.get(part, part), []).extend(places)
    for name, places in conversations.items():
        yield not name.startswith(_STRAY), places


def _conversations(
    pieces: IO[bytes], joined: Iterable[tuple[bool, list[_PieceRange]]], format_: PieceFormat
) -> Iterator[bytes]:
    splits = type(format_).split_conversation is not PieceFormat.split_conversation
    for are_pieces, places in joined:
        texts = [_read_piece(pieces, place) for place in places]
        if not are_pieces:
            yield texts[0] + b"\n"
        elif splits:
            for conversation in format_.split_conversation([strict_json(text) for text in texts]):
                yield _json_bytes(conversation) + b"\n"
        else:
            yield b"[" + b",".join(texts) + b"]\n"


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
        for line in stream:
            body = line.removeprefix(BOM).strip()
            if body:
                yield None, body


def _is_document(path: Path) -> bool:
    """Whether a file is one JSON document: its first line begins a list or ends within a value."""
    with path.open("rb") as stream:
        first = next((line for line in stream if line.strip()), b"").removeprefix(BOM).strip()
    if first.startswith(b"["):
        return True
    return first[-1:] in (b"{", b"[", b",", b":")


def _append_piece(pieces: IO[bytes], text: bytes) -> _PieceRange:
    offset = pieces.tell()
    return _PieceRange(offset, pieces.write(text))


def _read_piece(pieces: IO[bytes], place: _PieceRange) -> bytes:
    pieces.seek(place.offset)
    return pieces.read(place.size)


def _json_bytes(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
