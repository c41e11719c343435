"""Offline rules for the conversation judge: a level for each metric, without a language model.

The offline judge is an honest baseline, and the default when no model is configured. Where a case
has ground truth, that decides. All else are surface signs: a level means no more than its rule's
docstring says (docs/judges.md lists the rules). Where a case shows a rule nothing, the rule gives
no level, and the metric is skipped with the reason.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from assizes.judge.errors import ModelError
from assizes.judge.evidence.tool_calls import ConversationEvidence, MadeCall, ToolEvidence
from assizes.judge.heuristic import plain_reading
from assizes.judge.heuristic.plain_reading import CaseReading, Claim
from assizes.judge.rubrics.rubric import OUTCOMES
from assizes.judge.score import ACCEPTABLE, Scale

LONG_WORDS: Final = 120
"""Words in a turn above which it is too long to listen to (about 45 s of speech)."""

LONG_TO_READ: Final = 250
"""Words in a turn above which it is too long to read in a chat (a minute of reading)."""

_RULE: Final = "Plain text rule: {}."

BY_WORDS: Final = "by words alone"
"""In the justification of an outcome for which no ground truth was compared: it may be claimed."""

_FORMATTING: Final = re.compile(
    r"^[ \t]{0,3}(?:[-*•][ \t]|\d{1,3}[.)][ \t]|\#{1,6}[ \t]|\|)|\*\*|`|https?://", re.MULTILINE
)
"""What cannot be spoken: lists, headings, bold, code, tables, links."""


@dataclass(frozen=True, slots=True)
class RuleFinding:
    """What a rule finds: a level, and the reason in words."""

    level: int | None  # 0..5; of a yes/no metric 5 for a pass, 0 for a fail; None: nothing to see
    why: str
    code: str = ""  # of the failure; it counts where the level is not acceptable
    turns: tuple[int, ...] = ()  # indices of the turns that show it


def answer(evidence: ConversationEvidence) -> dict[str, Any]:
    """Return the offline judge's reply about a conversation, as the JSON value of the reply model.

    Raises:
        ModelError: `no_offline_rule`, for a metric or a scale without a rule.
    """
    read = plain_reading.read_case(evidence.case, evidence.tools)
    reply: dict[str, Any] = {}
    for metric in evidence.metrics:
        if metric.name not in RULES or metric.scale not in (Scale.SCORED, Scale.BINARY):
            raise ModelError(
                "no_offline_rule",
                f"the offline judge has no rule for metric {metric.name!r} on scale "
                f"{metric.scale.value!r}; it has for {', '.join(sorted(RULES))}",
            )
        finding = RULES[metric.name](read)
        if finding.level is None:
            reply[metric.name] = {"justification": _RULE.format(finding.why)}
            continue
        is_good, is_binary = finding.level >= ACCEPTABLE, metric.scale is Scale.BINARY
        rating: dict[str, Any] = {"passed": is_good} if is_binary else {"score": finding.level}
        reply[metric.name] = {
            "justification": _RULE.format(finding.why),
            **rating,
            "failure_code": None if is_good else finding.code,
            "turns": sorted(set(finding.turns)) if finding.level < 5 else [],
        }
    if outcomes := evidence.case.expected.outcomes:
        held = [(text, *_holds(text, read)) for text in outcomes]
        reply[OUTCOMES] = [
            {"number": place, "statement": text, "justification": _RULE.format(why), "passed": ok}
            for place, (text, ok, why) in enumerate(held, 1)
        ]
    return reply


def tool_routing(read: CaseReading) -> RuleFinding:
    """Compare the calls made with the expected calls.

    Errors are expected calls missed, and state-changing calls not expected: one gives level 3, more
    give 2, more than half of the expected calls missed 1, no call at all 0. Without errors, another
    order and each repeated or failed call are slips: up to two give level 4, more give 3. A call
    that an outage prevented was made, and is no slip.
    """
    tools, code = read.tools, "wrong_tool_selected"
    repeated = plain_reading.repeated_calls(tools.called)
    slips = len(repeated) + len(tools.failed) + (tools.in_order is False)  # `None`: not known
    turns = _turns_of([*repeated, *tools.failed])
    if tools.expected is None:
        return RuleFinding(None, "no expected calls are given to compare the calls with")
    if not tools.expected and not tools.called and not tools.prevented:
        return _NO_CALL_REQUIRED
    if not tools.expected and not tools.writes_known:
        return RuleFinding(None, "no call was expected, and which calls change state is not known")
    wrong = read.unexpected_writes
    errors = len(tools.missed) + len(wrong)
    made = f"{len(tools.matches)} of {_count_text(len(tools.expected), 'expected call')} made"
    why = (
        f"{made if tools.expected else 'no call was expected'}, "
        f"{_count_text(len(wrong), 'unexpected state-changing call')}, {_count_text(slips, 'slip')}"
        f"{_outage_text(tools)}"
    )
    if errors == 0:
        return RuleFinding(_level(slips, 5, 4, 4, 3), why, code, turns)
    if not tools.called and not tools.prevented:
        return RuleFinding(0, why, "no_tool_called")
    few = tools.recall is not None and tools.recall < 0.5  # more than half are missed
    level = 1 if few else _level(errors, 5, 3, 2)
    return RuleFinding(level, why, code, turns + _turns_of(wrong))


def parameter_extraction(read: CaseReading) -> RuleFinding:
    """Check the arguments of tool calls.

    Errors are arguments unlike the expected ones, values that nobody had mentioned, and texts that
    cannot be read. One error gives level 4, or 3 when unreadable or in a state-changing call; two
    to four give 2, more give 1, as many as there are arguments 0.
    """
    tools = read.tools
    if not tools.all_calls:
        return _without_calls(tools)
    differing = [match for match in tools.matches if match.differences]
    unreadable = [m for m in (*tools.called, *tools.failed) if m.call.raw is not None]
    invented = [c for c in read.claims if c.tool is not None and not c.is_grounded]
    differences = sum(match.differences for match in differing)
    errors = differences + len(unreadable) + len(invented)
    names = {match.made.call.name for match in differing} | {str(claim.tool) for claim in invented}
    total = sum(max(1, len(made_call.call.arguments)) for made_call in tools.all_calls)
    why = (
        f"of {_count_text(total, 'argument')} {differences} differ from ground truth, "
        f"{len(invented)} were never mentioned, {len(unreadable)} are unreadable"
    )
    level = _level(errors, 5, 3 if names & read.case.write_names() or unreadable else 4, 2, 2, 2, 1)
    turns = _turns_of([match.made for match in differing]) + _turns_of(invented)
    turns += _turns_of(unreadable)
    return RuleFinding(0 if errors >= total else level, why, "wrong_parameter", turns)


def result_interpretation(read: CaseReading) -> RuleFinding:
    """Check what the agent said after tools had answered.

    The level comes from the share of specific values that were heard before (`_support`). A claim
    of success right after a failed call lowers it to at most 2, several to at most 1.
    """
    if not read.tools.all_calls:
        return _without_calls(read.tools)
    claims = [claim for claim in read.claims if claim.tool is None and claim.after_result]
    false_success = plain_reading.false_successes(read)
    if not claims and not read.tools.failed and not false_success:
        return RuleFinding(None, "no specific value was said after a tool result")
    level, why, turns = _support(claims, "values said after tool results")
    why = f"{why}; {_count_text(len(false_success), 'claim')} of success after a failed call"
    level = min(level, _level(len(false_success), 5, 2, 1))
    return RuleFinding(level, why, "hallucinated_result", turns + false_success)


_NO_CALL_REQUIRED: Final = RuleFinding(5, "not applicable: no call was required and none was made")


def _without_calls(tools: ToolEvidence) -> RuleFinding:
    return _NO_CALL_REQUIRED if tools.expected == () else RuleFinding(None, "no tool was called")


def grounding_fidelity(read: CaseReading) -> RuleFinding:
    """Check that the numbers, identifiers, dates and prices in the agent's texts have a source.

    `Claim` lists the sources; sums that the agent worked out itself have none. The level comes from
    the share of values with a source (`_support`).
    """
    claims = [claim for claim in read.claims if claim.tool is None]
    if not claims:
        return RuleFinding(None, "no specific value was said")
    level, why, turns = _support(claims, "specific values said")
    return RuleFinding(level, why, "ungrounded_claim", turns)


def _support(claims: Sequence[Claim], what: str) -> tuple[int, str, tuple[int, ...]]:
    """Return the level for claims that should have been heard before, why, and turns."""
    ungrounded = _turns_of([claim for claim in claims if not claim.is_grounded])
    heard = len(claims) - len(ungrounded)
    why = f"{heard} of {len(claims)} {what} were heard before" if claims else f"no {what}"
    if len(ungrounded) <= 1:  # one missing value: level 4, whatever the share
        return 5 - len(ungrounded), why, ungrounded
    share = round(1 - len(ungrounded) / len(claims), 9)
    # Level 4 from 0.95 on, 3 from 0.8, 2 from 0.5, 1 from 0.01, else 0.
    return sum(share >= step for step in (0.01, 0.5, 0.8, 0.95)), why, ungrounded


def instruction_compliance(read: CaseReading) -> RuleFinding:
    """Count the breaches of instructions: one gives level 3, two give 2, three give 1, more give 0.

    Breaches are state-changing calls not expected, calls of tools not offered, and an expected
    change that was refused. Without a breach, a failed call that was tried again gives level 4.
    """
    tools = read.tools
    offered = {tool.name for tool in read.case.transcript.tools}
    calls = tools.all_calls if offered else ()
    if tools.expected is None and not calls and not tools.failed:
        return RuleFinding(None, "neither expected calls nor calls of offered tools are there")
    outside = [made_call for made_call in calls if made_call.call.name not in offered]
    wrong = read.unexpected_writes
    refused: tuple[int, ...] = ()
    if tools.writes_known:
        expected = Counter(call.name for call in tools.expected_writes or ())
        # An expected change was not made: words of refusal at the end mean that it was refused.
        tried = [*tools.done_writes, *tools.prevented]
        if expected - Counter(made_call.call.name for made_call in tried):
            refused = plain_reading.refusing_turns(read)
    retried = plain_reading.repeated_calls(tools.failed)
    why = (
        f"{_count_text(len(wrong), 'unexpected state-changing call')}, "
        f"{len(outside)} of tools not offered, "
        f"{'an expected change was refused' if refused else 'no expected change refused'}, "
        f"{_count_text(len(retried), 'failed call')} tried again"
    )
    level = _level(len(wrong) + len(outside) + bool(refused), 5, 3, 2, 1, 0)
    turns = (*_turns_of([*wrong, *outside]), *refused, *_turns_of(retried))
    return RuleFinding(4 if level == 5 and retried else level, why, "instruction_violated", turns)


def information_gathering(read: CaseReading) -> RuleFinding:
    """Check that the agent had the data it acted on: one gap gives level 3, two 2, more 1.

    A gap is a turn that acts on a value nobody had mentioned or with arguments missing, or in which
    a state-changing call failed. Each repeated request costs one more level, at most two.
    """
    writes = read.case.write_names()
    gaps = {c.turn for c in read.claims if c.tool in writes and not c.is_grounded}
    gaps |= {match.made.turn for match in read.tools.matches if match.missing}
    gaps |= {failed.turn for failed in read.tools.failed if failed.call.name in writes}
    repeats = plain_reading.repeated_requests(read.texts)
    if not (read.tools.all_calls or read.tools.missed) and not any(
        plain_reading.questions(text) for _, text in read.texts
    ):
        return RuleFinding(None, "no tool was called, and no question was asked")
    why = (
        f"{_count_text(len(gaps), 'call')} on incomplete data, "
        f"{_count_text(len(repeats), 'question')} repeated"
    )
    level = max(_level(len(gaps), 5, 3, 2, 1) - min(len(repeats), 2), 0)
    return RuleFinding(level, why, "acted_on_incomplete_data", (*sorted(gaps), *repeats))


def conversation_management(read: CaseReading) -> RuleFinding:
    """Check the flow of the conversation.

    From level 5, a cut-off conversation loses two levels, each turn that agent or user repeats word
    by word one, unless an outage came between, and an end without thanks, an offer of help or a
    goodbye one.
    """
    if not read.texts:
        return RuleFinding(0, "the agent said nothing", "no_response")
    outages = [made_call.turn for made_call in read.tools.prevented]
    repeated = plain_reading.repeated_texts(read.texts, outages)
    numbered = enumerate(read.case.transcript.turns)
    repeated_by_user = plain_reading.repeated_texts(
        [(index, turn.text) for index, turn in numbered if turn.role == "user" and turn.text],
        outages,
    )
    cut_off = read.tools.finished is False  # `None`: not known
    last, last_text = read.texts[-1]
    open_end = not plain_reading.is_closing(last_text)
    why = (
        f"{'cut off, ' if cut_off else ''}{_count_text(len(repeated), 'turn')} repeated by the "
        f"agent, {len(repeated_by_user)} by the user, "
        f"{'no closing words' if open_end else 'closing words'} at the end"
    )
    level = 5 - 2 * cut_off - len(repeated) - len(repeated_by_user) - open_end
    turns = (*repeated, *repeated_by_user, *((last,) if open_end else ()))
    return RuleFinding(max(level, 0), why, "poor_conversation_flow", turns)


def response_delivery(read: CaseReading) -> RuleFinding:
    """Check that the agent's turns can be spoken, or in a chat be read, and followed.

    A bad turn has more than 120 words, lists or markup, or two questions; in a chat more than 250
    words or four questions. No bad turn gives level 5. One gives 4, or 3 when any turn has too many
    questions. More give 3 for up to a quarter of the turns, 2 for up to a half, 1 for more, and 0
    when all of four or more turns are bad.
    """
    if not read.texts:
        return RuleFinding(0, "the agent said nothing", "no_response")
    written = read.case.is_written
    most_words, most_questions = (LONG_TO_READ, 3) if written else (LONG_WORDS, 1)
    long = {turn for turn, text in read.texts if len(text.split()) > most_words}
    marked = {turn for turn, text in read.texts if not written and _FORMATTING.search(text)}
    asked = {t for t, text in read.texts if len(plain_reading.questions(text)) > most_questions}
    bad, turns = long | marked | asked, len(read.texts)
    why = (
        f"of {_count_text(turns, 'turn')} {len(long)} too long, {len(marked)} with lists or markup, "
        f"{len(asked)} with {'four' if written else 'two'} or more questions"
    )
    share = round(len(bad) / turns, 9)
    if len(bad) <= 1:
        level = _level(len(bad), 5, 3 if asked else 4)
    elif share == 1 and turns >= 4:
        level = 0
    else:
        level = 1 + (share <= 0.5) + (share <= 0.25)
    return RuleFinding(level, why, "verbose", tuple(sorted(bad)))


def task_completion(read: CaseReading) -> RuleFinding:
    """Decide whether the agent completed its task; a conversation that was cut off fails.

    It passes when the successful state-changing calls are exactly the expected ones, with their
    arguments, and the agent said every expected string. Without expected calls or strings, it
    passes when the expected outcomes hold; without these, nothing is to be seen. What an outage
    prevented counts as done; where a tool never worked again, strings need not be said.
    """
    tools, expected = read.tools, read.case.expected
    if tools.finished is False:
        return RuleFinding(0, "the conversation was cut off before its end", "unfinished")
    if tools.expected is None and not expected.said:
        if expected.outcomes:
            held = [plain_reading.has_overlap(statement, read) for statement in expected.outcomes]
            why = f"{sum(held)} of {len(held)} expected outcomes hold, {BY_WORDS}"
            return RuleFinding(5 if all(held) else 0, why, "outcome_missing")
        return RuleFinding(None, "nothing expected is known: no calls, strings or outcomes")
    if tools.write_match is None and not expected.said and (tools.called or tools.prevented):
        return RuleFinding(None, "which of the calls made change state is not known")
    done = _count_text(len(tools.done_writes), "state-changing call")
    writes = {
        True: f"{done} made as expected" if tools.done_writes else "no change expected, none made",
        False: "the state-changing calls made are not the expected ones",
        None: "which state-changing calls were expected is not known",
    }[tools.write_match]
    due = len(tools.stated_texts) + len(tools.unstated_texts)
    stated_words = f", {len(tools.stated_texts)} of {_count_text(due, 'expected string')} told"
    why = f"{writes}{stated_words if due else ''}{_outage_text(tools)}"
    if tools.write_match is False:
        return RuleFinding(0, why, "wrong_state_change", _turns_of(tools.done_writes))
    is_untold = tools.unstated_texts and not tools.lost_calls
    return RuleFinding(0 if is_untold else 5, why, "information_not_told")


RULES: Final[Mapping[str, Callable[[CaseReading], RuleFinding]]] = {
    rule.__name__: rule
    for rule in (
        tool_routing,
        parameter_extraction,
        result_interpretation,
        grounding_fidelity,
        instruction_compliance,
        information_gathering,
        conversation_management,
        response_delivery,
        task_completion,
    )
}
"""The offline rule of each metric; a metric without a rule cannot be judged offline."""


def _holds(statement: str, read: CaseReading) -> tuple[bool, str]:
    """Return whether an expected outcome holds, and the reason in words."""
    tools = read.tools
    if plain_reading.is_prohibition(statement):  # what must not be done shows in the calls alone
        if tools.write_match is not None:
            same = "are" if tools.write_match else "are not"
            return tools.write_match, f"the state-changing calls {same} the expected ones"
        if tools.writes_known:
            done = _count_text(len(tools.done_writes), "state-changing call")
            return not tools.done_writes, f"{done} made"  # no change at all is allowed
    if tools.write_match is not None or read.case.expected.said:  # ground truth
        finding = task_completion(read)
        return finding.level == 5, finding.why
    # Without ground truth, half of its words must occur in what the agent said and called.
    held = plain_reading.has_overlap(statement, read)
    share = "at least" if held else "less than"
    return held, f"{share} half of its words occur in what was done; {BY_WORDS}"


def _level(count: int, *levels: int) -> int:
    """Return the level for a count; the first level is for none, the last for any higher count."""
    return levels[min(count, len(levels) - 1)]


def _outage_text(tools: ToolEvidence) -> str:
    """A remark on the calls that failed by no fault of the agent; empty for none."""
    calls = _count_text(len(tools.prevented), "call")
    return f"; {calls} failed by an outage, not counted" if tools.prevented else ""


def _count_text(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _turns_of(items: Sequence[MadeCall | Claim]) -> tuple[int, ...]:
    return tuple(item.turn for item in items)
