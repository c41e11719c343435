"""Days as parts of the transcripts: whose day it is, where it lies, and one with nothing in it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from assizes.judge.config.run import TranscriptsConfig
from assizes.judge.errors import ConfigurationError, Inconclusive
from assizes.tasks.sources.objects import expand, list_sources
from assizes.tasks.sources.pinned import TranscriptSource, parts_before_pattern

if TYPE_CHECKING:
    from assizes.tasks.intake.shards import Plan

_PLACEHOLDER: Final = re.compile(r"\{date(?::[^{}]*)?\}")


class NothingDue(Inconclusive):
    """There is nothing to judge: no object, or none with a record that is wanted.

    Args:
        message: one line that says where and why.
        plan: what was found all the same, records that cannot be read; null: no object.
    """

    def __init__(self, message: str, plan: Plan | None = None) -> None:
        """Keep what was found: it is still to be quarantined."""
        super().__init__(message)
        self.plan = plan


def day_of_moment(moment: datetime, time_zone: str) -> date:
    """The calendar day of a moment where the clocks show that zone's time."""
    return moment.astimezone(ZoneInfo(time_zone)).date()


def yesterday(moment: datetime, time_zone: str) -> date:
    """The last whole day; days on which the clocks change are days as any other."""
    return day_of_moment(moment, time_zone) - timedelta(days=1)


def days_between(since: date, until: date) -> list[date]:
    """Both ends and the days between them, oldest first.

    Raises:
        ConfigurationError: the range ends before it begins.
    """
    if until < since:
        raise ConfigurationError(f"the range of days ends {until}, before it begins {since}")
    return [since + timedelta(days=number) for number in range((until - since).days + 1)]


def check_dated(uri: str) -> None:
    """See that a URI has a place for the date of a day.

    Raises:
        ConfigurationError: when it has none.
    """
    if not _PLACEHOLDER.search(uri):
        raise ConfigurationError(
            f"[transcripts] uri {uri!r} has no place for a day; put {{date}} or {{date:%Y/%m/%d}} "
            "into it"
        )


def covering_uri(uri: str, days: Sequence[date]) -> str:
    """One URI for several days: a pattern where the date stands, which may take in further days.

    A URI without a place for a date stays as it is.
    """

    def date_pattern(match: re.Match[str]) -> str:
        names = [expand(match[0], day).split("/") for day in days]
        return "/".join(map(_step_pattern, zip(*names, strict=True)))

    return _PLACEHOLDER.sub(date_pattern, uri)


def day_sources(config: TranscriptsConfig, day: date | None) -> list[TranscriptSource]:
    """The objects of a run, those of one day where the URI has a place for it.

    A local folder that is not there yet, for a day, is a day without transcripts.

    Raises:
        ConfigurationError: what does not depend on the day is not there, or cannot be read.
        NothingDue: there is no transcript.
    """
    uri = expand(config.uri, day)
    if day is not None and _is_missing(config.uri, uri):
        raise NothingDue(f"no transcripts of {day}: {uri!r} is not there")
    try:
        return list_sources(uri, config.storage_options)
    except Inconclusive as error:
        raise NothingDue(str(error)) from None


def _step_pattern(names: Sequence[str]) -> str:
    """A pattern for one step of a path."""
    if len({len(name) for name in names}) > 1:
        return "*"
    return "".join(map(_char_pattern, zip(*names, strict=True)))


def _char_pattern(chars: Sequence[str]) -> str:
    """A pattern for one place in a name."""
    choices = sorted(set(chars))
    return choices[0] if len(choices) == 1 else "[" + "".join(choices) + "]"


def _is_missing(template: str, uri: str) -> bool:
    """Whether a local place is missing only for its day: the folder above the days is there."""
    scheme, _, rest = uri.rpartition("://")
    if scheme not in ("", "file"):
        return False
    before = _PLACEHOLDER.split(template.rpartition("://")[2])[0]
    above = Path(*parts_before_pattern(Path(f"{before}x").parts[:-1]))
    return above.is_dir() and not Path(*parts_before_pattern(Path(rest).parts)).exists()
