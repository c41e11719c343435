"""Offline rules for the completion of a task, and for the expected outcomes of a case."""

from __future__ import annotations

from typing import Any, Final

from assizes.judge.evidence.tool_calls import ToolEvidence, canonical_text
from assizes.judge.heuristic.findings import RuleFinding, count_text, turns_of
from assizes.judge.heuristic.plain_reading import (
    CaseReading,
    content_words,
    is_prohibition,
    is_refusal,
)

_LAST_TURNS: Final = 2
"""Texts at the end of a conversation in which a refusal counts."""

_OVERLAP: Final = 0.5
"""Share of a statement's content words that must occur in what the agent said and called."""


def task_completion(read: CaseReading) -> RuleFinding:
    """Decide whether the agent completed its task.

    A conversation that was cut off fails. Otherwise it passes when the successful state-changing
    calls are exactly the expected ones, with their arguments, and the agent said every expected
    string. Without expected calls or strings, it passes when the expected outcomes hold; without
    these, when the last turns refuse nothing.
    """
    tools, expected = read.tools, read.case.expected
    if tools.finished is False:
        return RuleFinding(0, "the conversation was cut off before its end", "unfinished")
    if tools.expected is not None or expected.said:
        return _completion_finding(tools)
    if expected.outcomes:
        held = [_has_overlap(statement, read) for statement in expected.outcomes]
        why = f"no expected calls given; {sum(held)} of {len(held)} expected outcomes hold"
        return RuleFinding(5 if all(held) else 0, why, "outcome_missing")
    refusing = refusing_turns(read)
    why = "nothing expected is known; the last turns " + (
        "refuse or apologise" if refusing else "neither refuse nor apologise"
    )
    return RuleFinding(0 if refusing or not read.texts else 5, why, "refused", refusing)


def refusing_turns(read: CaseReading) -> tuple[int, ...]:
    """Return those of the agent's last two texts that refuse or apologise, by turn index."""
    return tuple(turn for turn, text in read.texts[-_LAST_TURNS:] if is_refusal(text))


def outcome_reply(statement: str, read: CaseReading) -> dict[str, Any]:
    """Return the reply about one expected outcome."""
    passed, why = _holds(statement, read)
    return {"statement": statement, "justification": f"Plain text rule: {why}.", "passed": passed}


def _holds(statement: str, read: CaseReading) -> tuple[bool, str]:
    """Return whether an expected outcome holds, and the reason in words.

    With ground truth, a statement of refusal is decided by the state-changing calls, and any other
    statement by task completion. Without ground truth, a statement holds when enough of its words
    occur in what the agent said and called.
    """
    tools = read.tools
    if is_prohibition(statement):
        if tools.write_match is not None:
            same = "are" if tools.write_match else "are not"
            return tools.write_match, f"the state-changing calls {same} the expected ones"
        if tools.writes_known:
            done = count_text(len(tools.done_writes), "state-changing call")
            return not tools.done_writes, f"{done} made"
    if tools.write_match is not None or read.case.expected.said:
        finding = task_completion(read)
        return finding.level == 5, finding.why
    held = _has_overlap(statement, read)
    return held, f"{'at least' if held else 'less than'} half of its words occur in what was done"


def _has_overlap(statement: str, read: CaseReading) -> bool:
    wanted = content_words(statement)
    words = content_words("\n".join(text for _, text in read.texts))
    for made_call in read.tools.called:
        words |= content_words(
            f"{made_call.call.name.replace('_', ' ')} {canonical_text(made_call.call.arguments)}"
        )
    return bool(wanted) and len(wanted & words) / len(wanted) >= _OVERLAP


def _completion_finding(tools: ToolEvidence) -> RuleFinding:
    writes = {
        True: f"the {count_text(len(tools.done_writes), 'state-changing call')} made as expected",
        False: "the state-changing calls made are not the expected ones",
        None: "which state-changing calls were expected is not known",
    }[tools.write_match]
    due = len(tools.stated_texts) + len(tools.unstated_texts)
    strings_text = f"{len(tools.stated_texts)} of {count_text(due, 'expected string')} told"
    code = "wrong_state_change" if tools.write_match is False else "information_not_told"
    passed = tools.write_match is not False and not tools.unstated_texts
    turns = () if tools.write_match is not False else turns_of(tools.done_writes)
    return RuleFinding(5 if passed else 0, f"{writes}, {strings_text}", code, turns)
