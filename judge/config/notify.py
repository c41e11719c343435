"""Who is told of the runs that nobody waits for, and of what."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from assizes.judge.config import ConfigTable

NotificationReason = Literal["finished", "regression", "inconclusive", "failed"]
"""The reasons for a notification; `finished` is sent for every run."""


class NotifyConfig(ConfigTable):
    """[notify]: the Prefect block that sends notifications, and the reasons to send one."""

    block: str | None = Field(
        default=None,
        description="A saved Prefect block that sends the notification, as `type/name`: "
        "`slack-webhook/oncall`, `email/team`, `webhook/pager`.",
    )
    on: tuple[NotificationReason, ...] = Field(
        default=("regression", "inconclusive", "failed"),
        min_length=1,
        description="The reasons to send a notification.",
    )
    missed_after_hours: float = Field(
        default=26.0,
        gt=0,
        description="A notification is sent when no nightly run has ended for so many hours.",
    )
    base_url: str | None = Field(
        default=None,
        pattern="^https?://[^\\s?#]+$",
        description="The address of the pages of `assizes serve` as those who are told reach it, such "
        "as `https://assizes.example.org`. Notifications then name the page of the run there.",
    )
