"""Diagnosis: the decisive step and its owner in failed runs that people have labelled.

    python -m benchmarks.diagnosis

The runs are those of Who&When, algorithm-generated part (126), each with the agent and the step
that people blamed. The rules were chosen on the half with an odd hash of its file name; the other
half is measured too. A scripted model, which knows the labels of most cases, shows that the path
from asks to accuracy holds; it says nothing about any model.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import random
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from assizes.judge.case import Case, Transcript
from assizes.judge.config.judging import LimitsConfig
from assizes.judge.engine.hearings import Engine
from assizes.judge.evidence.failure_signs import failure_signs
from assizes.judge.families.diagnosis.judge import DiagnosisJudge, DiagnosisOptions
from assizes.judge.families.diagnosis.looks import Look
from assizes.judge.formats import FORMATS
from assizes.judge.hearing import Hearing
from assizes.judge.models.model import ScriptedModel
from assizes.judge.protocol import Ask
from assizes.judge.statistics.intervals import wilson, z_of
from benchmarks.figures import DATA, Figures

FILE = DATA / "who_and_when" / "algorithm_generated.jsonl.gz"
LENGTHS = (10, 50, 130)
KNOWN_SHARE = 0.7
"""Share of the cases whose label the scripted model answers with."""

Answer = Callable[[Case], tuple[int | None, str | None]]
"""The step and the agent that are blamed; `None`: none is."""


def main() -> None:
    """Measure, print, and end with one line of JSON."""
    cases = read_cases()
    odd = [case for case in cases if _is_odd(case)]
    even = [case for case in cases if not _is_odd(case)]
    figures = Figures()
    for part, name in ((cases, "all"), (odd, "chosen on"), (even, "held out")):
        _accuracy(figures, f"rules, {name}", part, _by_rules)
    _accuracy(figures, "most frequent agent of the labels", cases, _always(cases))
    _accuracy(figures, "agent with most turns, first step", cases, _busiest)
    for name, step in (("first step", 0), ("second step", 1), ("last step", -1)):
        _accuracy(figures, f"always the {name}", cases, _at(step))
    _by_rule(cases)
    _scripted(figures, cases)
    _tokens(figures, cases)
    figures.close()


def read_cases() -> list[Case]:
    """The labelled runs."""
    lines = gzip.decompress(FILE.read_bytes()).splitlines()
    return [FORMATS["who_and_when"].case(line) for line in lines]


def _is_odd(case: Case) -> bool:
    return int(hashlib.sha256(case.metadata["file"].encode()).hexdigest(), 16) % 2 == 1


def _label(case: Case) -> tuple[int, str]:
    return int(case.metadata["mistake_step"]), case.metadata["mistake_agent"]


def _agent(case: Case, turn: int | None) -> str | None:
    return None if turn is None else case.transcript.turns[turn].agent


def _by_rules(case: Case) -> tuple[int | None, str | None]:
    signs = failure_signs(case)
    turn = signs[0].turn if signs else None
    return turn, _agent(case, turn)


def _always(cases: Sequence[Case]) -> Answer:
    """The agent that is blamed most often, in every case; it blames no step."""
    agent = Counter(_label(case)[1] for case in cases).most_common(1)[0][0]
    return lambda case: (None, agent)


def _busiest(case: Case) -> tuple[int | None, str | None]:
    speakers = [turn.agent for turn in case.transcript.turns if turn.role == "assistant"]
    agent = Counter(speakers).most_common(1)[0][0]
    first = next(i for i, turn in enumerate(case.transcript.turns) if turn.agent == agent)
    return first, agent


def _at(step: int) -> Answer:
    def answer(case: Case) -> tuple[int | None, str | None]:
        turn = step % len(case.transcript.turns)
        return turn, _agent(case, turn)

    return answer


def _accuracy(figures: Figures, name: str, cases: Sequence[Case], answer: Answer) -> None:
    answers = [(answer(case), _label(case)) for case in cases]
    for kind, place in (("step", 0), ("agent", 1)):
        right = sum(given[place] == label[place] for given, label in answers)
        interval = wilson(right / len(cases), len(cases), z_of(0.95))
        figures.add(f"{kind}: {name}", right / len(cases))
        print(f"    {right} of {len(cases)}, 95 % {interval.low:.3f}..{interval.high:.3f}")


def _by_rule(cases: Sequence[Case]) -> None:
    counts: dict[str, list[int]] = {}
    for case in cases:
        signs, (step, agent) = failure_signs(case), _label(case)
        count = counts.setdefault(signs[0].rule if signs else "(none)", [0, 0, 0])
        turn = signs[0].turn if signs else None
        count[0] += 1
        count[1] += turn == step
        count[2] += _agent(case, turn) == agent
    for rule, (times, steps, agents) in sorted(counts.items()):
        print(f"    {rule:<24} {times:>4} cases, step right {steps}, agent right {agents}")


def _scripted(figures: Figures, cases: Sequence[Case]) -> None:
    """The path from asks to accuracy: a model that asks for spans, then answers."""
    draw = random.Random(22)
    known = {case.case_id for case in cases if draw.random() < KNOWN_SHARE}
    right = looks = scored = 0
    options = DiagnosisOptions(trust_program=False)
    for labelled in cases:
        case = _of_length(labelled, cases, 50)
        step, _ = _label(case)
        last = len(case.transcript.turns) - 1
        turn = step if case.case_id in known else (step + 1) % (last + 1)
        model = ScriptedModel([_reader(case, turn)] * (2 * options.looks))
        result = asyncio.run(Engine(model, LimitsConfig()).hear(DiagnosisJudge(options), case))
        (score,) = result.scores
        scored += score.status == "scored"
        right += score.details.get("turn") == step
        looks += len(result.asks)
    share = len(known) / len(cases)
    figures.add("scripted: scored", scored / len(cases), least=1.0)
    figures.add("scripted: step accuracy", right / len(cases))
    figures.add("scripted: looks a case", looks / len(cases), most=options.looks)
    difference = abs(right / len(cases) - share)
    figures.add("scripted: differs from the labels known", difference, most=0.0)


def _reader(case: Case, turn: int) -> Callable[[Ask[Any]], dict[str, Any]]:
    """A model that first reads around a turn where it may, and then blames the turn."""
    text = case.transcript.turns[turn].all_text()

    def reply(ask: Ask[Any]) -> dict[str, Any]:
        may_read = issubclass(ask.reply, Look)
        has_read = "Turns that you asked for" in ask.prompt.user
        verdict = {
            "reply_id": ask.reply_id,
            "reasoning": "The later steps follow from this one.",
            "decisive_turn": turn,
            "owner": "agent",
            "should_have": "It had to be right.",
            "quotes": [text[:60]],
            "confidence": "high",
        }
        if not may_read:
            return verdict
        if has_read:
            return {**verdict, "read": []}
        spans = [{"first": turn, "last": turn + 1}]
        return {**verdict, "read": spans, "decisive_turn": None, "owner": None, "quotes": []}

    return reply


def _tokens(figures: Figures, cases: Sequence[Case]) -> None:
    """Tokens of all prompts of a case whose model reads as much as it may, by length of the run."""
    medians = {}
    for steps in LENGTHS:
        totals = [_spent(_of_length(case, cases, steps)) for case in cases[:40]]
        medians[steps] = statistics.median(totals)
        figures.add(f"tokens a case, {steps} steps", medians[steps])
        most = DiagnosisOptions().max_tokens
        figures.add(f"tokens a case, {steps} steps, most", max(totals), most=most)
    ratio = medians[LENGTHS[-1]] / medians[LENGTHS[0]]
    figures.add("tokens, 130 steps to 10", ratio)  # the budget bounds what longer runs cost


def _of_length(case: Case, cases: Sequence[Case], steps: int) -> Case:
    """The run with varied steps of other runs behind its own, so that it has so many steps."""
    draw = random.Random(f"{case.case_id} {steps}")
    turns = list(case.transcript.turns)
    while len(turns) < steps:
        turns += draw.choice(cases).transcript.turns[1:]
    transcript = Transcript(turns=tuple(turns[:steps]), system=case.transcript.system)
    return case.model_copy(update={"transcript": transcript})


def _spent(case: Case) -> int:
    """The estimated tokens of all prompts; the model asks for six long spans each time it may."""
    hearing = Hearing(DiagnosisJudge(DiagnosisOptions(trust_program=False)), case)
    spent = 0
    while hearing.asks:
        (ask,) = hearing.asks
        assert isinstance(ask, Ask)
        spent += ScriptedModel([]).tokens(ask)[0]
        quote = case.transcript.turns[0].all_text()[:50]
        fields = {"reasoning": "x", "should_have": "", "quotes": [quote], "confidence": "low"}
        if issubclass(ask.reply, Look):
            spans = [{"first": start, "last": start + 9} for start in range(0, 60, 10)]
            reply = {**fields, "read": spans, "decisive_turn": None, "owner": None}
        else:
            reply = {**fields, "decisive_turn": 0, "owner": "agent"}
        hearing.answer([ask.reply.model_validate_json(json.dumps(reply))])
    return spent


if __name__ == "__main__":
    main()
