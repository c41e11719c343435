"""A conversation put together message by message, from parts of many kinds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final

from assizes.judge.case import ToolCall, ToolResult, ToolSpec, Turn, Usage
from assizes.judge.formats.shared.fidelity import REASONING, FidelityCounter
from assizes.judge.formats.shared.json_shapes import as_text, mapping, name_of, string, tokens
from assizes.judge.formats.shared.parsing import parse_arguments

_TEXTS: Final = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}
_THOUGHTS: Final = {"thinking": "thinking", "reasoning": "reasoning"}
_MEDIA: Final = {
    **dict.fromkeys(("image", "image_url", "input_image"), "image"),
    **dict.fromkeys(("audio", "input_audio"), "audio"),
    **dict.fromkeys(("file", "document", "input_file", "uri", "blob"), "file"),
    "video": "video",
}


class ConversationBuilder:
    """The turns of a conversation as they are read, with what has no place among them."""

    def __init__(self, tally: FidelityCounter | None = None) -> None:
        self.tally = tally or FidelityCounter()
        self.systems: list[str] = []
        self.turns: list[Turn] = []
        self._reasoning: dict[str, str] = {}

    def add_system(self, text: str | None) -> None:
        """A system prompt; one that stands behind the first turn is moved up to the others."""
        if text:
            if self.turns:
                self.tally.count("moved", "system message")
            self.systems.append(text)

    def add_turn(self, turn: Turn, thought: Sequence[str] = ()) -> None:
        """The next turn, and what its model thought before it spoke."""
        if thought:
            self._reasoning[str(len(self.turns))] = "\n".join(thought)
            self.tally.count("aside", REASONING, len(thought))
        self.turns.append(turn)

    def add_result(
        self, content: Any, call_id: Any, name: Any = None, *, is_error: bool = False
    ) -> None:
        """The answer of a tool, as a turn of its own."""
        answer = ToolResult(
            content=self.text_of(content) or "",
            call_id=name_of(call_id),
            name=name_of(name),
            is_error=is_error,
        )
        self.add_turn(Turn(role="tool", tool_result=answer))

    def text_of(self, content: Any, thought: list[str] | None = None) -> str | None:
        """The text of a message, given as text, null or a list of parts; media become marks.

        Args:
            content: of a message or a tool result; another JSON value is shown as JSON.
            thought: takes the parts that are the model's thinking.
        """
        if content is None or isinstance(content, str):
            return content
        if not isinstance(content, list) or not all(map(_is_part, content)):
            return as_text(content)
        texts = [self._part(part, thought) for part in content]
        return "\n".join(text for text in texts if text is not None)

    def _part(self, part: Any, thought: list[str] | None) -> str | None:
        if isinstance(part, str):
            return part
        kind = str(part.get("type"))
        if kind in _TEXTS:
            return as_text(part.get(_TEXTS[kind], part.get("content")))
        if kind in _THOUGHTS:
            self._think(as_text(part.get(_THOUGHTS[kind], part.get("content"))), thought)
            return None
        medium = str(part.get("modality") or _MEDIA.get(kind) or f"part.{kind}")
        self.tally.count("marked", medium)
        return f"[{medium}]"

    def _think(self, text: str, thought: list[str] | None) -> None:
        if thought is None:
            self.tally.count("dropped", REASONING)
        elif text:
            thought.append(text)

    def metadata(self) -> dict[str, Any]:
        """What belongs into the case's metadata."""
        return {
            **({REASONING: self._reasoning} if self._reasoning else {}),
            **self.tally.metadata(),
        }


def _is_part(part: Any) -> bool:
    return isinstance(part, str) or (isinstance(part, dict) and isinstance(part.get("type"), str))


def call_of(name: Any, arguments: Any, call_id: Any = None, *, path: str = "tool call") -> ToolCall:
    """A tool call; arguments that are no object are kept as text.

    Raises:
        DataError: `schema`, for a call without a name.
    """
    if arguments is not None and not isinstance(arguments, str | dict):
        arguments = as_text(arguments)
    parsed_arguments, raw = parse_arguments(arguments or None)
    return ToolCall(
        name=string(name, f"{path}.name"), arguments=parsed_arguments, id=name_of(call_id), raw=raw
    )


def usage_of(value: Any) -> Usage | None:
    """Tokens, under whichever names they are given; what was read from a cache is input as well."""
    fields = value if isinstance(value, dict) else {}
    input_tokens = tokens(
        _first_present(fields, ("prompt_tokens", "input_tokens", "input", "promptTokens")),
        fields.get("cache_read_input_tokens"),
        fields.get("cache_creation_input_tokens"),
    )
    output_tokens = tokens(
        _first_present(fields, ("completion_tokens", "output_tokens", "output", "completionTokens"))
    )
    return (
        Usage(input_tokens=input_tokens, output_tokens=output_tokens)
        if input_tokens or output_tokens
        else None
    )


def _first_present(fields: dict[str, Any], names: Iterable[str]) -> Any:
    return next((fields[name] for name in names if fields.get(name) is not None), None)


def tools_of(declarations: Iterable[Any]) -> tuple[ToolSpec, ...]:
    """Declared tools, in the shapes of several providers.

    Raises:
        DataError: `schema`, for one without a name.
    """
    return tuple(
        _tool(mapping(declaration, f"tools.{place}"))
        for place, declaration in enumerate(declarations)
    )


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
    """The turns, the last of the agent with what its model call used and took."""
    changes: dict[str, Any] = {
        "usage": usage,
        "started_at": started_at,
        "latency_ms": latency_ms,
    }
    known = {name: value for name, value in changes.items() if value is not None}
    changed_turns = list(turns)
    for place in range(len(changed_turns) - 1, -1, -1):
        if changed_turns[place].role == "assistant":
            changed_turns[place] = changed_turns[place].model_copy(update=known)
            break
    return tuple(changed_turns)
