"""[runner.bedrock]: where and how batches of Amazon Bedrock run."""

from __future__ import annotations

from pydantic import Field

from assizes.judge.config import ConfigTable

MOST_RECORDS = 50_000
"""The most records of a job, by the default quota."""


class BedrockConfig(ConfigTable):
    """[runner.bedrock]: the bucket, the role and the limits of batches of Amazon Bedrock."""

    uri: str | None = Field(
        default=None,
        pattern=r"^s3://[a-z0-9][-.a-z0-9]{1,61}[a-z0-9](/[-!_*'().a-zA-Z0-9]+)*/?$",
        max_length=800,
        description="Where requests are put and replies are left for a batch of Amazon Bedrock, as "
        "`s3://bucket/prefix`. The objects hold texts of transcripts; they are deleted once the "
        "replies are stored. Needed for batches of `bedrock/` models.",
    )
    role_arn: str | None = Field(
        default=None,
        pattern=r"^arn:aws(-[^:]+)?:iam::([0-9]{12})?:role/.+$",
        max_length=2048,
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
