"""Compares the tool calls that an agent made with the expected ones, before any model is asked.

A judge without ground truth is near chance on task completion.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from assizes.judge.case import Case, ExpectedCall, ToolCall, ToolResult, Transcript
from assizes.judge.evidence.outages import is_outage
from assizes.judge.evidence.same_values import assigned_places, differing_members
from assizes.judge.evidence.told_numbers import is_told, tokens_of
from assizes.judge.score import Metric

NO_TOOL_TRACE: Final = "no_tool_trace"
"""Key of `Case.metadata`: whether no conversation of the whole input holds a tool call."""

NO_TOOL_TRACE_REASON: Final = "no tool trace: no conversation of the input holds a tool call"
"""Why a metric of tool calls is skipped where calls are expected or tools were offered."""

_LISTED = 12
"""The most names or calls that one line of evidence lists."""
_VALUE_CHARS = 40  # of an argument value in a line of evidence
_NAME_CHARS = 60  # of a name; names are chosen by whoever wrote the transcript


@dataclass(frozen=True, slots=True)
class MadeCall:
    """A call that the agent made, with its result."""

    turn: int  # index of the turn
    call: ToolCall
    result: ToolResult | None = None  # `None`: the transcript has none

    is_prevented: bool = False  # whether the environment failed, by no fault of the agent

    @property
    def has_failed(self) -> bool:
        """Whether the tool answered with an error."""
        return self.is_prevented or (self.result is not None and self.result.is_error)


@dataclass(frozen=True, slots=True)
class CallMatch:
    """An expected call, the call that was made for it, and the names of arguments that differ.

    Arguments that the expectation does not name differ only where the case wants them `exact`.
    """

    expected: ExpectedCall
    made: MadeCall
    position: int  # place of the made call among the calls compared
    missing: tuple[str, ...] = ()  # expected arguments that are absent
    extra: tuple[str, ...] = ()  # unexpected arguments
    different: tuple[str, ...] = ()  # arguments with another value
    differences: int = 0  # how many there are in all; 0: an exact match


@dataclass(frozen=True, slots=True)
class ToolEvidence:
    """The comparison of an agent's calls with the expected calls; `None` means not known."""

    expected: tuple[ExpectedCall, ...] | None
    called: tuple[MadeCall, ...]  # the successful calls, in order
    failed: tuple[MadeCall, ...]  # calls that the tool refused with an error
    prevented: tuple[MadeCall, ...]  # calls that failed by an outage, a time-out and the like
    matches: tuple[CallMatch, ...]  # of the expected calls, those that were made or prevented
    missed: tuple[ExpectedCall, ...]  # of the expected calls, the others
    unexpected: tuple[MadeCall, ...]  # successful calls that nobody expected
    recall: float | None  # 0..1, by tool name: matches / expected calls; 1 where none is expected
    precision: float | None  # 0..1, by tool name: those that succeeded / calls that did
    in_order: bool | None  # whether the matches were made in the expected order
    writes_known: bool  # else the tools that change state were guessed from the expected calls
    expected_writes: tuple[ExpectedCall, ...] | None  # the expected calls that change state
    done_writes: tuple[MadeCall, ...]  # the successful calls that change state
    # Whether both are equal as multisets, arguments included; a prevented call counts as done.
    write_match: bool | None
    stated_texts: tuple[str, ...]  # strings of `expected.said` that the agent told the user
    unstated_texts: tuple[str, ...]  # the other strings of `expected.said`
    finished: bool | None  # whether the conversation came to its end

    @property
    def all_calls(self) -> tuple[MadeCall, ...]:
        """The calls that succeeded, were refused, or were prevented."""
        return (*self.called, *self.failed, *self.prevented)

    @property
    def lost_calls(self) -> tuple[MadeCall, ...]:
        """The prevented calls of tools that never worked again: what depended on these is lost."""
        return tuple(
            lost
            for lost in self.prevented
            if not any(c.call.name == lost.call.name and c.turn >= lost.turn for c in self.called)
        )

    def text(self) -> str:
        """The comparison as at most 30 short lines for a judge's prompt."""
        called, failed, prevented, unexpected = (
            _names([f"{_short(made.call.name, 40)} (turn {made.turn})" for made in calls])
            for calls in (self.called, self.failed, self.prevented, self.unexpected)
        )
        lines = [
            f"Successful calls: {len(self.called)}: {called}",
            f"Failed calls, not counted as done: {len(self.failed)}: {failed}",
        ]
        if self.prevented:
            lines.append(
                "Calls that failed by an outage or a time-out, no fault of the agent, nor is trying "
                f"again: {len(self.prevented)}: {prevented}"
            )
        if self.expected is None:
            lines.append("No expected calls given.")
        else:
            shares = (self.recall, self.precision)
            recall, precision = ("unknown" if n is None else round(n, 2) for n in shares)
            order = "yes" if self.in_order else "no"
            differing = [match for match in self.matches if match.differences]
            lines += [
                f"Expected calls: {len(self.expected)}: {_names([c.name for c in self.expected])}",
                f"By name: recall {recall}, precision {precision}, in order: {order}",
                f"Expected but not called: {_names([call.name for call in self.missed])}",
                f"Called beyond the expected: {unexpected}",
                f"Matched calls with other arguments than expected: {len(differing)}",
                *(f"- {_difference_line(match)}" for match in differing[:_LISTED]),
            ]
        done = len(self.done_writes)
        if self.expected_writes is None or self.write_match is None:
            lines.append(f"State-changing calls done: {done}; expected ones not known.")
        else:
            guessed = "" if self.writes_known else "; taken to be the tools of the expected calls"
            lines.append(
                f"State-changing calls{guessed}: expected {len(self.expected_writes)}, done {done}, "
                f"the same with arguments: {'yes' if self.write_match else 'no'}"
            )
        stated = len(self.stated_texts)
        if due := stated + len(self.unstated_texts):
            missing = _names([_value(text) for text in self.unstated_texts])
            lines.append(f"Told the user {stated} of {due} expected strings; not told: {missing}")
        if self.finished is not None:
            end = "yes" if self.finished else "no, it was cut off"
            lines.append(f"Conversation came to its end: {end}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class ConversationEvidence:
    """The evidence of the conversation judge: the case, its tool evidence, the chosen metrics."""

    case: Case
    tools: ToolEvidence
    metrics: tuple[Metric, ...]


def lacks_tool_trace(case: Case) -> bool:
    """Whether the input holds no tool call at all, though the case expects calls or offers tools."""
    expected = case.expected.tool_calls or case.expected.trajectory or case.transcript.tools
    return bool(case.metadata.get(NO_TOOL_TRACE) and expected)


def made_calls(transcript: Transcript) -> Iterator[MadeCall]:
    """Yield the agent's calls in order, each with its result."""
    by_id = transcript.results()
    for index, turn in enumerate(transcript.turns):
        if turn.role != "assistant" or not turn.tool_calls:
            continue
        # An id may be used again later: a result before the agent's next turn comes first.
        following = transcript.turns[index + 1 :]
        before_next = itertools.takewhile(lambda later: later.role != "assistant", following)
        near = [later.tool_result for later in before_next if later.tool_result is not None]
        # Of two results with one id the first counts, so it is written last.
        known = by_id | {r.call_id: r for r in reversed(near) if r.call_id is not None}
        # A result without an id answers the call at the same place of the turn.
        unnamed = {place: r for place, r in enumerate(near) if r.call_id is None}
        for place, call in enumerate(turn.tool_calls):
            named = None if call.id is None else known.get(call.id)
            result = named or unnamed.get(place)
            prevented = result is not None and is_outage(result.content, is_error=result.is_error)
            yield MadeCall(index, call, result, prevented)


def has_expected_call(case: Case) -> bool:
    """Whether a call that has not failed is of a tool that the case expects."""
    names = {call.name for call in case.expected.tool_calls or ()}
    return any(
        made.call.name in names and not made.has_failed for made in made_calls(case.transcript)
    )


def tool_evidence(case: Case) -> ToolEvidence:
    """Compare the tool calls of a case with its expected calls."""
    made = tuple(made_calls(case.transcript))
    called = tuple(call for call in made if not call.has_failed)  # a failed call has done nothing
    # What was recorded nowhere is not known to be missing.
    expected = None if lacks_tool_trace(case) else case.expected.tool_calls
    tried = tuple(call for call in made if call.is_prevented or not call.has_failed)
    is_exact = case.expected.arguments_match == "exact"
    match_by_index = _matches(expected or (), tried, exact=is_exact)
    matches = tuple(match_by_index.values())
    hit = {match.position for match in matches}  # places of the calls that were expected
    hit_calls = [match for match in matches if not match.made.is_prevented]
    write_names = case.write_names()
    declared = any(tool.writes is not None for tool in case.transcript.tools)
    writes_known = case.expected.writes is not None or declared
    expected_writes = tuple(call for call in expected or () if call.name in write_names)
    done_writes = tuple(each for each in called if each.call.name in write_names)
    write_match = None
    if expected is not None and (writes_known or expected_writes):
        pairs = [m.made for m in matches if m.expected.name in write_names and not m.differences]
        done_pairs = [made_call for made_call in pairs if not made_call.is_prevented]
        write_match = (len(pairs), len(done_pairs)) == (len(expected_writes), len(done_writes))
    in_order: bool | None = None
    recall, precision = None, None
    if expected is not None:
        in_order = all(a.position < b.position for a, b in itertools.pairwise(matches))
        recall, precision = (
            round(len(part) / len(side), 9) if side else 1.0
            for part, side in ((matches, expected), (hit_calls, called))
        )
    stated, unstated = _stated_texts(case)
    return ToolEvidence(
        expected=expected,
        called=called,
        failed=tuple(call for call in made if call.has_failed and not call.is_prevented),
        prevented=tuple(call for call in made if call.is_prevented),
        matches=matches,
        missed=tuple(call for i, call in enumerate(expected or ()) if i not in match_by_index),
        unexpected=tuple(c for i, c in enumerate(tried) if i not in hit and not c.is_prevented),
        recall=recall,
        precision=precision,
        in_order=in_order,
        writes_known=writes_known,
        expected_writes=None if expected is None else expected_writes,
        done_writes=done_writes,
        write_match=write_match,
        stated_texts=stated,
        unstated_texts=unstated,
        finished=case.transcript.finished,
    )


def _call_match(expected: ExpectedCall, made: MadeCall, position: int, *, exact: bool) -> CallMatch:
    if expected.arguments is None:  # any arguments will do
        return CallMatch(expected, made, position)
    missing, extra, different = (
        tuple(names)
        for names in differing_members(expected.arguments, made.call.arguments, exact=exact)
    )
    differences = len(missing) + len(extra) + len(different)
    return CallMatch(expected, made, position, missing, extra, different, differences)


def _matches(
    expected: Sequence[ExpectedCall], tried: Sequence[MadeCall], *, exact: bool
) -> dict[int, CallMatch]:
    """Pair each expected call, by its index, with at most one tried call of the same tool.

    Calls that succeeded come first, and of these the ones with the expected arguments.
    """
    matches: dict[int, CallMatch] = {}
    for is_prevented in sorted({made.is_prevented for made in tried}):
        options = {
            index: [
                _call_match(call, made, place, exact=exact)
                for place, made in enumerate(tried)
                if made.call.name == call.name and made.is_prevented is is_prevented
            ]
            for index, call in enumerate(expected)
            if index not in matches
        }
        matches = _nearest_pairs(options, matches | _exact_pairs(options))
    return dict(sorted(matches.items()))


_Options = Mapping[int, Sequence[CallMatch]]
"""The calls that may be paired with an expected call, by the index of the expected call."""


def _exact_pairs(options: _Options) -> dict[int, CallMatch]:
    rows: list[list[int]] = []
    before = -1
    for row in options.values():
        # Of equally good calls, the first after the call before counts, so that order is kept.
        exact = [match.position for match in row if match.differences == 0]
        rows.append([place for place in exact if place > before] + exact)
        before = rows[-1][0] if exact else before
    places = assigned_places(rows)
    return {
        index: next(match for match in row if match.position == places[number])
        for number, (index, row) in enumerate(options.items())
        if number in places
    }


def _nearest_pairs(options: _Options, matches: Mapping[int, CallMatch]) -> dict[int, CallMatch]:
    pairs = dict(matches)
    for index in sorted(options.keys() - matches.keys()):
        taken = {match.position for match in pairs.values()}
        before = max((match.position for i, match in pairs.items() if i < index), default=-1)
        free = [match for match in options[index] if match.position not in taken]
        later = [match for match in free if match.position > before]
        if free:
            pairs[index] = min(later + free, key=lambda match: match.differences)
    return pairs


def _stated_texts(case: Case) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The strings of `expected.said` that the agent told the user, and the others."""
    if not case.expected.said:
        return (), ()
    rows = [(text, tokens_of(text)) for _, text in case.transcript.agent_texts()]
    stated: list[str] = []
    unstated: list[str] = []
    for due in case.expected.said:
        tokens = tokens_of(due)  # none where the text consists of signs
        is_stated = any(
            is_told(tokens, row) if tokens else due.strip() in text for text, row in rows
        )
        (stated if is_stated else unstated).append(due)
    return tuple(stated), tuple(unstated)


def _short(text: str, limit: int) -> str:
    line = " ".join(text.split())  # a line break could begin a line of its own in a prompt
    return line if len(line) <= limit else f"{line[: limit - 3]}..."


def _value(value: Any) -> str:
    return _short(json.dumps(value, ensure_ascii=False, default=str), _VALUE_CHARS)


def _names(names: Sequence[str]) -> str:
    shown = [_short(name, _NAME_CHARS) for name in names[:_LISTED]]
    more = [f"and {len(names) - _LISTED} more"] if len(names) > _LISTED else []
    return ", ".join((*shown, *more)) or "none"


def _difference_line(match: CallMatch) -> str:
    due, actual = match.expected.arguments or {}, match.made.call.arguments
    values = [
        f"{_short(name, 40)} is {_value(actual[name])}, expected {_value(due[name])}"
        for name in match.different[:4]
    ]
    parts = [f"missing {_names(match.missing)}"] if match.missing else []
    parts += [f"extra {_names(match.extra)}"] if match.extra else []
    return f"turn {match.made.turn} {_short(match.made.call.name, 40)}: " + "; ".join(
        (*parts, *values)
    )
