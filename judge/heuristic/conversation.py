"""Offline rules for the conversation judge: a level for each metric, without a language model.

The offline judge is an honest baseline, and the default when no model is configured: it needs no
key and no network, and gives the same answer every time. Where a case has ground truth, that
decides. All else are surface signs: a level means no more than its rule's docstring says
(docs/judges.md lists the rules).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from assizes.judge.errors import ModelError
from assizes.judge.evidence.tool_calls import ConversationEvidence
from assizes.judge.heuristic.findings import RuleFinding, count_text, level_by_count, turns_of
from assizes.judge.heuristic.plain_reading import (
    CaseReading,
    Claim,
    false_successes,
    is_closing,
    is_formatted,
    is_long,
    questions,
    read_case,
    repeated_calls,
    repeated_requests,
    repeated_texts,
    unexpected_writes,
)
from assizes.judge.heuristic.task_completion import outcome_reply, refusing_turns, task_completion
from assizes.judge.rubrics.rubric import OUTCOMES
from assizes.judge.score import ACCEPTABLE, Metric, Scale


def answer(evidence: ConversationEvidence) -> dict[str, Any]:
    """Return the offline judge's reply about a conversation, as the JSON value of the reply model.

    Raises:
        ModelError: `no_offline_rule`, for a metric or a scale without a rule.
    """
    read = read_case(evidence.case, evidence.tools)
    reply: dict[str, Any] = {m.name: _reply(m, _rule(m)(read)) for m in evidence.metrics}
    if evidence.case.expected.outcomes:
        reply[OUTCOMES] = [
            {"number": number, **outcome_reply(text, read)}
            for number, text in enumerate(evidence.case.expected.outcomes, 1)
        ]
    return reply


def tool_routing(read: CaseReading) -> RuleFinding:
    """Compare the calls made with the expected calls.

    Errors are expected calls that were missed, and state-changing calls that were not expected: one
    error gives level 3, more give 2, more than half of the expected calls missed gives 1, no call
    at all gives 0. Without errors, another order of calls and each repeated or failed call are
    slips: one or two slips give level 4, more give 3.
    """
    tools, code = read.tools, "wrong_tool_selected"
    repeated = repeated_calls(tools.called)
    slips = len(repeated) + len(tools.failed) + (tools.in_order is False)
    turns = turns_of(repeated) + turns_of(tools.failed)
    if tools.expected is None:
        why = f"no expected calls given; {count_text(slips, 'repeated or failed call')}"
        return RuleFinding(level_by_count(slips, (5, 4, 4, 3)), why, "repeated_calls", turns)
    if not tools.expected and not tools.called:
        return RuleFinding(5, "not applicable: no call was required and none was made", code)
    wrong = unexpected_writes(tools)
    errors = len(tools.missed) + len(wrong)
    why = (
        f"{len(tools.matches)} of {count_text(len(tools.expected), 'expected call')} made, "
        f"{count_text(len(wrong), 'unexpected state-changing call')}, {count_text(slips, 'slip')}"
    )
    if errors == 0:
        return RuleFinding(level_by_count(slips, (5, 4, 4, 3)), why, code, turns)
    turns += turns_of(wrong)
    if not tools.called:
        return RuleFinding(0, why, "no_tool_called")
    few = tools.recall is not None and tools.recall < 0.5
    return RuleFinding(1 if few else 3 if errors == 1 else 2, why, code, turns)


def parameter_extraction(read: CaseReading) -> RuleFinding:
    """Check the arguments of tool calls.

    Errors are arguments that differ from the expected ones, values that nobody had mentioned, and
    argument texts that cannot be read. One error gives level 3 when it is unreadable or in a
    state-changing call, else 4; two to four give 2, more give 1, and 0 when there are as many
    errors as arguments.
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
    level = level_by_count(errors, (5, 3 if names & writes or unreadable else 4, 2, 2, 2, 1))
    turns = tuple(m.made.turn for m in differing) + tuple(c.turn for c in invented)
    return RuleFinding(
        0 if errors >= argument_count else level, why, code, turns + turns_of(unreadable)
    )


