"""Yes/no judges (seed 004): `AnswerJudge` rates an answer, `RetrievalJudge` each retrieved chunk.

`assizes.judge.families.rag.entries` lists the built-in judges. A judge that a user writes is the
same class, created from a `YesNoRubric` with a name and a prompt of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from assizes.judge.case import Case, Chunk, Transcript, Turn
from assizes.judge.prompts.sections import (
    DATA_RULE,
    EMPTY,
    data_section,
    numbered_list,
    rendered_transcript,
)
from assizes.judge.protocol import Ask, NoReply, Prompt, Steps, ask, ask_each
from assizes.judge.score import Metric, Scale, Score
from assizes.judge.statistics.exact import rounded_value

Input = Literal["request", "response", "retrieved_context", "expected_response"]
"""The parts of a case that a yes/no judge may need or show."""

Step = Literal["response", "retrieval"]
"""The step of the agent that a yes/no judge assesses."""

NO_CHUNK_RATED: Final = "no_chunk_rated"
"""Error code of a retrieval judge that could not rate any chunk."""

ROLE: Final = f"""\
You judge one aspect of an answer that an AI agent gave to a user's request.

# Rules
- Judge this aspect alone, on what you are shown; do not invent problems.
- {DATA_RULE}
- "Conversation before", where it is shown, is background; judge the last exchange only."""
"""The beginning of the system message of every judge of one aspect, yes/no or graded."""

_REPLY: Final = """\
# Reply
One JSON object, nothing else, with these keys in this order:
- rationale: one to three sentences, before the rating
- rating: "yes" or "no", nothing else"""


class Rating(BaseModel):
    """What the model replies."""

    model_config = ConfigDict(extra="forbid")

    rationale: str
    rating: Literal["yes", "no"]


class YesNoRubric(BaseModel):
    """The description of a yes/no judge: its prompt and its inputs.

    The prompt holds the question, and when to say yes and when no. A run publishes the share of
    yes, or the mean precision of a retrieval judge, under a name made from `step` and `name`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")
    prompt: str = Field(min_length=1)
    display_name: str = ""
    aspect: str = Field(default="", description="what it assesses, for listings")
    step: Step = "response"
    inputs: tuple[Input, ...] = Field(
        default=("request", "response"), description="without one of them it does not apply"
    )
    optional: tuple[Input, ...] = Field(default=(), description="shown where the case has it")
    also_published: tuple[str, ...] = Field(default=(), description="further names in a run")

    @property
    def needs_ground_truth(self) -> bool:
        """Whether the judge needs the expected response."""
        return "expected_response" in self.inputs


@dataclass(frozen=True, slots=True)
class LastExchange:
    """The last request and response of a conversation, and the turns before them.

    `request` or `response` is `None` where the conversation has none.
    """

    request: str | None
    response: str | None
    before: tuple[Turn, ...] = ()


@dataclass(frozen=True, slots=True)
class RatingEvidence:
    """The facts of a yes/no judge's ask: the last exchange, the passages, the expected statements.

    `context` holds all retrieved passages, or the one chunk that a retrieval judge asks about.
    """

    judge: str
    request: str | None
    response: str | None
    context: tuple[str, ...] = ()
    expected: tuple[str, ...] = ()


def last_exchange(transcript: Transcript) -> LastExchange:
    """The agent's last text, and the last text of the user before it.

    A text of the user without an answer after it (thanks, goodbye) is no request, unless the user
    said nothing before the agent's last text.
    """
    turns = transcript.turns
    response_index = _last_turn_of(turns, "assistant")
    request_index = _last_turn_of(
        turns if response_index is None else turns[:response_index], "user"
    )
    if request_index is None:
        request_index = _last_turn_of(turns, "user")
    start = min(
        (place for place in (request_index, response_index) if place is not None), default=0
    )
    return LastExchange(
        request=None if request_index is None else turns[request_index].text,
        response=None if response_index is None else turns[response_index].text,
        before=turns[:start],
    )


def expected_statements(case: Case) -> tuple[str, ...]:
    """The expected response as one statement, or else the expected facts, without blank texts."""
    expected = case.expected
    texts = (expected.response,) if expected.response else expected.facts
    return tuple(text for text in texts if text.strip())


