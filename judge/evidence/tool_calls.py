"""Compares the tool calls that an agent made with the expected ones, before any model is asked.

A judge without ground truth is near chance on task completion.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from assizes.judge.case import Case, ExpectedCall, ToolCall, ToolResult, Transcript
from assizes.judge.score import Metric

NO_TOOL_TRACE: Final = "no_tool_trace"
"""Key of `Case.metadata`: whether no conversation of the whole input holds a tool call."""

NO_TOOL_TRACE_REASON: Final = "no tool trace: no conversation of the input holds a tool call"
"""Why a metric of tool calls is skipped where calls are expected or tools were offered."""

_NUMBER = re.compile(r"[+-]?(?:0|[1-9]\d*)(?:\.\d+)?")  # no leading 0: an id such as 007 is a text
_DEEPEST = 32  # levels of nesting in arguments; beyond, an attack on the stack
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

    @property
    def has_failed(self) -> bool:
        """Whether the tool answered with an error."""
        return self.result is not None and self.result.is_error


@dataclass(frozen=True, slots=True)
class CallMatch:
    """An expected call, the call that was made for it, and the names of arguments that differ."""

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
    failed: tuple[MadeCall, ...]  # calls that the tool answered with an error
    matches: tuple[CallMatch, ...]  # of the expected calls, those that were made
    missed: tuple[ExpectedCall, ...]  # of the expected calls, those that were not made
    unexpected: tuple[MadeCall, ...]  # successful calls that nobody expected
    recall: float | None  # 0..1, by tool name: matches / expected calls; 1 where none is expected
    precision: float | None  # 0..1, by tool name: matches / successful calls; 1 for no call
    in_order: bool | None  # whether the matches were made in the expected order
    writes_known: bool  # else the tools that change state were guessed from the expected calls
    expected_writes: tuple[ExpectedCall, ...] | None  # the expected calls that change state
    done_writes: tuple[MadeCall, ...]  # the successful calls that change state
    write_match: bool | None  # whether both are equal as multisets, arguments included
    stated_texts: tuple[str, ...]  # strings of `expected.said` that the agent told the user
    unstated_texts: tuple[str, ...]  # the other strings of `expected.said`
    finished: bool | None  # whether the conversation came to its end

    def text(self) -> str:
        """The comparison as at most 30 short lines for a judge's prompt."""
        called, failed, unexpected = (
            _names([f"{_short(made.call.name, 40)} (turn {made.turn})" for made in calls])
            for calls in (self.called, self.failed, self.unexpected)
        )
        lines = [
            f"Successful calls: {len(self.called)}: {called}",
            f"Failed calls, not counted as done: {len(self.failed)}: {failed}",
        ]
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


def canonical_text(value: Any) -> str:
    """An argument value as a text that is the same for values with the same meaning.

    Numbers and numeric strings are numbers (5, 5.0, "5"), strings are trimmed and without case,
    lists have no order, `None` members of objects and values below 32 levels do not count.
    """
    return json.dumps(_plain(value), ensure_ascii=False)


def lacks_tool_trace(case: Case) -> bool:
    """Whether the input holds no tool call at all, though the case expects calls or offers tools."""
    expected = case.expected.tool_calls or case.expected.trajectory or case.transcript.tools
    return bool(case.metadata.get(NO_TOOL_TRACE) and expected)


def made_calls(transcript: Transcript) -> tuple[MadeCall, ...]:
    """The agent's calls in order, each with its result."""
    by_id = transcript.results()
    made: list[MadeCall] = []
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
            made.append(MadeCall(index, call, named or unnamed.get(place)))
    return tuple(made)


