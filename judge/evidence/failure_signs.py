"""Signs by which a program sees where a failed run went wrong: rules, each with its evidence.

No model is asked. A rule is about agents in general, and knows no domain. Every pattern runs in
linear time, because the texts are untrusted.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from assizes.judge.case import Case, Turn
from assizes.judge.evidence.outcomes import Outcome, is_empty, outcomes_of
from assizes.judge.evidence.tool_calls import made_calls, tool_evidence

Owner = Literal["agent", "tool", "retrieval", "user", "environment"]
"""Whose fault a failure is."""

Confidence = Literal["high", "medium", "low", "guess"]
"""How sure a finding is; a guess has no evidence beside the place in the run."""

QUOTE_CHARS: Final = 200
"""The most characters of one quote."""

_READ_CHARS: Final = 20_000
"""Characters of one turn that the rules read."""
_LOOP_TIMES: Final = 3
"""Times from which an act that is the same each time, with the same result, is a loop."""
_FEWEST_WORDS: Final = 4
"""Words of the shortest text that counts as an act; a shorter one greets, agrees or ends the run."""

_CODE_BLOCK: Final = re.compile(r"^ {0,3}```", re.MULTILINE)
_REFUSED: Final = re.compile(
    r"\b(?:invalid|must|required|missing|not (?:found|valid|allowed|permitted|eligible|exist)|denied"
    r"|unknown|unexpected|incorrect|already|exceeds|does not|cannot|traceback|\w{3,40}error)\b",
    re.IGNORECASE,
)
"""What an error says that is about what the agent sent: its arguments or its code."""
_INVENTED: Final = re.compile(
    r"\b(?:simulat(?:e|ed|ing)|hypothetical(?:ly)?|mock(?:ed)?[ -]?(?:data|up|values?)|placeholders?"
    r"|dummy|fictional|fictitious|made-up|sample (?:data|values?)|example (?:data|values?)"
    r"|for (?:demonstration|illustration)|let'?s assume|assum(?:e|ing) (?:the following|that))\b",
    re.IGNORECASE,
)
_NEGATED: Final = re.compile(
    r"\b(?:not|n't|never|no|without|avoid|instead of|rather than)\W+(?:\w+\W+)?\Z", re.IGNORECASE
)
_DONE: Final = re.compile(
    r"\bsuccessful(?:ly)?\b|\b(?:has|have) been \w{3,30}ed\b|\ball set\b",
    re.IGNORECASE,
)
_TROUBLE: Final = re.compile(
    r"\b(?:fail\w*|errors?|unable|unfortunately|issues?|problems?|sorry|apologi\w+|could ?n[o']t"
    r"|can ?n[o']t|can't|not|again|retry|instead|however|fix\w*|correct\w*|revis\w+|declin\w+|denied"
    r"|reject\w+|transfer\w*|attempt\w*|tried|block\w*|prevent\w*|invalid|missing|interrupt\w+)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Quote:
    """A text of the run that a finding rests on."""

    turn: int
    text: str  # at most `QUOTE_CHARS`


@dataclass(frozen=True, slots=True)
class Sign:
    """What one rule saw."""

    rule: str
    turn: int  # the index of the decisive turn
    owner: Owner
    confidence: Confidence
    reason: str  # what happened, a sentence
    should_have: str  # what would have had to happen, a sentence
    quotes: tuple[Quote, ...] = ()


@dataclass(frozen=True)
class _RunFacts:
    """A run as the rules read it."""

    case: Case
    outcomes: tuple[Outcome, ...]
    by_tool: dict[str, list[Outcome]] = field(default_factory=dict)

    @property
    def turns(self) -> tuple[Turn, ...]:
        return self.case.transcript.turns

    def own_texts(self) -> Iterator[tuple[int, str]]:
        """The agents' texts behind the first turn, which sets the task, whoever wrote it."""
        for index, text in self.case.transcript.agent_texts():
            if index:
                yield index, text[:_READ_CHARS]


def failure_signs(case: Case) -> tuple[Sign, ...]:
    """What the rules see in a failed run, the best sign first; empty where they see nothing.

    Signs of high confidence come first, then the others; of equal ones, the earliest in the run. A
    guess is made only where several agents work together and no rule saw anything.
    """
    run = _run(case)
    signs = [sign for rule in _RULES if (sign := rule(run)) is not None]
    if not signs and (guess := _first_act(run)) is not None:
        return (guess,)
    rank = {"high": 0, "medium": 1, "low": 2, "guess": 3}
    return tuple(sorted(signs, key=lambda sign: (rank[sign.confidence], sign.turn)))


