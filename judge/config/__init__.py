"""The settings of a run, one module for a few tables of the configuration file."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field


class ConfigTable(BaseModel):
    """One table: frozen, and neither unknown keys nor NaN or infinities are accepted."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


StorageOptions = Annotated[
    dict[str, Any],
    Field(
        description="Options of the fsspec file system, such as `endpoint_url`. Secrets belong in the "
        "environment."
    ),
]
