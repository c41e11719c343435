"""A case: what an agent said and did, and what was expected; a JSON line in the format `native`."""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from assizes.judge.case_probe import MOST_PROBES, StateProbe

Role = Literal["user", "assistant", "tool"]

_SPOKEN: Final = frozenset({"voice", "phone", "telephone", "call", "speech", "audio", "ivr"})
"""Values of the tag `channel` of a conversation that is spoken."""

MOST_TOKENS: Final = 10**12
"""The largest token count that a model call may state, so that sums of counts fit into 64 bits."""

MAX_ID: Final = 200
"""The most characters of the id of a trace or a span that a row keeps."""

MOST_USD: Final = 1e12
"""The largest amount in US dollars that a case may state, so that sums of amounts stay finite."""

MOST_MS: Final = 1e15
"""The longest duration in milliseconds, some 30,000 years: sums of durations stay finite."""


def _with_zone(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        return moment.replace(tzinfo=UTC)
    # Filters and rows convert to UTC later, where an error would end the run, not reject a record.
    try:
        moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("in UTC it is before the year 1 or after the year 9999") from None
    return moment


Moment = Annotated[datetime, AfterValidator(_with_zone)]
"""A point in time with a time zone; a time that was written without a zone is taken as UTC."""


# A misspelt key is rejected rather than lost. NaN has no order that all tools share (decision 2).
class _CaseModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class ToolCall(_CaseModel):
    """One tool call, as the agent wrote it."""

    name: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    id: str | None = None  # repeated by the `ToolResult.call_id` of its answer
    raw: str | None = Field(
        default=None, description="the argument text where it was not a JSON object"
    )
    tool_calls: tuple[ToolCall, ...] = Field(
        default=(), description="calls made inside this one, e.g. by a sub-agent"
    )
    result: str | None = Field(
        default=None, description="the answer of a nested call, which has no turn of its own"
    )


class ToolResult(_CaseModel):
    """The answer of a tool to one call."""

    content: str = ""
    call_id: str | None = None  # of the `ToolCall` that it answers
    name: str | None = None
    is_error: bool = False


class Usage(_CaseModel):
    """The tokens of one model call."""

    input_tokens: int = Field(default=0, ge=-MOST_TOKENS, le=MOST_TOKENS)
    output_tokens: int = Field(default=0, ge=-MOST_TOKENS, le=MOST_TOKENS)

    @classmethod
    def total(cls, usages: Iterable[Usage | None]) -> Usage | None:
        """The sum over several model calls; `None` where none of them records any."""
        known = [(u.input_tokens, u.output_tokens) for u in usages if u is not None]
        if not known:
            return None
        inputs, outputs = (sum(counts) for counts in zip(*known, strict=True))
        # Not validated: a sum may exceed what one call can take.
        return cls.model_construct(input_tokens=inputs, output_tokens=outputs)


class Chunk(_CaseModel):
    """A retrieved passage."""

    content: str
    doc_uri: str | None = None  # the document that the passage was cut from


class Turn(_CaseModel):
    """One message of the conversation.

    The index of a turn is its position in the transcript, from 0; the system prompt is no turn.
    """

    role: Role
    text: str | None = None  # `None` in a message that holds tool calls only
    tool_calls: tuple[ToolCall, ...] = ()
    tool_result: ToolResult | None = None
    chunks: tuple[Chunk, ...] | None = Field(
        default=None, description="what a retrieval step returned; empty: it found nothing"
    )
    started_at: Moment | None = None
    latency_ms: float | None = Field(default=None, ge=0, le=MOST_MS)  # since `started_at`
    usage: Usage | None = None
    cost_usd: float | None = Field(default=None, ge=-MOST_USD, le=MOST_USD)
    agent: str | None = Field(
        default=None, description="the name of the agent that spoke, where several work together"
    )
    trace_id: str | None = Field(default=None, description="of the recorded trace of this turn")
    span_id: str | None = Field(default=None, description="of the span in it, unique in the trace")
    message_id: str | None = Field(default=None, description="that the provider gave its answer")

    def all_text(self) -> str:
        """The text, the tool's result and the retrieved passages, as people are shown them."""
        texts = [self.text, None if self.tool_result is None else self.tool_result.content]
        texts += ["retrieved: nothing"] if self.chunks == () else []
        for chunk in self.chunks or ():
            source = f" from {chunk.doc_uri}" if chunk.doc_uri else ""
            texts.append(f"retrieved{source}: {chunk.content}")
        return "\n".join(text for text in texts if text)


class ToolSpec(_CaseModel):
    """A tool that the agent could call; `writes`: whether it changes state (`None`: not known)."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = Field(default_factory=dict)  # JSON Schema of the arguments
    writes: bool | None = None


class Transcript(_CaseModel):
    """A recorded conversation: its turns, and the setup in which the agent worked."""

    turns: tuple[Turn, ...] = ()
    system: str | None = None  # system prompt of the agent
    tools: tuple[ToolSpec, ...] = ()
    chunks: tuple[Chunk, ...] | None = Field(
        default=None, description="retrieved for the whole; null: no retrieval is known"
    )
    started_at: Moment | None = None
    duration_ms: float | None = Field(default=None, ge=0, le=MOST_MS)  # wall clock
    agent_cost_usd: float | None = Field(default=None, ge=-MOST_USD, le=MOST_USD)
    usage: Usage | None = Field(
        default=None, description="of all model calls; null: the sum over the agent's turns"
    )
    finished: bool | None = Field(
        default=None,
        description="false: cut off before its end; null: not known; see the status of the case",
    )

    def turn_spans(self) -> list[str] | None:
        """For each turn its trace and span as `trace/span`, or an empty text; None where none has.

        A turn whose span is not known is only its `trace/`.
        """
        places = [
            f"{(turn.trace_id or '')[:MAX_ID]}/{(turn.span_id or '')[:MAX_ID]}".removeprefix("/")
            for turn in self.turns
        ]
        return places if any(places) else None

    def agents(self) -> tuple[str, ...]:
        """The names of the agents that spoke, in the order of their first turns."""
        return tuple(dict.fromkeys(turn.agent for turn in self.turns if turn.agent))

    @property
    def system_hash(self) -> str | None:
        """The first 12 hex digits of the SHA-256 over the system prompt; None without one."""
        text = " ".join((self.system or "").split())
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        return digest[:12] if text else None

    def calls(self) -> Iterator[tuple[int, ToolCall]]:
        """Yield the agent's tool calls in order, each after the index of its turn."""
        for index, turn in enumerate(self.turns):
            if turn.role == "assistant":
                for call in turn.tool_calls:
                    yield index, call

    def retrieval(self) -> tuple[Chunk, ...] | None:
        """Passages of the last retrieval step, else of the whole; `None`: none known."""
        steps = [turn.chunks for turn in self.turns if turn.chunks is not None]
        return steps[-1] if steps else self.chunks  # an empty one found nothing

    def retrieved_chunks(self) -> tuple[Chunk, ...]:
        """The passages of `retrieval`; an empty tuple also where no retrieval is known."""
        return self.retrieval() or ()

    def request(self) -> str | None:
        """The last text of the user; `None` where the user wrote none."""
        return next((t.text for t in reversed(self.turns) if t.role == "user" and t.text), None)

    def response(self) -> str | None:
        """The last text of the agent; `None` where the agent wrote none."""
        return next((text for _, text in reversed(list(self.agent_texts()))), None)

    def results(self) -> dict[str, ToolResult]:
        """Tool results by call id; results without an id are left out."""
        # Of several results with one id the last counts.
        return {
            turn.tool_result.call_id: turn.tool_result
            for turn in self.turns
            if turn.tool_result is not None and turn.tool_result.call_id is not None
        }

    def agent_texts(self) -> Iterator[tuple[int, str]]:
        """Yield the agent's texts in order, each after the index of its turn."""
        for index, turn in enumerate(self.turns):
            if turn.role == "assistant" and turn.text:
                yield index, turn.text

    def answer_places(self, last: int) -> list[int]:
        """Indexes of the agent's texts that answer, in the exchange whose last text is turn `last`.

        A text in front of a tool call or beside one announces the answer; it is one only where the
        exchange has no other.
        """
        places: list[int] = []
        for index in range(last, -1, -1):
            turn = self.turns[index]
            has_text = bool((turn.text or "").strip())
            calls_tool = index < last and (turn.tool_calls or turn.role == "tool")
            if calls_tool or (turn.role == "user" and has_text):
                break
            if turn.role == "assistant" and has_text:
                places.append(index)
        answers = [place for place in places if not self.turns[place].tool_calls] or places
        return answers[::-1]

    def said(self) -> Iterator[tuple[int, str]]:
        """The name of `agent_texts` until version 0.1, for judges of users that still call it."""
        return self.agent_texts()

    def agent_latencies_ms(self) -> list[float]:
        """The latency in milliseconds of each assistant turn that records one."""
        latencies = (turn.latency_ms for turn in self.turns if turn.role == "assistant")
        return [latency for latency in latencies if latency is not None]

    def agent_latency_ms(self) -> float | None:
        """The median latency of the assistant turns in milliseconds: the agent's p50."""
        latencies = self.agent_latencies_ms()
        return statistics.median(latencies) if latencies else None

    def agent_usage(self) -> Usage | None:
        """Tokens as recorded for the whole, else summed over the agent's turns; `None`: not known."""
        if self.usage is not None:
            return self.usage
        return Usage.total(t.usage for t in self.turns if t.role == "assistant")

    def cost_usd(self) -> float | None:
        """The agent's cost in US dollars: as recorded for the whole, else summed over its turns."""
        if self.agent_cost_usd is not None:
            return self.agent_cost_usd
        costs = [t.cost_usd for t in self.turns if t.role == "assistant" and t.cost_usd is not None]
        return sum(costs) if costs else None


_NOT_HASHED: Final[dict[str, Any]] = {
    "metadata": True,
    "labels": True,
    "transcript": {"turns": {"__all__": {"trace_id", "span_id", "message_id"}}},
}
"""The parts of a case that a judge does not look at."""


class ExpectedCall(_CaseModel):
    """A tool call that the agent should have made; `arguments` is `None` where any will do."""

    name: str
    arguments: dict[str, Any] | None = None


class ExpectedDocument(_CaseModel):
    """A document that should have been retrieved."""

    doc_uri: str
    content: str = ""


class Expected(_CaseModel):
    """The ground truth of a case; every field is optional. Judges skip a case that lacks theirs."""

    outcomes: tuple[str, ...] = Field(
        default=(), description="statements that must hold at the end"
    )
    tool_calls: tuple[ExpectedCall, ...] | None = Field(
        default=None, description="null: not known; empty: no call is needed"
    )
    said: tuple[str, ...] = Field(
        default=(), description="strings the agent must have told the user"
    )
    writes: tuple[str, ...] | None = Field(
        default=None, description="names of the tools that change state"
    )
    arguments_match: Literal["named", "exact"] = Field(
        default="named", description="exact: arguments that the expectation does not name are wrong"
    )
    response: str | None = None
    facts: tuple[str, ...] = Field(default=(), description="in place of `response`, not beside it")
    retrieved_context: tuple[ExpectedDocument, ...] = ()
    sql: str | tuple[str, ...] | None = Field(
        default=None, description="statements in order; the text `null`: no SQL may be run"
    )
    database: str | None = Field(
        default=None, description="SQLite or DuckDB file the statements are tried on, as a copy"
    )
    search_results: str | tuple[Any, ...] | None = Field(
        default=None, description="what must be found; `null`: no search; empty: nothing found"
    )
    has_chart: bool | str | None = None  # as text: "true", "false" or "null"
    chart_type: str | None = None
    response_quality: str | None = Field(
        default=None, description="what a good answer does; `null`: nothing may be answered"
    )
    trajectory: tuple[tuple[ExpectedCall, ...], ...] = Field(
        default=(), description="accepted paths of tool calls, any of them"
    )
    trajectory_match: Literal["in_order", "exact", "set"] = "in_order"
    acceptance_criteria: str | tuple[str, ...] | None = None
    additional_input: dict[str, Any] = Field(
        default_factory=dict, description="criteria by key, e.g. `Complete`"
    )
    rubrics: dict[str, Any] = Field(
        default_factory=dict, description="criteria by key for all turns of a conversation"
    )
    probes: tuple[StateProbe, ...] = Field(
        default=(),
        max_length=MOST_PROBES,
        description="the state after the run, for a judge to read",
    )

    @model_validator(mode="after")
    def _one_ground_truth(self) -> Expected:
        if self.response and self.facts:
            raise ValueError("give expected.response or expected.facts, not both")
        return self


class Case(_CaseModel):
    """One conversation to be judged, identified within a run by `(case_id, repetition)`."""

    case_id: str = Field(min_length=1, max_length=512)
    repetition: int = Field(default=0, ge=0, le=10**9)  # which trial, from 0
    transcript: Transcript
    expected: Expected = Field(default_factory=Expected)
    agent: str | None = None
    agent_version: str | None = None
    status: str = Field(
        default="completed",
        description="only completed conversations are judged; how one ended: `finished`",
    )
    tags: dict[str, str] = Field(default_factory=dict)
    cluster: str | None = Field(
        default=None, description="what was sampled together: user, session, task"
    )
    evaluation_criteria_override: str | None = None
    labels: dict[str, float] = Field(
        default_factory=dict, description="verdicts found in the data, 0..1, by name"
    )
    metadata: dict[str, Any] = Field(default_factory=dict)

    def content_hash(self) -> str:
        """The first 32 hex digits of the SHA-256 over everything that a judge may look at."""
        # Defaults are left out, so that a field added to the models later changes no old hash.
        body = _AS_JSON.dump_json(self, exclude=_NOT_HASHED, exclude_defaults=True)
        return hashlib.sha256(body).hexdigest()[:32]

    @property
    def is_written(self) -> bool:
        """Whether the tag `channel` says that the conversation is read, not heard, as in a chat."""
        words = self.tags.get("channel", "").casefold().replace("_", " ").replace("-", " ").split()
        return bool(words) and _SPOKEN.isdisjoint(words)

    def write_names(self) -> frozenset[str]:
        """Names of the tools that change state, from the first of three sources that says any."""
        if self.expected.writes is not None:
            return frozenset(self.expected.writes)
        declared = [tool for tool in self.transcript.tools if tool.writes is not None]
        if declared:
            return frozenset(tool.name for tool in declared if tool.writes)
        return frozenset(call.name for call in self.expected.tool_calls or ())


_AS_JSON: Final = TypeAdapter(Case)