def missing_input(inputs: Sequence[Input], case: Case) -> str | None:
    """A sentence that names the inputs which a case lacks; `None` when the case has them all."""
    last = last_exchange(case.transcript)
    available: dict[Input, bool] = {
        "request": last.request is not None,
        "response": last.response is not None,
        "retrieved_context": case.transcript.retrieval() is not None,
        "expected_response": bool(expected_statements(case)),
    }
    lacking = [_INPUT_WORDS[name] for name in inputs if not available[name]]
    return f"missing input: {', '.join(lacking)}" if lacking else None


class _RubricJudge:
    """A judge of one rubric, with one metric under the rubric's name.

    Args:
        rubric: the judge's prompt and inputs.
        scale: the scale of the metric.
        run_name: the published name of the metric in a run.
    """

    version = "1"

    def __init__(self, rubric: YesNoRubric, scale: Scale, run_name: str) -> None:
        self.name = rubric.name
        self.rubric = rubric
        self.system = system_message(rubric)
        self.metric = _metric(rubric, self.system, scale, run_name)
        self.metrics = (self.metric,)

    @property
    def prompts(self) -> tuple[str, ...]:
        """The system message, which is equal for all cases."""
        return (self.system,)

    def missing(self, case: Case) -> str | None:
        """A case is skipped without one of the inputs of the rubric."""
        return missing_input(self.rubric.inputs, case)


class AnswerJudge(_RubricJudge):
    """Rates the last answer of a case with yes or no; yes has passed."""

    def __init__(self, rubric: YesNoRubric) -> None:
        """Promise one yes/no metric with the rubric's name."""
        run_name = f"{rubric.step}/llm_judged/{rubric.name}/rating/percentage"
        super().__init__(rubric, Scale.YES_NO, run_name)

    def judge(self, case: Case) -> Steps[list[Score]]:
        """One ask, one score."""
        prompt, evidence = self.prompt_and_evidence(case)
        rating = yield from ask(prompt, Rating, evidence)
        return [_rating_score(self.metric, rating)]

    def prompt_and_evidence(self, case: Case) -> tuple[Prompt, RatingEvidence]:
        """The facts of a case as text for a language model, and as values."""
        evidence = _evidence(self.name, case, case.transcript.retrieved_chunks())
        context = ("Retrieved context", numbered_list(evidence.context))
        user = _user_message(self.rubric, case, context, evidence.expected)
        return Prompt(self.system, user), evidence


class RetrievalJudge(_RubricJudge):
    """Rates each retrieved chunk with yes or no; the headline score is the precision 0..1.

    Precision = chunks rated yes / chunks rated. The headline has passed when at least one chunk was
    rated yes; a retrieval without chunks has precision 0 and has not passed.
    """

    def __init__(self, rubric: YesNoRubric) -> None:
        """Promise the precision under the rubric's name, and a part `chunk:i` for each chunk."""
        if "retrieved_context" not in rubric.inputs:
            inputs = (*rubric.inputs, "retrieved_context")
            rubric = rubric.model_copy(update={"inputs": inputs})
        run_name = f"retrieval/llm_judged/{rubric.name}/precision/average"
        super().__init__(rubric, Scale.FRACTION, run_name)
        self.rating = Metric(rubric.name, scale=Scale.YES_NO)

    def judge(self, case: Case) -> list[Score] | Steps[list[Score]]:
        """One ask for each chunk, all in one round."""
        chunks = case.transcript.retrieved_chunks()
        if not chunks:
            details = {"rationale": "the retrieval returned no chunk"}
            return [Score.of(self.metric, 0.0, passed=False, details=details)]
        return self._ask_about_chunks(case, chunks)

    def _ask_about_chunks(self, case: Case, chunks: Sequence[Chunk]) -> Steps[list[Score]]:
        asks = []
        for chunk in chunks:
            evidence = _evidence(self.name, case, [chunk])
            context = ("Retrieved chunk", chunk.content)
            user = _user_message(self.rubric, case, context, evidence.expected)
            asks.append(Ask(Prompt(self.system, user), Rating, evidence))
        replies = yield from ask_each(asks)
        parts = [
            _chunk_part(self.rating, place, chunk, reply)
            for place, (chunk, reply) in enumerate(zip(chunks, replies, strict=True))
        ]
        return [_precision(self.metric, parts), *parts]


