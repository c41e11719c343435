"""The judge that compares two sides of a case and is asked in both orders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from assizes.judge.case import Case, Transcript
from assizes.judge.config.judging import estimated_tokens
from assizes.judge.families.conversation_parts import ReadingOptions, transcript_view
from assizes.judge.families.pairwise.rubric import PairRubric
from assizes.judge.families.pairwise.verdict import Choice, PairVerdict
from assizes.judge.families.rag import Input, expected_statements, last_exchange
from assizes.judge.prompts.prompt_texts import (
    EMPTY,
    NOT_CAPTURED,
    data_section,
    numbered_list,
    rendered_transcript,
)
from assizes.judge.protocol import Ask, NoReply, Prompt, Steps, ask_each
from assizes.judge.score import Metric, Scale, Score

PAIRWISE: Final = "pairwise"
"""The name of the judge and of its metric: 1 where the candidate won, 0.5 for a tie, 0 else."""

TOO_LONG: Final = "too_long"
"""Failure code of a pair whose conversations do not fit into one prompt side by side."""

VERDICT: Final = "verdict"
"""Key of the verdict in the details of a score."""

_SIDES: Final = ("First", "Second")


class Preference(BaseModel):
    """What the model replies about one order."""

    model_config = ConfigDict(extra="forbid")

    rationale: str
    better: Choice


@dataclass(frozen=True, slots=True)
class PairEvidence:
    """The facts of a pair's ask, in the order in which the sides are shown."""

    request: str
    first: str  # what the agent wrote
    second: str
    expected: tuple[str, ...] = ()  # statements that a good answer makes


def pair_metric(rubric: PairRubric) -> Metric:
    """The metric of a judge that asks this question: 1 candidate, 0.5 tie, 0 baseline."""
    return Metric(
        PAIRWISE, scale=Scale.FRACTION, rubric_hash=rubric.content_hash(), rubric=rubric.text
    )


class PairJudge:
    """Compares a case with another run's conversation of the same case, in both orders at once.

    The case that is heard is the baseline. Equal texts are a tie, for which nothing is asked.
    """

    name = PAIRWISE
    version = "1"

    def __init__(
        self, rubric: PairRubric, candidate: Case, reading: ReadingOptions | None = None
    ) -> None:
        """Keep the other side; `reading` bounds the tokens of a prompt."""
        self.rubric, self.candidate = rubric, candidate
        self.reading = reading or ReadingOptions()
        self.metric = pair_metric(rubric)
        self.metrics = (self.metric,)

    def missing(self, case: Case) -> str | None:
        """A pair is skipped where a side lacks what is compared."""
        for side, name in ((case, "baseline"), (self.candidate, "candidate")):
            if side.status != "completed":
                return f"{name}: conversation status is {side.status!r}"
            if lacking := _lacking(self.rubric, side):
                return f"{name}: missing input: {', '.join(lacking)}"
        return None

    def judge(self, case: Case) -> list[Score] | Steps[list[Score]]:
        """Two asks in one round, one for each order; none where both sides show the same."""
        verdict = PairVerdict(
            case_id=case.case_id,
            repetition=case.repetition,
            cluster=case.cluster or "",
            baseline_chars=len(_agent_text(self.rubric, case)),
            candidate_chars=len(_agent_text(self.rubric, self.candidate)),
        )
        sides = (case, self.candidate)
        prompts = [self._prompt(*sides), self._prompt(*reversed(sides))]
        if prompts[0] == prompts[1]:
            same = verdict.model_copy(update={"identical": True})
            return [self._score(same)]
        most = self.reading.context_tokens
        if most is not None:
            tokens = estimated_tokens(prompts[0].system, prompts[0].user)
            if tokens > most:
                reason = f"both sides take some {tokens} tokens, over context_tokens {most}"
                return [Score.failed(PAIRWISE, reason, TOO_LONG)]
        return self._ask_in_both_orders(verdict, sides, prompts)

    def _ask_in_both_orders(
        self, verdict: PairVerdict, sides: tuple[Case, Case], prompts: list[Prompt]
    ) -> Steps[list[Score]]:
        facts = (_evidence(self.rubric, *sides), _evidence(self.rubric, *reversed(sides)))
        asks = [
            Ask(prompt, Preference, evidence)
            for prompt, evidence in zip(prompts, facts, strict=True)
        ]
        as_given, swapped = yield from ask_each(asks)
        if isinstance(as_given, NoReply):  # one order alone would keep the bias of the place
            return [Score.failed(PAIRWISE, as_given.reason, as_given.code)]
        if isinstance(swapped, NoReply):
            return [Score.failed(PAIRWISE, swapped.reason, swapped.code)]
        update = {
            "as_given": as_given.better,
            "swapped": swapped.better,
            "reasons": (as_given.rationale, swapped.rationale),
        }
        return [self._score(verdict.model_copy(update=update))]

    def _score(self, verdict: PairVerdict) -> Score:
        details = {VERDICT: verdict.model_dump(mode="json")}
        return Score.of(self.metric, verdict.points, details=details)

    def _prompt(self, first: Case, second: Case) -> Prompt:
        sections = (
            _conversation_sections(first, second, self.reading, self.rubric)
            if self.rubric.shown == "conversation"
            else _answer_sections(self.rubric, first, second)
        )
        user = "\n\n".join(data_section(heading, body or EMPTY) for heading, body in sections)
        return Prompt(self.rubric.system, user)


