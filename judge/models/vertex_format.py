"""The lines of batches of Vertex AI: bodies as litellm writes them, and the key of each ask.

Lines of Gemini models have no name of their own. The key of an ask is in the labels of its request,
which Vertex AI repeats beside the reply. Lines of Claude models have a `custom_id`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from assizes.judge.errors import ConfigurationError
from assizes.judge.models.provider_format import (
    CallArguments,
    LiteLLMParts,
    ProviderFormat,
    anthropic_format,
    gemini_format,
)

PartsOf = Callable[[str, str], LiteLLMParts]
"""What litellm has for a provider and a model."""

LABELS: Final = ("assizes-ask-1", "assizes-ask-2")
"""The labels that hold a key: a value has at most 63 characters, a key has 64."""

_LABEL_CHARS: Final = 32
_ID: Final = re.compile(r"[A-Za-z0-9@._-]{1,128}")
_CLAUDE_VERSION: Final = "vertex-2023-10-16"  # of Anthropic's protocol at Vertex AI


@dataclass(frozen=True, slots=True)
class VertexFormat:
    """How the lines of a model's batches are written and read."""

    name: str  # of the model: `gemini-2.5-flash`
    publisher: str  # of the model: `google` or `anthropic`
    bodies: ProviderFormat

    @property
    def resource(self) -> str:
        """The resource of the model, as a job names it."""
        return f"publishers/{self.publisher}/models/{self.name}"

    def line(self, key: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the line of an ask with this key."""
        if self.publisher == "anthropic":
            return {"custom_id": key, "request": body}
        labels = dict(zip(LABELS, (key[:_LABEL_CHARS], key[_LABEL_CHARS:]), strict=True))
        return {"request": {**body, "labels": labels}}

    def key(self, line: Mapping[str, Any]) -> str | None:
        """Return the key of the ask of a line of results; None for a line that has none."""
        if self.publisher == "anthropic":
            key = line.get("custom_id")
            return key if isinstance(key, str) else None
        request = line.get("request")
        labels = request.get("labels") if isinstance(request, dict) else None
        parts = [labels.get(name) for name in LABELS] if isinstance(labels, dict) else []
        texts = [part for part in parts if isinstance(part, str)]
        return "".join(texts) if len(texts) == len(LABELS) else None


def vertex_format(model: CallArguments, parts_of: PartsOf) -> VertexFormat:
    """The format of a model's batches.

    Raises:
        ConfigurationError: batches of Vertex AI cannot ask the model.
    """
    name = model.name.removeprefix(f"{model.provider}/")
    is_claude = name.startswith("claude")
    if not _ID.fullmatch(name) or not (is_claude or name.startswith("gemini")):
        raise ConfigurationError(
            f"[runner] batch: no batches of Vertex AI for {model.name!r}: accepted is "
            "vertex_ai/gemini-... or vertex_ai/claude-...; or run with --no-batch"
        )
    parts = parts_of(model.provider, name)
    if is_claude:
        return VertexFormat(name, "anthropic", _claude(model, parts))
    return VertexFormat(name, "google", gemini_format(model, parts))


def _claude(model: CallArguments, parts: LiteLLMParts) -> ProviderFormat:
    bodies = anthropic_format(model, parts)
    write = bodies.write

    def write_with_version(name: str, messages: Any, sent: Any, headers: Any) -> dict[str, Any]:
        versioned = {**sent, "anthropic_version": _CLAUDE_VERSION, "is_vertex_request": True}
        return write(name, messages, versioned, headers)

    bodies.write = write_with_version
    return bodies
