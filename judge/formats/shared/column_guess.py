"""A guess at [transcripts.columns], from the names of the columns and what stands in their cells."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from assizes.judge.config.columns import TranscriptColumns, plain_word
from assizes.judge.errors import DataError
from assizes.judge.formats.shared.json_shapes import amount, as_text, moment
from assizes.judge.formats.shared.table_cells import ROLE_WORDS, id_of_cell, messages_of_cell

_NAMES: Final = {
    "id": "conversation_id session_id thread_id chat_id dialogue_id dialog_id case_id ticket_id call_id "
    "interaction_id conversation session thread chat dialogue dialog ticket case call id request_id",
    "turn": "turn turn_index turn_id turn_number turn_no turn_nr message_index message_number message_no "
    "message_id msg_no index position seq sequence order step line n no nr",
    "role": "role speaker sender author from participant who turn_role message_role speaker_role "
    "sender_type author_type sender_role actor",
    "text": "text content message utterance body words message_text msg value turn_text transcript",
    "request": "request question query prompt user_message user_input user_query user_text "
    "customer_message input instruction user human",
    "response": "response answer output completion assistant_message bot_response agent_response "
    "model_output model_response reply generated_answer actual_output assistant bot prediction",
    "conversation": "messages conversation transcript dialogue dialog chat chat_history history thread",
    "system": "system system_prompt system_message",
    "tool_calls": "tool_calls",
    "tool_call_id": "tool_call_id",
    "tool_name": "tool_name tool function_name",
    "started_at": "started_at timestamp created_at sent_at time datetime date ts",
    "latency_ms": "latency_ms response_time_ms duration_ms",
    "agent": "agent agent_name bot_name assistant_name model model_name",
    "agent_version": "agent_version bot_version model_version version release",
    "user": "user_id customer_id client_id visitor_id account_id",
    "expected_response": "expected_response expected_answer reference reference_answer ground_truth "
    "expected expected_output target gold golden_answer ideal",
    "expected_outcomes": "expected_outcomes expected_outcome outcomes success_criteria",
    "retrieved_context": "retrieved_context retrieved_contexts retrieval_context context contexts "
    "retrieved_documents documents passages chunks",
}
"""What tables call each column, the surest name first."""

_ID_NAME: Final = re.compile(
    r"(?:^|_)(?:[a-z]?id|nr|no|number)$|(?:conv|chat|session|thread)\w*id$"
)
_OTHER_ID: Final = re.compile(
    r"(?:user|customer|client|visitor|account|agent|bot|message|msg|turn|sender|author|speaker|tool"
    r"|model|tenant|company|organi[sz]ation|order)_"
)
"""Names of ids, and the beginnings of those that name no conversation."""

_FURTHER_FIELDS: Final = (
    *("system", "tool_calls", "tool_call_id", "tool_name", "started_at", "latency_ms", "agent"),
    *("agent_version", "user", "expected_response", "expected_outcomes", "retrieved_context"),
)
_LAYOUTS: Final = (
    frozenset({"role", "text"}),
    frozenset({"request", "response"}),
    frozenset({"conversation"}),
)
_TAG_NAMES: Final = frozenset(
    ("channel", "language", "locale", "intent", "topic", "category", "region", "country", "product")
)
_MOST_SPEAKERS: Final = 8  # different words in a column that says who speaks
_LEAST_SHARE: Final = (
    0.5  # of the filled cells of a column that must be what the column is taken for
)
_LEAST_TEXT: Final = 2.0  # words in a cell of what is said, on average

_Rows = Sequence[Mapping[str, Any]]


def column_names(rows: _Rows) -> list[str]:
    """The columns that are filled in any of the rows, in their order."""
    return list(dict.fromkeys(name for row in rows for name in row))


def guess_columns(rows: _Rows, given: Mapping[str, Any] | None = None) -> TranscriptColumns | None:
    """The columns of a table of conversations; `None` where its rows show no conversation.

    The rows have no empty cells, as tables are read (`assizes.judge.formats.readers.table`). `given`
    are settings that are known; the others are guessed.

    Raises:
        ValidationError: what is given makes no layout of a table, even with the guess.
    """
    known = dict(given or {})
    guess = _guessed_fields(rows, known)
    if (layout := _layout_of(known)) is not None and layout != _layout_of(guess):
        # The ids and the order that were guessed are those of another kind of rows.
        dropped = {"id", "turn"}.union(*_LAYOUTS)
        guess = {field: name for field, name in guess.items() if field not in dropped}
    if not guess and not known:
        return None
    return TranscriptColumns.model_validate({**guess, **known})


def _layout_of(fields: Mapping[str, Any]) -> frozenset[str] | None:
    return next((layout for layout in _LAYOUTS if not layout.isdisjoint(fields)), None)


def _guessed_fields(rows: _Rows, known: Mapping[str, Any]) -> dict[str, Any]:
    names = column_names(rows)
    by_name = {
        field: [known[field]] if field in known else _named(names, wanted.split())
        for field, wanted in _NAMES.items()
    }
    layout = (
        _whole_conversations(rows, names, by_name)
        or _turns(rows, names, by_name)
        or _exchanges(rows, names, by_name)
        or {}
    )
    if not layout:
        return {}
    taken = set(layout.values())
    for field in _FURTHER_FIELDS:
        # A column says one thing; the columns of the conversation itself were chosen first.
        name = None if field in layout else _first(by_name[field], taken)
        if name is not None and _holds(field, rows, name):
            layout[field] = name
            taken.add(name)
    tags = tuple(name for name in names if _plain(name) in _TAG_NAMES and name not in taken)
    return {**layout, **({"tags": tags} if tags else {})}


def _plain(name: str) -> str:
    """A column name to compare: `conversationId` and `Conversation ID` are `conversation_id`."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.rpartition(".")[2])
    return re.sub(r"[^a-z0-9]+", "_", spaced.lower()).strip("_")


