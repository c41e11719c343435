"""The offline judge: what each ask would answer from plain text evidence, without a language model.

An honest baseline and the default when no model is configured: no key, no network, the same answer
every time. Ground truth decides where the case has some; the rest are surface signs, and a level
means no more than its rule's docstring says (docs/judges.md lists them).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from assizes.judge.errors import ModelError
from assizes.judge.evidence.tool_calls import (
    ConversationEvidence,
    MadeCall,
    ToolEvidence,
    canonical_text,
)
from assizes.judge.heuristic.plain_reading import (
    CaseReading,
    Claim,
    content_words,
    false_successes,
    is_closing,
    is_formatted,
    is_long,
    is_prohibition,
    is_refusal,
    questions,
    read_case,
    repeated_calls,
    repeated_requests,
    repeated_texts,
    unexpected_writes,
)
from assizes.judge.rubrics.rubric import OUTCOMES
from assizes.judge.score import ACCEPTABLE, Metric, Scale

_LAST_TURNS: Final = 2
_OVERLAP: Final = 0.5


@dataclass(frozen=True, slots=True)
class RuleFinding:
    """A level 0..5 (5 and 0 for pass and fail), why, its code if unacceptable, and the turns."""

    level: int
    why: str
    code: str
    turns: tuple[int, ...] = ()


def answer(evidence: object) -> dict[str, Any]:
    """What the offline judge replies to an ask, as the JSON value of its reply model.

    Raises:
        ModelError: `no_offline_rule`, for evidence or a metric it has no rule for.
    """
    if not isinstance(evidence, ConversationEvidence):
        raise _no_rule(f"evidence of type {type(evidence).__name__!r}")
    read = read_case(evidence.case, evidence.tools)
    reply: dict[str, Any] = {m.name: _reply(m, _rule(m)(read)) for m in evidence.metrics}
    if evidence.case.expected.outcomes:
        reply[OUTCOMES] = [
            {"number": number, **_outcome(text, read)}
            for number, text in enumerate(evidence.case.expected.outcomes, 1)
        ]
    return reply


def tool_routing(read: CaseReading) -> RuleFinding:
    """Expected calls missed and state-changing calls not expected are errors (one: 3, more: 2, most
    missed: 1, none made: 0); else another order, repeated and failed calls cost a level, three two.
    """
    tools, code = read.tools, "wrong_tool_selected"
    repeated = repeated_calls(tools.called)
    slips = len(repeated) + len(tools.failed) + (tools.in_order is False)
    turns = _turns(repeated) + _turns(tools.failed)
    if tools.expected is None:
        why = f"no expected calls given; {_count(slips, 'repeated or failed call')}"
        return RuleFinding(_by_count(slips, (5, 4, 4, 3)), why, "repeated_calls", turns)
    if not tools.expected and not tools.called:
        return RuleFinding(5, "not applicable: no call was required and none was made", code)
    wrong = unexpected_writes(tools)
    errors = len(tools.missed) + len(wrong)
    why = (
        f"{len(tools.matches)} of {_count(len(tools.expected), 'expected call')} made, "
        f"{_count(len(wrong), 'unexpected state-changing call')}, {_count(slips, 'slip')}"
    )
    if errors == 0:
        return RuleFinding(_by_count(slips, (5, 4, 4, 3)), why, code, turns)
    turns += _turns(wrong)
    if not tools.called:
        return RuleFinding(0, why, "no_tool_called")
    few = tools.recall is not None and tools.recall < 0.5
    return RuleFinding(1 if few else 3 if errors == 1 else 2, why, code, turns)


def parameter_extraction(read: CaseReading) -> RuleFinding:
    """Arguments that differ from the expected ones or were never mentioned, and unreadable argument
    texts, are errors; 4 for one outside state-changing calls, 3 for one inside, 2 for up to four.
    """
    tools, code = read.tools, "wrong_parameter"
    calls = (*tools.called, *tools.failed)
    if not calls:
        return RuleFinding(5, "not applicable: no tool was called", code)
    writes = read.case.write_names()
    differing = [match for match in tools.matches if match.differences]
    unreadable = [made_call for made_call in calls if made_call.call.raw is not None]
    invented = read.invented_claims()
    errors = sum(match.differences for match in differing) + len(unreadable) + len(invented)
    names = {m.made.call.name for m in differing} | {str(claim.tool) for claim in invented}
    argument_count = sum(max(1, len(made_call.call.arguments)) for made_call in calls)
    why = (
        f"{sum(match.differences for match in differing)} arguments differ from the expected, "
        f"{len(invented)} values never mentioned, {len(unreadable)} unreadable, of {argument_count} given"
    )
    level = _by_count(errors, (5, 3 if names & writes or unreadable else 4, 2, 2, 2, 1))
    turns = tuple(m.made.turn for m in differing) + tuple(c.turn for c in invented)
    return RuleFinding(
        0 if errors >= argument_count else level, why, code, turns + _turns(unreadable)
    )


def result_interpretation(read: CaseReading) -> RuleFinding:
    """Specific values said after a tool answered must have been heard before; each claim of success
    right after a failed call is an error as well.
    """
    if not read.tools.called and not read.tools.failed:
        return RuleFinding(5, "not applicable: no tool returned anything", "hallucinated_result")
    claims = [claim for claim in read.text_claims() if claim.after_result]
    false_success = false_successes(read)
    level, why = _support_level(claims, "values said after tool results")
    why = f"{why}; {_count(len(false_success), 'claim')} of success after a failed call"
    turns = _ungrounded_turns(claims) + false_success
    lowered = level if not false_success else min(level, 2 if len(false_success) == 1 else 1)
    return RuleFinding(lowered, why, "hallucinated_result", turns)


def grounding_fidelity(read: CaseReading) -> RuleFinding:
    """Numbers, identifiers, dates and prices the agent says must stand before in system prompt, tool
    descriptions, passages, tool results or the user's words; its own sums do not: by share.
    """
    claims = read.text_claims()
    level, why = _support_level(claims, "specific values said")
    return RuleFinding(level, why, "ungrounded_claim", _ungrounded_turns(claims))


def instruction_compliance(read: CaseReading) -> RuleFinding:
    """Breaches are state-changing calls that were not expected, tools that were not offered, and
    expected changes that were refused (one: 3, two: 2, three: 1); a failed call tried again costs 1.
    """
    tools = read.tools
    offered = {tool.name for tool in read.case.transcript.tools}
    calls = (*tools.called, *tools.failed) if offered else ()
    outside = [made_call for made_call in calls if made_call.call.name not in offered]
    wrong = unexpected_writes(tools)
    breaches = [*wrong, *outside]
    refused = _refusal_turns(read)
    retried = repeated_calls(tools.failed)
    why = (
        f"{_count(len(wrong), 'unexpected state-changing call')}, "
        f"{len(breaches) - len(wrong)} of tools not offered, "
        f"{'an expected change was refused' if refused else 'no expected change refused'}, "
        f"{_count(len(retried), 'failed call')} tried again"
    )
    level = _by_count(len(breaches) + bool(refused), (5, 3, 2, 1, 0))
    turns = _turns(breaches) + refused + _turns(retried)
    return RuleFinding(4 if level == 5 and retried else level, why, "instruction_violated", turns)


def information_gathering(read: CaseReading) -> RuleFinding:
    """Acting on values nobody mentioned or on too few arguments is a gap (one: 3, two: 2, three: 1);
    a request for information put twice costs one level.
    """
    writes = read.case.write_names()
    acted = [claim.turn for claim in read.invented_claims() if claim.tool in writes]
    acted += [m.made.turn for m in read.tools.matches if m.missing]
    acted += [made_call.turn for made_call in read.tools.failed if made_call.call.name in writes]
    gaps = sorted(set(acted))
    repeats = repeated_requests(read.texts)
    why = f"{_count(len(gaps), 'call')} on incomplete data, {_count(len(repeats), 'question')} repeated"
    level = _by_count(len(gaps), (5, 3, 2, 1)) - min(len(repeats), 2)
    return RuleFinding(max(level, 0), why, "acted_on_incomplete_data", (*gaps, *repeats))


def conversation_management(read: CaseReading) -> RuleFinding:
    """Two levels off for a conversation cut off, one for each turn that the agent or the user
    repeats word by word, and one for an end without thanks, offer or goodbye.
    """
    if not read.texts:
        return RuleFinding(0, "the agent said nothing", "no_response")
    said_again = repeated_texts(read.texts)
    users = [(i, t.text) for i, t in enumerate(read.case.transcript.turns) if t.role == "user"]
    user_again = repeated_texts([(index, text) for index, text in users if text])
    cut_off = read.tools.finished is False
    last, last_text = read.texts[-1]
    open_end = not is_closing(last_text)
    why = (
        f"{'cut off' if cut_off else 'not known to be cut off'}, "
        f"{_count(len(said_again), 'turn')} repeated by the agent, {len(user_again)} by the user, "
        f"{'no closing words' if open_end else 'closing words'} at the end"
    )
    level = 5 - 2 * cut_off - len(said_again) - len(user_again) - open_end
    turns = (*said_again, *user_again, *((last,) if open_end else ()))
    return RuleFinding(max(level, 0), why, "poor_conversation_flow", turns)


def response_delivery(read: CaseReading) -> RuleFinding:
    """Turns over 120 words, with lists or markup, or with two questions are issues: 4 for one, 3 for
    one with two questions or up to a quarter of the turns, 2 to a half, 1 above, 0 for all of four.
    """
    if not read.texts:
        return RuleFinding(0, "the agent said nothing", "no_response")
    long = {turn for turn, text in read.texts if is_long(text)}
    marked = {turn for turn, text in read.texts if is_formatted(text)}
    asked = {turn for turn, text in read.texts if len(questions(text)) > 1}
    bad = tuple(sorted(long | marked | asked))
    why = (
        f"of {_count(len(read.texts), 'turn')} {len(long)} too long, {len(marked)} with lists or "
        f"markup, {len(asked)} with two or more questions"
    )
    return RuleFinding(_delivery_level(len(bad), len(read.texts), bool(asked)), why, "verbose", bad)


def task_completion(read: CaseReading) -> RuleFinding:
    """Pass when the conversation was not cut off, the successful state-changing calls are exactly
    the expected ones with their arguments, and every string that was due has been told. Without
    ground truth: when the expected outcomes hold, else when the last turns refuse nothing.
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
    refusing = tuple(turn for turn, text in read.texts[-_LAST_TURNS:] if is_refusal(text))
    why = "nothing expected is known; the last turns " + (
        "refuse or apologise" if refusing else "neither refuse nor apologise"
    )
    return RuleFinding(0 if refusing or not read.texts else 5, why, "refused", refusing)


