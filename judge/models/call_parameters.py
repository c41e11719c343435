"""What a call sends beside its messages, and what it does without once a model turns it away."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, Literal

from assizes.judge.models.provider_errors import parameter_not_taken

ResponseMode = Literal["json_schema", "json_object", "words"]
"""How a reply's shape is asked for: by its schema, as any JSON object, or in words alone."""

_LESS_STRICT: Final[Mapping[ResponseMode, ResponseMode]] = {
    "json_schema": "json_object",
    "json_object": "words",
    "words": "words",
}

_SIGNS: Final = {
    "temperature": re.compile(r"\btemperature\b", re.IGNORECASE),
    "response_format": re.compile(r"response[_ ]format|json[_ ](schema|object)", re.IGNORECASE),
    "max_tokens": re.compile(r"\bmax_tokens\b"),
}
"""Parameters that a call can do without, and what a provider calls them that does not take them."""


class Parameters:
    """The parameters of one model's calls.

    One that the model does not take is left out of all later calls: the temperature altogether,
    the cap under its old name, the response format in favour of a less strict one.
    """

    def __init__(self, mode: ResponseMode, cap: int, temperature: float | None) -> None:
        self.mode = mode
        self.dropped: tuple[str, ...] = ()
        self._cap = cap
        self._cap_name = "max_tokens"
        self._temperature = temperature

    @property
    def flags(self) -> tuple[str, ...]:
        """What a completion of a call made now is to be marked with."""
        return tuple(f"dropped:{name}" for name in self.dropped)

    def of(self, json_schema_format: str, cap: int) -> dict[str, Any]:
        """The parameters of a call.

        Args:
            json_schema_format: the strictest response format, as JSON.
            cap: times the usual number of tokens that the answer may take.
        """
        parameters: dict[str, Any] = {self._cap_name: self.max_output_tokens(cap)}
        if self._temperature is not None:
            parameters["temperature"] = self._temperature
        if self.mode == "json_schema":
            # Loaded anew each time: litellm rewrites the object for some providers.
            parameters["response_format"] = json.loads(json_schema_format)
        elif self.mode == "json_object":
            parameters["response_format"] = {"type": "json_object"}
        return parameters

    def max_output_tokens(self, cap: int) -> int:
        """The most tokens that an answer may take."""
        return self._cap * cap

    def drop_rejected(self, error: Exception, sent: Mapping[str, Any]) -> str | None:
        """The parameter of those `sent` that a failure is about, left out from now on; else null."""
        signs = {name: sign for name, sign in _SIGNS.items() if name in sent}
        name = parameter_not_taken(error, signs)
        if name is None:
            return None
        if name == "temperature":
            self._temperature = None
        elif name == "max_tokens":
            self._cap_name = "max_completion_tokens"
        elif sent[name]["type"] == self.mode:  # else another call has seen to it
            self.mode = _LESS_STRICT[self.mode]
        if name not in self.dropped:
            self.dropped += (name,)
        return name
