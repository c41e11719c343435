"""[nightly], [after_deployment], [backfill], [notify]: what starts runs, and who is notified."""

from __future__ import annotations

from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, field_validator

from assizes.judge.config.table import ConfigTable

NotificationReason = Literal["finished", "regression", "inconclusive", "failed"]
"""The reasons for a notification; `finished` is sent for every run."""


class NightlyConfig(ConfigTable):
    """[nightly]: a run over the transcripts of the day before, every night."""

    cron: str = Field(
        default="0 4 * * *", description="when, in the time zone below; empty: never by itself"
    )
    time_zone: str = Field(
        default="UTC", description="whose days the date placeholders mean, e.g. Europe/Berlin"
    )
    catch_up: int = Field(
        default=7, ge=0, le=366, description="missed nights that are made good, at most"
    )

    @field_validator("time_zone")
    @classmethod
    def _is_known(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (ZoneInfoNotFoundError, ValueError):
            raise ValueError("no such time zone; write a name such as Europe/Berlin") from None
        return value


class AfterDeploymentConfig(ConfigTable):
    """[after_deployment]: a run over the first transcripts of a new version of the agent."""

    min_transcripts: int = Field(
        default=100, ge=1, description="of the version, before it is judged"
    )
    deadline_minutes: float = Field(
        default=24 * 60.0, gt=0, description="then it is judged by what there is"
    )
    poll_s: float = Field(default=60.0, gt=0, description="pause between two looks")


class BackfillConfig(ConfigTable):
    """[backfill]: one run for each day of a range."""

    in_flight: int = Field(default=1, ge=1, le=64, description="days judged at once")
    order: Literal["oldest", "newest"] = Field(
        default="oldest", description="which day comes first"
    )


class NotifyConfig(ConfigTable):
    """[notify]: the Prefect block that sends notifications, and the reasons to send one."""

    block: str | None = Field(
        default=None,
        description="a saved Prefect notification or webhook block, as type/name: "
        "slack-webhook/oncall, email/team, webhook/pager",
    )
    on: tuple[NotificationReason, ...] = Field(
        default=("regression", "inconclusive", "failed"), min_length=1
    )
    missed_after_hours: float = Field(
        default=26.0, gt=0, description="no nightly run ended for so long: that is told too"
    )
