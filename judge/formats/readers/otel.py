"""OpenTelemetry: spans with the GenAI attributes, or with those of OpenInference.

OTLP/JSON as a collector writes it, or one span an object. A conversation is what shares
`gen_ai.conversation.id` or `session.id`, else a trace. Messages may be values or text that is JSON,
on the span, or (older emitters) in its events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from assizes.judge.case import Case
from assizes.judge.errors import DataError
from assizes.judge.formats.shared.containers import Piece, PieceFormat
from assizes.judge.formats.shared.fidelity import FidelityCounter
from assizes.judge.formats.shared.genai_spans import genai_span
from assizes.judge.formats.shared.json_shapes import amount, name_of
from assizes.judge.formats.shared.openinference_spans import openinference_span
from assizes.judge.formats.shared.otlp import RESOURCE_SPANS, attributes_of, plain_spans
from assizes.judge.formats.shared.spans import TraceSpan, conversation

_SESSIONS: Final = ("gen_ai.conversation.id", "session.id")
_USERS: Final = ("user.id", "enduser.id")
_AGENTS: Final = ("gen_ai.agent.name", "agent.name", "gen_ai.request.model", "llm.model_name")
_VERSIONS: Final = ("gen_ai.agent.version", "service.version")


class OpenTelemetry(PieceFormat):
    """Traces of agents."""

    name = "otel"

    def fits(self, value: Any) -> bool:
        """OTLP/JSON, or an object with a trace id and attributes."""
        if not isinstance(value, dict):
            return False
        if not value.keys().isdisjoint(RESOURCE_SPANS):
            return True
        context = value.get("context") if isinstance(value.get("context"), dict) else {}
        known = {**value, **(context or {})}.keys()
        return not known.isdisjoint({"trace_id", "traceId"}) and (
            "attributes" in value or "context" in value
        )

    def pieces(self, value: Any) -> Iterable[Piece]:
        """The spans of one object.

        Raises:
            DataError: `schema`.
        """
        if not isinstance(value, dict):
            raise DataError("schema", f"record: found {type(value).__name__}, expected spans")
        for span in plain_spans(value):
            trace = name_of(span["trace"])
            if trace is None:
                raise DataError("schema", "trace_id: missing")
            yield Piece(trace, _first(span, _SESSIONS), span)

    def join_pieces(self, pieces: list[Any]) -> Case:
        """The case of the spans of one conversation.

        Raises:
            DataError: `schema`; also for spans among which no model is heard.
        """
        tally = FidelityCounter()
        spans = [_span(piece, tally) for piece in pieces]
        transcript = conversation(spans, tally)
        if not transcript.turns:
            raise DataError(
                "schema",
                "spans: no messages; emitters leave content out unless told to record it "
                "(gen_ai.input.messages and gen_ai.output.messages)",
            )
        session = _most_frequent(pieces, _SESSIONS)
        labels = _evaluations(pieces)
        metadata = {name: value for span in spans for name, value in span.metadata.items()}
        return Case(
            case_id=session or str(pieces[0]["trace"]),
            transcript=transcript,
            agent=_most_frequent(pieces, _AGENTS),
            agent_version=_most_frequent(pieces, _VERSIONS) or name_of(pieces[0].get("version")),
            cluster=_most_frequent(pieces, _USERS) or session,
            labels={name: value for name, value in labels.items() if 0 <= value <= 1},
            metadata={**metadata, **tally.metadata()},
        )


def _span(piece: dict[str, Any], tally: FidelityCounter) -> TraceSpan:
    attributes = piece["attributes"]
    read = openinference_span if "openinference.span.kind" in attributes else genai_span
    return read(piece, tally)


def _first(piece: dict[str, Any], names: Iterable[str]) -> str | None:
    return next(
        (value for name in names if (value := name_of(piece["attributes"].get(name)))), None
    )


def _most_frequent(pieces: list[dict[str, Any]], names: tuple[str, ...]) -> str | None:
    """The first of the attributes that some span has; of several values the most frequent."""
    for name in names:
        counts = Counter(first_value for piece in pieces if (first_value := _first(piece, (name,))))
        if counts:
            return max(counts, key=lambda value: counts[value])
    return None


def _evaluations(pieces: list[dict[str, Any]]) -> dict[str, float]:
    """Scores found as events `gen_ai.evaluation.result`."""
    scores: dict[str, float] = {}
    for piece in pieces:
        for event in piece["events"]:
            if not isinstance(event, dict) or event.get("name") != "gen_ai.evaluation.result":
                continue
            attributes = attributes_of(event.get("attributes"))
            name = name_of(attributes.get("gen_ai.evaluation.name"))
            value = amount(attributes.get("gen_ai.evaluation.score.value"))
            if name is not None and value is not None:
                scores[name] = value
    return scores
