"""Logs of chat-completions requests: each line a request and its response.

    {"conversation_id": "c1", "request": {"model": "m", "messages": [...]},
     "response": {"choices": [{"message": {...}}], "usage": {...}}}

Every request tells the whole history again. Of a conversation the longest chain is kept: requests
each of which begins with the one before and its answer. Where no id is given, requests are put
together by what they begin with.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from assizes.judge.case import MOST_MS, Case, Transcript
from assizes.judge.errors import DataError
from assizes.judge.formats.readers.openai_chat import add_messages, completions
from assizes.judge.formats.shared.containers import Piece, PieceFormat
from assizes.judge.formats.shared.fidelity import FidelityCounter
from assizes.judge.formats.shared.json_shapes import (
    amount,
    between_ms,
    content_id,
    first_identifier,
    mapping,
    moment,
    name_of,
    sequence,
)
from assizes.judge.formats.shared.messages import (
    ConversationBuilder,
    tools_of,
    usage_of,
    with_last_answer,
)
from assizes.judge.formats.shared.repeated_histories import Chain, RecordedCall

_IDS: Final = ("conversation_id", "session_id", "thread_id")
_OPENING: Final = 2
_START_FIELDS: Final = ("started_at", "created_at", "timestamp", "time", "start_time")
_END_FIELDS: Final = ("ended_at", "completed_at", "end_time")
_RECORD: Final = {
    *_IDS,
    *("request", "body", "response", "metadata", "id", "request_id", "custom_id", "method", "url"),
    *("error", "latency_ms", "duration_ms", "status", "user"),
    *_START_FIELDS,
    *_END_FIELDS,
}


class OpenAILogs(PieceFormat):
    """Request logs of chat completions."""

    name = "openai_logs"

    def fits(self, value: Any) -> bool:
        """An object with a request that names its model beside its messages."""
        if not isinstance(value, dict):
            return False
        request = value.get("request", value.get("body"))
        return isinstance(request, dict) and "messages" in request and "model" in request

    def pieces(self, value: Any) -> Iterable[Piece]:
        """The request; its conversation is named, or known by how it begins.

        Raises:
            DataError: `schema`.
        """
        if not self.fits(value):
            raise DataError("schema", "record: no request with messages and model")
        conversation_id = first_identifier(value, _IDS) or first_identifier(_metadata(value), _IDS)
        opening = _request(value).get("messages")
        part = conversation_id or content_id(
            opening[:_OPENING] if isinstance(opening, list) else opening
        )
        yield Piece(part, conversation_id, value)

    def split_conversation(self, pieces: list[Any]) -> list[list[Any]]:
        """Requests that share no more than an opening, chain by chain; named ones stay together."""
        if first_identifier(pieces[0], _IDS) or first_identifier(_metadata(pieces[0]), _IDS):
            return [pieces]
        try:
            return [list(members) for _, members in _chains(pieces)]
        except DataError:
            return [[piece] for piece in pieces]  # each is then rejected, or not, by itself

    def join_pieces(self, pieces: list[Any]) -> Case:
        """The longest chain of the requests.

        Raises:
            DataError: `schema`.
        """
        chains = _chains(pieces)
        chain, members = max(chains, key=lambda entry: (len(entry[0].turns), len(entry[1])))
        builder = ConversationBuilder()
        beside = len(pieces) - len(members)
        builder.tally.count("dropped", "request beside the conversation", beside)
        for piece in pieces:
            builder.tally.count_unread(piece, _RECORD, "record")
        return _case(chain, members, builder)


def _case(chain: Chain, members: list[Any], builder: ConversationBuilder) -> Case:
    """The texts come from the chain; the last request gives what is about the whole."""
    last, metadata = members[-1], _metadata(members[-1])
    request = _request(last)
    _read(last, builder)  # the whole history once more: its system prompts, and what has no place
    conversation_id = first_identifier(last, _IDS) or first_identifier(metadata, _IDS)
    return Case(
        case_id=conversation_id
        or first_identifier(members[0], ("id", "request_id"))
        or content_id(_first(members)),
        transcript=Transcript(
            turns=chain.turns,
            system="\n\n".join(builder.systems) or None,
            tools=tools_of(sequence(request.get("tools"), "request.tools")),
            started_at=_start_time(members[0]),
            duration_ms=between_ms(_start_time(members[0]), _end_time(last)),
        ),
        agent=name_of(request.get("model")),
        cluster=name_of(request.get("user")) or name_of(last.get("user")),
        metadata={**metadata, **builder.metadata()},
    )


def _chains(pieces: list[Any]) -> list[tuple[Chain, list[Any]]]:
    chains: list[tuple[Chain, list[Any]]] = []
    for piece in sorted(pieces, key=lambda request: len(_messages(request))):
        call = _read(piece, ConversationBuilder(FidelityCounter()))
        fitting = [entry for entry in chains if entry[0].is_continued_by(call)]
        if fitting:
            chain, members = max(fitting, key=lambda entry: len(entry[0].turns))
            chain.extend(call)
            members.append(piece)
        else:
            chains.append((Chain(call), [piece]))
    return chains


def _read(piece: dict[str, Any], builder: ConversationBuilder) -> RecordedCall:
    """One call of the model; what it used and took goes to the turn it answered with."""
    add_messages(_messages(piece), builder)
    turns_before = tuple(builder.turns)
    response = _response(piece)
    add_messages(completions({"response": response}) if response else [], builder)
    turns_added = tuple(builder.turns[len(turns_before) :])
    elapsed_ms = amount(piece.get("latency_ms", piece.get("duration_ms")))
    turns_added = with_last_answer(
        turns_added,
        usage_of(response.get("usage")),
        started_at=_start_time(piece),
        latency_ms=elapsed_ms
        if elapsed_ms is not None and 0 <= elapsed_ms <= MOST_MS
        else between_ms(_start_time(piece), _end_time(piece)),
    )
    return RecordedCall(turns_before, turns_added)


def _first(members: list[Any]) -> Any:
    return [_request(members[0]).get("messages"), _response(members[0])]


def _request(piece: dict[str, Any]) -> dict[str, Any]:
    return mapping(piece.get("request") or piece.get("body"), "request")


def _messages(piece: dict[str, Any]) -> list[Any]:
    return sequence(_request(piece).get("messages"), "request.messages")


def _response(piece: dict[str, Any]) -> dict[str, Any]:
    response = mapping(piece.get("response"), "response")
    return mapping(response["body"], "response.body") if "body" in response else response


def _metadata(piece: dict[str, Any]) -> dict[str, Any]:
    return mapping(piece.get("metadata") or _request(piece).get("metadata"), "metadata")


def _start_time(piece: dict[str, Any]) -> Any:
    own = next((piece[name] for name in _START_FIELDS if piece.get(name) is not None), None)
    return moment(own if own is not None else _response(piece).get("created"))


def _end_time(piece: dict[str, Any]) -> Any:
    return moment(next((piece[name] for name in _END_FIELDS if piece.get(name) is not None), None))
