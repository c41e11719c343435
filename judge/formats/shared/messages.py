"""A conversation built message by message, and the parts of messages that all providers share."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from assizes.judge.case import ToolCall, ToolResult, ToolSpec, Turn, Usage
from assizes.judge.formats.shared.fidelity import REASONING, FidelityCounter
from assizes.judge.formats.shared.json_shapes import (
    as_text,
    first_present,
    name_of,
    numbered_objects,
    string,
    tokens,
)
from assizes.judge.formats.shared.parsing import tool_call

_TEXTS: Final = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}
_THOUGHTS: Final = {"thinking": "thinking", "reasoning": "reasoning"}
_MEDIA: Final = {
    **dict.fromkeys(("image", "image_url", "input_image"), "image"),
    **dict.fromkeys(("audio", "input_audio"), "audio"),
    **dict.fromkeys(("file", "document", "input_file", "uri", "blob"), "file"),
    "video": "video",
}


class ConversationBuilder:
    """Collects the turns of a conversation while its record is read.

    Attributes:
        tally: counts of the parts for which a case has no place.
        systems: texts of the system prompts, in order.
        turns: the turns so far.
    """

    def __init__(self, tally: FidelityCounter | None = None) -> None:
        self.tally = tally or FidelityCounter()
        self.systems: list[str] = []
        self.turns: list[Turn] = []
        self._reasoning: dict[str, str] = {}

    def add_system(self, text: str | None) -> None:
        """Add a system prompt; a prompt that comes after the first turn is counted as moved."""
        if text:
            if self.turns:
                self.tally.count("moved", "system message")
            self.systems.append(text)

    def system_text(self) -> str | None:
        """Return the system prompts as one text with empty lines between them; None without any."""
        return "\n\n".join(self.systems) or None

    def add_turn(self, turn: Turn, thoughts: Sequence[str] = ()) -> None:
        """Add the next turn; the thinking of its model is kept for the metadata."""
        if thoughts:
            self._reasoning[str(len(self.turns))] = "\n".join(thoughts)
            self.tally.count("aside", REASONING, len(thoughts))
        self.turns.append(turn)

    def add_result(
        self, content: Any, call_id: Any, name: Any = None, *, is_error: bool = False
    ) -> None:
        """Add the result of a tool call, as a turn of its own."""
        answer = ToolResult(
            content=self.text_of(content) or "",
            call_id=name_of(call_id),
            name=name_of(name),
            is_error=is_error,
        )
        self.add_turn(Turn(role="tool", tool_result=answer))

    def text_of(self, content: Any, thoughts: list[str] | None = None) -> str | None:
        """Return the text of a message or a tool result; None when the content is None.

        Args:
            content: a text, None or a list of parts; any other JSON value is shown as JSON. An
                image, audio or file among the parts is replaced by a mark such as `[image]`.
            thoughts: a list to which the parts with the model's thinking are appended; without a
                list, these parts are counted as dropped.
        """
        if content is None or isinstance(content, str):
            return content
        if not isinstance(content, list) or not all(map(_is_part, content)):
            return as_text(content)
        texts = [self._part_text(part, thoughts) for part in content]
        return "\n".join(text for text in texts if text is not None)

    def _part_text(self, part: Any, thoughts: list[str] | None) -> str | None:
        if isinstance(part, str):
            return part
        kind = str(part.get("type"))
        if kind in _TEXTS:
            return as_text(part.get(_TEXTS[kind], part.get("content")))
        if kind in _THOUGHTS:
            thought = as_text(part.get(_THOUGHTS[kind], part.get("content")))
            if thoughts is None:
                self.tally.count("dropped", REASONING)
            elif thought:
                thoughts.append(thought)
            return None
        medium = str(part.get("modality") or _MEDIA.get(kind) or f"part.{kind}")
        self.tally.count("marked", medium)
        return f"[{medium}]"

    def metadata(self) -> dict[str, Any]:
        """Return the thinking of the model and the fidelity counts, for the case's metadata."""
        return {
            **({REASONING: self._reasoning} if self._reasoning else {}),
            **self.tally.metadata(),
        }


def _is_part(part: Any) -> bool:
    return isinstance(part, str) or (isinstance(part, dict) and isinstance(part.get("type"), str))


def call_of(name: Any, arguments: Any, call_id: Any = None, *, path: str = "tool call") -> ToolCall:
    """Return a tool call; arguments that are no object are kept as text, in `raw`.

    Raises:
        DataError: `schema`, for a call without a name.
    """
    if arguments is not None and not isinstance(arguments, str | dict):
        arguments = as_text(arguments)
    return tool_call(string(name, f"{path}.name"), arguments or None, name_of(call_id))


def usage_of(value: Any) -> Usage | None:
    """Return the tokens of a model call, under the names of any provider; None without any.

    Tokens that the provider read from its cache or wrote to it count as input.
    """
    fields = value if isinstance(value, dict) else {}
    input_tokens = tokens(
        first_present(fields, ("prompt_tokens", "input_tokens", "input", "promptTokens")),
        fields.get("cache_read_input_tokens"),
        fields.get("cache_creation_input_tokens"),
    )
    output_tokens = tokens(
        first_present(fields, ("completion_tokens", "output_tokens", "output", "completionTokens"))
    )
    if not input_tokens and not output_tokens:
        return None
    return Usage(input_tokens=input_tokens, output_tokens=output_tokens)


def tools_of(declarations: list[Any]) -> tuple[ToolSpec, ...]:
    """Return the declared tools, in the shape of OpenAI, Anthropic or MCP.

    Raises:
        DataError: `schema`, for a tool without a name.
    """
    return tuple(_tool(declaration) for _, declaration in numbered_objects(declarations, "tools"))


def _tool(declaration: dict[str, Any]) -> ToolSpec:
    kind = declaration.get("type")
    inner_value = declaration.get(kind) if isinstance(kind, str) else None
    inner: dict[str, Any] = inner_value if isinstance(inner_value, dict) else declaration
    schema = inner.get("parameters") or inner.get("input_schema") or inner.get("inputSchema")
    return ToolSpec(
        name=string(inner.get("name") or kind, "tools.name"),
        description=as_text(inner.get("description")),
        parameters=schema if isinstance(schema, dict) else {},
    )


def with_last_answer(
    turns: Sequence[Turn],
    usage: Usage | None,
    *,
    started_at: datetime | None = None,
    latency_ms: float | None = None,
) -> tuple[Turn, ...]:
    """Return the turns, with figures of a model call put into the agent's last turn.

    Args:
        turns: the turns of a conversation, or those that one call added.
        usage: tokens of the call; None, as for the other figures: not known.
        started_at: when the call began.
        latency_ms: how long the call took.
    """
    figures = {"usage": usage, "started_at": started_at, "latency_ms": latency_ms}
    return with_last_agent_turn(
        turns, {name: value for name, value in figures.items() if value is not None}
    )


def with_last_agent_turn(turns: Sequence[Turn], changes: dict[str, Any]) -> tuple[Turn, ...]:
    """Return the turns, with some fields of the agent's last turn changed."""
    for place in range(len(turns) - 1, -1, -1):
        if turns[place].role == "assistant":
            changed = turns[place].model_copy(update=changes)
            return (*turns[:place], changed, *turns[place + 1 :])
    return tuple(turns)
