"""Days as parts of the transcripts: dates in a URI, ranges of days, and the parts of a backfill."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from assizes.judge.config.run import RunConfig
from assizes.judge.errors import ConfigurationError

_PLACEHOLDER: Final = re.compile(r"\{(\w+)(?::([^{}]*))?\}")
_DATE_PLACEHOLDER: Final = re.compile(r"\{date(?::[^{}]*)?\}")


def expand(uri: str, day: date | None) -> str:
    """The uri with `{date}` (ISO) or `{date:%Y/%m/%d}` (strftime) filled in.

    Raises:
        ConfigurationError: for another placeholder, when there is no date to fill in, or when
            there is a date and no place for it.
    """

    def date_text(match: re.Match[str]) -> str:
        if match[1] != "date":
            raise ConfigurationError.unknown(
                "placeholder", match[0], ["{date}", "{date:%Y/%m/%d}"], f"[transcripts] uri {uri!r}"
            )
        if day is None:
            raise ConfigurationError(
                f"[transcripts] uri {uri!r} holds {match[0]}, and this run was given no date"
            )
        return day.strftime(match[2] or "%Y-%m-%d")

    expanded, places = _PLACEHOLDER.subn(date_text, uri)
    if day is not None and not places:
        raise ConfigurationError(
            f"[transcripts] uri {uri!r} has no place for the date {day}; put {{date}} or "
            "{date:%Y/%m/%d} into it, or leave the date out"
        )
    return expanded


def check_dated(uri: str) -> None:
    """Check that a URI has a place for the date of a day.

    Raises:
        ConfigurationError: the URI has no such place.
    """
    if not _DATE_PLACEHOLDER.search(uri):
        raise ConfigurationError(
            f"[transcripts] uri {uri!r} has no place for a day; put {{date}} or {{date:%Y/%m/%d}} "
            "into it"
        )


def before_date(uri: str) -> str:
    """The part of a URI before the place for a date; the whole URI where there is no such place."""
    return _DATE_PLACEHOLDER.split(uri)[0]


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
    if len({len(name) for name in names}) > 1:
        return "*"
    return "".join(map(_char_pattern, zip(*names, strict=True)))


def _char_pattern(chars: Sequence[str]) -> str:
    """A glob pattern that matches all of several characters."""
    choices = sorted(set(chars))
    return choices[0] if len(choices) == 1 else "[" + "".join(choices) + "]"


def day_of_moment(moment: datetime, time_zone: str) -> date:
    """The calendar day of a moment in a time zone."""
    return moment.astimezone(ZoneInfo(time_zone)).date()


def yesterday(moment: datetime, time_zone: str) -> date:
    """The last calendar day that ended before a moment, in a time zone."""
    return day_of_moment(moment, time_zone) - timedelta(days=1)


def days_between(since: date, until: date) -> list[date]:
    """Both days and all days between them, oldest first.

    Raises:
        ConfigurationError: the range ends before it begins.
    """
    if until < since:
        raise ConfigurationError(f"the range of days ends {until}, before it begins {since}")
    return [since + timedelta(days=number) for number in range((until - since).days + 1)]


@dataclass(frozen=True, slots=True)
class RunPart:
    """What one run of a backfill judges: the transcripts of a day, or of a place.

    Attributes:
        day: the day that fills the placeholders of the configured URI; `None` for a place.
        uri: the place; `None`: the configured URI.
    """

    day: date | None = None
    uri: str | None = None

    @property
    def label(self) -> str:
        """The day or the place as a text for people."""
        return self.day.isoformat() if self.day else str(self.uri)

    def config(self, config: RunConfig) -> RunConfig:
        """The configuration of the run of this part."""
        if self.uri is None:
            return config
        transcripts = config.transcripts.model_copy(update={"uri": self.uri})
        return RunConfig.model_validate({**dict(config), "transcripts": transcripts})


def backfill_parts(
    config: RunConfig, since: date | None, until: date | None, uris: Sequence[str] | None
) -> list[RunPart]:
    """The parts of a backfill, in the order in which they are judged.

    Raises:
        ConfigurationError: neither days nor places were given, or both; or the range is empty, or
            the transcripts' URI has no place for a day.
    """
    if uris:
        if since or until:
            raise ConfigurationError("backfill: give days or places, not both")
        return [RunPart(uri=uri) for uri in dict.fromkeys(uris)]
    if since is None:
        raise ConfigurationError(
            "backfill: give the first day of a range (--from; since) or places (--uri; uris)"
        )
    check_dated(config.transcripts.uri)
    last = until or yesterday(datetime.now(UTC), config.nightly.time_zone)
    days = days_between(since, last)
    return [RunPart(day) for day in (days if config.backfill.order == "oldest" else reversed(days))]
