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
from typing import Any, Final, Literal, NamedTuple

from assizes.judge.case import Chunk, ToolCall, ToolResult, ToolSpec, Transcript, Turn, Usage
from assizes.judge.formats.shared.json_shapes import between_ms, moment, name_of
from assizes.judge.formats.shared.messages import (
    ConversationBuilder,
    with_last_agent_turn,
    with_last_answer,
)
from assizes.judge.formats.shared.parsing import FidelityCounter

Kind = Literal["agent", "llm", "tool", "retriever", "other"]

_EPOCH: Final = datetime.min.replace(tzinfo=UTC)  # sorts spans without a start first
_MAX_SUMMARY_TURNS: Final = 2
"""Turns that a summary has at most: the summary itself, and the agent's answer to it."""


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
    join = join_compacted_parts if any(span.compacted for span in ordered) else join_parts
    turns = join([_trace_turns(trace, tally) for trace in traces.values()], tally)
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


def _trace_turns(spans: Sequence[TraceSpan], tally: FidelityCounter) -> tuple[Turn, ...]:
    models = [span for span in _model_spans(spans) if span.input_turns or span.output_turns]
    if models:
        calls = [RecordedCall(span.input_turns, _timed_turns(span)) for span in models]
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
    turns = _with_tools(turns, [(span, span.call) for span in spans if span.call is not None])
    # The passages of a trace's last retrieval step belong to the answer with which it ends.
    retrievals = _retrieval_spans(spans)
    return with_last_agent_turn(turns, {"chunks": retrievals[-1].chunks}) if retrievals else turns


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
            # No turn has the call: it goes in front of the closing answers, which came after it.
            at = len(result)
            while at and result[at - 1].role == "assistant" and not result[at - 1].tool_calls:
                at -= 1
            call_turn = Turn(role="assistant", tool_calls=(call,), started_at=span.start)
            result[at:at] = [call_turn, *([answer] if span.result else [])]
        elif span.result is not None and not _has_result(result, place, call):
            result.insert(_behind_results(result, place), answer)
    return tuple(result)


def _calling_turn(turns: Sequence[Turn], call: ToolCall) -> int | None:
    """Return the index of the turn that made a call; None when no turn did."""
    calls = [(place, made) for place, turn in enumerate(turns) for made in turn.tool_calls]
    same_id = (place for place, made in calls if call.id is not None and made.id == call.id)
    alike = (place for place, made in calls if _is_alike(made, call))
    return next(itertools.chain(same_id, alike), None)


def _is_alike(first: ToolCall, second: ToolCall) -> bool:
    # Two ids that differ are two calls, however alike; some frameworks record an id on one side.
    same = (first.name, first.arguments, first.raw) == (second.name, second.arguments, second.raw)
    return same and None in (first.id, second.id)


def _has_result(turns: Sequence[Turn], place: int, call: ToolCall) -> bool:
    """Whether a call of a turn has a result: one with its id, or a result for each of its calls."""
    ids = {turn.tool_result.call_id for turn in turns if turn.tool_result is not None}
    result_count = _behind_results(turns, place) - place - 1
    return (call.id is not None and call.id in ids) or result_count >= len(turns[place].tool_calls)


def _behind_results(turns: Sequence[Turn], place: int) -> int:
    """Return the index behind the tool results that follow a turn."""
    place += 1
    while place < len(turns) and turns[place].role == "tool":
        place += 1
    return place


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


class RecordedCall(NamedTuple):
    """One model call of a log or a trace."""

    turns_before: tuple[Turn, ...]  # history that the model was sent
    turns_added: tuple[Turn, ...]  # the model's answer
    record: Any = None  # what the call was read from, for readers that need it again


@dataclass
class Chain:
    """Model calls each of which begins with the call before and its answer: one conversation."""

    turns: tuple[Turn, ...]  # up to the answer of the last call
    calls: list[RecordedCall]


def chains_of(calls: Iterable[RecordedCall]) -> list[Chain]:
    """Group calls into chains; a call that continues several chains goes to the longest of them."""
    chains: list[Chain] = []
    for call in calls:
        fitting = [
            chain
            for chain in chains
            if _shared_turn_count(chain.turns, call.turns_before) == len(chain.turns)
        ]
        if fitting:
            chain = max(fitting, key=lambda chain: len(chain.turns))
            # Turns that the chain has already keep the times of their first record.
            new_turns = (*call.turns_before[len(chain.turns) :], *call.turns_added)
            chain.turns = (*chain.turns, *new_turns)
            chain.calls.append(call)
        else:
            chains.append(Chain((*call.turns_before, *call.turns_added), [call]))
    return chains


