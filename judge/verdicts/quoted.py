"""Reasons that hold: quotes of a judge that stand nowhere in what the judge read.

A score whose reason quotes such words has them in its details, and its case has a flag. Neither
changes a score or a verdict. Reasons of the offline judge are not looked at: a program wrote them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

from assizes.judge.case import Case
from assizes.judge.engine.ask_records import HearingResult
from assizes.judge.models.model import OFFLINE_PROVIDER
from assizes.judge.protocol import Judge
from assizes.judge.quotes.finding import claimed_quotes
from assizes.judge.quotes.sources import QuoteSources, case_sources, unsupported_quotes
from assizes.judge.score import Score
from assizes.judge.verdicts.verdict import RATIONALE_KEYS

UNSUPPORTED_QUOTE: Final = "unsupported_quote"
"""Key in the details of a score whose reason quotes what is not there, and flag of its case."""

MAX_KEPT: Final = 3
"""The most quotes that the details of a score keep."""

MAX_KEPT_CHARS: Final = 200
"""The most characters of a quote that the details keep."""


def with_quotes_checked(case: Case, results: Sequence[HearingResult]) -> list[HearingResult]:
    """The hearings of a case, with the quotes in the details of each score that it does not hold."""
    sources = case_sources(case)  # read when the first quote is looked up, once for all judges
    return [
        replace(
            result, scores=[_check_quotes(score, result.judge, sources) for score in result.scores]
        )
        if any(ask.provider != OFFLINE_PROVIDER for ask in result.asks)
        else result
        for result in results
    ]


def _check_quotes(score: Score, judge: Judge, sources: QuoteSources) -> Score:
    if score.status != "scored":
        return score
    quotes = [quote for text in _reasons(score) for quote in claimed_quotes(text)]
    if not quotes:
        return score
    missing = unsupported_quotes(
        dict.fromkeys(quotes), (sources, _judge_sources(_own_texts(judge)))
    )
    # The statement that a part is about, such as an outcome, is in the details of the part.
    missing = unsupported_quotes(
        missing, (QuoteSources([json.dumps(_beside(score), ensure_ascii=False, default=str)]),)
    )
    if not missing:
        return score
    kept = [quote[:MAX_KEPT_CHARS] for quote in missing[:MAX_KEPT]]
    return score.with_details(**{UNSUPPORTED_QUOTE: kept})


def _reasons(score: Score) -> Iterable[str]:
    texts = (score.details.get(key) for key in RATIONALE_KEYS)
    return (text for text in texts if isinstance(text, str))


def _beside(score: Score) -> dict[str, object]:
    return {name: value for name, value in score.details.items() if name not in RATIONALE_KEYS}


def _own_texts(judge: Judge) -> tuple[str, ...]:
    """What a judge reads beside the case: its prompts, rubrics and descriptions."""
    prompts = getattr(judge, "prompts", ())
    # The judge of a user may have an attribute of this name with another meaning.
    texts = (
        [text for text in prompts if isinstance(text, str)]
        if isinstance(prompts, list | tuple)
        else []
    )
    return (
        *texts,
        *(text for metric in judge.metrics for text in (metric.rubric, metric.description)),
    )


@lru_cache(maxsize=64)  # few judges, many cases
def _judge_sources(texts: tuple[str, ...]) -> QuoteSources:
    return QuoteSources(texts)
