"""A conversation built message by message, and the parts of messages that all providers share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final, Literal

from pydantic import BaseModel

from assizes.judge.case import Case, ToolCall, ToolSpec, Turn, Usage
from assizes.judge.errors import DataError
from assizes.judge.formats.shared import parsing
from assizes.judge.formats.shared.checked_parts import (
    declared_tool,
    message_turn,
    named_call,
    result_turn,
)
from assizes.judge.formats.shared.json_shapes import (
    as_text,
    first_present,
    name_of,
    numbered_objects,
    string,
    tokens,
)

# Type of a part -> the field with its text, or the word by which a mark names it.
_TEXTS: Final = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}
_THOUGHTS: Final = {"thinking": "thinking", "reasoning": "reasoning"}
_MEDIA: Final = {
    **dict.fromkeys(("image", "image_url", "input_image"), "image"),
    **dict.fromkeys(("audio", "input_audio"), "audio"),
    **dict.fromkeys(("file", "document", "input_file", "uri", "blob"), "file"),
    "video": "video",
}
CACHED_TOKENS: Final = ("cache_read_input_tokens", "cache_creation_input_tokens")
"""Tokens of the input that a provider read from its prompt cache, or wrote to it."""

# Read backwards: a search for the end of the text from its front takes quadratic time.
_MARKERS_BACKWARDS: Final = re.compile(r"(?:\s*###[A-Z0-9_-]*[A-Z]###)+")


class ConversationBuilder:
    """Collects the turns of a conversation while its record is read."""

    def __init__(self, tally: parsing.FidelityCounter | None = None) -> None:
        self.tally = tally or parsing.FidelityCounter()  # of parts for which a case has no place
        self.systems: list[str] = []  # texts of the system prompts, in order
        self.turns: list[Turn] = []
        self._reasoning: dict[str, str] = {}  # index of a turn, as text for JSON -> its thinking

    def add_system(self, text: str | None) -> None:
        """Add a system prompt; a prompt that comes after the first turn is counted as moved."""
        if text:
            if self.turns:  # a case has one system prompt, in front of all turns
                self.tally.count("moved", "system message")
            self.systems.append(text)

    def system_text(self) -> str | None:
        """Return the system prompts as one text with empty lines between them; None without any."""
        return "\n\n".join(self.systems) or None

    def add_turn(self, turn: Turn, thoughts: Sequence[str] = ()) -> None:
        """Add the next turn; the thinking of its model is kept for the metadata."""
        if thoughts:
            self._reasoning[str(len(self.turns))] = "\n".join(thoughts)
            self.tally.count("aside", parsing.REASONING, len(thoughts))
        self.turns.append(turn)

    def add_message(
        self,
        role: Any,
        content: Any,
        calls: Iterable[ToolCall] = (),
        thoughts: Iterable[str] = (),
        **figures: Any,  # further fields of the turn: usage, cost_usd, ...
    ) -> None:
        """Add a message of the user or the agent; an empty text counts as none."""
        all_thoughts = list(thoughts)
        text = self.text_of(content, all_thoughts) or None
        if not figures and role in ("user", "assistant"):
            self.add_turn(message_turn(role, text, tuple(calls)), all_thoughts)
            return
        # Validated, since `role` comes from a file: an unknown one is a fault of the record.
        fields = {"role": role, "text": text, "tool_calls": tuple(calls), **figures}
        self.add_turn(Turn.model_validate(fields), all_thoughts)

    def add_result(
        self, content: Any, call_id: Any, name: Any = None, *, is_error: bool = False
    ) -> None:
        """Add the result of a tool call, as a turn of its own."""
        text = content if type(content) is str else self.text_of(content) or ""
        self.turns.append(result_turn(text, name_of(call_id), name_of(name), is_error=is_error))

    def text_of(self, content: Any, thoughts: list[str] | None = None) -> str | None:
        """Return the text of a message or a tool result; None when the content is None.

        The content is a text or a list of parts; any other JSON value is shown as JSON. An image,
        audio or file among the parts is replaced by a mark such as `[image]`. The model's thinking
        is appended to `thoughts`; without such a list it is counted as dropped.
        """
        if content is None or isinstance(content, str):
            return content
        if not isinstance(content, list):
            return as_text(content)
        if len(content) == 1 and (text := plain_text(content[0])) is not None:
            return text
        if not all(map(_is_part, content)):
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
                self.tally.count("dropped", parsing.REASONING)
            elif thought:
                thoughts.append(thought)
            return None
        # OpenTelemetry names the medium in `modality`; an unknown part is marked by its type.
        medium = str(part.get("modality") or _MEDIA.get(kind) or f"part.{kind}")
        self.tally.count("marked", medium)
        return f"[{medium}]"

    def metadata(self) -> dict[str, Any]:
        """Return the thinking of the model and the fidelity counts, for the case's metadata."""
        counts = self.tally.metadata()
        return {parsing.REASONING: self._reasoning, **counts} if self._reasoning else counts


def plain_text(part: Any) -> str | None:
    """Return the text of a part of the type `text`; None for any other part."""
    if type(part) is not dict or part.get("type") != "text":
        return None
    text = part.get("text")
    return text if type(text) is str else None


def _is_part(part: Any) -> bool:
    return isinstance(part, str) or (isinstance(part, dict) and isinstance(part.get("type"), str))


class _ChatFunction(BaseModel):
    name: str
    arguments: str | dict[str, Any] | None = None


class _ChatToolCall(BaseModel):
    id: str | None = None
    function: _ChatFunction


