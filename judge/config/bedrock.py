"""[runner.bedrock]: where and how batches of Amazon Bedrock run."""

from __future__ import annotations

import re
from typing import Final

from pydantic import Field, field_validator

from assizes.judge.config import ConfigTable

MOST_RECORDS = 50_000
"""The most records of a job, by the default quota."""

MOST_URI_CHARS: Final = 900
"""The most characters of a URI; the names of a part's objects are added, and 1,024 are allowed."""

MOST_ARN_CHARS: Final = 2048
"""The most characters of an ARN that Amazon Bedrock accepts."""

_URI: Final = re.compile(r"s3://[a-z0-9][-.a-z0-9]{1,61}[a-z0-9](/[-!_*'().a-zA-Z0-9]+)*/?")
_ROLE: Final = re.compile(r"arn:aws(-[a-z-]+)?:iam::[0-9]{12}:role/[\w+=,.@/-]+", re.ASCII)


class BedrockConfig(ConfigTable):
    """[runner.bedrock]: the bucket, the role and the limits of batches of Amazon Bedrock."""

    uri: str | None = Field(
        default=None,
        description="Where requests are put and replies are left for a batch of Amazon Bedrock, as "
        "`s3://bucket/prefix`. The objects hold texts of transcripts; they are deleted once the "
        "replies are stored. Needed for batches of `bedrock/` models.",
    )
    role_arn: str | None = Field(
        default=None,
        description="The ARN of the service role with which Amazon Bedrock reads and writes there. "
        "Needed for batches of `bedrock/` models.",
    )
    timeout_hours: int = Field(
        default=24,
        ge=24,
        le=168,
        description="The hours after which Amazon Bedrock gives up a batch. What it has not answered "
        "by then is asked live.",
    )
    min_records: int = Field(
        default=100,
        ge=1,
        le=MOST_RECORDS,
        description="The fewest asks of a batch: the quota of your account for the model. Fewer are "
        "asked live, at full price.",
    )

    @field_validator("uri")
    @classmethod
    def _is_bucket(cls, value: str | None) -> str | None:
        if value is not None and not (len(value) <= MOST_URI_CHARS and _URI.fullmatch(value)):
            raise ValueError(
                "accepted: s3://bucket/prefix, of letters, digits and -!_*'(). in at most "
                f"{MOST_URI_CHARS} characters"
            )
        return value

    @field_validator("role_arn")
    @classmethod
    def _is_role(cls, value: str | None) -> str | None:
        if value is not None and not (len(value) <= MOST_ARN_CHARS and _ROLE.fullmatch(value)):
            raise ValueError("accepted: the ARN of a role, arn:aws:iam::123456789012:role/name")
        return value
