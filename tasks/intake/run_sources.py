"""Which transcript objects a run reads: those at its place, or those that manifests there name."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

from assizes.judge.config.transcripts import TranscriptsConfig
from assizes.judge.errors import ConfigurationError, DataError, Inconclusive
from assizes.judge.formats.shared.parsing import strict_json
from assizes.tasks.intake.days import before_date, expand
from assizes.tasks.intake.plan import NothingDue
from assizes.tasks.intake.selection import RecordSelector
from assizes.tasks.sources.listing import LINK, list_sources, refresh_source
from assizes.tasks.sources.spool import Spool
from assizes.tasks.sources.transcript_source import BOM, TranscriptSource, parts_before_pattern

_ACCEPTED: Final = "one URI a line, or a JSON list of them"
_SCHEMES: Final = ("s3", "file")


def selected_sources(
    config: TranscriptsConfig, day: dt.date | None, selector: RecordSelector | None, spool: Spool
) -> Iterator[TranscriptSource]:
    """The objects of a run, or those of them in which an earlier run left records.

    An object that an earlier run named and that is gone is passed on as it was then.

    Raises:
        ConfigurationError: as `transcript_sources`, or the configuration needs earlier runs and
            there is no selector.
        NothingDue: there is no transcript.
    """
    if selector is None and config.again is not None:
        raise ConfigurationError(
            "[transcripts] again: needs the store of the earlier run; `assizes requeue RUN --dry-run` "
            "counts what is left of it"
        )
    if selector is None and (config.since_last or config.quiet_minutes is not None):
        raise ConfigurationError(
            "[transcripts] since_last, quiet_minutes: need the earlier runs and the time; judge with "
            "`assizes run`, or plan with `assizes plan`"
        )
    if selector is None or selector.objects is None:
        yield from transcript_sources(config, day, spool)
        return
    for source in selector.objects:  # each is refreshed just before it is read
        yield _refresh_if_present(source, config.storage_options)


def transcript_sources(
    config: TranscriptsConfig, day: dt.date | None, spool: Spool
) -> list[TranscriptSource]:
    """The objects at the configured place, or those that the manifests there name.

    An object that a manifest names and that is not there is passed on by its name; reading it then
    fails with `vanished`.

    Raises:
        ConfigurationError: the place cannot be reached, or a manifest is malformed.
        NothingDue: there is no transcript.
    """
    sources = _sources_of_day(config, day)
    if not config.manifest:
        return sources
    roots = [root.removeprefix("file://").rstrip("/") or "/" for root in config.manifest_roots]
    names = sorted(
        {name for manifest in sources for name in _manifest_names(manifest, spool, roots)}
    )
    if not names:
        raise NothingDue(f"no transcripts: the manifest {sources[0].uri!r} names no object")
    return [
        _refresh_if_present(TranscriptSource(name, "", 0), config.storage_options) for name in names
    ]


def _sources_of_day(config: TranscriptsConfig, day: dt.date | None) -> list[TranscriptSource]:
    """The objects at the configured place, of one day where the URI has a place for a date.

    A local folder of a day that is not there yet means a day without transcripts.

    Raises:
        ConfigurationError: a place that does not depend on the day is not there or cannot be read.
        NothingDue: there is no transcript.
    """
    uri = expand(config.uri, day)
    if day is not None and _is_missing_for_day(config.uri, uri):
        raise NothingDue(f"no transcripts of {day}: {uri!r} is not there")
    try:
        return list_sources(uri, config.storage_options)
    except Inconclusive as error:
        raise NothingDue(str(error)) from None


def _is_missing_for_day(template: str, uri: str) -> bool:
    """Whether a local place is missing, while the folder above the folders of days is there."""
    scheme, _, rest = uri.rpartition("://")
    if scheme not in ("", "file"):
        return False
    before = before_date(template.rpartition("://")[2])
    above = Path(*parts_before_pattern(Path(f"{before}x").parts[:-1]))
    return above.is_dir() and not Path(*parts_before_pattern(Path(rest).parts)).exists()


def _refresh_if_present(
    source: TranscriptSource, storage_options: Mapping[str, Any]
) -> TranscriptSource:
    """An object as it is now; an object that is gone as it was.

    Raises:
        ConfigurationError: the bucket cannot be reached.
    """
    try:
        return source if source.etag == LINK else refresh_source(source, storage_options)
    except DataError:
        return source


def _manifest_names(
    manifest: TranscriptSource, spool: Spool, more_roots: list[str]
) -> Iterator[str]:
    """The URIs in a manifest; a relative name begins at the folder of the manifest.

    The author of a manifest may choose among the transcripts, not among all files of this machine:
    a name must lie below the manifest's own folder (on S3: its bucket) or a configured root.
    """
    where = f"[transcripts] manifest {manifest.uri!r}"
    scheme, parted, rest = manifest.uri.rpartition("://")
    own_root = (
        f"s3://{rest.partition('/')[0]}" if parted and scheme == "s3" else rest.rpartition("/")[0]
    )
    roots = [own_root, *more_roots]
    for name in _absolute_names(manifest, spool, where):
        if not any(_is_below(name, root) for root in roots):
            raise ConfigurationError(
                f"{where}: {name!r} lies elsewhere; accepted: what is below "
                f"{', '.join(map(repr, roots))}, or below [transcripts] manifest_roots"
            )
        yield name


def _is_below(name: str, root: str) -> bool:
    """Whether an object lies below a place once links and `..` are followed."""
    if name.startswith("s3://") or root.startswith("s3://"):
        steps = name.removeprefix("s3://").split("/")
        return name.startswith(f"{root}/") and not {"", ".", ".."} & set(steps)
    real = Path(os.path.realpath(name))  # unlike pathlib, no error for a name that is too long
    return real.is_relative_to(Path(root).resolve())


def _absolute_names(manifest: TranscriptSource, spool: Spool, where: str) -> Iterator[str]:
    folder = manifest.uri.rpartition("/")[0]
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