def result_interpretation(read: CaseReading) -> RuleFinding:
    """Check what the agent said after tools had answered.

    The level comes from the share of specific values that occur earlier in the conversation (see
    `_support_level`). A claim of success right after a failed call lowers the level to at most 2,
    several such claims to at most 1.
    """
    if not read.tools.called and not read.tools.failed:
        return RuleFinding(5, "not applicable: no tool returned anything", "hallucinated_result")
    claims = [claim for claim in read.text_claims() if claim.after_result]
    false_success = false_successes(read)
    level, why = _support_level(claims, "values said after tool results")
    why = f"{why}; {count_text(len(false_success), 'claim')} of success after a failed call"
    turns = _ungrounded_turns(claims) + false_success
    lowered = level if not false_success else min(level, 2 if len(false_success) == 1 else 1)
    return RuleFinding(lowered, why, "hallucinated_result", turns)


def grounding_fidelity(read: CaseReading) -> RuleFinding:
    """Check that the numbers, identifiers, dates and prices in the agent's texts have a source.

    A source is the system prompt, a tool description, a passage, a tool result or a text of the
    user, before that turn. Sums that the agent worked out itself have no source. The level comes
    from the share of values with a source (see `_support_level`).
    """
    claims = read.text_claims()
    level, why = _support_level(claims, "specific values said")
    return RuleFinding(level, why, "ungrounded_claim", _ungrounded_turns(claims))


