"""From the rows of a table to records of conversations.

A table has one row for each message or one row for each conversation. A mapping names the columns;
without a mapping, columns are recognised by common names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from assizes.judge.errors import ConfigurationError, DataError
from assizes.judge.formats import detect_format
from assizes.judge.formats.shared.json_shapes import CONVERSATION_IDS

Row = Mapping[str, Any]

MESSAGE_KEYS: Final = ("role", "text", "turn", "tool_calls", "tool_call_id", "name")
"""Keys of a mapping that name columns of single messages."""

_EVALUATION_KEYS: Final = (
    *("request", "response", "retrieved_context"),
    *("expected_response", "expected_facts", "expected_retrieved_context"),
)
"""Keys of a mapping that are fields of the format `agent_evaluation`."""

_OTHER_KEYS: Final = ("agent", "agent_version", "created_at", "tools", "metadata")
"""Keys of a mapping that are fields of the format `openai_chat`."""

KEYS: Final = ("id", "conversation", *MESSAGE_KEYS, *_EVALUATION_KEYS, *_OTHER_KEYS)
"""The keys that a column mapping takes."""

_COMMON_NAMES: Final[Mapping[str, Sequence[str]]] = {
    "id": (*CONVERSATION_IDS, "case_id", "request_id", "chat_id", "dialogue_id", "ticket_id"),
    "conversation": ("messages", "conversation", "transcript", "dialogue", "chat", "history"),
    "role": ("role", "speaker", "author", "sender"),
    "text": ("text", "content", "message", "utterance", "body"),
    "turn": ("turn", "turn_index", "turn_id", "position", "seq", "timestamp", "created_at"),
    "request": ("request", "question", "query", "prompt", "input"),
    "response": ("response", "answer", "output", "completion", "reply"),
    "expected_response": ("expected_response", "expected", "reference", "ground_truth"),
}
"""Names by which columns are recognised, the surest first."""

_ROLES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("user", "human", "customer", "client", "caller"), "user"),
    **dict.fromkeys(("assistant", "agent", "bot", "ai", "model", "chatbot"), "assistant"),
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("tool", "function"), "tool"),
}
_SPOKEN_LINE: Final = re.compile(rf"^\s*({'|'.join(_ROLES)})\s*:\s*", re.IGNORECASE | re.MULTILINE)


def conversation_records(
    rows: Sequence[Row], columns: Mapping[str, str] | None
) -> list[dict[str, Any]]:
    """The conversations in the rows of a table, as records of a format that is read.

    `columns` names a column for each of some `KEYS`. Rows without a mapping whose columns are not
    recognised are taken as records themselves.

    Raises:
        ConfigurationError: the mapping does not fit the table, or the columns are not recognised.
    """
    names = list(dict.fromkeys(name for row in rows[:1] for name in row))
    if columns is None:
        columns = _recognised_columns(rows[0], names)
        if "role" not in columns and _is_record(rows[0]):
            return [_named_record(row, columns.get("id")) for row in rows]
        _check_recognised(columns, names)
    _check_columns(columns, names)
    if "role" in columns:
        return [_joined_record(group, columns) for group in _conversations(rows, columns)]
    return [_row_record(row, columns) for row in rows]


def _recognised_columns(row: Row, names: Sequence[str]) -> dict[str, str]:
    """A mapping for columns of common names, as far as they are there."""
    by_name = {name.lower(): name for name in reversed(names)}
    known = {
        key: next((by_name[name] for name in common if name in by_name), None)
        for key, common in _COMMON_NAMES.items()
    }
    columns = {key: name for key, name in known.items() if name is not None}
    if {"id", "role", "text"} <= columns.keys():
        keys: tuple[str, ...] = ("id", "turn", "role", "text")
    elif "request" in columns and "response" in columns:
        keys = ("id", "request", "response", "expected_response")
    elif isinstance(messages_of_value(row.get(columns.get("conversation", ""))), list):
        keys = ("id", "conversation", "expected_response")
    else:
        keys = ("id",)
    return {key: columns[key] for key in keys if key in columns}


def _is_record(row: Row) -> bool:
    """Whether a row is a record of a known format by itself."""
    try:
        detect_format(json.dumps(_without_none(row), default=str).encode())
    except DataError:
        return False
    return True


def _named_record(row: Row, id_column: str | None) -> dict[str, Any]:
    """A row that is a record, with the id of its conversation where its format looks for it."""
    record: dict[str, Any] = _without_none(row)
    if id_column is None or row[id_column] is None:
        return record
    field = "conversation_id" if "messages" in record else "request_id"
    is_named = not record.keys().isdisjoint((*CONVERSATION_IDS, "request_id", "case_id"))
    return record if is_named else {**record, field: str(row[id_column])}


def _check_recognised(columns: Mapping[str, str], names: Sequence[str]) -> None:
    if columns.keys().isdisjoint({"role", "conversation", "request"}):
        raise ConfigurationError(
            f"cases: the columns {', '.join(map(repr, names))} are not recognised as conversations; "
            "name them, e.g. columns={'id': ..., 'role': ..., 'text': ...} for one row a message, "
            "columns={'id': ..., 'conversation': ...} for one row a conversation"
        )


def _check_columns(columns: Mapping[str, str], names: Sequence[str]) -> None:
    for key, name in columns.items():
        if key not in KEYS:
            raise ConfigurationError.unknown("key", key, KEYS, "columns")
        if name not in names:
            raise ConfigurationError.unknown("column", name, names, f"columns[{key!r}]")
    if "role" in columns:
        missing = [key for key in ("id", "text") if key not in columns]
        if missing:
            raise ConfigurationError(
                f"columns: role stands for one row a message, which also needs {' and '.join(missing)}"
            )
    elif columns.keys().isdisjoint({"conversation", "request"}):
        raise ConfigurationError(
            "columns: no column holds what was said; name 'role' and 'text' (one row a message), "
            "'conversation' (a list of messages, JSON or text), or 'request' and 'response'"
        )


def _conversations(rows: Sequence[Row], columns: Mapping[str, str]) -> Iterator[list[Row]]:
    """The rows of each conversation, in the order of its turns."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(str(row[columns["id"]]), []).append(row)
    turn = columns.get("turn")
    for group in groups.values():
        yield group if turn is None else sorted(group, key=lambda row: row[turn])