MetricRule = Callable[[CaseReading], RuleFinding]

RULES: Final[Mapping[str, MetricRule]] = {
    "tool_routing": tool_routing,
    "parameter_extraction": parameter_extraction,
    "result_interpretation": result_interpretation,
    "grounding_fidelity": grounding_fidelity,
    "instruction_compliance": instruction_compliance,
    "information_gathering": information_gathering,
    "conversation_management": conversation_management,
    "response_delivery": response_delivery,
    "task_completion": task_completion,
}
"""The offline rule of each metric; a metric that is not here cannot be judged offline."""


def _no_rule(what: str) -> ModelError:
    detail = f"the offline judge has no rule for {what}; it has for {', '.join(sorted(RULES))}"
    return ModelError("no_offline_rule", detail)


def _rule(metric: Metric) -> MetricRule:
    if metric.name not in RULES or metric.scale not in (Scale.SCORED, Scale.BINARY):
        raise _no_rule(f"metric {metric.name!r} on scale {metric.scale.value!r}")
    return RULES[metric.name]


def _reply(metric: Metric, finding: RuleFinding) -> dict[str, Any]:
    rating: dict[str, Any] = {"score": finding.level}
    if metric.scale is Scale.BINARY:
        rating = {"passed": finding.level >= ACCEPTABLE}
    return {
        "justification": f"Plain text rule: {finding.why}.",
        **rating,
        "failure_code": finding.code if finding.level < ACCEPTABLE else None,
        "turns": sorted(set(finding.turns)) if finding.level < 5 else [],
    }