def system_message(rubric: YesNoRubric) -> str:
    """Role and rules, the rubric's own question, the reply format; equal for all cases."""
    return "\n\n".join([ROLE, f"# Question\n{rubric.prompt.strip()}", _REPLY])


_INPUT_WORDS: Final[dict[Input, str]] = {
    "request": "request",
    "response": "response",
    "retrieved_context": "retrieved_context",
    "expected_response": "expected_response (or expected_facts)",
}

NEEDS: Final[dict[Input, str]] = {
    "request": "request",
    "response": "response",
    "retrieved_context": "retrieved_context",
    "expected_response": "expected.response",
}
"""The name of each input in the needs of a judge; `expected.` marks an expected value."""


def _metric(rubric: YesNoRubric, system: str, scale: Scale, run_name: str) -> Metric:
    return Metric(
        name=rubric.name,
        scale=scale,
        display_name=rubric.display_name or rubric.name.replace("_", " ").title(),
        description=rubric.aspect,
        needs=tuple(NEEDS[name] for name in rubric.inputs),
        needs_ground_truth=rubric.needs_ground_truth,
        rubric=rubric.prompt.strip(),
        rubric_hash=hashlib.sha256(system.encode()).hexdigest()[:16],
        gate="quality",
        run_names=(run_name, *rubric.also_published),
    )


def _last_turn_of(turns: Sequence[Turn], role: str) -> int | None:
    places = range(len(turns) - 1, -1, -1)
    return next(
        (i for i in places if turns[i].role == role and (turns[i].text or "").strip()), None
    )


def _evidence(judge: str, case: Case, chunks: Sequence[Chunk]) -> RatingEvidence:
    last = last_exchange(case.transcript)
    return RatingEvidence(
        judge=judge,
        request=last.request,
        response=last.response,
        context=tuple(chunk.content for chunk in chunks),
        expected=expected_statements(case),
    )


def _user_message(
    rubric: YesNoRubric, case: Case, context: tuple[str, str], expected: Sequence[str]
) -> str:
    """The inputs that the rubric names and the case has, in data sections.

    The conversation before the last exchange is shown where the request is one of the inputs.
    """
    last = last_exchange(case.transcript)
    before = rendered_transcript(Transcript(turns=last.before))
    sections: list[tuple[Input, str, str | None]] = [
        ("request", "Conversation before", before or None),
        ("request", "Request", last.request),
        ("response", "Response", last.response),
        ("retrieved_context", *context),
        ("expected_response", *_expected_section(case, expected)),
    ]
    shown = {*rubric.inputs, *rubric.optional}
    return "\n\n".join(
        data_section(heading, body or EMPTY)
        for name, heading, body in sections
        if name in shown and body is not None
    )


def _expected_section(case: Case, expected: Sequence[str]) -> tuple[str, str | None]:
    if case.expected.facts:
        return "Expected facts", numbered_list(expected) if expected else None
    return "Expected response", next(iter(expected), None)


def _rating_score(metric: Metric, rating: Rating, part: str = "", **more: str) -> Score:
    yes = rating.rating == "yes"
    details = {"rationale": rating.rationale, **more}
    return Score.of(metric, float(yes), part=part, passed=yes, details=details)


def _chunk_part(metric: Metric, place: int, chunk: Chunk, reply: Rating | NoReply) -> Score:
    part = f"chunk:{place}"
    uri = {} if chunk.doc_uri is None else {"doc_uri": chunk.doc_uri}
    if isinstance(reply, NoReply):
        return Score.failed(metric.name, reply.reason, reply.code, part, **uri)
    return _rating_score(metric, reply, part, **uri)


def _precision(metric: Metric, parts: Sequence[Score]) -> Score:
    """The precision yes / rated (seed 004); a chunk without a rating is no "no" and is left out."""
    rated = [part for part in parts if part.status == "scored"]
    if not rated:
        reason = f"none of {len(parts)} chunks could be rated: {parts[0].reason}"
        return Score.failed(metric.name, reason, NO_CHUNK_RATED)
    yes = sum(part.passed is True for part in rated)
    counts_text = f"{yes} of {len(rated)} rated chunks: yes"
    unrated = len(parts) - len(rated)
    rationale = f"{counts_text}; {unrated} could not be rated" if unrated else counts_text
    return Score.of(
        metric, rounded_value(yes / len(rated)), passed=yes > 0, details={"rationale": rationale}
    )
