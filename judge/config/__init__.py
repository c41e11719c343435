"""The settings of a run, one module for a few tables of the configuration file."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class ConfigTable(BaseModel):
    """One table: frozen, and neither unknown keys nor NaN or infinities are accepted."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