def _outcome(statement: str, read: CaseReading) -> dict[str, Any]:
    passed, why = _holds(statement, read)
    return {"statement": statement, "justification": f"Plain text rule: {why}.", "passed": passed}


def _holds(statement: str, read: CaseReading) -> tuple[bool, str]:
    """Ground truth first: statements of refusal by the state-changing calls, all others by task
    completion; without ground truth by the words they share with what the agent said and called.
    """
    tools = read.tools
    if is_prohibition(statement):
        if tools.write_match is not None:
            same = "are" if tools.write_match else "are not"
            return tools.write_match, f"the state-changing calls {same} the expected ones"
        if tools.writes_known:
            done = _count(len(tools.done_writes), "state-changing call")
            return not tools.done_writes, f"{done} made"
    if tools.write_match is not None or read.case.expected.said:
        finding = task_completion(read)
        return finding.level == 5, finding.why
    held = _has_overlap(statement, read)
    return held, f"{'at least' if held else 'less than'} half of its words occur in what was done"


def _has_overlap(statement: str, read: CaseReading) -> bool:
    due = content_words(statement)
    done = content_words("\n".join(text for _, text in read.texts))
    for made_call in read.tools.called:
        done |= content_words(
            f"{made_call.call.name.replace('_', ' ')} {canonical_text(made_call.call.arguments)}"
        )
    return bool(due) and len(due & done) / len(due) >= _OVERLAP


