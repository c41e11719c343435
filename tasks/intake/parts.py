"""What each of several runs is about: days of a range, or places of a list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

from assizes.judge.config.run import RunConfig
from assizes.judge.errors import ConfigurationError
from assizes.tasks.intake.days import check_dated, days_between, yesterday


@dataclass(frozen=True, slots=True)
class RunPart:
    """What one run of several is about: a day, or a place of its own.

    Attributes:
        on: the day that fills the placeholders of the configured URI; null for another place.
        uri: that place; null: as configured.
    """

    day: date | None = None
    uri: str | None = None

    @property
    def label(self) -> str:
        """What people call it."""
        return self.day.isoformat() if self.day else str(self.uri)

    def config(self, config: RunConfig) -> RunConfig:
        """The configuration of its run."""
        if self.uri is None:
            return config
        transcripts = config.transcripts.model_copy(update={"uri": self.uri})
        return RunConfig.model_validate({**dict(config), "transcripts": transcripts})


def backfill_parts(
    config: RunConfig, since: date | None, until: date | None, uris: Sequence[str] | None
) -> list[RunPart]:
    """What a backfill goes through, in its order.

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
