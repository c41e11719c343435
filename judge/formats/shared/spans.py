"""A conversation from the spans of traces, or from model calls that repeat the whole history.

Spans of model calls give the history, tool spans the calls and results, retriever spans the
passages. The longest chain of model calls gives the turns of a trace; the traces of one session are
joined in order. This is the common part of OpenTelemetry, Langfuse, MLflow and the logs of OpenAI.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal

from assizes.judge.case import Chunk, ToolCall, ToolResult, ToolSpec, Transcript, Turn, Usage
from assizes.judge.formats.shared.json_shapes import between_ms, moment, name_of
from assizes.judge.formats.shared.messages import (
    ConversationBuilder,
    with_last_agent_turn,
    with_last_answer,
)
from assizes.judge.formats.shared.parsing import FidelityCounter
from assizes.judge.formats.shared.tool_steps import ToolStep, is_alike, with_tools
from assizes.judge.formats.shared.turn_chains import (
    RecordedCall,
    TracePart,
    chains_of,
    join_compacted_parts,
    join_parts,
)

Kind = Literal["agent", "llm", "tool", "retriever", "other"]

_EPOCH: Final = datetime.min.replace(tzinfo=UTC)  # sorts spans without a start first


@dataclass
class TraceSpan:
    """One span of a trace, in the terms of a transcript."""

    id: str  # unique within its trace
    parent: str | None  # id of the span around this span; None for the outermost
    trace: str
    kind: Kind
    start: datetime | None = None
    end: datetime | None = None
    input_turns: tuple[Turn, ...] = ()  # history that a model was sent, or the request to an agent
    output_turns: tuple[Turn, ...] = ()  # answer of the model or the agent
    systems: tuple[str, ...] = ()  # system prompts that the model was sent
    tools: tuple[ToolSpec, ...] = ()  # declared to the model
    call: ToolCall | None = None  # of a tool span
    result: ToolResult | None = None  # None where the tool answered nothing
    chunks: tuple[Chunk, ...] | None = None  # of a retriever span; None for other kinds
    usage: Usage | None = None
    cost_usd: float | None = None
    agent: str | None = None  # the name of the agent that the span belongs to, as it says itself
    message_id: str | None = None  # that the provider gave the answer of a model call
    compacted: bool = False  # the history begins with a summary of earlier turns
    metadata: dict[str, Any] = field(default_factory=dict)  # for the case's metadata

    def set_messages(self, inputs: ConversationBuilder, outputs: ConversationBuilder) -> None:
        """Take turns and system prompts from what was read of the span's input and output."""
        self.input_turns, self.output_turns = tuple(inputs.turns), tuple(outputs.turns)
        self.systems = tuple(inputs.systems)


def span_of(plain: dict[str, Any], kind: Kind) -> TraceSpan:
    """Return a span with the ids and times of a span in the plain shape of `otel_spans.plain_spans`."""
    return TraceSpan(
        id=str(plain["id"]),
        parent=name_of(plain["parent"]),
        trace=str(plain["trace"]),
        kind=kind,
        start=moment(plain["start"]),
        end=moment(plain["end"]),
    )


def conversation(spans: Sequence[TraceSpan], tally: FidelityCounter) -> Transcript:
    """Return the transcript of the spans of one conversation, in any order.

    Spans with the same trace and id count once; `tally` counts what the transcript leaves out.
    """
    unique = {(span.trace, span.id): span for span in spans}
    tally.count("repeated", "span", len(spans) - len(unique))
    ordered = sorted(unique.values(), key=lambda span: span.start or _EPOCH)
    traces: dict[str, list[TraceSpan]] = {}  # by trace id, in the order of their first spans
    for span in ordered:
        traces.setdefault(span.trace, []).append(span)
    others = sum(span.kind == "other" for span in ordered)
    tally.count("dropped", "span of another kind", others)
    parts = [_trace_turns(trace, tally) for trace in traces.values()]
    if any(span.compacted for span in ordered):
        turns = join_compacted_parts([part.turns for part in parts], tally)
    else:
        turns = join_parts(parts, tally)
    turns = _with_earlier_retrievals(turns, traces.values(), tally)
    systems = list(dict.fromkeys(text for span in _model_spans(ordered) for text in span.systems))
    tools = {tool.name: tool for span in ordered for tool in span.tools}
    has_agent_turn = any(turn.role == "assistant" for turn in turns)
    starts = [span.start for span in ordered if span.start is not None]
    ends = [span.end for span in ordered if span.end is not None]
    retrievals = _retrieval_spans(ordered)
    transcript = Transcript(
        turns=turns,
        system="\n\n".join(systems) or None,
        tools=tuple(tools.values()),
        started_at=min(starts, default=None),
        duration_ms=between_ms(min(starts, default=None), max(ends, default=None)),
        chunks=None if has_agent_turn or not retrievals else retrievals[-1].chunks,
    )
    return _with_totals(transcript, ordered)


