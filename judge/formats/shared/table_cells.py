"""Cells of tables: who speaks, what was said, and a whole conversation in one cell.

A cell of a CSV file is text; one of a Parquet file may be a number, a list or a struct as well.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from assizes.judge.config.columns import ColumnRole, plain_word
from assizes.judge.errors import DataError
from assizes.judge.formats.shared.json_shapes import as_text, decode_if_json, first_present, name_of

_WORDS: Final[dict[ColumnRole, str]] = {
    "user": "user human customer client caller end_user visitor guest consumer requester",
    "assistant": "assistant agent bot ai model chatbot llm gpt assistant_agent virtual_agent "
    "virtual_assistant ai_assistant ai_agent support support_agent operator representative rep advisor",
    "system": "system developer system_prompt",
    "tool": "tool function tool_result tool_response function_result observation",
}
ROLE_WORDS: Final[dict[str, ColumnRole]] = {
    word: role for role, words in _WORDS.items() for word in words.split()
}
"""What tables call the speakers, as `plain_word` writes it."""

_SPEAKER_FIELDS: Final = ("role", "speaker", "sender", "from", "author", "type")
_TEXT_FIELDS: Final = ("content", "text", "message", "value", "utterance", "body")
_LISTED: Final = ("messages", "turns", "conversation", "conversations")
# `User: hello`, `[Agent] hello`, `**Bot:** hello`
_SPEAKER_LINE: Final = re.compile(
    r"\s*(?:\[(?P<boxed>[^\]\n]{1,30})\]:?|\**(?P<plain>[A-Za-z][\w -]{0,29}?)\**\s*:\**)\s*(?P<text>.*)"
)
_MAX_SHOWN: Final = 40  # characters of a cell, in the reason of a reject


def role_of(cell: Any, more: Mapping[str, ColumnRole]) -> ColumnRole:
    """Who speaks, by the word of a cell; `more` are further words.

    Raises:
        DataError: `schema`, for a word that nobody knows.
    """
    word = plain_word(as_text(cell))
    role = more.get(word) or ROLE_WORDS.get(word)
    if role is None:
        raise DataError(
            "schema",
            f"role: {as_text(cell)[:_MAX_SHOWN]!r} is not known; say who that is in "
            f'[transcripts.columns] roles = {{ {_key(word)} = "user" }} (or assistant, system, tool, '
            "ignore)",
        )
    return role


def _key(word: str) -> str:
    return word if re.fullmatch(r"\w{1,40}", word, re.ASCII) else f'"{word[:_MAX_SHOWN]}"'


def messages_of_cell(cell: Any, more: Mapping[str, ColumnRole]) -> list[dict[str, Any]]:
    """The messages of a conversation that stands in one cell, in the shape of chat completions.

    The cell is a list of messages, an object that holds such a list, either also as JSON, or text
    whose lines begin with the speaker.

    Raises:
        DataError: `schema`, for a cell that is none of these.
    """
    value = decode_if_json(cell)
    if isinstance(value, dict):
        value = first_present(value, _LISTED)
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        return [_message(item, more) for item in value]
    if isinstance(value, str):
        return _spoken_messages(value, more)
    raise DataError(
        "schema",
        f"conversation: found {type(value).__name__}, expected a JSON list of messages with a role "
        "and a content, or text whose lines begin with the speaker, as in `User: hello`",
    )


def _message(item: dict[str, Any], more: Mapping[str, ColumnRole]) -> dict[str, Any]:
    """A message under the names of chat completions; what is there already stays as it is."""
    speaker = next((name for name in _SPEAKER_FIELDS if item.get(name) is not None), None)
    if speaker is None:
        raise DataError("schema", f"conversation: a message without {' or '.join(_SPEAKER_FIELDS)}")
    text = next((name for name in _TEXT_FIELDS if item.get(name) is not None), None)
    rest = {name: value for name, value in item.items() if name not in (speaker, text)}
    content = item[text] if text is not None else None
    return {**rest, "role": role_of(item[speaker], more), "content": content}


def _spoken_messages(text: str, more: Mapping[str, ColumnRole]) -> list[dict[str, Any]]:
    """The messages of a text such as `User: hello`; other lines belong to the message before."""
    messages: list[dict[str, Any]] = []
    for line in text.splitlines():
        match = _SPEAKER_LINE.match(line)
        word = plain_word(match["boxed"] or match["plain"]) if match else ""
        role = more.get(word) or ROLE_WORDS.get(word)
        if match is not None and role is not None:
            messages.append({"role": role, "content": match["text"].rstrip()})
        elif messages:
            messages[-1]["content"] = f"{messages[-1]['content']}\n{line}".strip("\n")
        elif line.strip():
            raise DataError(
                "schema",
                f"conversation: begins with {line.strip()[:_MAX_SHOWN]!r}, expected a JSON list of "
                "messages, or a line that begins with the speaker, as in `User: hello`",
            )
    return messages


def id_of_cell(cell: Any) -> str | None:
    """The id in a cell; 12.0, as tables with gaps write whole numbers, is 12."""
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    return name_of(cell.strip() if isinstance(cell, str) else cell)


def texts_of_cell(cell: Any) -> list[str]:
    """The texts in a cell: those of a JSON list, else each line that is not blank."""
    value = decode_if_json(cell)
    texts = map(as_text, value) if isinstance(value, list) else as_text(value).splitlines()
    return [text.strip() for text in texts if text.strip()]


def passages_of_cell(cell: Any) -> list[dict[str, Any]]:
    """The passages in a cell, each with its content: a JSON list of texts or objects, or a text."""
    value = decode_if_json(cell)
    items = value if isinstance(value, list) else [value]
    return [_passage(item) for item in items]


def _passage(item: Any) -> dict[str, Any]:
    if not isinstance(item, dict):
        return {"content": as_text(item)}
    content = first_present(item, ("content", "page_content", "text", "passage"))
    uri = first_present(item, ("doc_uri", "uri", "source", "url", "id", "title"))
    return {"content": as_text(content), "doc_uri": None if uri is None else as_text(uri)}