def _named(names: Iterable[str], wanted: Sequence[str]) -> list[str]:
    """The columns with one of the wanted names, by the order of those."""
    plain = {name: _plain(name) for name in names}
    return sorted(
        (name for name in plain if plain[name] in wanted),
        key=lambda name: wanted.index(plain[name]),
    )


def _first(names: Iterable[str], taken: Iterable[str] = ()) -> str | None:
    left_out = set(taken)
    return next((name for name in names if name not in left_out), None)


def _cells(rows: _Rows, name: str) -> list[Any]:
    return [row[name] for row in rows if name in row]


def _share(rows: _Rows, name: str, is_one: Callable[[Any], Any]) -> float:
    """The share of the filled cells of a column for which a test holds; 0 for an empty column."""
    cells = _cells(rows, name)
    return sum(map(bool, map(is_one, cells))) / len(cells) if cells else 0.0


def _holds(field: str, rows: _Rows, name: str) -> bool:
    """Whether the cells of a column can be what its name says."""
    tests: dict[str, Callable[[Any], Any]] = {"started_at": moment, "latency_ms": amount}
    test = tests.get(field)
    return test is None or _share(rows, name, lambda cell: test(cell) is not None) >= _LEAST_SHARE


def _whole_conversations(
    rows: _Rows, names: Sequence[str], by_name: Mapping[str, list[str]]
) -> dict[str, str] | None:
    """The layout of a table with a whole conversation in one cell of each row."""
    candidates = [*by_name["conversation"], *names]
    column = next(
        (n for n in candidates if _share(rows, n, _is_conversation) >= _LEAST_SHARE), None
    )
    if column is None:
        return None
    layout = {"conversation": column}
    ids = [name for name in _id_columns(names, by_name) if name != column]
    case_id = _first(name for name in ids if _is_unique(rows, name))
    return layout | ({"id": case_id} if case_id else {})


def _is_conversation(cell: Any) -> bool:
    with suppress(DataError):
        roles = {message["role"] for message in messages_of_cell(cell, {})}
        return {"user", "assistant"} <= roles
    return False


