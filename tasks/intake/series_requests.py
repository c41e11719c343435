"""Checks what a series of runs is asked to judge before any of them begins: its days, or a version."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Final

from assizes.judge.errors import ConfigurationError
from assizes.tasks.intake.run_sources import day_of_moment, yesterday

MAX_DAYS: Final = 1_100
"""The most days of a backfill, three years; each is a run, also where it has no transcripts."""


def check_has_begun(day: date, time_zone: str) -> None:
    """Check that a day has begun in a time zone: a run about a later day would be the latest one.

    Raises:
        ConfigurationError: the day lies in the future.
    """
    today = day_of_moment(datetime.now(UTC), time_zone)
    if day > today:
        raise ConfigurationError(
            f"{day} lies in the future, so there is nothing to judge; accepted are days up to {today} "
            f"(today in {time_zone}, [nightly] time_zone)"
        )


def check_range(since: date | None, until: date | None, time_zone: str) -> None:
    """Check that the days of a backfill have begun and are not too many; without a first day, nothing.

    Raises:
        ConfigurationError: the last day lies in the future, or there are over `MAX_DAYS` days.
    """
    if since is None:  # places, or a mistake that is noticed elsewhere
        return
    last = until or yesterday(datetime.now(UTC), time_zone)
    check_has_begun(last, time_zone)
    if (days := (last - since).days + 1) > MAX_DAYS:
        raise ConfigurationError(
            f"the range from {since} to {last} has {days:,} days; accepted are up to {MAX_DAYS:,}: "
            "give --from a later day, or judge the range in parts"
        )


def check_version(version: str, agent: str | None) -> None:
    """Check that a version and, if given, an agent are named, e.g. by no unset variable.

    Raises:
        ConfigurationError: one of them is empty.
    """
    if not version.strip():
        raise ConfigurationError(
            "--version '': an empty version is none; give the agent_version of the transcripts, e.g. "
            "--version 2026.11"
        )
    if agent is not None and not agent.strip():
        raise ConfigurationError(
            "--agent '': an empty name is none; give the agent of the transcripts, or leave the "
            "option out"
        )