def _completion_finding(tools: ToolEvidence) -> RuleFinding:
    writes = {
        True: f"the {_count(len(tools.done_writes), 'state-changing call')} made as expected",
        False: "the state-changing calls made are not the expected ones",
        None: "which state-changing calls were expected is not known",
    }[tools.write_match]
    due = len(tools.stated_texts) + len(tools.unstated_texts)
    strings_text = f"{len(tools.stated_texts)} of {_count(due, 'expected string')} told"
    code = "wrong_state_change" if tools.write_match is False else "information_not_told"
    passed = tools.write_match is not False and not tools.unstated_texts
    turns = () if tools.write_match is not False else _turns(tools.done_writes)
    return RuleFinding(5 if passed else 0, f"{writes}, {strings_text}", code, turns)


def _support_level(claims: Sequence[Claim], what: str) -> tuple[int, str]:
    """5 when all were heard before, 4 for one that was not, then by the share of those heard."""
    ungrounded = sum(not claim.is_grounded for claim in claims)
    why = f"{len(claims) - ungrounded} of {len(claims)} {what} were heard before"
    if ungrounded <= 1:
        return 5 - ungrounded, why
    share = round(1 - ungrounded / len(claims), 9)
    return sum(share >= step for step in (0.01, 0.5, 0.8, 0.95)), why


def _ungrounded_turns(claims: Sequence[Claim]) -> tuple[int, ...]:
    return tuple(claim.turn for claim in claims if not claim.is_grounded)


def _refusal_turns(read: CaseReading) -> tuple[int, ...]:
    """The last turns that refuse, where an expected state-changing call was never made."""
    if not read.tools.writes_known:
        return ()
    due = Counter(call.name for call in read.tools.expected_writes or ())
    done = Counter(made_call.call.name for made_call in read.tools.done_writes)
    if not due - done:
        return ()
    return tuple(turn for turn, text in read.texts[-_LAST_TURNS:] if is_refusal(text))


def _delivery_level(bad: int, turns: int, asked: bool) -> int:
    if bad <= 1:
        return 5 if bad == 0 else 3 if asked else 4
    share = round(bad / turns, 9)
    if share == 1 and turns >= 4:
        return 0
    return 3 if share <= 0.25 else 2 if share <= 0.5 else 1


def _by_count(count: int, levels: Sequence[int]) -> int:
    return levels[min(count, len(levels) - 1)]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _turns(calls: Sequence[MadeCall]) -> tuple[int, ...]:
    return tuple(made_call.turn for made_call in calls)