def _trace_turns(spans: Sequence[TraceSpan], tally: FidelityCounter) -> TracePart:
    models = [span for span in _model_spans(spans) if span.input_turns or span.output_turns]
    if models:
        names = _agent_names(spans)
        calls = [
            RecordedCall(span.input_turns, _named_turns(_timed_turns(span), names.get(span.id)))
            for span in models
        ]
        if any(span.compacted for span in models):
            turns = join_compacted_parts(
                [(*call.turns_before, *call.turns_added) for call in calls], tally
            )
        else:
            chains = reversed(chains_of(calls))  # of equal chains `max` takes the last: a retry
            longest = max(chains, key=lambda chain: (len(chain.turns), len(chain.calls)))
            beside = len(calls) - len(longest.calls)
            tally.count("dropped", "model call beside the conversation", beside)
            turns = longest.turns
    else:
        turns = _outermost_turns(spans)  # no model call was recorded with its content
    turns = with_tools(turns, _tool_steps(spans))
    # The passages of a trace's last retrieval step belong to the answer with which it ends.
    retrievals = _retrieval_spans(spans)
    if retrievals:
        turns = with_last_agent_turn(turns, {"chunks": retrievals[-1].chunks})
    given_count = len(list(itertools.takewhile(lambda turn: turn.trace_id is None, turns)))
    # What the user wrote has no span of its own, but belongs to the trace.
    placed = (
        turn if turn.trace_id else turn.model_copy(update={"trace_id": spans[0].trace})
        for turn in turns
    )
    return TracePart(tuple(placed), given_count)


def _model_spans(spans: Sequence[TraceSpan]) -> list[TraceSpan]:
    """Return the model calls that are no part of a tool's own work."""
    by_id = {(span.trace, span.id): span for span in spans}
    models = (span for span in spans if span.kind == "llm")
    return [m for m in models if all(above.kind != "tool" for above in _spans_around(m, by_id))]


def _spans_around(
    span: TraceSpan, by_id: Mapping[tuple[str, str], TraceSpan]
) -> Iterator[TraceSpan]:
    """Yield the spans that lie around a span, from the inside out."""
    # Two traces of one session may use the same span ids.
    seen_ids = {span.id}  # a file may name spans as parents of one another in a circle
    above = by_id.get((span.trace, span.parent or ""))
    while above is not None and above.id not in seen_ids:
        yield above
        seen_ids.add(above.id)
        above = by_id.get((span.trace, above.parent or ""))


def _agent_names(spans: Sequence[TraceSpan]) -> dict[str, str]:
    """Return the name of the agent of each model call of a trace, by the span's id.

    It is that of the span or of the nearest span around it. Where one agent alone has a name, the
    case has it, and its turns need none.
    """
    by_id = {(span.trace, span.id): span for span in spans}
    names: dict[str, str] = {}
    for model in _model_spans(spans):
        around = (model, *_spans_around(model, by_id))
        if (name := next((span.agent for span in around if span.agent), None)) is not None:
            names[model.id] = name
    return names if len(set(names.values())) > 1 else {}


def _named_turns(turns: tuple[Turn, ...], agent: str | None) -> tuple[Turn, ...]:
    if agent is None:
        return turns
    return tuple(
        turn.model_copy(update={"agent": agent}) if turn.role == "assistant" else turn
        for turn in turns
    )


def _retrieval_spans(spans: Sequence[TraceSpan]) -> list[TraceSpan]:
    """Return the retrieval steps in order; a retriever within another one is a part of it."""
    by_id = {(span.trace, span.id): span for span in spans}
    retrievers = (span for span in spans if span.chunks is not None)
    return [r for r in retrievers if all(above.chunks is None for above in _spans_around(r, by_id))]


