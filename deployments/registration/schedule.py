"""When nightly runs start, by `[nightly] cron`; Prefect reads the cron expression."""

from __future__ import annotations

from prefect.client.schemas.schedules import CronSchedule
from pydantic import ValidationError

from assizes.judge.config.run import NightlyConfig, RunConfig
from assizes.judge.errors import ConfigurationError
from assizes.tasks.intake.run_sources import check_dated


def nightly_schedule(config: RunConfig) -> CronSchedule | None:
    """The schedule of nightly runs; `None` where `[nightly] cron` is empty.

    Raises:
        ConfigurationError: not a cron expression, or no date placeholder in the transcripts' URI.
    """
    if config.nightly.cron.strip():
        try:
            check_dated(config.transcripts.uri)  # undated, every night would find the same objects
        except ConfigurationError as error:
            raise ConfigurationError(f'{error}; or no schedule: [nightly] cron = ""') from None
    return cron_schedule(config.nightly)


def cron_schedule(nightly: NightlyConfig) -> CronSchedule | None:
    """The schedule by a cron expression; `None` where that is empty.

    Raises:
        ConfigurationError: not a cron expression.
    """
    if not nightly.cron.strip():
        return None
    try:
        return CronSchedule(cron=nightly.cron, timezone=nightly.time_zone)
    except ValidationError:
        raise ConfigurationError(
            f"[nightly] cron: {nightly.cron!r} is no cron expression; write five fields such as "
            '"0 4 * * *", or "" for no schedule'
        ) from None
