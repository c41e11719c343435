"""Langfuse: rows of the blob export, observations or pages of them from the API, and whole traces.

The observations of one session make a conversation; each trace is one exchange in it. Scores become
labels. An export is written in time windows that overlap: rows with the same id count once.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from assizes.judge.case import Case, ToolResult
from assizes.judge.errors import DataError
from assizes.judge.formats.shared import json_shapes as shapes
from assizes.judge.formats.shared.containers import (
    FileFacts,
    Piece,
    piece_format,
    with_file_facts,
)
from assizes.judge.formats.shared.messages import ConversationBuilder, call_of, usage_of
from assizes.judge.formats.shared.otel_spans import chunks_of
from assizes.judge.formats.shared.parsing import FidelityCounter
from assizes.judge.formats.shared.provider_messages import add_value
from assizes.judge.formats.shared.ratings import TraceRating, human_labels, rated_labels
from assizes.judge.formats.shared.spans import Kind, TraceSpan, conversation

_KINDS: Final[dict[str, Kind]] = {
    "GENERATION": "llm",
    "TOOL": "tool",
    "RETRIEVER": "retriever",
    "AGENT": "agent",
    "CHAIN": "agent",
    "SPAN": "agent",
}
_TYPES: Final = {*_KINDS, "EVENT", "EVALUATOR", "EMBEDDING", "GUARDRAIL"}
_CAMEL_NAMES: Final = (  # of the API; the blob export has snake case
    *("traceId", "sessionId", "userId", "observationId", "parentObservationId", "startTime"),
    *("endTime", "usageDetails", "totalCost", "dataType", "stringValue", "statusMessage"),
    "traceName",
)
_SNAKE: Final = {
    "calculatedTotalCost": "total_cost",
    **{name: re.sub("[A-Z]", r"_\g<0>", name).lower() for name in _CAMEL_NAMES},
}

_WORD_TYPES: Final = ("CATEGORICAL", "TEXT", "CORRECTION")
_IS_WIDE: Final = "is_wide"
"""A mark on the row of a score whose name has a value outside 0 to 1 in another row of the file."""

_KEYS: Final = frozenset({"data", "observations", "files", "source", "trace_id", "traceId"})


def _fits(value: Any) -> bool:
    """Whether a value is an observation, a score, a trace, a page of these or an export's manifest."""
    if not isinstance(value, dict):
        return False
    if (page := _page(value)) is not None:
        return bool(page) and _fits(page[0])
    fields = _with_snake_names(value)
    if isinstance(fields.get("observations"), list) or _listed_files(value):
        return True
    if str(fields.get("source")) in ("API", "ANNOTATION", "EVAL") and "data_type" in fields:
        return True
    return "trace_id" in fields and str(fields.get("type")) in _TYPES


def _page(value: Any) -> list[Any] | None:
    """Return what a page of the API lists; `None` for any other value."""
    if not isinstance(value, dict) or not value.keys() <= {"data", "meta"}:
        return None
    listed = value.get("data")
    return listed if isinstance(listed, list) else None


def _listed_files(value: Any) -> list[str]:
    """Return the files that the manifest of a blob export lists.

    Langfuse writes the manifest last, so a listed file is complete; no other sign says so.
    """
    files = value.get("files") if isinstance(value, dict) else None
    if not isinstance(files, list):
        return []
    keys = (shapes.name_of(file.get("key")) for file in files if isinstance(file, dict))
    return [key for key in keys if key is not None]


def _pieces(value: Any) -> Iterator[Piece]:
    """Yield the row of one line, the observations and scores of a trace, or those of a page."""
    if (page := _page(value)) is not None:
        for each in page:
            yield from _pieces(each)
        return
    if not _fits(value):
        raise DataError("schema", "record: neither an observation, a score nor a trace")
    fields = _with_snake_names(value)
    if isinstance(fields.get("observations"), list):
        yield from _trace_pieces(fields)
        return
    session = shapes.name_of(fields.get("session_id"))
    part = shapes.name_of(fields.get("trace_id")) or session
    if part is None:
        raise DataError("schema", "trace_id: missing, and there is no session_id")
    yield Piece(part, session, fields)


def _join(pieces: list[Any]) -> Case:
    tally = FidelityCounter()
    # Time windows of an export overlap. A row without an id is no copy: its number tells it apart.
    unique: dict[str | int, dict[str, Any]] = {}
    for number, row in enumerate(pieces):
        key = shapes.name_of(row.get("id")) or number
        # A window that was exported before the observation ended holds half of it.
        if row.get("end_time") or not unique.get(key, {}).get("end_time"):
            unique[key] = row
    rows = list(unique.values())
    tally.count("repeated", "row", len(pieces) - len(rows))
    observations = [row for row in rows if "data_type" not in row]  # only scores have a data type
    scores = [row for row in rows if "data_type" in row]
    transcript = conversation([_span(row, tally) for row in observations], tally)
    if not transcript.turns:
        raise DataError("schema", "observations: no input and no output in any of them")
    session = _first(rows, "session_id")
    ratings = list(map(_rating, scores))
    tally.count("dropped", "label in words", sum(map(_is_in_words, scores)))
    wide = [str(row.get("name")) for row in scores if row.get(_IS_WIDE)]
    return Case(
        case_id=session or _first(rows, "trace_id") or "",
        transcript=transcript,
        agent=_first(observations, "trace_name"),
        agent_version=_first(observations, "release") or _first(observations, "version"),
        tags=_tags(observations),
        cluster=_first(rows, "user_id") or session,
        labels=rated_labels(ratings, tally, wide),
        metadata={**human_labels(ratings), **tally.metadata()},
    )