def _joined_record(rows: Sequence[Row], columns: Mapping[str, str]) -> dict[str, Any]:
    """The record of a conversation that has a row for each message."""
    messages = []
    for row in rows:
        message = {"role": role_name(row[columns["role"]]), "content": row[columns["text"]]}
        for key in ("tool_calls", "tool_call_id", "name"):
            if key in columns and row[columns[key]] is not None:
                message[key] = row[columns[key]]
        messages.append(message)
    whole = {key: name for key, name in columns.items() if key not in MESSAGE_KEYS}
    fields = {key: rows[0][name] for key, name in whole.items() if key != "id"}
    return _record(str(rows[0][columns["id"]]), messages, fields)


def _row_record(row: Row, columns: Mapping[str, str]) -> dict[str, Any]:
    """The record of a conversation that is one row."""
    values = {key: row[name] for key, name in columns.items()}
    case_id, messages = values.pop("id", None), messages_of_value(values.pop("conversation", None))
    return _record(None if case_id is None else str(case_id), messages, values)


def _record(case_id: str | None, messages: Any, fields: Mapping[str, Any]) -> dict[str, Any]:
    """A record of format `agent_evaluation` where such a field is there, else of `openai_chat`."""
    is_evaluation = not fields.keys().isdisjoint(_EVALUATION_KEYS)
    names = ("request_id", "trace") if is_evaluation else ("conversation_id", "messages")
    return _without_none({**dict(zip(names, (case_id, messages), strict=True)), **fields})


def messages_of_value(value: Any) -> Any:
    """The messages in a cell: a list, JSON text of one, or text with a `User:` before each turn.

    A text that is neither is returned as it is; its reader says what is wrong with it.
    """
    if not isinstance(value, str):
        return value
    try:
        parsed = json.loads(value)
    except ValueError:
        parts = _SPOKEN_LINE.split(value)[1:]  # role, text, role, text, ...
        turns = zip(parts[::2], parts[1::2], strict=True)
        said_turns = [{"role": role_name(role), "content": text.strip()} for role, text in turns]
        return said_turns or value
    return parsed["messages"] if isinstance(parsed, dict) and "messages" in parsed else parsed


def role_name(value: Any) -> str:
    """The role of a speaker under the name that readers know: `Customer` is `user`."""
    text = str(value).strip()
    return _ROLES.get(text.lower(), text)


def _without_none(value: Any) -> Any:
    """A value without the fields that are `None`: a table has every field in every row."""
    if isinstance(value, Mapping):
        return {str(key): _without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_without_none(item) for item in value]
    return value
