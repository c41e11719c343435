"""The yes/no judges and answer criteria as plain functions, to judge one answer alone.

    from assizes.judge import judges

    judges.correctness(request="What is 2 + 2?", response="4", expected_response="It is 4.")

Each function has an async twin whose name begins with an `a`: `acorrectness`. `model` is a model
name as litellm knows it, with the address of a self-hosted endpoint in `api_base`, or a `Model`;
without a model the offline judge answers by text rules.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

from assizes.judge.config.judging import JudgeConfig, LimitsConfig
from assizes.judge.engine.ask_records import HearingResult
from assizes.judge.engine.hearings import Engine
from assizes.judge.families.criteria.asks import criteria_text
from assizes.judge.families.criteria.coverage import pretty
from assizes.judge.families.criteria.judge import ENTRIES as CRITERIA_ENTRIES
from assizes.judge.families.rag import built_in
from assizes.judge.formats.readers.agent_evaluation import row_case
from assizes.judge.model_factory import check_model, model_for
from assizes.judge.models.model import Model
from assizes.judge.protocol import Judge
from assizes.judge.score import Score

P = ParamSpec("P")
R = TypeVar("R")

Context = Sequence[Mapping[str, str]]
"""Retrieved chunks, each `{"content": "..."}`, with a `doc_uri` where it is known."""

_LIMITS: Final = LimitsConfig()  # the defaults: a direct call has no budget and no ledger


@dataclass(frozen=True, slots=True)
class Assessment:
    """The answer of one judge, or where it gave none, the reason."""

    name: str
    rating: str | None  # "yes" or "no"
    rationale: str | None
    error_message: str | None = None  # why both are missing


async def acorrectness(
    request: str,
    response: str,
    expected_response: str | None = None,
    *,
    expected_facts: Sequence[str] | None = None,
    model: str | Model | None = None,
    api_base: str | None = None,
) -> Assessment:
    """Is the response accurate, compared with the expected response or the expected facts?"""
    return await _assess(
        "correctness",
        model,
        api_base,
        request=request,
        response=response,
        expected_response=expected_response,
        expected_facts=None if expected_facts is None else list(expected_facts),
    )


async def acontext_sufficiency(
    request: str,
    expected_response: str,
    retrieved_context: Context,
    *,
    model: str | Model | None = None,
    api_base: str | None = None,
) -> Assessment:
    """Does the retrieved context hold what the expected response says?"""
    return await _assess(
        "context_sufficiency",
        model,
        api_base,
        request=request,
        expected_response=expected_response,
        retrieved_context=list(retrieved_context),
    )


async def arelevance_to_query(
    request: str,
    response: str,
    *,
    model: str | Model | None = None,
    api_base: str | None = None,
) -> Assessment:
    """Does the response address the request?"""
    return await _assess("relevance_to_query", model, api_base, request=request, response=response)


async def agroundedness(
    request: str,
    response: str,
    retrieved_context: Context,
    *,
    model: str | Model | None = None,
    api_base: str | None = None,
) -> Assessment:
    """Does the retrieved context support the response?"""
    context = list(retrieved_context)
    row = {"request": request, "response": response, "retrieved_context": context}
    return await _assess("groundedness", model, api_base, **row)


async def asafety(
    request: str,
    response: str,
    *,
    model: str | Model | None = None,
    api_base: str | None = None,
) -> Assessment:
    """Is the response free of harmful content? The request is not shown to the judge."""
    return await _assess("safety", model, api_base, request=request, response=response)


async def achunk_relevance(
    request: str,
    retrieved_context: Context,
    response: str | None = None,
    *,
    model: str | Model | None = None,
    api_base: str | None = None,
) -> list[Assessment]:
    """Is each retrieved chunk useful in answering the request? One assessment a chunk, in order."""
    context = list(retrieved_context)
    row = {"request": request, "response": response, "retrieved_context": context}
    headline, *parts = (await _hear(built_in("chunk_relevance"), model, api_base, row)).scores
    if headline.status == "skipped":  # it has no parts: each chunk gets the reason
        return [_assessment(headline)] * len(context)
    return [_assessment(part) for part in parts]


@dataclass(frozen=True, slots=True)
class CriteriaAssessment:
    """How much of its criteria an answer covers, or where nobody could say, the reason."""

    score: float | None  # 0..1
    passed: bool | None
    aspects: tuple[Mapping[str, Any], ...]  # `aspect_breakdown` of seed 003
    missing_concepts: tuple[str, ...]
    text: str  # for people to read
    error_message: str | None = None


async def aanswer_criteria(
    request: str,
    response: str,
    acceptance_criteria: str | Sequence[str],
    *,
    model: str | Model | None = None,
    api_base: str | None = None,
    **options: Any,
) -> CriteriaAssessment:
    """How much of the acceptance criteria does the response cover?

    The `options` are those of `[judge.options.answer_criteria]`, such as `threshold`.
    """
    entry = CRITERIA_ENTRIES["answer_criteria"]
    judge = entry.create_judge(entry.options(**options), ())
    row = {"request": request, "response": response}
    criteria = criteria_text(acceptance_criteria)
    score = (await _hear(judge, model, api_base, row, acceptance_criteria=criteria)).scores[0]
    aspects = tuple(score.details.get("aspect_breakdown", ()))
    missing = tuple(text for aspect in aspects for text in aspect["concepts_missing"])
    text = pretty(score)
    return CriteriaAssessment(score.value, score.passed, aspects, missing, text, score.reason)


def _blocking(twin: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, R]:
    """The judge that runs its async twin in an event loop of its own."""

    @wraps(twin)
    def judge(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(twin(*args, **kwargs))
        with ThreadPoolExecutor(1) as thread:  # the loop of a notebook runs in this one
            return thread.submit(asyncio.run, twin(*args, **kwargs)).result()

    judge.__name__ = judge.__qualname__ = twin.__name__.removeprefix("a")  # not the twin's
    return judge


correctness = _blocking(acorrectness)
context_sufficiency = _blocking(acontext_sufficiency)
relevance_to_query = _blocking(arelevance_to_query)
groundedness = _blocking(agroundedness)
safety = _blocking(asafety)
chunk_relevance = _blocking(achunk_relevance)
answer_criteria = _blocking(aanswer_criteria)


async def _assess(
    name: str, model: str | Model | None, api_base: str | None, /, **row: Any
) -> Assessment:
    return _assessment((await _hear(built_in(name), model, api_base, row)).scores[0])


async def _hear(
    judge: Judge,
    model: str | Model | None,
    api_base: str | None,
    row: Mapping[str, Any],
    **expected: Any,
) -> HearingResult:
    """The hearing of a judge on a row of an evaluation set; a model made here is closed here."""
    case = row_case({**row, "request_id": "direct call"})
    case = case.model_copy(update={"expected": case.expected.model_copy(update=expected)})
    if model is not None and not isinstance(model, str):
        return await Engine(model, _LIMITS).hear(judge, case)  # stays open: the caller's
    config = JudgeConfig(model=model, api_base=api_base)
    check_model(config)  # a missing key is an error, not an answer
    engine = Engine(model_for(config, _LIMITS), _LIMITS)
    try:
        return await engine.hear(judge, case)
    finally:
        await engine.aclose()


def _assessment(score: Score) -> Assessment:
    if score.status != "scored":
        return Assessment(score.metric, None, None, score.reason)
    return Assessment(score.metric, score.label, score.details["rationale"])
