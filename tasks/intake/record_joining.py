"""Pieces of conversations brought together on disk: of each conversation one line.

Two passes: the pieces are written one behind the other while it is noted where each stands and what
it belongs to; then they are copied conversation by conversation. In memory are names and places.
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
from assizes.judge.formats.shared.containers import Gathered
from assizes.judge.formats.shared.parsing import strict_json
from assizes.tasks.sources.archives import is_archive, spread
from assizes.tasks.sources.links import Home, is_file, leads_out
from assizes.tasks.sources.objects import Spool
from assizes.tasks.sources.pinned import BOM, Source

_MANIFEST_BYTES: Final = 1 << 20

_STRAY: Final = "\0"
"""Begins the name of what is no piece; JSON that is taken in holds no such character in an id."""


class _Place(NamedTuple):
    offset: int
    size: int


def plain_path(spool: Spool, source: Source) -> Path:
    """The local file of a source; of an archive its records as lines.

    Raises:
        DataError: as `Spool.path`, or what is wrong with the archive.
        ConfigurationError: as `Spool.path`.
    """
    path = spool.path(source)
    if not is_archive(path):
        return path
    return spool.made(source, "lines", lambda target: spread(path, target, spool.bounds))


def lines_path(spool: Spool, source: Source, format_: Format) -> Path:
    """The file of lines in which a format finds its records.

    Raises:
        DataError: as `plain_path`; `too_large` for pieces in a document that is; `vanished` for an
            object that a manifest names and that is not there.
    """
    if not isinstance(format_, Gathered):
        return plain_path(spool, source)
    return gathered_together(spool, [source], format_)


def gathered_together(spool: Spool, sources: Sequence[Source], format_: Gathered) -> Path:
    """One file of lines, one a conversation, from all that the objects hold or name.

    Raises:
        DataError: as `lines_path`.
    """
    paths = [
        plain_path(spool, one)
        for source in sources
        for one in _named(spool, source, format_) or [source]
    ]
    cap = spool.bounds.document_bytes
    kind = "\n".join([format_.name, *(f"{one.uri} {one.etag}" for one in sources[1:])])
    return spool.made(sources[0], kind, lambda target: gather(paths, target, format_, cap))


def named_by(spool: Spool, source: Source, format_: Format) -> str | None:
    """What pins the objects that a manifest names, 32 hex digits; null for one that names none.

    They are pinned when a spool first asks for them: whoever finds the same digest reads the same
    bytes.

    Raises:
        DataError: `vanished` for one that is not there.
    """
    found = _named(spool, source, format_) if isinstance(format_, Gathered) else []
    if not found:
        return None
    body = json.dumps([[one.uri, one.etag] for one in found])
    return hashlib.blake2b(body.encode(), digest_size=16).hexdigest()


def check_named(spool: Spool, source: Source, format_: Format, planned: str) -> None:
    """See that the objects a manifest names are those that were planned.

    Raises:
        DataError: `changed`, or `vanished`.
    """
    if named_by(spool, source, format_) != planned:
        raise DataError("changed", f"{source.uri!r} names objects that are no longer as planned")


def _named(spool: Spool, source: Source, format_: Gathered) -> list[Source]:
    """The objects that a manifest names, as they were when the spool was first asked for them."""
    path = plain_path(spool, source)
    if path.stat().st_size > _MANIFEST_BYTES or not (keys := _keys(path, format_)):
        return []
    base = f"{source.uri.rsplit('/', 2)[0]}/" if source.uri.count("/") > 1 else ""
    # A key counts from the bucket, wherever a copy of the export lies: its last two steps are sure.
    wanted = dict.fromkeys(f"{base}{_steps(key)}" for key in keys)
    home = None if "://" in base else Home(Path(base))
    for uri in wanted:
        if home is not None and is_file(uri) and not home.holds(Path(uri)):
            raise leads_out(uri)

    def listed(target: Path) -> None:
        found = [spool.listed(uri) for uri in wanted]
        target.write_text(json.dumps([[one.uri, one.etag, one.size] for one in found]), "utf-8")

    kept = spool.made(source, f"named\n{format_.name}", listed)
    return [Source(*one) for one in json.loads(kept.read_text("utf-8"))]


def _steps(key: str) -> str:
    """The last two steps of a key.

    Raises:
        DataError: `vanished`: no export names its files so.
    """
    steps = key.split("/")[-2:]
    if {"", ".", ".."} & set(steps):
        raise DataError("vanished", f"a manifest names {key!r}, which is no file of an export")
    return "/".join(steps)


def _keys(path: Path, format_: Gathered) -> list[str]:
    try:
        return format_.others(strict_json(path.read_bytes()))
    except DataError:
        return []


def gather(paths: Iterable[Path], target: Path, format_: Gathered, document_bytes: int) -> None:
    """Write one line a conversation; what is no piece of one stays a line of its own.

    Raises:
        DataError: `too_large`, or what is wrong with a document.
    """
    parts: dict[str, list[_Place]] = {}
    wholes: dict[str, str] = {}
    values = (one for path in paths for one in _values(path, document_bytes))
    with tempfile.TemporaryFile(dir=target.parent) as pieces:
        for number, (value, line) in enumerate(values):
            try:
                found = list(format_.pieces(value if line is None else strict_json(line)))
            except DataError:
                stray = _dumped(value) if line is None else line
                parts[f"{_STRAY}{number}"] = [_put(pieces, stray)]
                continue
            for piece in found:
                parts.setdefault(piece.part, []).append(_put(pieces, _dumped(piece.value)))
                if piece.whole is not None:
                    wholes.setdefault(piece.part, piece.whole)
        with target.open("wb") as out:
            out.writelines(_conversations(pieces, _joined(parts, wholes), format_))


def _joined(
    parts: dict[str, list[_Place]], wholes: dict[str, str]
) -> Iterator[tuple[bool, list[_Place]]]:
    """Whether they are pieces, and where, of each conversation in the order they begin."""
    found: dict[str, list[_Place]] = {}
    for part, places in parts.items():
        found.setdefault(wholes.get(part, part), []).extend(places)
    for name, places in found.items():
        yield not name.startswith(_STRAY), places


def _conversations(
    pieces: IO[bytes], joined: Iterable[tuple[bool, list[_Place]]], format_: Gathered
) -> Iterator[bytes]:
    splits = type(format_).apart is not Gathered.apart
    for are_pieces, places in joined:
        texts = [_get(pieces, place) for place in places]
        if not are_pieces:
            yield texts[0] + b"\n"
        elif splits:
            for one in format_.apart([strict_json(text) for text in texts]):
                yield _dumped(one) + b"\n"
        else:
            yield b"[" + b",".join(texts) + b"]\n"


def _values(path: Path, document_bytes: int) -> Iterator[tuple[Any, bytes | None]]:
    """Values of a document, or lines that have not been parsed."""
    if _is_document(path):
        if (size := path.stat().st_size) > document_bytes:
            raise DataError(
                "too_large",
                f"a document of {size} bytes; [transcripts] max_document_mb allows fewer",
            )
        whole = strict_json(path.read_bytes())
        yield from ((one, None) for one in (whole if isinstance(whole, list) else [whole]))
        return
    with path.open("rb") as stream:
        for line in stream:
            body = line.removeprefix(BOM).strip()
            if body:
                yield None, body


def _is_document(path: Path) -> bool:
    """Whether a file begins with a list, or with a line that is no value by itself."""
    with path.open("rb") as stream:
        first = next((line for line in stream if line.strip()), b"").removeprefix(BOM).strip()
    if first.startswith(b"["):
        return True
    return first[-1:] in (b"{", b"[", b",", b":")


def _put(pieces: IO[bytes], text: bytes) -> _Place:
    offset = pieces.tell()
    return _Place(offset, pieces.write(text))


def _get(pieces: IO[bytes], place: _Place) -> bytes:
    pieces.seek(place.offset)
    return pieces.read(place.size)


def _dumped(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