def _figures(spans: Sequence[TraceSpan], name: str) -> list[Any]:
    """Return a figure of every model call, and of every agent whose model calls record none."""
    by_id = {(span.trace, span.id): span for span in spans}
    recording = [
        span for span in spans if span.kind in ("llm", "agent") and getattr(span, name) is not None
    ]
    # Around the provider's call lies that of a framework, which may record its last step alone.
    outer = {(r.trace, above.id) for r in recording for above in _spans_around(r, by_id)}
    return [getattr(span, name) for span in recording if (span.trace, span.id) not in outer]


def _with_totals(transcript: Transcript, spans: Sequence[TraceSpan]) -> Transcript:
    """Return the transcript with the tokens and dollars of all model calls, told by turn or not."""
    usage, costs = Usage.total(_figures(spans, "usage")), _figures(spans, "cost_usd")
    cost_usd = sum(costs) if costs else None
    changes: dict[str, Any] = {"usage": usage} if usage != transcript.agent_usage() else {}
    changes |= {"agent_cost_usd": cost_usd} if cost_usd != transcript.cost_usd() else {}
    return transcript.model_copy(update=changes)


def _placed_turns(span: TraceSpan) -> tuple[Turn, ...]:
    """Return the output of a span, with the ids of the span at each turn."""
    # What stands for a whole trace, as some readers make it, is no span of the store.
    span_id = span.id if span.id != span.trace else None
    ids = {"trace_id": span.trace, "span_id": span_id, "message_id": span.message_id}
    return tuple(turn.model_copy(update=ids) for turn in span.output_turns)


def _timed_turns(span: TraceSpan) -> tuple[Turn, ...]:
    elapsed_ms = between_ms(span.start, span.end)
    turns = with_last_answer(
        _placed_turns(span), span.usage, started_at=span.start, latency_ms=elapsed_ms
    )
    if span.cost_usd is None or not turns:
        return turns
    return (*turns[:-1], turns[-1].model_copy(update={"cost_usd": span.cost_usd}))


def _outermost_turns(spans: Sequence[TraceSpan]) -> tuple[Turn, ...]:
    """Return the input and output of the outermost agent span that has any."""
    for span in sorted(spans, key=lambda entry: (entry.kind != "agent", entry.parent is not None)):
        if span.kind in ("agent", "other") and (span.input_turns or span.output_turns):
            # The span's start is left out: it began before everything inside it, and the answer
            # came at its end.
            elapsed_ms = between_ms(span.start, span.end)
            return (
                *span.input_turns,
                *with_last_answer(_placed_turns(span), span.usage, latency_ms=elapsed_ms),
            )
    return ()


def _tool_steps(spans: Sequence[TraceSpan]) -> list[ToolStep]:
    """Return the executions of tools in order; several spans may tell of one.

    These are spans of one call with one id, and a span that lies within that of the same call.
    """
    by_id = {(span.trace, span.id): span for span in spans}
    steps: dict[tuple[str | None, ...], ToolStep] = {}
    for span in spans:
        if span.call is None:
            continue
        outermost, call = span, span.call
        for above in _spans_around(span, by_id):
            if above.call is not None and is_alike(above.call, span.call):
                outermost, call = above, above.call
        # An id alone tells no call: some providers use it again.
        same_call = (call.id, call.name, repr(call.arguments), call.raw)
        key = (outermost.trace, outermost.id) if call.id is None else same_call
        step = steps.setdefault(
            key,
            ToolStep(outermost.trace, outermost.id, outermost.start, call, outermost.result),
        )
        if step.result is None:
            steps[key] = step._replace(result=span.result)
    return list(steps.values())


def _with_earlier_retrievals(
    turns: Sequence[Turn], traces: Iterable[Sequence[TraceSpan]], tally: FidelityCounter
) -> tuple[Turn, ...]:
    """Insert all retrieval steps of a trace but the last as turns, in front of the trace's answer."""
    # Only now: a later trace repeats the turns before it, but never a retrieval step.
    result, start = list(turns), 0
    for trace in traces:
        steps = [span.chunks for span in _retrieval_spans(trace)]
        places = range(start, len(result) if steps else start)
        at = next((place for place in places if result[place].chunks is steps[-1]), None)
        if at is None:  # no agent answers, or the whole trace is a repetition
            tally.count("dropped", "retrieval step", len(steps[:-1]))
            continue
        result[at:at] = [Turn(role="tool", chunks=chunks) for chunks in steps[:-1]]
        start = at + len(steps)
    return tuple(result)
