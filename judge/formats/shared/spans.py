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
from assizes.judge.formats.shared.fidelity import Tally
from assizes.judge.formats.shared.json_shapes import between_ms
from assizes.judge.formats.shared.messages import with_last_answer
from assizes.judge.formats.shared.repeated_histories import Exchange, longest, rejoined, stitched

Kind = Literal["agent", "llm", "tool", "retriever", "other"]

_EPOCH: Final = datetime.min.replace(tzinfo=UTC)


@dataclass
class Span:
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
    asked: tuple[Turn, ...] = ()
    answered: tuple[Turn, ...] = ()
    systems: tuple[str, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    call: ToolCall | None = None
    result: ToolResult | None = None
    chunks: tuple[Chunk, ...] | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    compacted: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)


def conversation(spans: Sequence[Span], tally: Tally) -> Transcript:
    """The transcript of the spans of one conversation."""
    single = {(span.trace, span.id): span for span in spans}
    tally.count("repeated", "span", len(spans) - len(single))
    ordered = sorted(single.values(), key=_begins)
    traces: dict[str, list[Span]] = {}
    for span in ordered:
        traces.setdefault(span.trace, []).append(span)
    others = sum(span.kind == "other" for span in ordered)
    tally.count("dropped", "span of another kind", others)
    join = rejoined if any(span.compacted for span in ordered) else stitched
    turns = join([_trace_turns(trace, tally) for trace in traces.values()], tally)
    systems = list(dict.fromkeys(text for span in _models(ordered) for text in span.systems))
    tools = {tool.name: tool for span in ordered for tool in span.tools}
    starts = [span.start for span in ordered if span.start is not None]
    ends = [span.end for span in ordered if span.end is not None]
    return Transcript(
        turns=turns,
        system="\n\n".join(systems) or None,
        tools=tuple(tools.values()),
        started_at=min(starts, default=None),
        duration_ms=between_ms(min(starts, default=None), max(ends, default=None)),
        chunks=None if _spoken(turns) else _found(ordered),
    )


def _begins(span: Span) -> datetime:
    return span.start or _EPOCH


def _trace_turns(spans: Sequence[Span], tally: Tally) -> tuple[Turn, ...]:
    models = [span for span in _models(spans) if span.asked or span.answered]
    if models:
        calls = [Exchange(span.asked, _timed(span)) for span in models]
        if any(span.compacted for span in models):
            turns = rejoined([(*call.asked, *call.answered) for call in calls], tally)
        else:
            turns = longest(calls, tally)
    else:
        turns = _outer(spans)
    turns = _with_tools(turns, [(span, span.call) for span in spans if span.call is not None])
    return _with_chunks(turns, _found(spans))


def _models(spans: Sequence[Span]) -> list[Span]:
    """Model calls that no tool made for itself."""
    # Traces that are joined may give their spans the same ids.
    by_id = {(span.trace, span.id): span for span in spans}
    return [span for span in spans if span.kind == "llm" and not _inside_tool(span, by_id)]


def _inside_tool(span: Span, by_id: Mapping[tuple[str, str], Span]) -> bool:
    seen = {span.id}
    above = by_id.get((span.trace, span.parent or ""))
    while above is not None and above.id not in seen:
        if above.kind == "tool":
            return True
        seen.add(above.id)
        above = by_id.get((span.trace, above.parent or ""))
    return False


def _timed(span: Span) -> tuple[Turn, ...]:
    took = between_ms(span.start, span.end)
    turns = with_last_answer(span.answered, span.usage, started_at=span.start, latency_ms=took)
    if span.cost_usd is None or not turns:
        return turns
    return (*turns[:-1], turns[-1].model_copy(update={"cost_usd": span.cost_usd}))


def _outer(spans: Sequence[Span]) -> tuple[Turn, ...]:
    """What the outermost span that says anything was asked and said."""
    for span in sorted(spans, key=lambda one: (one.kind != "agent", one.parent is not None)):
        if span.kind in ("agent", "other") and (span.asked or span.answered):
            # It began before everything inside it: that is no time of the answer.
            took = between_ms(span.start, span.end)
            return (*span.asked, *with_last_answer(span.answered, span.usage, latency_ms=took))
    return ()


def _with_tools(turns: Sequence[Turn], tools: Iterable[tuple[Span, ToolCall]]) -> tuple[Turn, ...]:
    """The turns with the calls and the results that only tool spans tell of."""
    found = list(turns)
    for span, call in tools:
        place = _caller(found, call)
        answer = Turn(role="tool", tool_result=span.result, started_at=span.start)
        if place is None:
            at = len(found)
            while at and found[at - 1].role == "assistant" and not found[at - 1].tool_calls:
                at -= 1
            asked = Turn(role="assistant", tool_calls=(call,), started_at=span.start)
            found[at:at] = [asked, *([answer] if span.result else [])]
        elif span.result is not None and not _answered(found, place, call):
            found.insert(_behind_results(found, place), answer)
    return tuple(found)


def _caller(turns: Sequence[Turn], call: ToolCall) -> int | None:
    """The turn that made a call: by its id; where one of them has none, by name and arguments."""
    for place, turn in enumerate(turns):
        if call.id is not None and any(one.id == call.id for one in turn.tool_calls):
            return place
    for place, turn in enumerate(turns):
        if any(_alike(one, call) for one in turn.tool_calls):
            return place
    return None


def _alike(one: ToolCall, other: ToolCall) -> bool:
    unnamed = one.id is None or other.id is None
    same = (one.name, one.arguments, one.raw) == (other.name, other.arguments, other.raw)
    return unnamed and same


def _answered(turns: Sequence[Turn], place: int, call: ToolCall) -> bool:
    """Whether the call of a turn has a result: by id, or as many results as calls behind it."""
    ids = {turn.tool_result.call_id for turn in turns if turn.tool_result is not None}
    if call.id is not None and call.id in ids:
        return True
    given = _behind_results(turns, place) - place - 1
    return given >= len(turns[place].tool_calls)


def _behind_results(turns: Sequence[Turn], place: int) -> int:
    place += 1
    while place < len(turns) and turns[place].role == "tool":
        place += 1
    return place


def _found(spans: Iterable[Span]) -> tuple[Chunk, ...] | None:
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


def _spoken(turns: Iterable[Turn]) -> bool:
    return any(turn.role == "assistant" for turn in turns)
