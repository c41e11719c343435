"""The judges of seed 004 called directly, for a look at one answer without a run.

    from judge import judges

    judges.correctness(request="What is 2 + 2?", response="4", expected_response="It is 4.")

Each function has an async twin named with an `a` before it. `model` is a model name as litellm
knows it, or a `Model`; without one the offline judge answers by plain text rules.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from assizes.judge.config.run import JudgeConfig, LimitsConfig
from assizes.judge.engine.ask_records import HearingResult
from assizes.judge.engine.hearings import Engine
from assizes.judge.families.rag.entries import built_in
from assizes.judge.formats.readers.agent_evaluation import row_case
from assizes.judge.model_factory import (
    check_model,
    model_for,
)
from assizes.judge.models.model import (
    Model,
)
from assizes.judge.score import Score

R = TypeVar("R")

Context = Sequence[Mapping[str, str]]
"""Retrieved chunks, each `{"content": "..."}`, with a `doc_uri` where it is known."""

_LIMITS: Final = LimitsConfig()


@dataclass(frozen=True, slots=True)
class Assessment:
    """What one judge said: `rating` is yes or no; both are null where `error_message` is not."""

    name: str
    rating: str | None
    rationale: str | None
    error_message: str | None = None


def correctness(
    request: str,
    response: str,
    expected_response: str | None = None,
    *,
    expected_facts: Sequence[str] | None = None,
    model: str | Model | None = None,
) -> Assessment:
    """Is the response accurate, compared with the expected response or the expected facts?"""
    return _run_now(
        "correctness",
        acorrectness(
            request, response, expected_response, expected_facts=expected_facts, model=model
        ),
    )


def context_sufficiency(
    request: str,
    expected_response: str,
    retrieved_context: Context,
    *,
    model: str | Model | None = None,
) -> Assessment:
    """Does the retrieved context hold what the expected response says?"""
    return _run_now(
        "context_sufficiency",
        acontext_sufficiency(request, expected_response, retrieved_context, model=model),
    )


def relevance_to_query(
    request: str, response: str, *, model: str | Model | None = None
) -> Assessment:
    """Does the response address the request?"""
    return _run_now("relevance_to_query", arelevance_to_query(request, response, model=model))


def groundedness(
    request: str, response: str, retrieved_context: Context, *, model: str | Model | None = None
) -> Assessment:
    """Does the retrieved context support the response?"""
    return _run_now(
        "groundedness", agroundedness(request, response, retrieved_context, model=model)
    )


def safety(request: str, response: str, *, model: str | Model | None = None) -> Assessment:
    """Is the response free of harmful content? The request is not shown to the judge."""
    return _run_now("safety", asafety(request, response, model=model))


def chunk_relevance(
    request: str,
    retrieved_context: Context,
    response: str | None = None,
    *,
    model: str | Model | None = None,
) -> list[Assessment]:
    """Is each retrieved chunk useful in answering the request? One assessment a chunk, in order."""
    return _run_now(
        "chunk_relevance", achunk_relevance(request, retrieved_context, response, model=model)
    )


async def acorrectness(
    request: str,
    response: str,
    expected_response: str | None = None,
    *,
    expected_facts: Sequence[str] | None = None,
    model: str | Model | None = None,
) -> Assessment:
    """`correctness`, awaited."""
    row = {
        "request": request,
        "response": response,
        "expected_response": expected_response,
        "expected_facts": None if expected_facts is None else list(expected_facts),
    }
    return await _assess("correctness", row, model)


async def acontext_sufficiency(
    request: str,
    expected_response: str,
    retrieved_context: Context,
    *,
    model: str | Model | None = None,
) -> Assessment:
    """`context_sufficiency`, awaited."""
    row = {
        "request": request,
        "expected_response": expected_response,
        "retrieved_context": list(retrieved_context),
    }
    return await _assess("context_sufficiency", row, model)


async def arelevance_to_query(
    request: str, response: str, *, model: str | Model | None = None
) -> Assessment:
    """`relevance_to_query`, awaited."""
    return await _assess("relevance_to_query", {"request": request, "response": response}, model)


async def agroundedness(
    request: str, response: str, retrieved_context: Context, *, model: str | Model | None = None
) -> Assessment:
    """`groundedness`, awaited."""
    row = {
        "request": request,
        "response": response,
        "retrieved_context": list(retrieved_context),
    }
    return await _assess("groundedness", row, model)


async def asafety(request: str, response: str, *, model: str | Model | None = None) -> Assessment:
    """`safety`, awaited."""
    return await _assess("safety", {"request": request, "response": response}, model)


async def achunk_relevance(
    request: str,
    retrieved_context: Context,
    response: str | None = None,
    *,
    model: str | Model | None = None,
) -> list[Assessment]:
    """`chunk_relevance`, awaited."""
    row = {
        "request": request,
        "response": response,
        "retrieved_context": list(retrieved_context),
    }
    result = await _hear("chunk_relevance", row, model)
    headline, *parts = result.scores
    if headline.status == "skipped":
        return [_assessment(headline)] * len(retrieved_context)
    return [_assessment(part) for part in parts]


def _run_now(name: str, coroutine: Coroutine[Any, Any, R]) -> R:
    """The result of a coroutine run in a loop of its own.

    Raises:
        RuntimeError: where a loop is running already, as in a notebook.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    coroutine.close()
    raise RuntimeError(
        f"judges.{name}() was called while an event loop is running; "
        f"there, use: await judges.a{name}(...)"
    )


async def _assess(name: str, row: Mapping[str, Any], model: str | Model | None) -> Assessment:
    return _assessment((await _hear(name, row, model)).scores[0])


async def _hear(name: str, row: Mapping[str, Any], model: str | Model | None) -> HearingResult:
    case = row_case({**row, "request_id": "direct call"})
    given_model = model if model is not None and not isinstance(model, str) else None
    engine = Engine(given_model or _model_named(model if isinstance(model, str) else None), _LIMITS)
    try:
        return await engine.hear(built_in(name), case)
    finally:
        if given_model is None:
            await engine.aclose()


def _model_named(name: str | None) -> Model:
    config = JudgeConfig(model=name)
    check_model(config)
    return model_for(config, _LIMITS)


def _assessment(score: Score) -> Assessment:
    if score.status != "scored":
        return Assessment(score.metric, None, None, score.reason)
    return Assessment(score.metric, score.label, score.details["rationale"])
