"""A conversation from the spans of traces: the common part of OpenTelemetry, Langfuse and MLflow.

Spans of model calls give the history, tool spans the calls and results, retriever spans the
passages. The longest chain of model calls gives the turns of a trace; the traces of one session are
joined in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal

from assizes.judge.case import Chunk, ToolCall, ToolResult, ToolSpec, Transcript, Turn, Usage
from assizes.judge.formats.shared.fidelity import FidelityCounter
from assizes.judge.formats.shared.json_shapes import between_ms, moment, name_of
from assizes.judge.formats.shared.messages import (
    ConversationBuilder,
    with_last_agent_turn,
    with_last_answer,
)
from assizes.judge.formats.shared.repeated_histories import (
    RecordedCall,
    join_compacted_parts,
    join_parts,
    longest_chain_turns,
)

Kind = Literal["agent", "llm", "tool", "retriever", "other"]

_EPOCH: Final = datetime.min.replace(tzinfo=UTC)


@dataclass
class TraceSpan:
    """One span of a trace, in the terms of a transcript.

    Attributes:
        id: the span's id, unique within its trace.
        parent: the id of the span around this span; None for the outermost.
        input_turns: the history that a model was sent, or the request to an agent.
        output_turns: the answer of the model or the agent.
        systems: system prompts that the model was sent.
        call: the call of a tool span; `result` is None when the tool answered nothing.
        chunks: the passages of a retriever span; None for spans of other kinds.
        compacted: whether the history begins with a summary of earlier turns.
        metadata: facts for the case's metadata.
    """

    id: str
    parent: str | None
    trace: str
    kind: Kind
    start: datetime | None = None
    end: datetime | None = None
    input_turns: tuple[Turn, ...] = ()
    output_turns: tuple[Turn, ...] = ()
    systems: tuple[str, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    call: ToolCall | None = None
    result: ToolResult | None = None
    chunks: tuple[Chunk, ...] | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    compacted: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)

    def set_messages(self, inputs: ConversationBuilder, outputs: ConversationBuilder) -> None:
        """Take turns and system prompts from what was read of the span's input and output."""
        self.input_turns, self.output_turns = tuple(inputs.turns), tuple(outputs.turns)
        self.systems = tuple(inputs.systems)


def span_of(plain: dict[str, Any], kind: Kind) -> TraceSpan:
    """Return a span with the ids and times of a span in the plain shape of `otlp.plain_spans`."""
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

    Args:
        spans: all spans of the conversation; spans with the same trace and id count once.
        tally: counts what the transcript leaves out.
    """
    unique = {(span.trace, span.id): span for span in spans}
    tally.count("repeated", "span", len(spans) - len(unique))
    ordered = sorted(unique.values(), key=lambda span: span.start or _EPOCH)
    traces: dict[str, list[TraceSpan]] = {}
    for span in ordered:
        traces.setdefault(span.trace, []).append(span)
    others = sum(span.kind == "other" for span in ordered)
    tally.count("dropped", "span of another kind", others)
    join = join_compacted_parts if any(span.compacted for span in ordered) else join_parts
    turns = join([_trace_turns(trace, tally) for trace in traces.values()], tally)
    systems = list(dict.fromkeys(text for span in _model_spans(ordered) for text in span.systems))
    tools = {tool.name: tool for span in ordered for tool in span.tools}
    starts = [span.start for span in ordered if span.start is not None]
    ends = [span.end for span in ordered if span.end is not None]
    return Transcript(
        turns=turns,
        system="\n\n".join(systems) or None,
        tools=tuple(tools.values()),
        started_at=min(starts, default=None),
        duration_ms=between_ms(min(starts, default=None), max(ends, default=None)),
        chunks=None if _has_agent_turn(turns) else _retrieved_chunks(ordered),
    )


def _trace_turns(spans: Sequence[TraceSpan], tally: FidelityCounter) -> tuple[Turn, ...]:
    models = [span for span in _model_spans(spans) if span.input_turns or span.output_turns]
    if models:
        calls = [RecordedCall(span.input_turns, _timed_turns(span)) for span in models]
        if any(span.compacted for span in models):
            turns = join_compacted_parts(
                [(*call.turns_before, *call.turns_added) for call in calls], tally
            )
        else:
            turns = longest_chain_turns(calls, tally)
    else:
        turns = _outermost_turns(spans)
    turns = _with_tools(turns, [(span, span.call) for span in spans if span.call is not None])
    return _with_chunks(turns, _retrieved_chunks(spans))


def _model_spans(spans: Sequence[TraceSpan]) -> list[TraceSpan]:
    """Return the model calls that are no part of a tool's own work."""
    # Two traces of one session may use the same span ids.
    by_id = {(span.trace, span.id): span for span in spans}
    return [span for span in spans if span.kind == "llm" and not _inside_tool(span, by_id)]