def join_parts(parts: Iterable[Sequence[Turn]], tally: FidelityCounter) -> tuple[Turn, ...]:
    """Join the parts of a conversation in order.

    A part that begins with the whole conversation so far adds only its new turns; the repeated
    turns are counted. Any other part is appended whole.
    """
    turns: tuple[Turn, ...] = ()
    for part in parts:
        repeated_count = _shared_turn_count(turns, part)
        if turns and repeated_count == len(turns):
            tally.count("repeated", "turn", repeated_count)
            turns = (*turns, *part[repeated_count:])
        else:
            turns = (*turns, *part)
    return turns


def join_compacted_parts(
    parts: Iterable[Sequence[Turn]], tally: FidelityCounter
) -> tuple[Turn, ...]:
    """Join the parts of a conversation, where a later part may begin with a summary.

    The summary replaces the beginning of the conversation. Behind it the part repeats the last
    turns before the summary was made; these are found, left out and counted.
    """
    turns: tuple[Turn, ...] = ()
    for part in parts:
        repeated_count = _overlap(turns, part)
        tally.count("repeated", "turn", repeated_count)
        turns = (*turns, *part[repeated_count:])
    return turns


def _overlap(turns: Sequence[Turn], part: Sequence[Turn]) -> int:
    """Return how many turns at the beginning of `part` repeat, or sum up, the turns so far.

    The place sought is the first in `part` where the longest tail of `turns` ends. Without any such
    place, the overlap is what both have in common at their beginning.
    """
    codes: dict[tuple[Any, ...], int] = {}  # equal turns have equal numbers
    turn_codes, part_codes = (
        [codes.setdefault(_turn_key(turn), len(codes)) for turn in side] for side in (turns, part)
    )
    known = set(turn_codes)
    unknown_counts = [0, *itertools.accumulate(code not in known for code in part_codes)]
    best, longest_end = 0, 0
    for stop, size in enumerate(_matching_tail_sizes(turn_codes, part_codes), 1):
        start = stop - size
        unknown = unknown_counts[start]
        # A tail of frequent words (`Done.`) may match by chance: unknown turns in front of a match
        # must be few enough for a summary, and something new must follow it.
        at_most = max(_MAX_SUMMARY_TURNS, start // 2)
        if unknown and (unknown > at_most or stop == len(part_codes)):
            continue
        if size > longest_end:
            best, longest_end = stop, size
    return best or _shared_turn_count(turns, part)


def _matching_tail_sizes(turn_codes: Sequence[int], part_codes: Sequence[int]) -> list[int]:
    """Return, for every prefix of `part_codes`, how long a tail of `turn_codes` it ends with."""
    # The Z-algorithm (Gusfield 1997) over both sequences reversed, parted by a number that is no
    # code: linear time, however often turns repeat.
    line = [*reversed(turn_codes), -1, *reversed(part_codes)]
    sizes = [0] * len(line)
    left = right = 0
    for at in range(1, len(line)):
        size = min(right - at, sizes[at - left]) if at < right else 0
        while at + size < len(line) and line[size] == line[at + size]:
            size += 1
        if at + size > right:
            left, right = at, at + size
        sizes[at] = size
    return sizes[: len(turn_codes) : -1]


def _shared_turn_count(first: Sequence[Turn], second: Sequence[Turn]) -> int:
    """Count the turns that two conversations have in common at their beginning."""
    count = 0
    for mine, theirs in zip(first, second, strict=False):
        if mine is not theirs and _turn_key(mine) != _turn_key(theirs):
            break
        count += 1
    return count


def _turn_key(turn: Turn) -> tuple[Any, ...]:
    # Without times and ids: a repeated history may have new ones. `repr` makes arguments hashable.
    answer = turn.tool_result
    calls = tuple((call.name, repr(call.arguments), call.raw) for call in turn.tool_calls)
    return turn.role, turn.text or "", calls, answer and answer.content
