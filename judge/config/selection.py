"""The settings of [transcripts] that say which of the cases are judged."""

from __future__ import annotations

from typing import Final, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from assizes.judge.config.case_filter import check_filter

LATER_SETTINGS: Final = (
    *("filter", "number", "stratify_by", "per_stratum", "seed", "always"),
    *("since_last", "quiet_minutes", "manifest", "manifest_roots", "databases", "canaries"),
)
"""Settings of [transcripts] that were added after the first version. At their defaults the hash of
the configuration leaves them out, so that runs of older versions keep their hash."""


class SelectionConfig(BaseModel):
    """The part of [transcripts] that says which cases are judged."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    where: dict[str, str] = Field(
        default_factory=dict, description="keep only cases whose tag, agent or agent_version equals"
    )
    filter: str | None = Field(
        default=None,
        description="SQL over a case's facts: `turn_count > 3 AND tags.channel = 'voice'`",
    )
    sample: float = Field(
        default=1.0, gt=0, le=1, description="share of the cases to judge, stable by case id"
    )
    number: int | None = Field(
        default=None,
        ge=1,
        description="of cases to draw, instead of a share; at least as many as there are strata",
    )
    stratify_by: tuple[str, ...] = Field(
        default=(), description="tags, agent or agent_version: the sample is drawn in each apart"
    )
    per_stratum: int | None = Field(
        default=None, ge=1, description="cases to draw from each stratum, instead of a share"
    )
    seed: int = Field(default=0, ge=0, description="another one draws other cases")
    always: tuple[str, ...] = Field(
        default=(), description="case ids that are judged whatever the sample is"
    )
    limit: int | None = Field(default=None, ge=1, description="judge at most so many cases")
    since_last: bool = Field(
        default=False,
        description="leave out what an earlier run of this name in this store has judged",
    )
    quiet_minutes: float | None = Field(
        default=None,
        gt=0,
        le=525_600,
        description="leave conversations that ended later than so long ago to a later run",
    )
    manifest: bool = Field(
        default=False, description="the uri is a list of objects, and those hold the transcripts"
    )
    manifest_roots: tuple[str, ...] = Field(
        default=(), description="folders and s3:// prefixes it may name besides its own"
    )

    @field_validator("filter")
    @classmethod
    def _check_filter(cls, value: str | None) -> str | None:
        if value is not None:
            check_filter(value)
        return value

    @model_validator(mode="after")
    def _check_one_size(self) -> Self:
        sizes = [self.sample < 1, self.number is not None, self.per_stratum is not None]
        if sum(sizes) > 1:
            raise ValueError("sample, number and per_stratum: give one of the three")
        if self.per_stratum is not None and not self.stratify_by:
            raise ValueError("per_stratum: needs stratify_by")
        if self.stratify_by and not sum(sizes):
            raise ValueError("stratify_by: needs sample, number or per_stratum")
        return self

    @property
    def is_sampled(self) -> bool:
        """Whether a sample is drawn, which needs the ids of all cases before any case is chosen."""
        return self.sample < 1 or self.number is not None or self.per_stratum is not None
