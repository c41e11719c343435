"""Evaluation sets of yes/no judges: a row a line, with a request, the response and the expected response.

    {"request_id": "q1", "request": "What is ...?", "response": "It is ...",
     "retrieved_context": [{"doc_uri": "a.md", "content": "..."}], "expected_response": "..."}

In place of response and context a row may hold a `trace`: an MLflow trace, a list of chat messages,
or a transcript as in the native format, each also as JSON text. A chat message may also have
`retrieved_context`, `usage`, `started_at` and `latency_ms`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, Final

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from assizes.judge.case import (
    Case,
    Chunk,
    Expected,
    ExpectedDocument,
    Moment,
    ToolResult,
    Transcript,
    Turn,
    Usage,
)
from assizes.judge.errors import DataError
from assizes.judge.formats.readers.mlflow_traces import is_trace, traces_case
from assizes.judge.formats.shared import parsing
from assizes.judge.formats.shared.containers import Format
from assizes.judge.formats.shared.json_shapes import content_id, decode_if_json
from assizes.judge.formats.shared.messages import ChatMessage

_MAX_NAMES, _MAX_NAME_CHARS = 5, 60  # of columns that are not known, in the reason of a reject
_LISTS: Final = ("expected_facts", "expected_retrieved_context", "retrieved_context")
_LEAST_LIKENESS: Final = 0.75  # of a misspelt name to the name that is meant, as difflib measures


class _Tokens(BaseModel):
    prompt: int = Field(0, ge=0, validation_alias=AliasChoices("prompt_tokens", "input_tokens"))
    completion: int = Field(
        0, ge=0, validation_alias=AliasChoices("completion_tokens", "output_tokens")
    )


class _Passage(BaseModel):
    content: str = ""
    doc_uri: str | None = None


class _Message(ChatMessage):
    retrieved_context: list[_Passage] | None = None
    usage: _Tokens | None = None
    started_at: Moment | None = None
    latency_ms: float | None = Field(default=None, ge=0)


class _Chat(BaseModel):
    messages: list[_Message]


class _Row(BaseModel):
    model_config = ConfigDict(allow_inf_nan=False)  # 1e999 is valid JSON, and read as infinity

    request_id: str | int | None = None  # the case id
    request: str | _Chat | None = None  # a question, or the messages up to it
    response: str | None = None
    expected_response: str | None = None
    expected_facts: list[str] | None = None  # in place of an expected response
    expected_retrieved_context: list[ExpectedDocument] | None = None
    retrieved_context: list[_Passage] | None = None
    trace: list[_Message] | Transcript | None = None  # chat messages, or a native transcript


def _case(record: bytes) -> Case:
    return row_case(parsing.strict_json(record))


def row_case(value: Any) -> Case:
    """Return the case of a row that is parsed JSON; negative times in it are set to None, in place.

    Without a `request_id`, a hash of the row is the case id. A column wins over what an MLflow trace
    says of the same. Columns that nobody knows are counted, with the column that may be meant.

    Raises:
        DataError: `schema`, when a column has another type, when the row has neither response,
            retrieved context nor trace, or when expected facts stand beside an expected response.
    """
    tally = parsing.FidelityCounter()
    with parsing.schema_errors():  # covers `Case` too, which refuses facts beside a response
        unknown = _unknown_columns(value)
        for column in unknown:
            tally.count("dropped", f"row.{column}")
        columns, traced = _columns(value, tally)
        dropped = parsing.drop_negative_times(columns)
        row = _Row.model_validate(columns)
        _check_inputs(row, unknown)
        fields: dict[str, Any] = {} if traced is None else dict(traced)
        times = {parsing.DROPPED_TIMES: dropped} if dropped else {}
        return Case(
            **{
                **fields,
                "case_id": content_id(value) if row.request_id is None else str(row.request_id),
                "transcript": _transcript(row),
                "expected": _expected_values(row, fields.get("expected", Expected())),
                "metadata": {**fields.get("metadata", {}), **tally.metadata(), **times},
            }
        )


def _columns(value: Any, tally: parsing.FidelityCounter) -> tuple[Any, Case | None]:
    """Return a row that can be validated, and the case of its MLflow trace; None without one."""
    if not isinstance(value, dict):
        return value, None
    # A cell of a CSV file is text, also where it holds a list.
    value = {**value, **{name: decode_if_json(value.get(name)) for name in _LISTS if name in value}}
    trace = decode_if_json(value.get("trace"))
    if not is_trace(trace):
        return {**value, "trace": trace}, None
    traced = traces_case([trace], tally)
    # Tables of traces repeat what went into the outermost span and what came out of it, as JSON.
    texts = {name: decode_if_json(value.get(name)) for name in ("request", "response")}
    plain = {name: text if isinstance(text, str) else None for name, text in texts.items()}
    return {**value, **plain, "trace": traced.transcript}, traced


def _unknown_columns(value: Any) -> list[str]:
    """Return the columns that are not read, each with the known column that may be meant."""
    columns: Mapping[str, Any] = value if isinstance(value, dict) else {}
    return [
        _with_suggestion(name[:_MAX_NAME_CHARS])
        for name in sorted(columns.keys() - _Row.model_fields.keys())
        if columns[name] not in (None, "", [], {})
    ]


@lru_cache(maxsize=1024)
def _with_suggestion(name: str) -> str:
    meant = get_close_matches(name.lower(), _Row.model_fields, n=1, cutoff=_LEAST_LIKENESS)
    return f"{name} (misspelt {meant[0]}?)" if meant else name


def _check_inputs(row: _Row, unknown: Sequence[str]) -> None:
    if row.trace.turns if isinstance(row.trace, Transcript) else row.trace:
        return  # taken as it is; request and response may stand in it
    if row.request is None:
        why = "request: missing; give a request, or a trace that holds it"
    elif row.response is None and row.retrieved_context is None:
        why = (
            "response: missing, and there is no trace; give response (or retrieved_context, to judge "
            "retrieval alone), or a trace that holds them"
        )
    else:
        return
    names = ", ".join(unknown[:_MAX_NAMES])
    raise DataError("schema", f"{why}; columns that are not known: {names}" if names else why)


def _transcript(row: _Row) -> Transcript:
    """Return the trace, completed from the columns of the row; a column wins over the trace."""
    traced = row.trace if isinstance(row.trace, Transcript) else _chat(row.trace or [])
    turns = list(traced.turns)
    if not any(turn.role == "user" for turn in turns):  # the trace begins with the answer
        if isinstance(row.request, _Chat):
            turns = [*_chat(row.request.messages).turns, *turns]
        elif row.request is not None:
            turns = [Turn(role="user", text=row.request), *turns]
    if row.response is not None and row.response != traced.response():  # not in the trace yet
        turns.append(Turn(role="assistant", text=row.response))
    changes: dict[str, Any] = {"turns": tuple(turns)}
    if row.retrieved_context is not None:
        # One retrieval for the whole conversation, in place of any that the turns hold.
        bare_turns = [turn.model_copy(update={"chunks": None}) for turn in turns]
        changes = {"turns": tuple(bare_turns), "chunks": _chunks(row.retrieved_context)}
    return traced.model_copy(update=changes)


def _chat(messages: Sequence[_Message]) -> Transcript:
    systems = [message.content or "" for message in messages if message.role == "system"]
    turns = [_turn(message) for message in messages if message.role != "system"]
    # A tool may call a model too; a simulated user's calls are none of the agent's.
    of_tools = any(turn.usage for turn in turns if turn.role == "tool")
    usage = Usage.total(turn.usage for turn in turns if turn.role != "user") if of_tools else None
    return Transcript(turns=tuple(turns), system="\n\n".join(systems) or None, usage=usage)


def _turn(message: _Message) -> Turn:
    used = message.usage
    shared: dict[str, Any] = {
        "usage": used and Usage(input_tokens=used.prompt, output_tokens=used.completion),
        "chunks": _chunks(message.retrieved_context),
        "started_at": message.started_at,
        "latency_ms": message.latency_ms,
    }
    if message.role == "tool":
        answer = ToolResult(
            content=message.content or "", call_id=message.tool_call_id, name=message.name
        )
        return Turn(role="tool", tool_result=answer, **shared)
    return Turn(
        role="assistant" if message.role == "assistant" else "user",
        text=message.content,
        tool_calls=message.calls(),
        **shared,
    )


def _chunks(passages: Sequence[_Passage] | None) -> tuple[Chunk, ...] | None:
    if passages is None:  # not known; an empty list found nothing (docs/decisions.md, 23)
        return None
    return tuple(Chunk(content=passage.content, doc_uri=passage.doc_uri) for passage in passages)


def _expected_values(row: _Row, traced: Expected) -> Expected:
    """Return the ground truth of a row; what it does not say is that of its trace."""
    response = row.expected_response
    response = response if response and response.strip() else None  # blank: missing (seed 004)
    facts = tuple(fact for fact in row.expected_facts or () if fact.strip())
    own: dict[str, Any] = {"response": response, "facts": facts} if response or facts else {}
    documents = tuple(row.expected_retrieved_context or ())
    return Expected(**{**dict(traced), **own, "retrieved_context": documents})


AGENT_EVALUATION: Final = Format(
    name="agent_evaluation",
    keys=frozenset({"request_id", "request", "trace"}),
    fits=lambda value: isinstance(value, dict),
    case=_case,
)
"""The format of evaluation sets."""
