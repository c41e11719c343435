"""MLflow traces as JSON: one object `{"info": {...}, "data": {"spans": [...]}}` a trace.

The attributes of a span are texts that hold JSON. The traces of one session make one conversation.
Feedback becomes labels, expectations become ground truth.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from assizes.judge.case import Case, Expected, ToolResult
from assizes.judge.errors import DataError
from assizes.judge.formats.shared.containers import Piece, piece_format
from assizes.judge.formats.shared.json_shapes import (
    as_text,
    decode_if_json,
    mapping,
    moment,
    name_of,
    numbered_objects,
    objects,
    valid_labels,
)
from assizes.judge.formats.shared.messages import ConversationBuilder, call_of, tools_of, usage_of
from assizes.judge.formats.shared.otel_spans import chunks_of
from assizes.judge.formats.shared.parsing import HUMAN_LABELS, FidelityCounter
from assizes.judge.formats.shared.provider_messages import add_value
from assizes.judge.formats.shared.spans import Kind, TraceSpan, conversation

_KINDS: Final[dict[str, Kind]] = {
    "CHAT_MODEL": "llm",
    "LLM": "llm",
    "TOOL": "tool",
    "RETRIEVER": "retriever",
    "AGENT": "agent",
    # A chain, or a function traced without a type, may be all that holds question and answer.
    "CHAIN": "agent",
    "UNKNOWN": "agent",
}


def is_trace(value: Any) -> bool:
    """Whether a value is an object with the `info` of a trace; its spans may be cut off."""
    info = value.get("info") if isinstance(value, dict) else None
    return isinstance(info, dict) and not info.keys().isdisjoint(
        {"trace_id", "request_id", "trace_location"}  # `request_id`: before MLflow 3
    )


def _pieces(value: Any) -> Iterator[Piece]:
    """Yield the trace as one piece; its session, if it names one, is the conversation."""
    if not is_trace(value):
        raise DataError("schema", "record: no info of a trace")
    session = name_of(_trace_metadata(value).get("mlflow.trace.session"))
    yield Piece(_trace_id(value), session, value)


def _join(pieces: list[Any]) -> Case:
    case = traces_case(pieces, FidelityCounter())
    if not case.transcript.turns:
        raise DataError("schema", "data.spans: no inputs and no outputs in any of them")
    return case


def traces_case(pieces: list[Any], tally: FidelityCounter) -> Case:
    """Return the case of the traces of one session; without turns where the spans tell of none.

    `tally` counts what the case leaves out.

    Raises:
        DataError: `schema`, when a trace has no id, or a value has another type.
    """
    spans = [
        _span(span_data, _trace_id(trace), tally)
        for trace in pieces
        for _, span_data in numbered_objects(
            mapping(trace.get("data"), "data").get("spans"), "data.spans"
        )
    ]
    transcript = conversation(spans, tally)
    metadata = _trace_metadata(pieces[0])
    session = name_of(metadata.get("mlflow.trace.session"))
    assessments = [
        assessment
        for trace in pieces
        for assessment in objects(_info(trace).get("assessments"), "info.assessments")
        if assessment.get("valid", True)  # false: replaced by a later one
    ]
    return Case(
        case_id=session or _trace_id(pieces[0]),
        transcript=transcript,
        expected=_expected_values(assessments),
        agent=name_of(mapping(_info(pieces[0]).get("tags"), "info.tags").get("mlflow.traceName")),
        agent_version=name_of(metadata.get("mlflow.modelId")),
        tags=_tags(pieces[0]),
        cluster=name_of(metadata.get("mlflow.trace.user")) or session,
        labels=valid_labels(
            (
                (as_text(assessment.get("assessment_name")), value)
                for assessment in assessments
                if isinstance(value := _value(assessment, "feedback"), bool | int | float)
            ),
            tally,
        ),
        metadata={**_human_labels(assessments), **tally.metadata()},
    )


def _info(trace: dict[str, Any]) -> dict[str, Any]:
    return mapping(trace.get("info"), "info")


def _trace_id(trace: dict[str, Any]) -> str:
    trace_id = name_of(_info(trace).get("trace_id")) or name_of(_info(trace).get("request_id"))
    if trace_id is None:
        raise DataError("schema", "info.trace_id: missing")
    return trace_id


def _trace_metadata(trace: dict[str, Any]) -> dict[str, Any]:
    info = _info(trace)
    return mapping(info.get("trace_metadata", info.get("request_metadata")), "info.trace_metadata")


def _tags(trace: dict[str, Any]) -> dict[str, str]:
    """Return the tags that users set; tags of MLflow itself begin with `mlflow.`."""
    tags = _info(trace).get("tags")
    pairs = tags.items() if isinstance(tags, dict) else ()
    return {name: as_text(value) for name, value in pairs if not name.startswith("mlflow.")}


def _span(span_data: dict[str, Any], trace: str, tally: FidelityCounter) -> TraceSpan:
    raw_attributes = mapping(span_data.get("attributes"), "attributes")
    # MLflow stores every attribute as a JSON text.
    attributes = {name: decode_if_json(value) for name, value in raw_attributes.items()}
    inputs, outputs = attributes.get("mlflow.spanInputs"), attributes.get("mlflow.spanOutputs")
    kind: Kind = _KINDS.get(str(attributes.get("mlflow.spanType", "UNKNOWN")), "other")
    input_builder, output_builder = ConversationBuilder(tally), ConversationBuilder(tally)
    if kind in ("llm", "agent"):
        add_value(_without_arguments(inputs), "user", input_builder)
        add_value(outputs, "assistant", output_builder)
    declared = decode_if_json(attributes.get("mlflow.chat.tools"))
    context = mapping(span_data.get("context"), "context")
    span = TraceSpan(
        id=str(span_data.get("span_id", context.get("span_id"))),
        parent=name_of(span_data.get("parent_span_id", span_data.get("parent_id"))),
        trace=trace,
        kind=kind,
        start=moment(span_data.get("start_time_unix_nano", span_data.get("start_time"))),
        end=moment(span_data.get("end_time_unix_nano", span_data.get("end_time"))),
        tools=tools_of(declared if isinstance(declared, list) else []),
        usage=usage_of(attributes.get("mlflow.chat.tokenUsage")),
    )
    span.set_messages(input_builder, output_builder)
    if kind == "tool":
        status = mapping(span_data.get("status"), "status")
        failed = "ERROR" in as_text(status.get("code"))  # STATUS_CODE_ERROR, or ERROR
        span.call = call_of(span_data.get("name") or "tool", inputs)
        content = as_text(outputs) or as_text(status.get("message"))
        span.result = ToolResult(content=content, name=span.call.name, is_error=failed)
    if kind == "retriever":
        span.chunks = chunks_of(outputs)
    return span


def _without_arguments(inputs: Any) -> Any:
    """Return the messages among the arguments of a traced function; without any, all arguments."""
    if not isinstance(inputs, dict) or "messages" in inputs:
        return inputs
    lists = [value for value in inputs.values() if isinstance(value, list) and value]
    are_messages = len(lists) == 1 and all(  # two lists: nobody can say which is the history
        isinstance(item, dict) and "role" in item for item in lists[0]
    )
    return lists[0] if are_messages else inputs


def _value(assessment: dict[str, Any], kind: str) -> Any:
    answer = assessment.get(kind)
    return decode_if_json(answer.get("value")) if isinstance(answer, dict) else None


def _values(assessments: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    return {as_text(each.get("assessment_name")): _value(each, kind) for each in assessments}


def _human_labels(assessments: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the feedback that people gave, as rows of a labels file."""
    rows = []
    for assessment in assessments:
        source, value = mapping(assessment.get("source"), "source"), _value(assessment, "feedback")
        if source.get("source_type") == "HUMAN" and value is not None:
            rater = name_of(source.get("source_id")) or "human"
            metric = as_text(assessment.get("assessment_name"))
            rows.append({"metric": metric, "label": value, "rater": rater})
    return {HUMAN_LABELS: rows} if rows else {}


def _expected_values(assessments: list[dict[str, Any]]) -> Expected:
    """Return the ground truth of a conversation."""
    expectations = _values(assessments, "expectation")
    response, facts = expectations.get("expected_response"), expectations.get("expected_facts")
    guidelines = expectations.get("guidelines")
    criteria = [guidelines] if isinstance(guidelines, str) else guidelines
    return Expected(
        response=response if isinstance(response, str) else None,
        # `Expected` refuses facts beside an expected response.
        facts=() if response or not isinstance(facts, list) else tuple(map(as_text, facts)),
        acceptance_criteria=tuple(map(as_text, criteria)) if isinstance(criteria, list) else None,
    )


MLFLOW: Final = piece_format("mlflow", frozenset({"info"}), is_trace, _pieces, _join)
"""The format of traces of MLflow 3."""
