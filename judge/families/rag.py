"""Yes/no judges: `AnswerJudge` rates an answer, `RetrievalJudge` each chunk."""

from __future__ import annotations

import functools
import hashlib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from assizes.judge.case import Case, Chunk, Transcript, Turn
from assizes.judge.families.deterministic import DOCUMENT_RECALL, AgentUsage, DocumentRecall
from assizes.judge.families.entry import JudgeEntry
from assizes.judge.prompts.prompt_texts import (
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
    step: Literal["response", "retrieval"] = "response"
    inputs: tuple[Input, ...] = Field(
        default=("request", "response"), description="without one of them it does not apply"
    )
    optional: tuple[Input, ...] = Field(default=(), description="shown where the case has it")
    also_published: tuple[str, ...] = Field(default=(), description="further names in a run")


@dataclass(frozen=True, slots=True)
class LastExchange:
    """The last request and response of a conversation (`None`: none), and the turns before them."""

    request: str | None
    response: str | None
    before: tuple[Turn, ...] = ()  # the turns in front of both


@dataclass(frozen=True, slots=True)
class RatingEvidence:
    """The facts of a yes/no judge's ask."""

    judge: str  # name of the judge, by which the offline model picks its rule
    request: str | None
    response: str | None
    context: tuple[str, ...] = ()  # all passages, or the one chunk that is rated
    expected: tuple[str, ...] = ()  # statements of the expected response


def last_exchange(transcript: Transcript) -> LastExchange:
    """The agent's last answer, and the last text of the user before it."""
    turns = transcript.turns
    answer = _last_turn_of(turns, "assistant")
    if answer is not None:
        answer = transcript.answer_places(answer)[-1]
    request = _last_turn_of(turns if answer is None else turns[:answer], "user")
    # A closing "thanks" is a request only where there is no other (decision 21).
    if request is None:
        request = _last_turn_of(turns, "user")
    start = min((place for place in (request, answer) if place is not None), default=0)
    return LastExchange(
        request=None if request is None else turns[request].text,
        response=None if answer is None else turns[answer].text,
        before=turns[:start],
    )


def _last_turn_of(turns: Sequence[Turn], role: str) -> int | None:
    places = range(len(turns) - 1, -1, -1)
    return next(
        (i for i in places if turns[i].role == role and (turns[i].text or "").strip()), None
    )


def expected_statements(case: Case) -> tuple[str, ...]:
    """The expected response as one statement, or else the expected facts, without blank texts."""
    expected = case.expected
    texts = (expected.response,) if expected.response else expected.facts
    return tuple(text for text in texts if text.strip())


# As reasons name them: the columns of an evaluation set of seed 004.
_INPUT_WORDS: Final[dict[Input, str]] = {
    "request": "request",
    "response": "response",
    "retrieved_context": "retrieved_context",
    "expected_response": "expected_response (or expected_facts)",
}

NEEDS: Final[dict[Input, str]] = {**_INPUT_WORDS, "expected_response": "expected.response"}
"""The name of each input in the needs of a judge; `expected.` marks an expected value."""


class _RubricJudge:
    """A judge of one rubric, with one metric of its name, which a run publishes as `run_name`."""

    version = "1"

    def __init__(self, rubric: YesNoRubric, scale: Scale, run_name: str) -> None:
        self.name = rubric.name
        self.rubric = rubric
        prompt = rubric.prompt.strip()
        self.system = "\n\n".join([ROLE, f"# Question\n{prompt}", _REPLY])
        self.metric = Metric(
            name=rubric.name,
            scale=scale,
            display_name=rubric.display_name or rubric.name.replace("_", " ").title(),
            description=rubric.aspect,
            needs=tuple(NEEDS[name] for name in rubric.inputs),
            needs_ground_truth="expected_response" in rubric.inputs,
            rubric=prompt,
            rubric_hash=hashlib.sha256(self.system.encode()).hexdigest()[:16],  # with its rules
            gate="quality",
            run_names=(run_name, *rubric.also_published),
        )
        self.metrics = (self.metric,)

    @property
    def prompts(self) -> tuple[str, ...]:
        """The system message, which is equal for all cases."""
        return (self.system,)

    def missing(self, case: Case) -> str | None:
        """A case is skipped without one of the inputs of the rubric."""
        last, passages = last_exchange(case.transcript), case.transcript.retrieval()
        available: dict[Input, bool] = {
            "request": last.request is not None,
            "response": last.response is not None,
            # An empty retrieval found nothing, and is judged; an absent one is not (decision 23).
            "retrieved_context": passages is not None,
            "expected_response": bool(expected_statements(case)),
        }
        lacking = [_INPUT_WORDS[name] for name in self.rubric.inputs if not available[name]]
        if passages and not any(passage.content.strip() for passage in passages):
            lacking += ["retrieved_context[].content"] * ("retrieved_context" in self.rubric.inputs)
        return f"missing input: {', '.join(lacking)}" if lacking else None

    def prompt_and_evidence(
        self, case: Case, chunk: Chunk | None = None
    ) -> tuple[Prompt, RatingEvidence]:
        """The facts of a case as text for a model and as values; of the chunks all, or one."""
        last, expected = last_exchange(case.transcript), expected_statements(case)
        chunks = case.transcript.retrieved_chunks() if chunk is None else (chunk,)
        contents = tuple(shown_chunk.content for shown_chunk in chunks)
        context = ("Retrieved context", numbered_list(contents))
        if chunk is not None:
            context = ("Retrieved chunk", chunk.content)
        wanted: tuple[str, str | None] = ("Expected response", next(iter(expected), None))
        if case.expected.facts:
            wanted = ("Expected facts", numbered_list(expected) if expected else None)
        before = rendered_transcript(Transcript(turns=last.before))
        sections: list[tuple[Input, str, str | None]] = [
            ("request", "Conversation before", before or None),  # goes with the request
            ("request", "Request", last.request),
            ("response", "Response", last.response),
            ("retrieved_context", *context),
            ("expected_response", *wanted),
        ]
        shown = {*self.rubric.inputs, *self.rubric.optional}
        user = "\n\n".join(
            data_section(heading, body or EMPTY)  # "" is shown, `None` left out
            for name, heading, body in sections
            if name in shown and body is not None
        )
        evidence = RatingEvidence(self.name, last.request, last.response, contents, expected)
        return Prompt(self.system, user), evidence


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


class RetrievalJudge(_RubricJudge):
    """Rates each retrieved chunk; the headline score is the precision, yes / rated."""

    def __init__(self, rubric: YesNoRubric) -> None:
        """Promise the precision under the rubric's name, and a part `chunk:i` for each chunk."""
        # The file of a user may forget it: without chunks there is nothing to rate.
        if "retrieved_context" not in rubric.inputs:
            inputs = (*rubric.inputs, "retrieved_context")
            rubric = rubric.model_copy(update={"inputs": inputs})
        run_name = f"retrieval/llm_judged/{rubric.name}/precision/average"
        super().__init__(rubric, Scale.FRACTION, run_name)
        self.rating = Metric(rubric.name, scale=Scale.YES_NO)  # of a chunk, yes or no

    def judge(self, case: Case) -> list[Score] | Steps[list[Score]]:
        """One ask for each chunk, all in one round."""
        chunks = case.transcript.retrieved_chunks()
        if not chunks:  # a retrieval that found nothing (decision 23)
            details = {"rationale": "the retrieval returned no chunk"}
            return [Score.of(self.metric, 0.0, passed=False, details=details)]
        return self._ask_about_chunks(case, chunks)

    def _ask_about_chunks(self, case: Case, chunks: Sequence[Chunk]) -> Steps[list[Score]]:
        pairs = [self.prompt_and_evidence(case, chunk) for chunk in chunks]
        replies = yield from ask_each([Ask(prompt, Rating, evidence) for prompt, evidence in pairs])
        parts = [
            _chunk_part(self.rating, place, chunk, reply)
            for place, (chunk, reply) in enumerate(zip(chunks, replies, strict=True))
        ]
        return [_precision(self.metric, parts), *parts]


def _rating_score(metric: Metric, rating: Rating, part: str = "", **more: str) -> Score:
    yes = rating.rating == "yes"
    details = {"rationale": rating.rationale, **more}
    return Score.of(metric, float(yes), part=part, passed=yes, details=details)


def _chunk_part(metric: Metric, place: int, chunk: Chunk, reply: Rating | NoReply) -> Score:
    part = f"chunk:{place}"
    uri = {} if chunk.doc_uri is None else {"doc_uri": chunk.doc_uri}
    if isinstance(reply, NoReply):  # the other chunks still count
        return Score.failed(metric.name, reply.reason, reply.code, part, **uri)
    return _rating_score(metric, reply, part, **uri)


def _precision(metric: Metric, parts: Sequence[Score]) -> Score:
    """The precision yes / rated; a chunk without a rating is no "no" and is left out."""
    rated = [part for part in parts if part.status == "scored"]
    if not rated:  # no number at all, rather than a 0
        reason = f"none of {len(parts)} chunks could be rated: {parts[0].reason}"
        return Score.failed(metric.name, reason, "no_chunk_rated")
    yes = sum(part.passed is True for part in rated)
    counts_text = f"{yes} of {len(rated)} rated chunks: yes"
    unrated = len(parts) - len(rated)
    rationale = f"{counts_text}; {unrated} could not be rated" if unrated else counts_text
    # One useful chunk is enough to pass (seed 004); how many more there are, the number says.
    return Score.of(
        metric, rounded_value(yes / len(rated)), passed=yes > 0, details={"rationale": rationale}
    )


@functools.cache
def yes_no_rubrics() -> Mapping[str, YesNoRubric]:
    """The rubrics of the built-in yes/no judges by name, in the order of `rag.toml`."""
    text = (resources.files("assizes.judge.families") / "rag.toml").read_text("utf-8")
    rubrics = [YesNoRubric.model_validate(table) for table in tomllib.loads(text)["judge"]]
    return {rubric.name: rubric for rubric in rubrics}


def built_in(name: str) -> AnswerJudge | RetrievalJudge:
    """The built-in yes/no judge with this name."""
    rubric = yes_no_rubrics()[name]
    return RetrievalJudge(rubric) if name == "chunk_relevance" else AnswerJudge(rubric)


def _entry(rubric: YesNoRubric) -> JudgeEntry:
    metric = built_in(rubric.name).metric
    return JudgeEntry(
        description=f"{rubric.step.title()} step, yes or no: {rubric.aspect}",
        needs=metric.needs,
        needs_ground_truth=metric.needs_ground_truth,
        create_judge=lambda _options, _rubrics: built_in(rubric.name),
    )


ENTRIES: Final[Mapping[str, JudgeEntry]] = {
    **{name: _entry(rubric) for name, rubric in yes_no_rubrics().items()},
    DocumentRecall.name: JudgeEntry(
        description="Retrieval step, no model: How many of the documents known to be relevant did "
        "the retriever find?",
        needs=DOCUMENT_RECALL.needs,
        needs_ground_truth=True,
        create_judge=lambda _options, _rubrics: DocumentRecall(),
        asks=False,
    ),
    AgentUsage.name: JudgeEntry(
        description="Tokens and seconds that the agent took, read from the transcript; asks no model.",
        needs=("transcript",),
        needs_ground_truth=False,
        create_judge=lambda _options, _rubrics: AgentUsage(),
        asks=False,
    ),
}
"""The catalogue entries of this family by name: six yes/no judges, document recall, agent's usage."""
