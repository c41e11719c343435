"""[privacy]: which data of transcripts are hidden, and whether also from the judge models."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

Kind = Literal["secret", "email", "phone", "card", "iban"]
"""The kinds of data that the built-in rules find."""


class _PrivacyTable(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class OwnRule(_PrivacyTable):
    """[[privacy.rules]]: a regular expression, and the name of the placeholder for its matches."""

    name: str = Field(
        pattern=r"^[A-Z][A-Z0-9_]{0,30}$", description="of the placeholder: ORDER gives [ORDER_1]"
    )
    pattern: str = Field(description="as Python's `re`; a group named `value` is hidden alone")

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, value: str) -> str:
        try:
            compiled_pattern = re.compile(value)
        except re.error as error:
            raise ValueError(f"no regular expression: {error}") from None
        if compiled_pattern.match("") is not None:
            raise ValueError("matches the empty text, so it would match everywhere")
        return value


class PrivacyConfig(_PrivacyTable):
    """[privacy]: secrets are hidden by default; personal data are hidden where configured."""

    redact: tuple[Kind, ...] = Field(
        default=("secret",), description="kinds that the built-in rules find and hide"
    )
    send: Literal["redacted", "raw"] = Field(
        default="redacted",
        description="what models are shown; raw: all but secrets, and only rows are redacted",
    )
    rules: tuple[OwnRule, ...] = Field(default=(), description="own rules, tried before the others")
    presidio: tuple[str, ...] = Field(
        default=(), description="entities of Presidio, e.g. PERSON; needs the extra `presidio`"
    )
    language: str = Field(default="en", description="of the texts, for Presidio")
