"""Logs of chat-completions requests: each line a request and its response.

    {"conversation_id": "c1", "request": {"model": "m", "messages": [...]},
     "response": {"choices": [{"message": {...}}], "usage": {...}}}

Every request repeats the whole history. Requests each of which begins with the request before and
its answer form a chain; the longest chain of a conversation becomes the transcript. Requests
without a conversation id are grouped by their messages up to the first one of the user.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from assizes.judge.case import MOST_MS, Case, Transcript
from assizes.judge.errors import DataError
from assizes.judge.formats.shared import json_shapes as shapes
from assizes.judge.formats.shared import messages as chat
from assizes.judge.formats.shared.containers import Piece, piece_format
from assizes.judge.formats.shared.provider_messages import add_openai_messages, completion_messages
from assizes.judge.formats.shared.turn_chains import Chain, RecordedCall, chains_of

_IDS: Final = ("conversation_id", "session_id", "thread_id")
_START_FIELDS: Final = ("started_at", "created_at", "timestamp", "time", "start_time")
_END_FIELDS: Final = ("ended_at", "completed_at", "end_time")
_RECORD_FIELDS: Final = {
    *_IDS,
    *("request", "body", "response", "metadata", "id", "request_id", "custom_id", "method", "url"),
    *("error", "latency_ms", "duration_ms", "status", "user"),
    *_START_FIELDS,
    *_END_FIELDS,
}


def _fits(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    request = value.get("request", value.get("body"))
    return isinstance(request, dict) and "messages" in request and "model" in request


def _pieces(value: Any) -> Iterator[Piece]:
    """Yield the request as one piece, of the conversation it names or begins like."""
    if not _fits(value):
        raise DataError("schema", "record: no request with messages and model")
    conversation_id = _conversation_id(value)
    opening = _opening(_request(value).get("messages"))
    yield Piece(conversation_id or shapes.content_id(opening), conversation_id, value)


def _opening(messages: Any) -> Any:
    """Return the messages by which requests without an id are grouped: up to the first user's."""
    if not isinstance(messages, list):  # rejected when the case is made
        return messages
    for place, message in enumerate(messages):
        if isinstance(message, dict) and message.get("role") == "user":
            return messages[: place + 1]
    return messages


def _split(pieces: list[Any]) -> list[list[Any]]:
    """Split requests that have no id and share only an opening: one conversation a chain."""
    if _conversation_id(pieces[0]):
        return [pieces]
    try:
        return [[call.record for call in chain.calls] for chain in _chains(pieces)]
    except DataError:
        return [[piece] for piece in pieces]  # each is then read, or rejected, by itself


def _join(pieces: list[Any]) -> Case:
    """Return the case of the longest chain of requests; the other requests are counted."""
    chain = max(_chains(pieces), key=lambda each: (len(each.turns), len(each.calls)))
    builder = chat.ConversationBuilder()
    beside = len(pieces) - len(chain.calls)  # retries and branches
    builder.tally.count("dropped", "request beside the conversation", beside)
    for piece in pieces:
        builder.tally.count_unread(piece, _RECORD_FIELDS, "record")
    first, last = chain.calls[0].record, chain.calls[-1].record
    # Facts about the whole come from the last request of the chain.
    request, metadata = _request(last), _metadata(last)
    # Conversations may share their first request and an answer without an id, such as `Hello!`.
    named = first if _response(first).get("id") else last
    # The last request repeats the whole history: its system prompts and fidelity counts are read.
    _read(last, builder)
    return Case(
        case_id=_conversation_id(last)
        or shapes.first_identifier(first, ("id", "request_id"))
        or shapes.content_id([_request(named).get("messages"), _response(named)]),
        transcript=Transcript(
            turns=chain.turns,
            system=builder.system_text(),
            tools=chat.tools_of(shapes.sequence(request.get("tools"), "request.tools")),
            started_at=_start_time(first),
            duration_ms=shapes.between_ms(_start_time(first), _end_time(last)),
        ),
        agent=shapes.name_of(request.get("model")),
        cluster=shapes.name_of(request.get("user")) or shapes.name_of(last.get("user")),
        metadata={**metadata, **builder.metadata()},
    )


def _chains(pieces: list[Any]) -> list[Chain]:
    # Not by time, which logs may lack: a request that continues another one is longer.
    by_length = sorted(pieces, key=lambda piece: len(_messages(piece)))
    return chains_of(_read(piece, chat.ConversationBuilder()) for piece in by_length)


def _read(piece: dict[str, Any], builder: chat.ConversationBuilder) -> RecordedCall:
    """Read one model call; its tokens and its latency go into the turn of its answer."""
    add_openai_messages(_messages(piece), builder)
    turns_before = tuple(builder.turns)
    response = _response(piece)
    if response:
        add_openai_messages(completion_messages({"response": response}), builder)
    latency_ms = shapes.amount(piece.get("latency_ms", piece.get("duration_ms")))
    # A figure out of bounds is a fault of the log's clock; the two times may still be good.
    if latency_ms is None or not 0 <= latency_ms <= MOST_MS:
        latency_ms = shapes.between_ms(_start_time(piece), _end_time(piece))
    turns_added = chat.with_last_answer(
        builder.turns[len(turns_before) :],
        chat.usage_of(response.get("usage")),
        started_at=_start_time(piece),
        latency_ms=latency_ms,
    )
    return RecordedCall(turns_before, turns_added, piece)


def _conversation_id(piece: dict[str, Any]) -> str | None:
    return shapes.first_identifier(piece, _IDS) or shapes.first_identifier(_metadata(piece), _IDS)


def _request(piece: dict[str, Any]) -> dict[str, Any]:
    return shapes.mapping(piece.get("request") or piece.get("body"), "request")


def _messages(piece: dict[str, Any]) -> list[Any]:
    return shapes.sequence(_request(piece).get("messages"), "request.messages")


def _response(piece: dict[str, Any]) -> dict[str, Any]:
    response = shapes.mapping(piece.get("response"), "response")
    # Files of the batch API wrap the answer: {"status_code": 200, "body": {...}}.
    return shapes.mapping(response["body"], "response.body") if "body" in response else response


def _metadata(piece: dict[str, Any]) -> dict[str, Any]:
    return shapes.mapping(piece.get("metadata") or _request(piece).get("metadata"), "metadata")


def _start_time(piece: dict[str, Any]) -> Any:
    own_time = shapes.first_present(piece, _START_FIELDS)
    return shapes.moment(own_time if own_time is not None else _response(piece).get("created"))


def _end_time(piece: dict[str, Any]) -> Any:
    return shapes.moment(shapes.first_present(piece, _END_FIELDS))


OPENAI_LOGS: Final = piece_format(
    "openai_logs",
    frozenset({"request", "body"}),
    _fits,
    _pieces,
    _join,
    _split,
)
"""The format of request logs of chat completions."""
