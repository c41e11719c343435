"""MLflow traces as JSON, `{"info": {...}, "data": {"spans": [...]}}`, one each.

Attributes of a span are texts that are JSON. Traces of one session follow each other. What people
assessed becomes labels, what they expected becomes ground truth.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from assizes.judge.case import Case, Expected, ToolResult
from assizes.judge.errors import DataError
from assizes.judge.formats.shared.containers import Gathered, Piece
from assizes.judge.formats.shared.fidelity import HUMAN_LABELS, Tally
from assizes.judge.formats.shared.genai_spans import chunks_of
from assizes.judge.formats.shared.json_shapes import (
    as_text,
    decoded,
    mapping,
    moment,
    name_of,
    sequence,
)
from assizes.judge.formats.shared.loose_messages import add_said
from assizes.judge.formats.shared.messages import Talk, call_of, tools_of, usage_of
from assizes.judge.formats.shared.spans import Kind, Span, conversation

_KINDS: Final[dict[str, Kind]] = {
    "CHAT_MODEL": "llm",
    "LLM": "llm",
    "TOOL": "tool",
    "RETRIEVER": "retriever",
    "AGENT": "agent",
    "CHAIN": "agent",
    "UNKNOWN": "agent",
}


class MLflowTraces(Gathered):
    """Traces of MLflow 3."""

    name = "mlflow"

    def fits(self, value: Any) -> bool:
        """An object with the facts of a trace; its spans may have been cut off."""
        info = value.get("info") if isinstance(value, dict) else None
        return isinstance(info, dict) and not info.keys().isdisjoint(
            {"trace_id", "request_id", "trace_location"}
        )

    def pieces(self, value: Any) -> Iterable[Piece]:
        """The trace.

        Raises:
            DataError: `schema`.
        """
        if not self.fits(value):
            raise DataError("schema", "record: no info of a trace")
        yield Piece(_trace_id(value), name_of(_told(value).get("mlflow.trace.session")), value)

    def joined(self, pieces: list[Any]) -> Case:
        """The case of the traces of one session, or of one trace.

        Raises:
            DataError: `schema`; also for traces in which nobody says anything.
        """
        tally = Tally()
        spans = [span for trace in pieces for span in _spans(trace, tally)]
        transcript = conversation(spans, tally)
        if not transcript.turns:
            raise DataError("schema", "data.spans: no inputs and no outputs in any of them")
        told = _told(pieces[0])
        session = name_of(told.get("mlflow.trace.session"))
        assessed = [one for trace in pieces for one in _assessments(trace)]
        return Case(
            case_id=session or _trace_id(pieces[0]),
            transcript=transcript,
            expected=_expected(assessed),
            agent=name_of(
                mapping(_info(pieces[0]).get("tags"), "info.tags").get("mlflow.traceName")
            ),
            agent_version=name_of(told.get("mlflow.modelId")),
            tags=_tags(pieces[0]),
            cluster=name_of(told.get("mlflow.trace.user")) or session,
            labels=_numbers(assessed),
            metadata={**_human(assessed), **tally.metadata()},
        )


def _info(trace: dict[str, Any]) -> dict[str, Any]:
    return mapping(trace.get("info"), "info")


def _trace_id(trace: dict[str, Any]) -> str:
    found = name_of(_info(trace).get("trace_id")) or name_of(_info(trace).get("request_id"))
    if found is None:
        raise DataError("schema", "info.trace_id: missing")
    return found


def _told(trace: dict[str, Any]) -> dict[str, Any]:
    info = _info(trace)
    return mapping(info.get("trace_metadata", info.get("request_metadata")), "info.trace_metadata")


def _tags(trace: dict[str, Any]) -> dict[str, str]:
    """Tags of people; those of the library begin with its name."""
    found = _info(trace).get("tags")
    pairs = found.items() if isinstance(found, dict) else ()
    return {name: as_text(value) for name, value in pairs if not name.startswith("mlflow.")}


def _spans(trace: dict[str, Any], tally: Tally) -> Iterator[Span]:
    data = mapping(trace.get("data"), "data")
    for place, one in enumerate(sequence(data.get("spans"), "data.spans")):
        yield _span(mapping(one, f"data.spans.{place}"), _trace_id(trace), tally)


def _span(found: dict[str, Any], trace: str, tally: Tally) -> Span:
    told = mapping(found.get("attributes"), "attributes")
    attributes = {name: decoded(value) for name, value in told.items()}
    given, made = attributes.get("mlflow.spanInputs"), attributes.get("mlflow.spanOutputs")
    kind: Kind = _KINDS.get(str(attributes.get("mlflow.spanType", "UNKNOWN")), "other")
    asked, answered = Talk(tally), Talk(tally)
    if kind in ("llm", "agent"):
        add_said(_input(given), "user", asked)
        add_said(made, "assistant", answered)
    declared = decoded(attributes.get("mlflow.chat.tools"))
    span = Span(
        id=str(found.get("span_id", mapping(found.get("context"), "context").get("span_id"))),
        parent=name_of(found.get("parent_span_id", found.get("parent_id"))),
        trace=trace,
        kind=kind,
        start=moment(found.get("start_time_unix_nano", found.get("start_time"))),
        end=moment(found.get("end_time_unix_nano", found.get("end_time"))),
        asked=tuple(asked.turns),
        answered=tuple(answered.turns),
        systems=tuple(asked.systems),
        tools=tools_of(declared if isinstance(declared, list) else []),
        usage=usage_of(attributes.get("mlflow.chat.tokenUsage")),
    )
    if kind == "tool":
        failed = "ERROR" in as_text(mapping(found.get("status"), "status").get("code"))
        span.call = call_of(found.get("name") or "tool", given)
        content = as_text(made) or as_text(mapping(found.get("status"), "status").get("message"))
        span.result = ToolResult(content=content, name=span.call.name, is_error=failed)
    if kind == "retriever":
        span.chunks = chunks_of(made)
    return span


def _input(given: Any) -> Any:
    """Arguments of a traced function; one that is a list of messages stands for all."""
    if not isinstance(given, dict) or "messages" in given:
        return given
    lists = [one for one in given.values() if isinstance(one, list) and one]
    return lists[0] if len(lists) == 1 and all(map(_has_role, lists[0])) else given


def _has_role(one: Any) -> bool:
    return isinstance(one, dict) and "role" in one


def _assessments(trace: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for one in sequence(_info(trace).get("assessments"), "info.assessments"):
        found = mapping(one, "info.assessments")
        if found.get("valid", True):
            yield found


def _value(assessed: dict[str, Any], kind: str) -> Any:
    told = assessed.get(kind)
    return decoded(told.get("value")) if isinstance(told, dict) else None


def _numbers(assessed: list[dict[str, Any]]) -> dict[str, float]:
    found = {as_text(one.get("assessment_name")): _value(one, "feedback") for one in assessed}
    return {
        name: float(value)
        for name, value in found.items()
        if isinstance(value, bool | int | float) and 0 <= value <= 1
    }


def _human(assessed: list[dict[str, Any]]) -> dict[str, Any]:
    rows = []
    for one in assessed:
        source, value = mapping(one.get("source"), "source"), _value(one, "feedback")
        if source.get("source_type") == "HUMAN" and value is not None:
            rater = name_of(source.get("source_id")) or "human"
            metric = as_text(one.get("assessment_name"))
            rows.append({"metric": metric, "label": value, "rater": rater})
    return {HUMAN_LABELS: rows} if rows else {}


def _expected(assessed: list[dict[str, Any]]) -> Expected:
    """Ground truth; facts stand in for a response and give way to one."""
    told = {as_text(one.get("assessment_name")): _value(one, "expectation") for one in assessed}
    response, facts = told.get("expected_response"), told.get("expected_facts")
    guidelines = told.get("guidelines")
    if isinstance(guidelines, str):
        guidelines = [guidelines]
    return Expected(
        response=response if isinstance(response, str) else None,
        facts=() if response or not isinstance(facts, list) else tuple(map(as_text, facts)),
        acceptance_criteria=tuple(map(as_text, guidelines))
        if isinstance(guidelines, list)
        else None,
    )