def tool_evidence(case: Case) -> ToolEvidence:
    """Compare the tool calls of a case with its expected calls."""
    made = made_calls(case.transcript)
    called = tuple(call for call in made if not call.has_failed)  # a failed call has done nothing
    # What was recorded nowhere is not known to be missing.
    expected = None if lacks_tool_trace(case) else case.expected.tool_calls
    match_by_index = _matches(expected or (), called)
    matches = tuple(match_by_index.values())
    hit = {match.position for match in matches}  # places of the calls that were expected
    write_names = case.write_names()
    declared = any(tool.writes is not None for tool in case.transcript.tools)
    writes_known = case.expected.writes is not None or declared
    expected_writes = tuple(call for call in expected or () if call.name in write_names)
    done_writes = tuple(each for each in called if each.call.name in write_names)
    write_match = None
    if expected is not None and (writes_known or expected_writes):
        pairs = _matches(expected_writes, done_writes).values()
        exact = all(match.differences == 0 for match in pairs)
        write_match = exact and len(pairs) == len(expected_writes) == len(done_writes)
    in_order: bool | None = None
    recall: float | None = None
    precision: float | None = None
    if expected is not None:
        in_order = all(a.position < b.position for a, b in itertools.pairwise(matches))
        recall, precision = (
            round(len(matches) / len(side), 9) if side else 1.0 for side in (expected, called)
        )
    stated, unstated = _stated_texts(case)
    return ToolEvidence(
        expected=expected,
        called=called,
        failed=tuple(call for call in made if call.has_failed),
        matches=matches,
        missed=tuple(call for i, call in enumerate(expected or ()) if i not in match_by_index),
        unexpected=tuple(call for place, call in enumerate(called) if place not in hit),
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


def _plain(value: Any, depth: int = 0) -> Any:
    if value is None or depth > _DEEPEST:
        return None
    if isinstance(value, Mapping):
        members = {str(k): _plain(v, depth + 1) for k, v in value.items() if v is not None}
        return dict(sorted(members.items()))  # keys have no order
    if isinstance(value, list | tuple):
        return sorted((_plain(item, depth + 1) for item in value), key=json.dumps)
    if isinstance(value, float) and math.isfinite(value):
        return _trimmed_number(f"{value:.9f}")  # 9 digits: 0.1 + 0.2 is 0.3
    text = str(value).strip().casefold()
    return _trimmed_number(text.removeprefix("+")) if _NUMBER.fullmatch(text) else text


def _trimmed_number(number: str) -> str:
    short = number.rstrip("0").rstrip(".") if "." in number else number
    return "0" if short == "-0" else short  # -0.0000000001 becomes -0


def _call_match(expected: ExpectedCall, made: MadeCall, position: int) -> CallMatch:
    if expected.arguments is None:  # any arguments will do
        return CallMatch(expected, made, position)
    due = {name: value for name, value in expected.arguments.items() if value is not None}
    actual = {name: value for name, value in made.call.arguments.items() if value is not None}
    both = sorted(due.keys() & actual.keys())
    different = [name for name in both if canonical_text(due[name]) != canonical_text(actual[name])]
    differences = len(due.keys() ^ actual.keys()) + len(different)
    missing, extra = sorted(due.keys() - actual.keys()), sorted(actual.keys() - due.keys())
    return CallMatch(
        expected, made, position, tuple(missing), tuple(extra), tuple(different), differences
    )


def _matches(expected: Sequence[ExpectedCall], called: Sequence[MadeCall]) -> dict[int, CallMatch]:
    """Pair each expected call, by its index, with at most one made call of the same tool."""
    matches: dict[int, CallMatch] = {}
    free = set(range(len(called)))  # places of the calls without a partner
    # Exact pairs come first, and calls with arguments before those that accept any, so that no call
    # takes the exact partner of another.
    given_first = sorted(range(len(expected)), key=lambda i: expected[i].arguments is None)
    for exact in (True, False):
        for index in given_first:
            if index in matches:
                continue
            # Of equally good calls, the first after the pair before counts, so that order is kept.
            before = max((m.position for i, m in matches.items() if i < index), default=-1)
            later = [place for place in sorted(free) if place > before]
            candidates = (
                _call_match(expected[index], called[place], place)
                for place in (*later, *sorted(free.difference(later)))
                if called[place].call.name == expected[index].name
            )
            match = min(candidates, key=lambda match: match.differences, default=None)
            if match is not None and (match.differences == 0 or not exact):
                matches[index] = match
                free.discard(match.position)
    return dict(sorted(matches.items()))


def _stated_texts(case: Case) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The strings of `expected.said` that the agent told the user, and the others."""
    # Without commas: 1,327 and 1327 are the same amount.
    texts = [text.replace(",", "").casefold().strip() for _, text in case.transcript.agent_texts()]
    stated: list[str] = []
    unstated: list[str] = []
    for said in case.expected.said:
        due = said.replace(",", "").casefold().strip()
        # Whole words only: a text with 1327 does not state 327.
        before = r"(?<!\w)" if due[:1].isalnum() else ""
        after = r"(?!\w)" if due[-1:].isalnum() else ""
        pattern = re.compile(f"{before}{re.escape(due)}{after}")
        (stated if any(map(pattern.search, texts)) else unstated).append(said)
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
