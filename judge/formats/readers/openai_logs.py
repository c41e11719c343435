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
from assizes.judge.formats.shared.containers import Gathered, Piece
from assizes.judge.formats.shared.fidelity import Tally
from assizes.judge.formats.shared.json_shapes import (
    amount,
    between_ms,
    content_id,
    first_name,
    mapping,
    moment,
    name_of,
    sequence,
)
from assizes.judge.formats.shared.messages import Talk, tools_of, usage_of, with_last_answer
from assizes.judge.formats.shared.repeated_histories import Chain, Exchange

_IDS: Final = ("conversation_id", "session_id", "thread_id")
_OPENING: Final = 2
_BEGUN: Final = ("started_at", "created_at", "timestamp", "time", "start_time")
_ENDED: Final = ("ended_at", "completed_at", "end_time")
_RECORD: Final = {
    *_IDS,
    *("request", "body", "response", "metadata", "id", "request_id", "custom_id", "method", "url"),
    *("error", "latency_ms", "duration_ms", "status", "user"),
    *_BEGUN,
    *_ENDED,
}


class OpenAILogs(Gathered):
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
        named = first_name(value, _IDS) or first_name(_metadata(value), _IDS)
        opening = _request(value).get("messages")
        part = named or content_id(opening[:_OPENING] if isinstance(opening, list) else opening)
        yield Piece(part, named, value)

    def apart(self, pieces: list[Any]) -> list[list[Any]]:
        """Requests that share no more than an opening, chain by chain; named ones stay together."""
        if first_name(pieces[0], _IDS) or first_name(_metadata(pieces[0]), _IDS):
            return [pieces]
        try:
            return [list(members) for _, members in _chains(pieces)]
        except DataError:
            return [[piece] for piece in pieces]  # each is then rejected, or not, by itself

    def joined(self, pieces: list[Any]) -> Case:
        """The longest chain of the requests.

        Raises:
            DataError: `schema`.
        """
        found = _chains(pieces)
        chain, members = max(found, key=lambda one: (len(one[0].turns), len(one[1])))
        talk = Talk()
        beside = len(pieces) - len(members)
        talk.tally.count("dropped", "request beside the conversation", beside)
        for piece in pieces:
            talk.tally.unread(piece, _RECORD, "record")
        return _case(chain, members, talk)


def _case(chain: Chain, members: list[Any], talk: Talk) -> Case:
    """The texts come from the chain; the last request gives what is about the whole."""
    last, told = members[-1], _metadata(members[-1])
    request = _request(last)
    _read(last, talk)  # the whole history once more: its system prompts, and what has no place
    named = first_name(last, _IDS) or first_name(told, _IDS)
    return Case(
        case_id=named
        or first_name(members[0], ("id", "request_id"))
        or content_id(_first(members)),
        transcript=Transcript(
            turns=chain.turns,
            system="\n\n".join(talk.systems) or None,
            tools=tools_of(sequence(request.get("tools"), "request.tools")),
            started_at=_begun(members[0]),
            duration_ms=between_ms(_begun(members[0]), _ended(last)),
        ),
        agent=name_of(request.get("model")),
        cluster=name_of(request.get("user")) or name_of(last.get("user")),
        metadata={**told, **talk.metadata()},
    )


def _chains(pieces: list[Any]) -> list[tuple[Chain, list[Any]]]:
    found: list[tuple[Chain, list[Any]]] = []
    for piece in sorted(pieces, key=lambda one: len(_messages(one))):
        call = _read(piece, Talk(Tally()))
        fitting = [one for one in found if one[0].goes_on(call)]
        if fitting:
            chain, members = max(fitting, key=lambda one: len(one[0].turns))
            chain.extend(call)
            members.append(piece)
        else:
            found.append((Chain(call), [piece]))
    return found


def _read(piece: dict[str, Any], talk: Talk) -> Exchange:
    """One call of the model; what it used and took goes to the turn it answered with."""
    add_messages(_messages(piece), talk)
    asked = tuple(talk.turns)
    response = _response(piece)
    add_messages(completions({"response": response}) if response else [], talk)
    answered = tuple(talk.turns[len(asked) :])
    took = amount(piece.get("latency_ms", piece.get("duration_ms")))
    answered = with_last_answer(
        answered,
        usage_of(response.get("usage")),
        started_at=_begun(piece),
        latency_ms=took
        if took is not None and 0 <= took <= MOST_MS
        else between_ms(_begun(piece), _ended(piece)),
    )
    return Exchange(asked, answered)


def _first(members: list[Any]) -> Any:
    return [_request(members[0]).get("messages"), _response(members[0])]


def _request(piece: dict[str, Any]) -> dict[str, Any]:
    return mapping(piece.get("request") or piece.get("body"), "request")


def _messages(piece: dict[str, Any]) -> list[Any]:
    return sequence(_request(piece).get("messages"), "request.messages")


def _response(piece: dict[str, Any]) -> dict[str, Any]:
    found = mapping(piece.get("response"), "response")
    return mapping(found["body"], "response.body") if "body" in found else found


def _metadata(piece: dict[str, Any]) -> dict[str, Any]:
    return mapping(piece.get("metadata") or _request(piece).get("metadata"), "metadata")


def _begun(piece: dict[str, Any]) -> Any:
    own = next((piece[name] for name in _BEGUN if piece.get(name) is not None), None)
    return moment(own if own is not None else _response(piece).get("created"))


def _ended(piece: dict[str, Any]) -> Any:
    return moment(next((piece[name] for name in _ENDED if piece.get(name) is not None), None))
