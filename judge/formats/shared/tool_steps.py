"""The executions of tools that a trace records, put among the turns of its conversation.

Model calls tell of a tool call and its result, and so does the span of the tool: often all of them
tell of the same call, and often some leave out its id.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

from assizes.judge.case import ToolCall, ToolResult, Turn


class ToolStep(NamedTuple):
    """One execution of a tool, as a span tells it."""

    trace_id: str
    span_id: str  # unique within the trace
    started_at: datetime | None
    call: ToolCall
    result: ToolResult | None  # None where the tool answered nothing


def with_tools(turns: Sequence[Turn], steps: Sequence[ToolStep]) -> tuple[Turn, ...]:
    """Insert the tool calls and results that only tool spans hold."""
    result, added = list(turns), list[Turn]()
    answers: dict[int, list[Turn]] = {}  # by the index of the turn that made the calls
    recorded = _recorded_calls(turns, steps)
    answered: set[tuple[int, int]] = set()  # calls that now have the result of a span
    for step in steps:
        if (at := recorded.get(step.span_id)) is None:
            added.append(_turn_of(step, "assistant", tool_calls=(step.call,)))
            if step.result is not None:
                added.append(_turn_of(step, "tool", tool_result=step.result))
            continue
        place, index = at
        calls = result[place].tool_calls
        if step.result is None or at in answered or _has_result(turns, at, step.call.id):
            continue
        answered.add(at)
        # Readers pair a call and a result by their id. Without one they go by the places, which
        # tell nothing of calls made at once: the tools may have answered in any order.
        call_id = calls[index].id or step.call.id or (step.span_id if len(calls) > 1 else None)
        call = calls[index].model_copy(update={"id": call_id})
        calls = (*calls[:index], call, *calls[index + 1 :])
        result[place] = result[place].model_copy(update={"tool_calls": calls})
        answer = step.result.model_copy(update={"call_id": call_id})
        answers.setdefault(place, []).append(_turn_of(step, "tool", tool_result=answer))
    for place in sorted(answers, reverse=True):
        behind = _behind_results(result, place)
        result[behind:behind] = answers[place]
    # Calls that no turn has go in front of the closing answers, which came after them.
    end = len(result)
    while end and result[end - 1].role == "assistant" and not result[end - 1].tool_calls:
        end -= 1
    result[end:end] = added
    return tuple(result)


def _turn_of(step: ToolStep, role: Literal["assistant", "tool"], **fields: Any) -> Turn:
    """Return a turn with the time and the ids of a span of a tool."""
    ids = {"trace_id": step.trace_id, "span_id": step.span_id}
    return Turn(role=role, started_at=step.started_at, **ids, **fields)


def _recorded_calls(turns: Sequence[Turn], steps: Sequence[ToolStep]) -> dict[str, tuple[int, int]]:
    """Return which executions are calls of the turns, by the id of the span.

    A place is the index of the turn and that of the call in it. Each call is that of one execution:
    who asks for the same again, as in polling, makes another call.
    """
    free = {
        (place, index): made
        for place, turn in enumerate(turns)
        for index, made in enumerate(turn.tool_calls)
    }
    with_id: dict[str, list[tuple[int, int]]] = {}
    for at, made in free.items():
        if made.id is not None:
            with_id.setdefault(made.id, []).append(at)
    recorded: dict[str, tuple[int, int]] = {}
    alike: list[list[ToolStep]] = []  # executions of the same call, in groups
    for step in steps:
        if places := with_id.get(step.call.id or "", []):
            # An id may be used again for another call; two spans may tell of one call.
            unused = [at for at in places if at in free]
            same = [at for at in unused if is_alike(free[at], step.call)]
            recorded[step.span_id] = at = (same or unused or places)[0]
            free.pop(at, None)
        elif (group := next((g for g in alike if is_alike(g[0].call, step.call)), None)) is None:
            alike.append([step])
        else:
            group.append(step)
    for group in alike:
        places = [at for at, made in free.items() if is_alike(made, group[0].call)]
        # The history of earlier traces stands in front of what this trace did.
        for step, at in zip(group, places[-len(group) :], strict=False):
            recorded[step.span_id] = at
            del free[at]
    return recorded


def is_alike(first: ToolCall, second: ToolCall) -> bool:
    """Whether two calls may be one: the same tool and arguments, and not two ids."""
    same = (first.name, first.arguments, first.raw) == (second.name, second.arguments, second.raw)
    # Two ids that differ are two calls, however alike; some frameworks record an id on one side.
    return same and (first.id == second.id or None in (first.id, second.id))


def _has_result(turns: Sequence[Turn], at: tuple[int, int], told_id: str | None) -> bool:
    """Whether the turns have a result for a call: one with its id, or one at its place.

    `told_id` is the id by which the span of the tool tells the call.
    """
    place, index = at
    calls = turns[place].tool_calls
    ids = {calls[index].id, told_id} - {None}
    for turn in turns[place + 1 :] if ids else ():
        if any(call.id in ids for call in turn.tool_calls):  # the id is used again
            break
        if turn.tool_result is not None and turn.tool_result.call_id in ids:
            return True
    results = [turn.tool_result for turn in turns[place + 1 : _behind_results(turns, place)]]
    answer = results[index] if index < len(results) else None
    return len(results) >= len(calls) or (answer is not None and answer.call_id is None)


def _behind_results(turns: Sequence[Turn], place: int) -> int:
    """Return the index behind the tool results that follow a turn."""
    place += 1
    while place < len(turns) and turns[place].role == "tool":
        place += 1
    return place
