"""[ground_truth]: a file with the expected values of cases, apart from their transcripts."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from assizes.judge.case import Expected

FIELDS: Final = tuple(Expected.model_fields)
"""Names of the expected values that a row can give."""


class GroundTruthConfig(BaseModel):
    """[ground_truth]: a JSONL, CSV or Parquet file with a row for each case."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    uri: str | None = Field(default=None, description="a file, or an s3:// URI of one")
    key: str = Field(default="case_id", min_length=1, description="column of the case id")
    columns: dict[str, str] = Field(
        default_factory=dict,
        description="column of an expected value, by the name that formats.md gives the value; "
        "empty: columns of these names",
    )
    unmatched: Literal["count", "refuse"] = Field(
        default="count", description="what a row is that names no case: counted, or a fault"
    )
    storage_options: dict[str, Any] = Field(
        default_factory=dict, description="for the file system, e.g. endpoint_url; no secrets"
    )

    @field_validator("columns")
    @classmethod
    def _are_expected(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            if name not in FIELDS:
                raise ValueError(f"{name!r} is no expected value; there are {', '.join(FIELDS)}")
        return value
