"""The judge of failed runs: first rules, then a model that reads the run in a few looks."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

from pydantic import Field

from assizes.judge.case import Case
from assizes.judge.evidence.failure_signs import Quote, Sign, failure_signs, quote_of
from assizes.judge.evidence.tool_calls import tool_evidence
from assizes.judge.excerpts.spans import readable_spans
from assizes.judge.families.deterministic import REWARD
from assizes.judge.families.diagnosis.looks import (
    SYSTEM_LAST,
    SYSTEM_LOOK,
    DiagnosisEvidence,
    DiagnosisReply,
    LastLook,
    Look,
    ProgramAnswer,
    Reading,
    look_count,
    look_prompt,
    prompt_tokens,
    whole_prompt,
)
from assizes.judge.families.entry import JudgeEntry, JudgeOptions
from assizes.judge.prompts.prompt_texts import rendered_turns
from assizes.judge.protocol import Ask, NoReply, Prompt, Steps, ask_each
from assizes.judge.quotes.sources import QuoteSources, quote_place
from assizes.judge.score import Metric, Scale, Score

NO_FAILURE: Final = (
    'the case does not say that it failed; set cases = "all" in [judge.options.diagnosis] to '
    "diagnose it all the same"
)
"""Why a case without a mark of failure is skipped."""

_SHOWN_SIGNS: Final = 8
"""Signs that the details of a score list."""
_QUOTES: Final = 5


class DiagnosisOptions(JudgeOptions):
    """Options of the judge `diagnosis`."""

    cases: Literal["failed", "all"] = Field(
        default="failed",
        description="Which cases are diagnosed. `failed`: those that carry their failure (a reward "
        "below 1 in `labels`, `finished` = false, or expected calls or strings that are missing). "
        "`all`: every case of the run, which then should hold failures only.",
    )
    looks: int = Field(
        default=3, ge=1, le=8, description="The most prompts for a case that is not shown whole."
    )
    max_tokens: int = Field(
        default=12_000,
        ge=8_000,
        le=1_000_000,
        description="The most tokens (estimated) of all prompts of a case. A run that fits is shown "
        "whole in one prompt; a longer one is read in looks.",
    )
    trust_program: bool = Field(
        default=True,
        description="Take a finding of the rules that is certain, such as an expected call that was "
        "never made, without asking a model.",
    )


def failure_mark(case: Case) -> str | None:
    """What in a case says that it failed; `None`: nothing."""
    if case.labels.get(REWARD, 1.0) < 1:
        return "its recorded reward is below 1"
    if case.transcript.finished is False:
        return "the run was cut off"
    tools = tool_evidence(case)
    if tools.missed or any(match.differences for match in tools.matches):
        return "an expected call is missing or has other arguments"
    if tools.unstated_texts:
        return "the user was not told what was expected"
    return None


class DiagnosisJudge:
    """Names the decisive turn of a failed run and the owner of the failure; changes no verdict."""

    name = "diagnosis"
    version = "2"  # goes up with the rules
    prompts = (SYSTEM_LOOK, SYSTEM_LAST)

    def __init__(self, options: DiagnosisOptions | None = None) -> None:
        """Promise one metric, an amount: the index of the decisive turn."""
        self.options = options or DiagnosisOptions()
        rubric = f"{SYSTEM_LOOK}\n\n{SYSTEM_LAST}"
        self.metric = Metric(
            name=self.name,
            scale=Scale.AMOUNT,  # a place in the run: there is no best value, and none passes
            display_name="Diagnosis",
            description="The turn that decided a failed run, and who owns the failure.",
            needs=("transcript",),
            rubric=rubric,
            rubric_hash=hashlib.sha256(rubric.encode()).hexdigest()[:16],
        )
        self.metrics = (self.metric,)

    def missing(self, case: Case) -> str | None:
        """A case without turns of an agent is skipped, and by default one that has not failed."""
        if not any(turn.role == "assistant" for turn in case.transcript.turns):
            return "the agent never speaks"
        if self.options.cases == "failed" and failure_mark(case) is None:
            return NO_FAILURE
        return None

    def judge(self, case: Case) -> list[Score] | Steps[list[Score]]:
        """One score; no ask where the rules are certain."""
        signs = failure_signs(case)
        if self.options.trust_program and signs and signs[0].confidence == "high":
            return [self._program_score(case, signs)]
        return self._read(case, signs)

    def _read(self, case: Case, signs: tuple[Sign, ...]) -> Steps[list[Score]]:
        """Ask about the whole run where it fits the budget, else in looks until one answers."""
        whole, budget = whole_prompt(case, signs), self.options.max_tokens
        if prompt_tokens(whole) <= budget:
            answer = (yield from ask_each([_ask(whole, LastLook, case, signs)]))[0]
            return [self._score(case, signs, answer, {"looks": 1, "read": [[0, _last(case)]]})]
        looks = look_count(case, signs, self.options.looks, budget)
        reading, read = Reading(), list[list[int]]()
        for look in range(looks):
            is_last = look + 1 == looks
            prompt = look_prompt(case, signs, reading, budget // looks, is_last=is_last)
            facts = {"looks": look + 1, "read": read}
            if is_last:
                answer = (yield from ask_each([_ask(prompt, LastLook, case, signs)]))[0]
                break
            reply = (yield from ask_each([_ask(prompt, Look, case, signs)]))[0]
            if not isinstance(reply, Look):  # none, or that of the offline judge
                return [self._score(case, signs, reply, facts)]
            spans = readable_spans(reply.read, len(case.transcript.turns))
            if reply.decisive_turn is not None or not spans:
                return [self._score(case, signs, reply, facts)]
            read = [*read, *([span.start, span.stop - 1] for span in spans)]
            reading = Reading(spans, reply.reasoning)
        return [self._score(case, signs, answer, {**facts, "read": read})]

    def _program_score(self, case: Case, signs: tuple[Sign, ...]) -> Score:
        best = signs[0]
        details = {
            "should_have": best.should_have,
            "quotes": [{"turn": quote.turn, "text": quote.text} for quote in best.quotes],
            "found_by": "program",
            "rule": best.rule,
            "confidence": best.confidence,
            "rationale": f"{best.reason} {best.should_have}",
            "looks": 0,
        }
        return self._scored(case, best.turn, best.owner, details, signs)

    def _score(
        self,
        case: Case,
        signs: tuple[Sign, ...],
        reply: DiagnosisReply | NoReply,
        facts: Mapping[str, Any],
    ) -> Score:
        if isinstance(reply, NoReply):
            # What the rules saw is kept, but is not passed off as what the model would have said.
            known = {**facts, "signs": _shown(case, signs)}
            return Score.failed(self.name, reply.reason, reply.code, **known)
        assert isinstance(reply, Look | LastLook)  # the two that are asked for
        turn, owner = reply.decisive_turn, reply.owner
        if isinstance(reply, ProgramAnswer) and turn is not None:
            return self._program_score(case, signs)
        if turn is None or owner is None:
            return Score.skipped(self.name, f"no decisive turn was seen: {reply.reasoning}"[:500])
        if not 0 <= turn < len(case.transcript.turns):
            reason = f"turn {turn} is not in the run, which has {len(case.transcript.turns)} turns"
            return Score.failed(self.name, reason, "unknown_turn", **facts)
        founded = _founded(case, reply.quotes)
        details = {
            "should_have": reply.should_have,
            "quotes": [{"turn": quote.turn, "text": quote.text} for quote in founded],
            "unfounded_quotes": len(reply.quotes) - len(founded),
            "found_by": "model",
            "confidence": reply.confidence,
            "rationale": " ".join(filter(None, (reply.reasoning, reply.should_have))),
            **facts,
        }
        return self._scored(case, turn, owner, details, signs)

    def _scored(
        self,
        case: Case,
        turn: int,
        owner: str,
        details: Mapping[str, Any],
        signs: tuple[Sign, ...],
    ) -> Score:
        about = {"turn": turn, "agent": _agent(case, turn), "owner": owner}
        score = Score.of(
            self.metric,
            turn,
            turns=(turn,),
            details={**about, **details, "signs": _shown(case, signs)},
        )
        return replace(score, label=owner)


def _ask(
    prompt: Prompt, reply: type[DiagnosisReply], case: Case, signs: tuple[Sign, ...]
) -> Ask[DiagnosisReply]:
    return Ask(prompt, reply, DiagnosisEvidence(signs), _doubts(case), ProgramAnswer)


def _doubts(case: Case) -> Callable[[DiagnosisReply], str | None]:
    """The check of a reply: a turn that exists, an owner, and a quote that stands in the run."""

    def doubts(reply: DiagnosisReply) -> str | None:
        if isinstance(reply, ProgramAnswer) or not isinstance(reply, Look | LastLook):
            return None
        turn, last = reply.decisive_turn, _last(case)
        if turn is None:
            return None
        if not 0 <= turn <= last:
            return f"decisive_turn is {turn}; the turns of the run are 0 to {last}"
        if reply.owner is None:
            return "decisive_turn is given, owner is not"
        if not _founded(case, reply.quotes):
            return "none of the quotes stands in the run"
        return None

    return doubts


def _founded(case: Case, quotes: Sequence[str]) -> list[Quote]:
    """The quotes that stand in the run, each with the first turn that holds it."""
    shown = [QuoteSources([block]) for block in rendered_turns(case.transcript)]
    places = [(quote_place(quote, shown), quote) for quote in quotes[:_QUOTES]]
    return [quote_of(place, quote) for place, quote in places if place is not None]


def _agent(case: Case, turn: int) -> str | None:
    return case.transcript.turns[turn].agent or case.agent


def _last(case: Case) -> int:
    return len(case.transcript.turns) - 1


def _shown(case: Case, signs: Sequence[Sign]) -> list[dict[str, Any]]:
    return [
        {
            "rule": sign.rule,
            "turn": sign.turn,
            "agent": _agent(case, sign.turn),
            "owner": sign.owner,
            "confidence": sign.confidence,
            "reason": sign.reason,
        }
        for sign in signs[:_SHOWN_SIGNS]
    ]


ENTRIES: Final[Mapping[str, JudgeEntry]] = {
    DiagnosisJudge.name: JudgeEntry(
        description="Names the decisive turn of a failed run, and whose fault it is: agent, tool, "
        "retrieval, user or environment.",
        needs=("transcript",),
        needs_ground_truth=False,
        create_judge=lambda options, _rubrics: DiagnosisJudge(options),
        options=DiagnosisOptions,
    ),
}
"""The catalogue entry of the judge."""
