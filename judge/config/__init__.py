"""The settings of a run, one module for a few tables of the configuration file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

STORED: Final[Mapping[str, Any]] = {"stored": True}
"""The context in which settings of the store are validated: a run that an older version began with
settings that are refused today can still be read."""


class ConfigTable(BaseModel):
    """One table: frozen, and neither unknown keys nor NaN or infinities are accepted."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
