"""OpenTelemetry: spans with the GenAI attributes, or with the attributes of OpenInference.

A file holds OTLP/JSON as a collector writes it, or one span an object. Spans with the same
`gen_ai.conversation.id` or `session.id` make one conversation; without such an id, each trace is
one. Messages are JSON values, or texts that hold JSON; they stand in the span's attributes, or
(from older emitters) in its events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from assizes.judge.case import Case
from assizes.judge.errors import DataError
from assizes.judge.formats.shared.containers import Piece, piece_format
from assizes.judge.formats.shared.json_shapes import amount, first_identifier, moment, name_of
from assizes.judge.formats.shared.otel_spans import (
    RESOURCE_SPANS,
    attributes_of,
    genai_span,
    openinference_span,
    plain_spans,
)
from assizes.judge.formats.shared.parsing import FidelityCounter
from assizes.judge.formats.shared.ratings import TraceRating, human_labels, rated_labels
from assizes.judge.formats.shared.spans import conversation

_SESSIONS: Final = ("gen_ai.conversation.id", "session.id")  # tried in this order, like the next
_USERS: Final = ("user.id", "enduser.id")
_AGENTS: Final = ("gen_ai.agent.name", "agent.name", "gen_ai.request.model", "llm.model_name")
_VERSIONS: Final = ("gen_ai.agent.version", "service.version")
_KEYS: Final = frozenset({*RESOURCE_SPANS, "trace_id", "traceId", "context"})


def _fits(value: Any) -> bool:
    """Whether a value is OTLP/JSON, or an object with a trace id and attributes."""
    if not isinstance(value, dict):
        return False
    if not value.keys().isdisjoint(RESOURCE_SPANS):
        return True
    context = value.get("context")  # where SDKs print the ids of a span
    known = {*value, *(context if isinstance(context, dict) else ())}
    # `context` alone: the value may be cut off in front of its attributes.
    return not known.isdisjoint({"trace_id", "traceId"}) and (
        "attributes" in value or "context" in value
    )


def _pieces(value: Any) -> Iterator[Piece]:
    """Yield the spans of one object, each in the plain shape of `plain_spans`."""
    if not isinstance(value, dict):
        raise DataError("schema", f"record: found {type(value).__name__}, expected spans")
    for span in plain_spans(value):
        trace = name_of(span["trace"])
        if trace is None:
            raise DataError("schema", "trace_id: missing")
        yield Piece(trace, first_identifier(span["attributes"], _SESSIONS), span)


def _join(pieces: list[Any]) -> Case:
    tally = FidelityCounter()
    spans = [
        (openinference_span if "openinference.span.kind" in piece["attributes"] else genai_span)(
            piece, tally
        )
        for piece in pieces
    ]
    transcript = conversation(spans, tally)
    if not transcript.turns:
        raise DataError(
            "schema",
            "spans: no messages; emitters leave content out unless told to record it "
            "(gen_ai.input.messages and gen_ai.output.messages)",
        )
    session = _most_frequent(pieces, _SESSIONS)
    metadata = {name: value for span in spans for name, value in span.metadata.items()}
    ratings = list(_ratings(pieces))
    return Case(
        case_id=session or str(pieces[0]["trace"]),
        transcript=transcript,
        agent=_most_frequent(pieces, _AGENTS),
        agent_version=_most_frequent(pieces, _VERSIONS) or name_of(pieces[0].get("version")),
        cluster=_most_frequent(pieces, _USERS) or session,
        labels=rated_labels(ratings, tally),
        metadata={**metadata, **human_labels(ratings), **tally.metadata()},
    )


def _most_frequent(pieces: list[dict[str, Any]], names: tuple[str, ...]) -> str | None:
    """Return the most frequent value of the first attribute that any span has; None without one."""
    for name in names:
        values = (name_of(piece["attributes"].get(name)) for piece in pieces)
        counts = Counter(value for value in values if value)
        if counts:
            # Spans of sub-agents name other agents; of equal counts the first in the file wins.
            return max(counts, key=lambda value: counts[value])
    return None


def _ratings(pieces: list[dict[str, Any]]) -> Iterator[TraceRating]:
    """Yield the scores in the spans' events `gen_ai.evaluation.result`.

    The conventions do not say who gave a score. Only Phoenix does, whose annotations of a kind
    other than `HUMAN` are those of programs.
    """
    for piece in pieces:
        for event in piece["events"]:
            if not isinstance(event, dict) or event.get("name") != "gen_ai.evaluation.result":
                continue
            attributes = attributes_of(event.get("attributes"))
            name = name_of(attributes.get("gen_ai.evaluation.name"))
            if name is None:
                continue
            number = amount(attributes.get("gen_ai.evaluation.score.value"))
            word = name_of(attributes.get("gen_ai.evaluation.score.label"))
            is_of_person = attributes.get("phoenix.annotator_kind") == "HUMAN"
            person = name_of(attributes.get("phoenix.user_id")) or "human"
            yield TraceRating(
                name=name,
                number=number,
                given=word if number is None else number,
                rater=person if is_of_person else None,
                at=moment(event.get("timestamp")),
            )


OTEL: Final = piece_format("otel", _KEYS, _fits, _pieces, _join)
"""The format of agent traces in OpenTelemetry."""
