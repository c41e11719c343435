"""MLflow traces as JSON: one object `{"info": {...}, "data": {"spans": [...]}}` a trace.

The attributes of a span are texts that hold JSON. The traces of one session make one conversation.
Feedback becomes labels, expectations become ground truth.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from assizes.judge.case import Case, Expected, ToolResult, Usage
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
    tokens,
)
from assizes.judge.formats.shared.messages import (
    CACHED_TOKENS,
    ConversationBuilder,
    call_of,
    tools_of,
    usage_of,
)
from assizes.judge.formats.shared.otel_spans import chunks_of
from assizes.judge.formats.shared.parsing import FidelityCounter
from assizes.judge.formats.shared.provider_messages import add_value
from assizes.judge.formats.shared.ratings import TraceRating, human_labels, rated_labels
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
    assessments = _assessments(pieces)
    ratings = list(map(_rating, assessments))
    return Case(
        case_id=session or _trace_id(pieces[0]),
        transcript=transcript,
        expected=_expected_values(assessments),
        agent=name_of(mapping(_info(pieces[0]).get("tags"), "info.tags").get("mlflow.traceName")),
        agent_version=name_of(metadata.get("mlflow.modelId")),
        tags=_tags(pieces[0]),
        cluster=name_of(metadata.get("mlflow.trace.user")) or session,
        labels=rated_labels(ratings, tally),
        metadata={**human_labels(ratings), **tally.metadata()},
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
        usage=_usage(attributes.get("mlflow.chat.tokenUsage"), outputs),
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


def _usage(counted: Any, outputs: Any) -> Usage | None:
    """Return the tokens of a model call, those of the prompt cache once.

    `counted` are the tokens by MLflow. Their input holds the cached ones, as OpenAI counts, and in
    some releases lacks them where Anthropic answered. The provider's own count in the outputs tells;
    without it, cached tokens that exceed the input cannot be a part of it.
    """
    if not isinstance(counted, dict):
        return None
    usage = usage_of({name: n for name, n in counted.items() if name not in CACHED_TOKENS})
    own = usage_of(outputs.get("usage")) if isinstance(outputs, dict) else None
    if own is not None and usage is not None and own.output_tokens == usage.output_tokens:
        return own
    cached = tokens(*map(counted.get, CACHED_TOKENS))
    return usage if cached <= tokens(counted.get("input_tokens")) else usage_of(counted)


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


def _assessments(pieces: list[Any]) -> list[dict[str, Any]]:
    """Return the assessments of traces that none of them overrides, in order of time."""
    assessments = [
        assessment
        for trace in pieces
        for assessment in objects(_info(trace).get("assessments"), "info.assessments")
    ]
    overridden = {name_of(assessment.get("overrides")) for assessment in assessments} - {None}
    valid = [
        assessment
        for assessment in assessments
        if assessment.get("valid", True)  # false: another one overrides it
        and name_of(assessment.get("assessment_id")) not in overridden
    ]
    return sorted(valid, key=lambda assessment: _rating(assessment).rank[1])


def _rating(assessment: dict[str, Any]) -> TraceRating:
    """Return the feedback of an assessment; one that holds an expectation rates nothing."""
    source, value = mapping(assessment.get("source"), "source"), _value(assessment, "feedback")
    is_of_person = source.get("source_type") == "HUMAN"
    return TraceRating(
        name=as_text(assessment.get("assessment_name")),
        number=value if isinstance(value, bool | int | float) else None,
        given=value,
        rater=(name_of(source.get("source_id")) or "human") if is_of_person else None,
        at=moment(assessment.get("last_update_time") or assessment.get("create_time")),
    )


def _expected_values(assessments: list[dict[str, Any]]) -> Expected:
    """Return the ground truth of a conversation."""
    expectations = {
        as_text(assessment.get("assessment_name")): value
        for assessment in assessments
        # Feedback may have the name of an expectation, as that of the judge `guidelines` has.
        if (value := _value(assessment, "expectation")) is not None
    }
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