def instruction_compliance(read: CaseReading) -> RuleFinding:
    """Count the breaches of instructions.

    Breaches are state-changing calls that were not expected, calls of tools that were not offered,
    and an expected change that was refused. One breach gives level 3, two give 2, three give 1,
    more give 0. Without a breach, a failed call that was tried again gives level 4.
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
        f"{count_text(len(wrong), 'unexpected state-changing call')}, "
        f"{len(breaches) - len(wrong)} of tools not offered, "
        f"{'an expected change was refused' if refused else 'no expected change refused'}, "
        f"{count_text(len(retried), 'failed call')} tried again"
    )
    level = level_by_count(len(breaches) + bool(refused), (5, 3, 2, 1, 0))
    turns = turns_of(breaches) + refused + turns_of(retried)
    return RuleFinding(4 if level == 5 and retried else level, why, "instruction_violated", turns)


def information_gathering(read: CaseReading) -> RuleFinding:
    """Check that the agent had the data it acted on.

    A gap is a turn that acts on a value nobody had mentioned or with arguments missing, or in which
    a state-changing call failed. One gap gives level 3, two give 2, more give 1. Each request for
    information that is put again costs one more level, at most two.
    """
    writes = read.case.write_names()
    gap_turns = {claim.turn for claim in read.invented_claims() if claim.tool in writes}
    gap_turns |= {match.made.turn for match in read.tools.matches if match.missing}
    gap_turns |= {
        made_call.turn for made_call in read.tools.failed if made_call.call.name in writes
    }
    gaps = sorted(gap_turns)
    repeats = repeated_requests(read.texts)
    why = f"{count_text(len(gaps), 'call')} on incomplete data, {count_text(len(repeats), 'question')} repeated"
    level = level_by_count(len(gaps), (5, 3, 2, 1)) - min(len(repeats), 2)
    return RuleFinding(max(level, 0), why, "acted_on_incomplete_data", (*gaps, *repeats))


def conversation_management(read: CaseReading) -> RuleFinding:
    """Check the flow of the conversation.

    From level 5, two levels are taken off for a conversation that was cut off, one for each turn
    that the agent or the user repeats word by word, and one for an end without thanks, an offer of
    help or a goodbye.
    """
    if not read.texts:
        return RuleFinding(0, "the agent said nothing", "no_response")
    repeated = repeated_texts(read.texts)
    numbered = enumerate(read.case.transcript.turns)
    user_texts = [
        (index, turn.text) for index, turn in numbered if turn.role == "user" and turn.text
    ]
    repeated_by_user = repeated_texts(user_texts)
    cut_off = read.tools.finished is False
    last, last_text = read.texts[-1]
    open_end = not is_closing(last_text)
    why = (
        f"{'cut off' if cut_off else 'not known to be cut off'}, {count_text(len(repeated), 'turn')} "
        f"repeated by the agent, {len(repeated_by_user)} by the user, "
        f"{'no closing words' if open_end else 'closing words'} at the end"
    )
    level = 5 - 2 * cut_off - len(repeated) - len(repeated_by_user) - open_end
    turns = (*repeated, *repeated_by_user, *((last,) if open_end else ()))
    return RuleFinding(max(level, 0), why, "poor_conversation_flow", turns)


def response_delivery(read: CaseReading) -> RuleFinding:
    """Check that the agent's turns can be spoken and followed.

    A bad turn has more than 120 words, lists or markup, or two questions. No bad turn gives level
    5. One gives 4, or 3 when any turn has two questions. More give 3 for up to a quarter of the
    turns, 2 for up to a half, 1 for more, and 0 when all of four or more turns are bad.
    """
    if not read.texts:
        return RuleFinding(0, "the agent said nothing", "no_response")
    long = {turn for turn, text in read.texts if is_long(text)}
    marked = {turn for turn, text in read.texts if is_formatted(text)}
    asked = {turn for turn, text in read.texts if len(questions(text)) > 1}
    bad = tuple(sorted(long | marked | asked))
    why = (
        f"of {count_text(len(read.texts), 'turn')} {len(long)} too long, {len(marked)} with lists or "
        f"markup, {len(asked)} with two or more questions"
    )
    return RuleFinding(_delivery_level(len(bad), len(read.texts), bool(asked)), why, "verbose", bad)


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
"""The offline rule of each metric; a metric without a rule cannot be judged offline."""


def _rule(metric: Metric) -> MetricRule:
    if metric.name not in RULES or metric.scale not in (Scale.SCORED, Scale.BINARY):
        raise ModelError(
            "no_offline_rule",
            f"the offline judge has no rule for metric {metric.name!r} on scale "
            f"{metric.scale.value!r}; it has for {', '.join(sorted(RULES))}",
        )
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


def _support_level(claims: Sequence[Claim], what: str) -> tuple[int, str]:
    """Return the level for claims that should occur earlier in the conversation, and the reason.

    The level is 5 when all claims occur, 4 when one does not. With two or more missing it is 4, 3,
    2 or 1 for a share of at least 0.95, 0.8, 0.5 or 0.01 that occurs, else 0.
    """
    ungrounded = sum(not claim.is_grounded for claim in claims)
    why = f"{len(claims) - ungrounded} of {len(claims)} {what} were heard before"
    if ungrounded <= 1:
        return 5 - ungrounded, why
    share = round(1 - ungrounded / len(claims), 9)
    return sum(share >= step for step in (0.01, 0.5, 0.8, 0.95)), why


def _ungrounded_turns(claims: Sequence[Claim]) -> tuple[int, ...]:
    return tuple(claim.turn for claim in claims if not claim.is_grounded)


def _refusal_turns(read: CaseReading) -> tuple[int, ...]:
    """Return those of the last turns that refuse, if an expected state-changing call was not made."""
    if not read.tools.writes_known:
        return ()
    expected = Counter(call.name for call in read.tools.expected_writes or ())
    made = Counter(made_call.call.name for made_call in read.tools.done_writes)
    if not expected - made:
        return ()
    return refusing_turns(read)


def _delivery_level(bad: int, turns: int, asked: bool) -> int:
    if bad <= 1:
        return 5 if bad == 0 else 3 if asked else 4
    share = round(bad / turns, 9)
    if share == 1 and turns >= 4:
        return 0
    return 3 if share <= 0.25 else 2 if share <= 0.5 else 1