def quote_of(turn: int, text: str, around: int = 0) -> Quote:
    """A quote of at most `QUOTE_CHARS` characters on one line, with the character `around` in it."""
    start = max(0, around - QUOTE_CHARS // 4)
    return Quote(turn, " ".join(text[start : start + QUOTE_CHARS].split()))


def _run(case: Case) -> _RunFacts:
    outcomes = tuple(outcomes_of(case.transcript))
    by_tool: defaultdict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        by_tool[outcome.tool].append(outcome)
    return _RunFacts(case, outcomes, dict(by_tool))


def _expected_call(run: _RunFacts) -> Sign | None:
    """The first expected call that was not made, or was made with other arguments."""
    tools = tool_evidence(run.case)
    if not tools.expected:
        return None
    matched = {id(match.expected): match for match in tools.matches}
    before = 0  # the turn of the last expected call that was made as it should be
    for expected in tools.expected:
        match = matched.get(id(expected))
        if match is not None and not match.differences:
            before = max(before, match.made.turn)
            continue
        if match is not None:
            wrong = (*match.different, *match.missing, *match.extra)
            given = json.dumps(match.made.call.arguments, ensure_ascii=False, default=str)
            return Sign(
                rule="expected_call_differs",
                turn=match.made.turn,
                owner="agent",
                confidence="medium",  # a text may differ from the expected one and mean the same
                reason=f"{expected.name} was called with other arguments than expected: "
                f"{', '.join(wrong[:8])}.",
                should_have=f"{expected.name} had to be called with the expected arguments.",
                quotes=(quote_of(match.made.turn, given),),
            )
        later = [turn for turn, _ in run.case.transcript.agent_texts() if turn > before]
        later += [turn for turn, _ in run.case.transcript.calls() if turn > before]
        return Sign(
            rule="expected_call_missed",
            turn=min(later, default=before),
            owner="agent",
            confidence="high",
            reason=f"{expected.name} was expected and never called with success.",
            should_have=f"{expected.name} had to be called here.",
        )
    return None


def _claims_success(run: _RunFacts) -> Sign | None:
    """A text that reports success right after a failure, and does not mention the failure."""
    for outcome in run.outcomes:
        if not outcome.has_failed or outcome.turn + 1 >= len(run.turns):
            continue
        following = run.turns[outcome.turn + 1]
        text = (following.text or "")[:_READ_CHARS]
        # After a success of another call, the report may be about that one.
        is_sole = all(other.has_failed for other in run.outcomes if other.turn < outcome.turn)
        is_report = following.role == "assistant" and not following.tool_calls
        if is_report and (done := _DONE.search(text)) and not _TROUBLE.search(text):
            return Sign(
                rule="contradicts_result",
                turn=outcome.turn + 1,
                owner="agent",
                confidence="high" if is_sole else "medium",
                reason=f"The agent reports success after {outcome.tool} had failed.",
                should_have="The agent had to report the failure, or to try another way.",
                quotes=(
                    quote_of(outcome.turn, outcome.content),
                    quote_of(outcome.turn + 1, text, done.start()),
                ),
            )
    return None


def _not_recovered(run: _RunFacts) -> Sign | None:
    """The first failure of a tool that never worked again."""
    signs: list[Sign] = []
    for tool, outcomes in run.by_tool.items():
        streak: list[Outcome] = []
        for outcome in outcomes:
            streak = [*streak, outcome] if outcome.has_failed else []
        if streak:
            times = f"{len(streak)} times" if len(streak) > 1 else "once"
            signs.append(_failure(streak[0], f"{tool} failed {times} and never worked again."))
    return min(signs, key=lambda sign: sign.turn, default=None)


def _failed_act(run: _RunFacts) -> Sign | None:
    """The first failure, also where the tool worked again later: the run took another way there."""
    first = next((outcome for outcome in run.outcomes if outcome.has_failed), None)
    if first is None:
        return None
    sign = _failure(first, f"{first.tool} failed, and the run went on in another way.")
    return replace(sign, rule="failed_call", confidence="low")


def _failure(outcome: Outcome, reason: str) -> Sign:
    owner: Owner = "tool"
    if outcome.is_out:
        owner = "environment"
    elif outcome.is_code or _REFUSED.search(outcome.content[:2000]):
        owner = "agent"
    remedy = {
        "environment": "The environment had to answer; the agent could only try again or say so.",
        "agent": "The agent had to send what works, or to mend it after the error.",
        "tool": "The tool had to answer.",
    }
    return Sign(
        rule="outage" if outcome.is_out else "failure_not_recovered",
        # What an agent sent is decided in its turn, what others break in the turn of the result.
        turn=outcome.act if owner == "agent" else outcome.turn,
        owner=owner,
        confidence="medium",
        reason=reason,
        should_have=remedy[owner],
        quotes=(quote_of(outcome.turn, outcome.content),),
    )


def _invented_data(run: _RunFacts) -> Sign | None:
    """The first text that puts invented values in the place of those it could not get."""
    for index, text in run.own_texts():
        for match in _INVENTED.finditer(text):
            if not _NEGATED.search(text[max(0, match.start() - 40) : match.start()]):
                return Sign(
                    rule="invented_data",
                    turn=index,
                    owner="agent",
                    confidence="medium",
                    reason="The agent goes on with values that it assumed or invented.",
                    should_have="The agent had to get the values from a source, or to stop.",
                    quotes=(quote_of(index, text, match.start()),),
                )
    return None


def _empty_retrieval(run: _RunFacts) -> Sign | None:
    """The first retrieval that found nothing, or was barred, and that no later one made good."""
    found = {
        outcome.tool for outcome in run.outcomes if not outcome.has_failed and not is_empty(outcome)
    }
    places = [o.turn for o in run.outcomes if is_empty(o) and o.tool not in found]
    if not any(turn.chunks for turn in run.turns):
        places += [index for index, turn in enumerate(run.turns) if turn.chunks == ()]
    if not places:
        return None
    turn = min(places)
    return Sign(
        rule="empty_retrieval",
        turn=turn,
        owner="retrieval",
        confidence="medium",
        reason="A retrieval brought nothing, and no later one did.",
        should_have="The retrieval had to find what the task needs, or the agent to say it is not "
        "there.",
        quotes=(quote_of(turn, run.turns[turn].all_text()),),
    )


def _loop(run: _RunFacts) -> Sign | None:
    """The first repetition of an act that was made three times or more with one result."""
    results = {(made.turn, id(made.call)): made.result for made in made_calls(run.case.transcript)}
    acts: list[tuple[int, str]] = []
    for index, turn in enumerate(run.turns):
        if turn.role != "assistant" or not index:
            continue
        for call in turn.tool_calls:
            answer = results.get((index, id(call)))
            shown = json.dumps(call.arguments, sort_keys=True, default=str)
            content = answer.content if answer else ""
            acts.append((index, f"{call.name}({call.raw or shown}) {content}"))
        words = (turn.text or "").split()
        if not turn.tool_calls and len(words) >= _FEWEST_WORDS:
            acts.append((index, " ".join(words)))
    counts = Counter(text for _, text in acts)
    repeated = {text for text, times in counts.items() if times >= _LOOP_TIMES}
    seen: set[str] = set()
    for index, text in acts:
        if text in seen and text in repeated:
            return Sign(
                rule="loop",
                turn=index,
                owner="agent",
                confidence="medium",
                reason=f"The same act was made {counts[text]} times with the same result.",
                should_have="The agent had to try something else after the first time.",
                quotes=(quote_of(index, text),),
            )
        seen.add(text)
    return None


def _cut_off(run: _RunFacts) -> Sign | None:
    """The last turn of an agent in a run that did not come to its end."""
    last = max((i for i, turn in enumerate(run.turns) if turn.role == "assistant"), default=None)
    if run.case.transcript.finished is not False or last is None:
        return None
    return Sign(
        rule="cut_off",
        turn=last,
        owner="agent",
        confidence="low",
        reason="The run was cut off before its end, as by a limit of steps.",
        should_have="The agent had to come to an answer in fewer steps.",
        quotes=(quote_of(last, run.turns[last].all_text()),),
    )


def _first_act(run: _RunFacts) -> Sign | None:
    """The first act of a run of several agents: a call, else code, else a text of some length."""
    if len(run.case.transcript.agents()) < 2:
        return None
    acting = [index for index, _ in run.case.transcript.calls() if index]
    acting += [index for index, text in run.own_texts() if _CODE_BLOCK.search(text)]
    speaking = [index for index, text in run.own_texts() if len(text.split()) >= _FEWEST_WORDS]
    if not acting and not speaking:
        return None
    turn = min(acting or speaking)
    return Sign(
        rule="first_act",
        turn=turn,
        owner="agent",
        confidence="guess",
        reason="No sign was seen; the first act chose the way that all later steps followed.",
        should_have="The first act had to choose another way.",
        quotes=(quote_of(turn, run.turns[turn].all_text()),),
    )


_RULES: Final[Sequence[Callable[[_RunFacts], Sign | None]]] = (
    *(_expected_call, _claims_success, _not_recovered, _invented_data),
    *(_empty_retrieval, _loop, _failed_act, _cut_off),
)