class ChatMessage(BaseModel):
    """A message of a chat, as files of evaluations hold it."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | None = None  # None beside tool calls
    tool_calls: list[_ChatToolCall] | None = None
    tool_call_id: str | None = None  # the call that a message of a tool answers
    name: str | None = None  # of the tool that answers

    def calls(self) -> tuple[ToolCall, ...]:
        """Return the tool calls in the terms of a case."""
        return tuple(
            tool_call(call.function.name, call.function.arguments, call.id)
            for call in self.tool_calls or ()
        )


def tool_call(
    name: str, arguments: str | dict[str, Any] | None, call_id: str | None = None
) -> ToolCall:
    """Return a tool call; a text of arguments that is no JSON object is kept in `raw`."""
    if not isinstance(arguments, str):
        if not arguments or _has_text_keys(arguments):
            return named_call(name, arguments or {}, call_id)
        return ToolCall(name=name, arguments=arguments, id=call_id)
    try:
        value = parsing.strict_json(arguments.encode())
    except DataError:
        value = None  # kept in `raw` below, also for JSON that is no object
    if isinstance(value, dict):
        return named_call(name, value, call_id)
    return ToolCall(name=name, id=call_id, raw=arguments)


def _has_text_keys(arguments: dict[Any, Any]) -> bool:
    """Whether all keys are text, as those of JSON are; a cell that Python wrote may have others."""
    return all(type(key) is str for key in arguments)


def call_of(name: Any, arguments: Any, call_id: Any = None, *, path: str = "tool call") -> ToolCall:
    """Return a tool call; arguments that are no object are kept as text, in `raw`.

    Raises:
        DataError: `schema`, for a call without a name.
    """
    if arguments is not None and not isinstance(arguments, str | dict):
        arguments = as_text(arguments)
    return tool_call(string(name, f"{path}.name"), arguments or None, name_of(call_id))


def usage_of(value: Any) -> Usage | None:
    """Return the tokens of a model call, under the names of any provider; None without any."""
    if not value or not isinstance(value, dict):
        return None
    fields: dict[str, Any] = value
    prompt = first_present(fields, ("prompt_tokens", "promptTokens"))
    input_tokens = tokens(prompt)
    if prompt is None:
        input_tokens = tokens(
            first_present(fields, ("input_tokens", "input")),
            # Anthropic and Langfuse count what was read from the cache or written to it beside the
            # input; `prompt_tokens` hold it, also where LiteLLM writes Anthropic's counts as well.
            *map(fields.get, CACHED_TOKENS),
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
    if not declarations:
        return ()
    return tuple(_tool(declaration) for _, declaration in numbered_objects(declarations, "tools"))


def _tool(declaration: dict[str, Any]) -> ToolSpec:
    kind = declaration.get("type")
    # OpenAI: {"type": "function", "function": {...}}; the others declare the tool itself.
    inner_value = declaration.get(kind) if isinstance(kind, str) else None
    inner: dict[str, Any] = inner_value if isinstance(inner_value, dict) else declaration
    schema = inner.get("parameters") or inner.get("input_schema") or inner.get("inputSchema")
    name = string(inner.get("name") or kind, "tools.name")  # a provider's own: type only
    description = as_text(inner.get("description"))
    return declared_tool(name, description, schema if isinstance(schema, dict) else {})


def with_last_answer(
    turns: Sequence[Turn],
    usage: Usage | None,
    *,
    started_at: datetime | None = None,
    latency_ms: float | None = None,
) -> tuple[Turn, ...]:
    """Return the turns, with the known figures of a model call put into the agent's last turn."""
    if usage is None and started_at is None and latency_ms is None:
        return tuple(turns)
    figures = {"usage": usage, "started_at": started_at, "latency_ms": latency_ms}
    known = {name: value for name, value in figures.items() if value is not None}
    return with_last_agent_turn(turns, known)


def with_last_agent_turn(turns: Sequence[Turn], changes: dict[str, Any]) -> tuple[Turn, ...]:
    """Return the turns, with some fields of the agent's last turn changed."""
    for place in range(len(turns) - 1, -1, -1):
        if turns[place].role == "assistant":
            changed = turns[place].model_copy(update=changes)
            return (*turns[:place], changed, *turns[place + 1 :])
    return tuple(turns)


def without_markers(text: str) -> str:
    """Return a text without the markers `###WORD###` at its end, by which simulated users stop."""
    match = _MARKERS_BACKWARDS.match(text[::-1])  # the end of the match is counted from the end
    return text[: len(text) - match.end()].rstrip() if match else text


def without_marker_turn(turns: Sequence[Turn], last_text: str | None) -> tuple[Turn, ...]:
    """Return the turns without a last turn of the user in which only a marker stood.

    The markers have been removed from the turns; `last_text` is the last text with its markers.
    """
    if turns and turns[-1].role == "user" and turns[-1].text == "" and last_text:
        return tuple(turns[:-1])
    return tuple(turns)


def last_usage(case: Case, input_key: str, output_key: str) -> dict[str, int] | None:
    """Return the tokens of the agent's last turn: a record has a place for one usage only."""
    turns = reversed(case.transcript.turns)
    last = next((turn for turn in turns if turn.role == "assistant"), None)
    if last is None or last.usage is None:
        return None
    return {input_key: last.usage.input_tokens, output_key: last.usage.output_tokens}


def own_metadata(case: Case) -> dict[str, Any]:
    """Return the metadata of a case without the keys that readers add."""
    # A record has another place for these, or none.
    added = (parsing.FIDELITY, parsing.REASONING, parsing.HUMAN_LABELS, "stop_reason")
    return {name: value for name, value in case.metadata.items() if name not in added}


def without_empty_fields(**fields: Any) -> dict[str, Any]:
    """Return the fields of a record that hold something; `messages` is always there."""
    return {
        name: value
        for name, value in fields.items()
        if name == "messages" or value not in (None, [], {}, "")
    }