def _inside_tool(span: TraceSpan, by_id: Mapping[tuple[str, str], TraceSpan]) -> bool:
    seen_ids = {span.id}
    above = by_id.get((span.trace, span.parent or ""))
    while above is not None and above.id not in seen_ids:
        if above.kind == "tool":
            return True
        seen_ids.add(above.id)
        above = by_id.get((span.trace, above.parent or ""))
    return False


def _timed_turns(span: TraceSpan) -> tuple[Turn, ...]:
    elapsed_ms = between_ms(span.start, span.end)
    turns = with_last_answer(
        span.output_turns, span.usage, started_at=span.start, latency_ms=elapsed_ms
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
                *with_last_answer(span.output_turns, span.usage, latency_ms=elapsed_ms),
            )
    return ()


def _with_tools(
    turns: Sequence[Turn], tools: Iterable[tuple[TraceSpan, ToolCall]]
) -> tuple[Turn, ...]:
    """Insert the tool calls and results that only tool spans hold."""
    result = list(turns)
    for span, call in tools:
        place = _calling_turn(result, call)
        answer = Turn(role="tool", tool_result=span.result, started_at=span.start)
        if place is None:
            at = len(result)
            while at and result[at - 1].role == "assistant" and not result[at - 1].tool_calls:
                at -= 1
            call_turn = Turn(role="assistant", tool_calls=(call,), started_at=span.start)
            result[at:at] = [call_turn, *([answer] if span.result else [])]
        elif span.result is not None and not _has_result(result, place, call):
            result.insert(_behind_results(result, place), answer)
    return tuple(result)


def _calling_turn(turns: Sequence[Turn], call: ToolCall) -> int | None:
    """Return the index of the turn that made a call; None when no turn did.

    Calls are compared by id, or by name and arguments when one of the two has no id.
    """
    for place, turn in enumerate(turns):
        if call.id is not None and any(made_call.id == call.id for made_call in turn.tool_calls):
            return place
    for place, turn in enumerate(turns):
        if any(_is_alike(made_call, call) for made_call in turn.tool_calls):
            return place
    return None


def _is_alike(first: ToolCall, second: ToolCall) -> bool:
    id_missing = first.id is None or second.id is None
    same = (first.name, first.arguments, first.raw) == (second.name, second.arguments, second.raw)
    return id_missing and same


def _has_result(turns: Sequence[Turn], place: int, call: ToolCall) -> bool:
    """Whether a call of a turn has a result: one with its id, or a result for each of its calls."""
    ids = {turn.tool_result.call_id for turn in turns if turn.tool_result is not None}
    if call.id is not None and call.id in ids:
        return True
    result_count = _behind_results(turns, place) - place - 1
    return result_count >= len(turns[place].tool_calls)


def _behind_results(turns: Sequence[Turn], place: int) -> int:
    """Return the index behind the tool results that follow a turn."""
    place += 1
    while place < len(turns) and turns[place].role == "tool":
        place += 1
    return place


def _retrieved_chunks(spans: Iterable[TraceSpan]) -> tuple[Chunk, ...] | None:
    lists = [span.chunks for span in spans if span.chunks is not None]
    return tuple(chunk for chunks in lists for chunk in chunks) if lists else None


def _with_chunks(turns: tuple[Turn, ...], chunks: tuple[Chunk, ...] | None) -> tuple[Turn, ...]:
    """Put the passages that a trace retrieved into the answer with which it ends."""
    return turns if chunks is None else with_last_agent_turn(turns, {"chunks": chunks})


def _has_agent_turn(turns: Iterable[Turn]) -> bool:
    return any(turn.role == "assistant" for turn in turns)
