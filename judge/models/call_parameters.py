"""The parameters of a model call beside its messages, without those that the model rejects."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, Literal

from assizes.judge.models.provider_errors import rejected_parameter

ResponseMode = Literal["json_schema", "json_object", "words"]
"""How a call asks for the shape of a reply: by its schema, as any JSON object, or in words alone."""

_LESS_STRICT: Final[Mapping[ResponseMode, ResponseMode]] = {
    "json_schema": "json_object",
    "json_object": "words",
    "words": "words",
}

_REJECTION_SIGNS: Final = {
    "temperature": re.compile(r"\btemperature\b", re.IGNORECASE),
    "response_format": re.compile(r"response[_ ]format|json[_ ](schema|object)", re.IGNORECASE),
    "max_tokens": re.compile(r"\bmax_tokens\b"),
}
"""Parameters that a call can do without, and their names in the errors of providers."""


class Parameters:
    """The parameters of one model's calls.

    A parameter that the model rejects is changed in all later calls: the temperature is left out,
    `max_tokens` becomes `max_completion_tokens`, and the response format becomes less strict.

    Args:
        mode: how the shape of replies is asked for at first.
        cap: the usual limit of an answer's tokens.
        temperature: None leaves the parameter out.
    """

    def __init__(self, mode: ResponseMode, cap: int, temperature: float | None) -> None:
        self.mode = mode
        self.dropped: tuple[str, ...] = ()
        self._cap = cap
        self._cap_name = "max_tokens"
        self._temperature = temperature

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags for completions of calls with the present parameters."""
        return tuple(f"dropped:{name}" for name in self.dropped)

    def of(self, json_schema_format: str, cap: int) -> dict[str, Any]:
        """Return the parameters of a call.

        Args:
            json_schema_format: the strictest response format, as JSON text.
            cap: a factor on the usual limit of the answer's tokens.
        """
        parameters: dict[str, Any] = {self._cap_name: self.max_output_tokens(cap)}
        if self._temperature is not None:
            parameters["temperature"] = self._temperature
        if self.mode == "json_schema":
            # Parsed anew for each call: litellm changes the object for some providers.
            parameters["response_format"] = json.loads(json_schema_format)
        elif self.mode == "json_object":
            parameters["response_format"] = {"type": "json_object"}
        return parameters

    def max_output_tokens(self, cap: int) -> int:
        """Return the limit of an answer's tokens, `cap` times the usual one."""
        return self._cap * cap

    def drop_rejected(self, error: Exception, sent: Mapping[str, Any]) -> str | None:
        """Change the parameter that the provider rejected, for all later calls.

        Args:
            error: the failure of a call.
            sent: what the call sent.

        Returns:
            The name of the parameter; None when the failure is not about one.
        """
        signs = {name: sign for name, sign in _REJECTION_SIGNS.items() if name in sent}
        name = rejected_parameter(error, signs)
        if name is None:
            return None
        if name == "temperature":
            self._temperature = None
        elif name == "max_tokens":
            self._cap_name = "max_completion_tokens"
        elif sent[name]["type"] == self.mode:  # else a parallel call has changed the mode already
            self.mode = _LESS_STRICT[self.mode]
        if name not in self.dropped:
            self.dropped += (name,)
        return name
