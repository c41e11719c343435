"""A conversation from the spans of traces: what OpenTelemetry, Langfuse and MLflow have in common.

Model calls tell the history, tool spans what was called and answered, retrievers what was found.
Of each trace the longest chain of model calls is taken; traces of one session follow each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal

from assizes.judge.case import Chunk, ToolCall, ToolResult, ToolSpec, Transcript, Turn, Usage
from assizes.judge.formats.shared.fidelity import FidelityCounter
from assizes.judge.formats.shared.json_shapes import between_ms
from assizes.judge.formats.shared.messages import with_last_answer
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
    """One span, in the words of a transcript.

    Attributes:
        asked: the turns that stood before a model call, or what an agent was asked.
        answered: what it said.
        systems: system prompts it was given.
        compacted: whether its history holds a summary in place of the beginning.
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


def conversation(spans: Sequence[TraceSpan], tally: FidelityCounter) -> Transcript:
    """The transcript of the spans of one conversation."""
    single = {(span.trace, span.id): span for span in spans}
    tally.count("repeated", "span", len(spans) - len(single))
    ordered = sorted(single.values(), key=_start_or_epoch)
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


def _start_or_epoch(span: TraceSpan) -> datetime:
    return span.start or _EPOCH


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
    """Model calls that no tool made for itself."""
    # Traces that are joined may give their spans the same ids.
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
    """What the outermost span that says anything was asked and said."""
    for span in sorted(spans, key=lambda entry: (entry.kind != "agent", entry.parent is not None)):
        if span.kind in ("agent", "other") and (span.input_turns or span.output_turns):
            # It began before everything inside it: that is no time of the answer.
            elapsed_ms = between_ms(span.start, span.end)
            return (
                *span.input_turns,
                *with_last_answer(span.output_turns, span.usage, latency_ms=elapsed_ms),
            )
    return ()


def _with_tools(
    turns: Sequence[Turn], tools: Iterable[tuple[TraceSpan, ToolCall]]
) -> tuple[Turn, ...]:
    """The turns with the calls and the results that only tool spans tell of."""
    result = list(turns)
    for span, call in tools:
        place = _caller(result, call)
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


def _caller(turns: Sequence[Turn], call: ToolCall) -> int | None:
    """The turn that made a call: by its id; where one of them has none, by name and arguments."""
    for place, turn in enumerate(turns):
        if call.id is not None and any(made_call.id == call.id for made_call in turn.tool_calls):
            return place
    for place, turn in enumerate(turns):
        if any(_alike(made_call, call) for made_call in turn.tool_calls):
            return place
    return None


def _alike(first: ToolCall, second: ToolCall) -> bool:
    unnamed = first.id is None or second.id is None
    same = (first.name, first.arguments, first.raw) == (second.name, second.arguments, second.raw)
    return unnamed and same


def _has_result(turns: Sequence[Turn], place: int, call: ToolCall) -> bool:
    """Whether the call of a turn has a result: by id, or as many results as calls behind it."""
    ids = {turn.tool_result.call_id for turn in turns if turn.tool_result is not None}
    if call.id is not None and call.id in ids:
        return True
    result_count = _behind_results(turns, place) - place - 1
    return result_count >= len(turns[place].tool_calls)


def _behind_results(turns: Sequence[Turn], place: int) -> int:
    place += 1
    while place < len(turns) and turns[place].role == "tool":
        place += 1
    return place


def _retrieved_chunks(spans: Iterable[TraceSpan]) -> tuple[Chunk, ...] | None:
    lists = [span.chunks for span in spans if span.chunks is not None]
    return tuple(chunk for chunks in lists for chunk in chunks) if lists else None


def _with_chunks(turns: tuple[Turn, ...], chunks: tuple[Chunk, ...] | None) -> tuple[Turn, ...]:
    """What a trace retrieved goes to the answer it ends with."""
    if chunks is None:
        return turns
    for place in range(len(turns) - 1, -1, -1):
        if turns[place].role == "assistant":
            changed = turns[place].model_copy(update={"chunks": chunks})
            return (*turns[:place], changed, *turns[place + 1 :])
    return turns


def _has_agent_turn(turns: Iterable[Turn]) -> bool:
    return any(turn.role == "assistant" for turn in turns)
