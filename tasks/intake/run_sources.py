"""Which transcript objects a run reads: those of its day or place, or those that manifests name.

Days are parts of the transcripts: a URI may have a place for a date, and a backfill judges the days
of a range, or several places, one after the other.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path, PurePosixPath
from typing import Any, Final
from zoneinfo import ZoneInfo

from pydantic import ValidationError

from assizes.judge.config.run import RunConfig
from assizes.judge.config.transcripts import TranscriptsConfig
from assizes.judge.errors import ConfigurationError, DataError, Inconclusive
from assizes.judge.formats.shared.parsing import strict_json
from assizes.tasks.intake.plan import NothingDue, ScanPolicy
from assizes.tasks.sources.listing import (
    BOM,
    TranscriptSource,
    list_sources,
    parts_before_pattern,
    refresh_if_present,
)
from assizes.tasks.sources.spool import Spool
from assizes.tasks.sources.trace_copies import trace_sources
from assizes.tasks.trace_stores.address import is_trace_store

_PLACEHOLDER: Final = re.compile(r"\{(\w+)(?::([^{}]*))?\}")  # name, format of strftime
_DATE_PLACEHOLDER: Final = re.compile(r"\{date(?::[^{}]*)?\}")
_DIRECTIVE: Final = re.compile(r"%[-_0^#]?[EO]?[aAbBcCdDeFfgGhHIjklmMpPrRsSTuUVwWxXyYzZ%]")
"""What `strftime` replaces by a part of a date or a time, with the flags of the C library."""
_DIRECTIVES: Final = (
    "%Y, %m, %d, %y, %b, %B, %j, %G, %V, %u and others of strftime, as in {date:%Y/%m/%d}"
)
_ACCEPTED: Final = "one URI a line, or a JSON list of them"


def selected_sources(
    config: TranscriptsConfig, day: date | None, policy: ScanPolicy, spool: Spool
) -> Iterator[TranscriptSource]:
    """The objects of a run, or those of them in which an earlier run left records.

    An object that an earlier run named and that is gone is passed on as it was then.

    Raises:
        ConfigurationError: as `transcript_sources`, or the configuration needs earlier runs and
            there is no selector.
        NothingDue: there is no transcript.
    """
    selector = policy.selector
    if selector is None and config.again is not None:
        raise ConfigurationError(
            "[transcripts] again: needs the store of the earlier run; `assizes retry-rejected RUN "
            "--dry-run` counts what is left of it"
        )
    if selector is None and (config.since_last or config.quiet_minutes is not None):
        raise ConfigurationError(
            "[transcripts] since_last, quiet_minutes: need the earlier runs and the time; judge with "
            "`assizes run`, or plan with `assizes plan`"
        )
    if selector is None or selector.objects is None:
        yield from transcript_sources(config, day, spool, policy.time_zone)
        return
    for source in selector.objects:  # each is refreshed just before it is read
        yield refresh_if_present(source, config.storage_options)


def transcript_sources(
    config: TranscriptsConfig, day: date | None, spool: Spool, time_zone: str = "UTC"
) -> list[TranscriptSource]:
    """The objects at the configured place, or those that the manifests there name.

    The place is that of one day where the URI has a place for a date. Of a trace store, the traces
    that began on the day in a time zone are read into local objects. An object that a manifest
    names and that is not there is passed on by its name; reading it then fails with `vanished`.

    Raises:
        ConfigurationError: the place cannot be reached, or a manifest is malformed.
        TraceStoreError: the trace store cannot be reached, or refuses the keys.
        NothingDue: there is no transcript.
    """
    if is_trace_store(config.uri):
        try:
            return trace_sources(config, None if day is None else day_window(day, time_zone))
        except Inconclusive as error:
            raise NothingDue(str(error)) from None
    uri = expand(config.uri, day)
    # A local folder of a day that is not there yet means a day without transcripts, no fault.
    if day is not None and _is_missing_for_day(config.uri, uri):
        raise NothingDue(f"no transcripts of {day}: {uri!r} is not there")
    try:
        sources = list_sources(uri, config.storage_options)
    except Inconclusive as error:
        raise NothingDue(str(error)) from None
    if not config.manifest:
        return sources
    roots = [root.removeprefix("file://").rstrip("/") or "/" for root in config.manifest_roots]
    names = sorted(
        {name for manifest in sources for name in _manifest_names(manifest, spool, roots)}
    )
    if not names:
        raise NothingDue(f"no transcripts: the manifest {sources[0].uri!r} names no object")
    return [
        refresh_if_present(TranscriptSource(name, "", 0), config.storage_options) for name in names
    ]


def expand(uri: str, day: date | None) -> str:
    """The uri with `{date}` (ISO) or `{date:%Y/%m/%d}` (strftime) filled in.

    Raises:
        ConfigurationError: as `check_placeholders`, when there is no date to fill in, or when there
            is a date and no place for it.
    """

    def date_text(match: re.Match[str]) -> str:
        form = _day_format(match, uri)
        if day is None:
            raise ConfigurationError(
                f"[transcripts] uri {uri!r} holds {match[0]}, and this run was given no day; give one, e.g. --date 2026-11-21"
            )
        return day.strftime(form)

    if is_trace_store(uri):  # is asked for the traces of the day
        return uri
    expanded, places = _PLACEHOLDER.subn(date_text, uri)
    if day is not None and not places:
        raise ConfigurationError(
            f"[transcripts] uri {uri!r} has no place for the date {day}; put {{date}} or "
            "{date:%Y/%m/%d} into it, or leave the date out"
        )
    return expanded


def check_placeholders(uri: str) -> None:
    """Check that a day can be written into every placeholder of a URI.

    Raises:
        ConfigurationError: a placeholder is none of a date, or its format writes no date.
    """
    for match in _PLACEHOLDER.finditer(uri):
        _day_format(match, uri)


def _day_format(match: re.Match[str], uri: str) -> str:
    """The format for `strftime` of a placeholder; raises as `check_placeholders`."""
    where = f"[transcripts] uri {uri!r}"
    if match[1] != "date":
        known = ["{date}", "{date:%Y/%m/%d}"]
        raise ConfigurationError.unknown("placeholder", match[0], known, where)
    form = match[2] or "%Y-%m-%d"
    # The C library writes what it does not know as it is, or refuses it, or writes nothing.
    if unknown := re.search("%.?", _DIRECTIVE.sub("", form)):
        raise ConfigurationError(
            f"{where}: {match[0]} holds {unknown[0]!r}, which is no part of a date; accepted: "
            f"{_DIRECTIVES}"
        )
    if not set(_DIRECTIVE.findall(form)) - {"%%"}:
        raise ConfigurationError(
            f"{where}: {match[0]} holds no part of a date; accepted: {_DIRECTIVES}"
        )
    return form


def check_dated(uri: str) -> None:
    """Check that a URI has a place for the date of a day, or is a trace store.

    Raises:
        ConfigurationError: the URI has no such place, or as `check_placeholders`.
    """
    check_placeholders(uri)
    if not is_trace_store(uri) and not _DATE_PLACEHOLDER.search(uri):
        raise ConfigurationError(
            f"[transcripts] uri {uri!r} has no place for a day; put {{date}} or {{date:%Y/%m/%d}} "
            "into it"
        )


def covering_uri(uri: str, days: Sequence[date]) -> str:
    """One URI for several days: a glob pattern in place of the date, which may match further days.

    A URI without a place for a date stays as it is.
    """

    def date_pattern(match: re.Match[str]) -> str:
        names = [expand(match[0], day).split("/") for day in days]
        return "/".join(map(_step_pattern, zip(*names, strict=True)))

    return _DATE_PLACEHOLDER.sub(date_pattern, uri)


def _step_pattern(names: Sequence[str]) -> str:
    """A glob pattern that matches all of several names of one folder or file."""
    if len(set(map(len, names))) > 1:
        return "*"  # names of unequal length have no pattern by character
    # By position: 01 and 12 give [01][12], which also matches 02 and 11 (docs/decisions.md, 61).
    choices = ("".join(sorted(set(chars))) for chars in zip(*names, strict=True))
    return "".join(chars if len(chars) == 1 else f"[{chars}]" for chars in choices)


def day_of_moment(moment: datetime, time_zone: str) -> date:
    """The calendar day of a moment in a time zone."""
    return moment.astimezone(ZoneInfo(time_zone)).date()


def day_window(day: date, time_zone: str) -> tuple[datetime, datetime]:
    """When a calendar day begins in a time zone, and when the next day does."""
    zone = ZoneInfo(time_zone)
    begin, end = (
        datetime.combine(each, time(), tzinfo=zone).astimezone(UTC)
        for each in (day, day + timedelta(days=1))
    )
    return begin, end


def yesterday(moment: datetime, time_zone: str) -> date:
    """The last calendar day that ended before a moment, in a time zone."""
    return day_of_moment(moment, time_zone) - timedelta(days=1)


def days_between(since: date, until: date) -> list[date]:
    """Both days and all days between them, oldest first.

    Raises:
        ConfigurationError: the range ends before it begins.
    """
    if until < since:
        raise ConfigurationError(
            f"the range of days ends {until}, before it begins {since}; give --from the earlier day"
        )
    return [since + timedelta(days=number) for number in range((until - since).days + 1)]


@dataclass(frozen=True, slots=True)
class RunPart:
    """What one run of a backfill judges: the transcripts of a day, or of a place."""

    day: date | None = None  # fills the placeholders of the configured URI; `None` for a place
    uri: str | None = None  # the place; `None`: the configured URI

    @property
    def label(self) -> str:
        """The day or the place as a text for people."""
        return self.day.isoformat() if self.day else str(self.uri)

    def config(self, config: RunConfig) -> RunConfig:
        """The configuration of the run of this part.

        Raises:
            ConfigurationError: the place cannot be used.
        """
        if self.uri is None:
            return config
        transcripts = config.transcripts.model_copy(update={"uri": self.uri})
        # `model_copy` checks nothing, and the place may hold a secret: a URL with a password.
        try:
            return RunConfig.model_validate({**dict(config), "transcripts": transcripts})
        except ValidationError as error:
            fault = error.errors(include_url=False, include_input=False)[0]
            raise ConfigurationError(fault["msg"].removeprefix("Value error, ")) from None


def backfill_parts(
    config: RunConfig, since: date | None, until: date | None, uris: Sequence[str] | None
) -> list[RunPart]:
    """The parts of a backfill, in the order in which they are judged.

    Raises:
        ConfigurationError: neither days nor places were given, or both; or the range is empty, a
            place cannot be used, or the transcripts' URI has no place for a day.
    """
    if uris:
        if since or until:
            raise ConfigurationError("backfill: give days or places, not both")
        parts = [RunPart(uri=uri) for uri in dict.fromkeys(uris)]  # each place once
        for part in parts:
            part.config(config)  # before any of them is judged
        return parts
    if since is None:
        raise ConfigurationError(
            "backfill: give the first day of a range (--from; since) or places (--uri; uris)"
        )
    check_dated(config.transcripts.uri)
    last = until or yesterday(datetime.now(UTC), config.nightly.time_zone)
    days = days_between(since, last)
    return [RunPart(day) for day in (days if config.backfill.order == "oldest" else reversed(days))]


def _is_missing_for_day(template: str, uri: str) -> bool:
    """Whether a local place is missing, while the folder above the folders of days is there."""
    scheme, _, rest = uri.rpartition("://")
    if scheme not in ("", "file"):
        return False
    # `x` stands for what a placeholder begins: in `logs/day-{date}` the folder above is `logs`.
    before = _DATE_PLACEHOLDER.split(template.rpartition("://")[2])[0]
    above = Path(*parts_before_pattern(Path(f"{before}x").parts[:-1]))
    return above.is_dir() and not Path(*parts_before_pattern(Path(rest).parts)).exists()


def _manifest_names(
    manifest: TranscriptSource, spool: Spool, more_roots: list[str]
) -> Iterator[str]:
    """The URIs in a manifest; a relative name begins at the folder of the manifest."""
    where = f"[transcripts] manifest {manifest.uri!r}"
    scheme, _, rest = manifest.uri.rpartition("://")
    folder = manifest.uri.rpartition("/")[0]
    # Whoever writes a manifest may choose among the transcripts, not among all files of this
    # machine: a name must lie below its folder (S3: bucket) or a root (docs/decisions.md, 95).
    own_root = f"s3://{rest.partition('/')[0]}" if scheme == "s3" else rest.rpartition("/")[0]
    roots = [own_root, *more_roots]
    for number, entry in enumerate(_entries(manifest, spool, where), 1):
        if not isinstance(entry, str) or not entry.strip() or "\0" in entry:
            raise ConfigurationError(f"{where}: entry {number} is no text; wanted {_ACCEPTED}")
        name = _absolute_name(entry.strip(), folder, where)
        if not any(_is_below(name, root) for root in roots):
            raise ConfigurationError(
                f"{where}: {name!r} lies elsewhere; accepted: what is below "
                f"{', '.join(map(repr, roots))}, or below [transcripts] manifest_roots"
            )
        yield name


def _absolute_name(name: str, folder: str, where: str) -> str:
    scheme, parted, rest = name.rpartition("://")
    if parted and scheme not in ("s3", "file"):
        raise ConfigurationError.unknown("scheme", f"{scheme}://", ["s3://", "file://"], where)
    if scheme == "s3":
        return f"s3://{rest}"
    path = PurePosixPath(rest).as_posix()
    return path if parted or rest.startswith("/") or not folder else f"{folder}/{path}"


def _is_below(name: str, root: str) -> bool:
    """Whether an object lies below a place once links and `..` are followed."""
    if name.startswith("s3://") or root.startswith("s3://"):  # keys are texts, nothing resolves
        steps = name.removeprefix("s3://").split("/")
        return name.startswith(f"{root}/") and not {"", ".", ".."} & set(steps)
    real = Path(os.path.realpath(name))  # unlike pathlib, no error for a name that is too long
    return real.is_relative_to(Path(root).resolve())


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
        if not text.startswith(("[", "{")):  # a URI a line
            return [line for line in text.split("\n") if line.strip()]
        entries = strict_json(text.encode())
    except (UnicodeDecodeError, DataError) as error:
        raise ConfigurationError(f"{where}: {error}; wanted {_ACCEPTED}, in UTF-8") from None
    if not isinstance(entries, list):
        raise ConfigurationError(f"{where} is a JSON object; wanted {_ACCEPTED}")
    return entries
