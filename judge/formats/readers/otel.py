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
from assizes.judge.formats.shared.containers import Gathered, Piece
from assizes.judge.formats.shared.fidelity import Tally
from assizes.judge.formats.shared.genai_spans import genai_span
from assizes.judge.formats.shared.json_shapes import amount, name_of
from assizes.judge.formats.shared.openinference_spans import openinference_span
from assizes.judge.formats.shared.otlp import RESOURCE_SPANS, attributes_of, plain_spans
from assizes.judge.formats.shared.spans import Span, conversation

_SESSIONS: Final = ("gen_ai.conversation.id", "session.id")
_USERS: Final = ("user.id", "enduser.id")
_AGENTS: Final = ("gen_ai.agent.name", "agent.name", "gen_ai.request.model", "llm.model_name")
_VERSIONS: Final = ("gen_ai.agent.version", "service.version")


class OpenTelemetry(Gathered):
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

    def joined(self, pieces: list[Any]) -> Case:
        """The case of the spans of one conversation.

        Raises:
            DataError: `schema`; also for spans among which no model is heard.
        """
        tally = Tally()
        spans = [_span(piece, tally) for piece in pieces]
        transcript = conversation(spans, tally)
        if not transcript.turns:
            raise DataError(
                "schema",
                "spans: no messages; emitters leave content out unless told to record it "
                "(gen_ai.input.messages and gen_ai.output.messages)",
            )
        session = _of_any(pieces, _SESSIONS)
        labels = _evaluations(pieces)
        told = {name: value for span in spans for name, value in span.metadata.items()}
        return Case(
            case_id=session or str(pieces[0]["trace"]),
            transcript=transcript,
            agent=_of_any(pieces, _AGENTS),
            agent_version=_of_any(pieces, _VERSIONS) or name_of(pieces[0].get("version")),
            cluster=_of_any(pieces, _USERS) or session,
            labels={name: value for name, value in labels.items() if 0 <= value <= 1},
            metadata={**told, **tally.metadata()},
        )


def _span(piece: dict[str, Any], tally: Tally) -> Span:
    attributes = piece["attributes"]
    read = openinference_span if "openinference.span.kind" in attributes else genai_span
    return read(piece, tally)


def _first(piece: dict[str, Any], names: Iterable[str]) -> str | None:
    return next((said for name in names if (said := name_of(piece["attributes"].get(name)))), None)


def _of_any(pieces: list[dict[str, Any]], names: tuple[str, ...]) -> str | None:
    """The first of the attributes that some span has; of several values the most frequent."""
    for name in names:
        said = Counter(found for piece in pieces if (found := _first(piece, (name,))))
        if said:
            return max(said, key=lambda value: said[value])
    return None


def _evaluations(pieces: list[dict[str, Any]]) -> dict[str, float]:
    """Scores found as events `gen_ai.evaluation.result`."""
    found: dict[str, float] = {}
    for piece in pieces:
        for event in piece["events"]:
            if not isinstance(event, dict) or event.get("name") != "gen_ai.evaluation.result":
                continue
            told = attributes_of(event.get("attributes"))
            name = name_of(told.get("gen_ai.evaluation.name"))
            value = amount(told.get("gen_ai.evaluation.score.value"))
            if name is not None and value is not None:
                found[name] = value
    return found