def _with_snake_names(fields: dict[str, Any]) -> dict[str, Any]:
    return {_SNAKE.get(name, name): value for name, value in fields.items()}


def _trace_pieces(trace: dict[str, Any]) -> Iterator[Piece]:
    """Yield a trace as a span of its own, then its observations and its scores."""
    trace_id, session = shapes.name_of(trace.get("id")), shapes.name_of(trace.get("session_id"))
    if trace_id is None:
        raise DataError("schema", "id: missing, in a trace")
    shared = {name: trace.get(name) for name in ("session_id", "user_id", "release", "version")}
    shared |= {"trace_id": trace_id, "tags": trace.get("tags"), "trace_name": trace.get("name")}
    top = {name: trace.get(name) for name in ("input", "output", "environment")}
    # Its input and output count only where no model call has any: see `spans._trace_turns`.
    own = {"id": trace_id, "type": "SPAN", "start_time": trace.get("timestamp"), **top, **shared}
    yield Piece(trace_id, session, own)
    for kind in ("observations", "scores"):
        for row in shapes.sequence(trace.get(kind), kind):
            fields = _with_snake_names(shapes.mapping(row, kind))
            yield Piece(trace_id, session, {**shared, **fields, "trace_id": trace_id})


def _span(row: dict[str, Any], tally: FidelityCounter) -> TraceSpan:
    kind: Kind = _KINDS.get(str(row.get("type")), "other")
    input_builder, output_builder = ConversationBuilder(tally), ConversationBuilder(tally)
    if kind in ("llm", "agent"):
        add_value(row.get("input"), "user", input_builder)
        add_value(row.get("output"), "assistant", output_builder)
    span = TraceSpan(
        id=str(row.get("id")),
        parent=shapes.name_of(row.get("parent_observation_id")),
        trace=str(row.get("trace_id")),
        kind=kind,
        start=shapes.moment(row.get("start_time")),
        end=shapes.moment(row.get("end_time")),
        usage=usage_of(shapes.decode_if_json(row.get("usage_details"))),
        cost_usd=shapes.dollars(row.get("total_cost")),
    )
    span.set_messages(input_builder, output_builder)
    if kind == "tool":
        span.call = call_of(
            row.get("name") or "tool", shapes.decode_if_json(row.get("input")) or None
        )
        failed = row.get("level") == "ERROR"  # Langfuse: DEFAULT, DEBUG, WARNING, ERROR
        answer = shapes.as_text(row.get("output"))
        answer = answer or (shapes.as_text(row.get("status_message")) if failed else "")
        span.result = ToolResult(content=answer, name=span.call.name, is_error=failed)
    if kind == "retriever":
        output = shapes.decode_if_json(row.get("output"))  # a list, or an object around it
        documents = output.get("documents") if isinstance(output, dict) else output
        span.chunks = chunks_of(documents)
    return span


def _first(rows: Iterable[dict[str, Any]], name: str) -> str | None:
    return next((value for row in rows if (value := shapes.name_of(row.get(name)))), None)


def _tags(rows: list[dict[str, Any]]) -> dict[str, str]:
    """Return tags with values: Langfuse's tags are bare words, and each gets the value `true`."""
    words = [shapes.decode_if_json(row.get("tags")) for row in rows]
    tags = {
        str(word): "true" for tag_list in words if isinstance(tag_list, list) for word in tag_list
    }
    environment = _first(rows, "environment")
    return {**tags, **({"environment": environment} if environment else {})}


def _rating(row: dict[str, Any]) -> TraceRating:
    """Return a score as a rating; people gave those of source `ANNOTATION`."""
    text, number = row.get("string_value"), row.get("value")
    # A score is a number, a category in text, or (boolean) both: the number then counts.
    has_text = text not in (None, "") and shapes.amount(number) is None
    rater = shapes.name_of(row.get("author_user_id", row.get("authorUserId"))) or "human"
    return TraceRating(
        name=shapes.as_text(row.get("name")),
        number=_number(row),
        given=text if has_text else number,
        rater=rater if row.get("source") == "ANNOTATION" else None,
        at=shapes.moment(row.get("timestamp")),
    )


def _is_in_words(score: dict[str, Any]) -> bool:
    return score.get("data_type") in _WORD_TYPES


def _number(score: dict[str, Any]) -> float | None:
    # Beside a category stands its number, which counts the categories and grades nothing.
    return None if _is_in_words(score) else shapes.amount(score.get("value"))


def _wide_names(row: dict[str, Any]) -> Iterator[str]:
    """Yield the name of a score that is not from 0 to 1.

    No row says how far its scale goes: that stands in the project's score configurations, which no
    export holds. On a scale from 1 to 5, only rows with other values tell that 1 is the worst.
    """
    value = _number(row) if "data_type" in row else None
    if value is not None and not 0 <= value <= 1:
        yield str(row.get("name"))


def _with_wide_names(rows: list[Any], names: Collection[str]) -> list[Any]:
    """Return the rows of a conversation, with a mark on the scores of these names."""
    return [
        {**row, _IS_WIDE: True} if "data_type" in row and str(row.get("name")) in names else row
        for row in rows
    ]


LANGFUSE: Final = replace(
    with_file_facts(
        piece_format("langfuse", _KEYS, _fits, _pieces, _join),
        FileFacts(told=_wide_names, marked=_with_wide_names),
    ),
    other_objects=_listed_files,
)
"""The format of Langfuse's observations and scores."""