def _turns(
    rows: _Rows, names: Sequence[str], by_name: Mapping[str, list[str]]
) -> dict[str, str] | None:
    """The layout of a table with a turn in each row."""
    ids = [name for name in _id_columns(names, by_name) if not _is_unique(rows, name)]
    by_words = [name for name in names if _share(rows, name, _is_speaker) >= _LEAST_SHARE]
    role = _first([name for name in by_name["role"] if name in by_words]) or _first(by_words)
    # Words that nobody knows: the column is named, and its words are for `roles` to explain.
    role = role or _first(name for name in by_name["role"] if _is_closed(rows, name))
    if role is None or not ids:
        return None
    case_id = next((name for name in ids if name != role), None)
    text = _text_column(rows, names, by_name["text"], {role, case_id})
    if case_id is None or text is None:
        return None
    layout = {"id": case_id, "role": role, "text": text}
    taken = set(layout.values())
    orders = [name for name in by_name["turn"] if _share(rows, name, _is_number) == 1]
    times = [name for name in by_name["started_at"] if _share(rows, name, moment) == 1]
    return layout | _order(_first(orders, taken), _first(times, taken))


def _order(number: str | None, time: str | None) -> dict[str, str]:
    """The columns that order the rows of a conversation, a number before a time."""
    if number is not None:
        return {"turn": number}
    return {} if time is None else {"turn": time, "started_at": time}


def _exchanges(
    rows: _Rows, names: Sequence[str], by_name: Mapping[str, list[str]]
) -> dict[str, str] | None:
    """The layout of a table with a question and its answer in each row."""
    request = _first(by_name["request"])
    response = _first(by_name["response"], {request or ""})
    if request is None or response is None:
        return None
    layout = {"request": request, "response": response}
    ids = [name for name in _id_columns(names, by_name) if name not in layout.values()]
    unique = _first(name for name in ids if _is_unique(rows, name))
    repeated = _first(name for name in ids if not _is_unique(rows, name))
    orders = [name for name in by_name["turn"] if _share(rows, name, _is_number) == 1]
    times = [name for name in by_name["started_at"] if _share(rows, name, moment) == 1]
    taken = {*layout.values(), repeated or ""}
    if repeated and (order := _order(_first(orders, taken), _first(times, taken))):
        return {**layout, "id": repeated, **order}
    # Without an order the rows of one id cannot be joined; each is then a case of its own.
    return {**layout, "id": unique} if unique else layout


def _text_column(
    rows: _Rows, names: Sequence[str], by_name: Sequence[str], taken: set[str | None]
) -> str | None:
    """The column of what is said: by its name, else the one with the longest texts."""
    named = next((name for name in by_name if name not in taken), None)
    others = [name for name in names if name not in taken]
    words = {
        name: sum(len(as_text(cell).split()) for cell in cells) / len(cells)
        for name in others
        if (cells := _cells(rows, name))
    }
    longest = max(words, key=words.__getitem__, default=None)
    if named is not None or longest is None:
        return named
    return longest if words[longest] >= _LEAST_TEXT else None


def _id_columns(names: Sequence[str], by_name: Mapping[str, list[str]]) -> list[str]:
    """The columns that may hold the id of a conversation, by their names, the surest first."""
    return [*by_name["id"], *filter(_is_id_name, names)]


def _is_id_name(name: str) -> bool:
    plain = _plain(name)
    return _ID_NAME.search(plain) is not None and _OTHER_ID.match(plain) is None


def _is_speaker(cell: Any) -> bool:
    return isinstance(cell, str) and plain_word(cell) in ROLE_WORDS


def _is_number(cell: Any) -> bool:
    return amount(cell) is not None


def _is_closed(rows: _Rows, name: str) -> bool:
    words = {as_text(cell) for cell in _cells(rows, name)}
    return 1 < len(words) <= _MOST_SPEAKERS


def _is_unique(rows: _Rows, name: str) -> bool:
    ids = [id_of_cell(cell) for cell in _cells(rows, name)]
    return len(set(ids)) == len(rows)
