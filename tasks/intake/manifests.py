"""Transcript objects that a list names, in place of those that lie somewhere."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final

from assizes.judge.config.run import TranscriptsConfig
from assizes.judge.errors import ConfigurationError, DataError
from assizes.judge.formats.shared.parsing import strict_json
from assizes.tasks.intake.days import NothingDue, day_sources
from assizes.tasks.sources.links import LINK
from assizes.tasks.sources.objects import Spool, refresh_source
from assizes.tasks.sources.pinned import BOM, TranscriptSource

_ACCEPTED: Final = "one URI a line, or a JSON list of them"
_SCHEMES: Final = ("s3", "file")


def transcript_sources(
    config: TranscriptsConfig, day: dt.date | None, spool: Spool
) -> list[TranscriptSource]:
    """The objects of a run: those at the configured place, or those that the manifests there name.

    An object that a manifest names and that is not there is passed on by its name: who reads it
    learns that it is gone.

    Raises:
        ConfigurationError: the place cannot be reached, or a manifest is none.
        NothingDue: there is no transcript.
    """
    sources = day_sources(config, day)
    if not config.manifest:
        return sources
    roots = config.manifest_roots
    names = sorted({name for manifest in sources for name in _names(manifest, spool, roots)})
    if not names:
        raise NothingDue(f"no transcripts: the manifest {sources[0].uri!r} names no object")
    return [
        refresh_if_present(TranscriptSource(name, "", 0), config.storage_options) for name in names
    ]


def refresh_if_present(
    source: TranscriptSource, storage_options: Mapping[str, Any]
) -> TranscriptSource:
    """An object as it is now; one that is gone as it was.

    Raises:
        ConfigurationError: the bucket cannot be reached.
    """
    try:
        return source if source.etag == LINK else refresh_source(source, storage_options)
    except DataError:
        return source


def _names(manifest: TranscriptSource, spool: Spool, more: Sequence[str]) -> Iterator[str]:
    """The URIs a manifest holds, those without a root taken from its own folder.

    Whoever writes it chooses among the transcripts, not among the files of this machine.
    """
    where = f"[transcripts] manifest {manifest.uri!r}"
    folder = manifest.uri.rpartition("/")[0]
    roots = [_root_of(manifest.uri), *(_local_root(extra_root) for extra_root in more)]
    for name in _absolute_names(manifest, spool, where, folder):
        if not any(_is_below(name, root) for root in roots):
            raise ConfigurationError(
                f"{where}: {name!r} lies elsewhere; accepted: what is below "
                f"{', '.join(map(repr, roots))}, or below [transcripts] manifest_roots"
            )
        yield name


def _root_of(uri: str) -> str:
    """The folder of a manifest; on S3 its bucket."""
    scheme, parted, rest = uri.rpartition("://")
    return (
        f"s3://{rest.partition('/')[0]}" if parted and scheme == "s3" else rest.rpartition("/")[0]
    )


def _local_root(root: str) -> str:
    return root.removeprefix("file://").rstrip("/") or "/"


def _is_below(name: str, root: str) -> bool:
    """Whether an object lies below a place, links and steps upwards followed."""
    if name.startswith("s3://") or root.startswith("s3://"):
        steps = name.removeprefix("s3://").split("/")
        return name.startswith(f"{root}/") and not {"", ".", ".."} & set(steps)
    real = Path(os.path.realpath(name))  # also of a name that is too long to be one
    return real.is_relative_to(Path(root).resolve())


def _absolute_names(
    manifest: TranscriptSource, spool: Spool, where: str, folder: str
) -> Iterator[str]:
    for number, name in enumerate(_entries(manifest, spool, where), 1):
        if not isinstance(name, str) or not name.strip() or "\0" in name:
            raise ConfigurationError(f"{where}: entry {number} is no text; wanted {_ACCEPTED}")
        scheme, parted, rest = name.strip().rpartition("://")
        if parted and scheme not in _SCHEMES:
            known_schemes = [f"{known_scheme}://" for known_scheme in _SCHEMES]
            raise ConfigurationError.unknown("scheme", f"{scheme}://", known_schemes, where)
        if scheme == "s3":
            yield f"s3://{rest}"
        elif parted or rest.startswith("/") or not folder:
            yield PurePosixPath(rest).as_posix()
        else:
            yield f"{folder}/{PurePosixPath(rest).as_posix()}"


def _entries(manifest: TranscriptSource, spool: Spool, where: str) -> list[Any]:
    try:
        path = spool.path(manifest)
    except DataError as error:
        raise ConfigurationError(f"{where}: {error.detail}") from None
    if (size := path.stat().st_size) > spool.bounds.document_bytes:
        raise ConfigurationError(
            f"{where}: {size} bytes; [transcripts] max_document_mb allows fewer"
        )
    try:
        text = path.read_bytes().removeprefix(BOM).decode().strip()
        if not text.startswith(("[", "{")):
            return [line for line in text.split("\n") if line.strip()]
        entries = strict_json(text.encode())
    except (UnicodeDecodeError, DataError) as error:
        raise ConfigurationError(f"{where}: {error}; wanted {_ACCEPTED}, in UTF-8") from None
    if not isinstance(entries, list):
        raise ConfigurationError(f"{where} is a JSON object; wanted {_ACCEPTED}")
    return entries