def verdict_of(score: Score, case: Case) -> PairVerdict:
    """The verdict in a score of a `PairJudge`; without one, a verdict that says why not."""
    stored: Any = score.details.get(VERDICT)
    if stored is not None:
        return PairVerdict.model_validate(stored)
    return PairVerdict(
        case_id=case.case_id,
        repetition=case.repetition,
        cluster=case.cluster or "",
        reasons=(score.reason or "",),
    )


Sections = list[tuple[str, str]]


def _conversation_sections(
    first: Case, second: Case, reading: ReadingOptions, rubric: PairRubric
) -> Sections:
    expected = expected_of(first, second)
    sections: Sections = [("Expected of the agent", expected)] if expected else []
    sections += _common_sections(
        "Agent system prompt", *(_system(side) for side in (first, second))
    )
    # Half of the prompt for each side; what is too long is shortened at its tool results.
    around = 0
    if reading.context_tokens is not None:
        frame = estimated_tokens(rubric.system, "\n".join(body for _, body in sections))
        around = (reading.context_tokens + frame) // 2
    for name, side in zip(_SIDES, (first, second), strict=True):
        shown = side.transcript
        if chunks := [chunk.content for chunk in shown.chunks or ()]:
            sections.append((f"{name}: retrieved context", numbered_list(chunks)))
        if reading.context_tokens is not None:
            shorter = transcript_view(shown, reading, around).transcript
            # A side with cut answers would lose for what it said: such a pair is too long.
            if list(shorter.agent_texts()) == list(shown.agent_texts()):
                shown = shorter
        sections.append((f"{name}: conversation, with turn numbers", rendered_transcript(shown)))
    return sections


def expected_of(first: Case, second: Case) -> str:
    """The statements that are expected of both sides, numbered; empty where there are none."""
    statements = dict.fromkeys((*first.expected.outcomes, *second.expected.outcomes))
    return numbered_list(tuple(statements)) if statements else ""


def _answer_sections(rubric: PairRubric, first: Case, second: Case) -> Sections:
    sides = (first, second)
    exchanges = [last_exchange(side.transcript) for side in sides]
    wanted = {*rubric.inputs, *rubric.optional}
    sections: Sections = []
    if "request" in wanted:
        before = [rendered_transcript(Transcript(turns=each.before)) for each in exchanges]
        if any(before):
            sections += _common_sections("Conversation before", *before)
        sections += _common_sections("Request", *(each.request or "" for each in exchanges))
    statements = expected_statements(first) or expected_statements(second)
    if "expected_response" in wanted and statements:
        sections.append(("Expected response", numbered_list(statements)))
    if "retrieved_context" in wanted:
        contexts = (
            numbered_list([chunk.content for chunk in side.transcript.retrieved_chunks()])
            for side in sides
        )
        sections += _common_sections("Retrieved context", *contexts)
    for name, each in zip(_SIDES, exchanges, strict=True):
        sections.append((f"{name}: response", each.response or ""))
    return sections


def _common_sections(heading: str, first: str, second: str) -> Sections:
    """A section where both sides show the same, else one for each side."""
    if first == second:
        return [(heading, first)]
    name = heading[0].lower() + heading[1:]
    return [(f"{side}: {name}", body) for side, body in zip(_SIDES, (first, second), strict=True)]


def _system(case: Case) -> str:
    return (case.transcript.system or "").strip() or NOT_CAPTURED


def _agent_text(rubric: PairRubric, case: Case) -> str:
    """What the agent wrote, as far as it is compared."""
    if rubric.shown == "answer":
        return last_exchange(case.transcript).response or ""
    return "\n".join(text for _, text in case.transcript.agent_texts())


def _evidence(rubric: PairRubric, first: Case, second: Case) -> PairEvidence:
    texts = [turn.text or "" for turn in first.transcript.turns if turn.role == "user"]
    expected = (*first.expected.outcomes, *expected_statements(first))
    return PairEvidence(
        "\n".join(texts), _agent_text(rubric, first), _agent_text(rubric, second), expected
    )


def _lacking(rubric: PairRubric, case: Case) -> list[str]:
    if rubric.shown == "conversation":
        return [] if any(case.transcript.agent_texts()) else ["a text of the agent"]
    last = last_exchange(case.transcript)
    available: dict[Input, bool] = {
        "request": last.request is not None,
        "response": last.response is not None,
        "retrieved_context": case.transcript.retrieval() is not None,
        "expected_response": bool(expected_statements(case)),
    }
    return [name for name in ("response", *rubric.inputs) if not available[name]]
