"""Findings whose reasons quote what is not there, counted by judge and model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import polars as pl

from assizes.judge.models.model import OFFLINE_PROVIDER
from assizes.judge.summary.headlines import FrozenModel
from assizes.judge.verdicts.executions import collect_rows
from assizes.judge.verdicts.quoted import UNSUPPORTED_QUOTE

_CASE: Final = ("case_id", "repetition", "judge")

_MARK: Final = f'"{UNSUPPORTED_QUOTE}":'
"""How the details of a score with such a quote hold it, as JSON."""


class QuoteCount(FrozenModel):
    """The scored findings of a judge with a model, parts included, and how many misquote.

    `model` names all models that answered the judge for a case, where several voted.
    """

    judge: str
    model: str
    findings: int
    unsupported: int  # findings whose reason quotes words that the judge did not read


def quote_counts(
    cases: pl.LazyFrame, scores: pl.LazyFrame, asks: pl.LazyFrame
) -> tuple[QuoteCount, ...]:
    """The counts of each judge and model that a model answered; empty where no case is flagged."""
    flagged = pl.col("flags").list.contains(UNSUPPORTED_QUOTE).any()
    if not collect_rows(cases.select(flagged)).item():
        return ()  # most runs: their scores are not read again
    answered = asks.filter(pl.col("error").is_null(), pl.col("provider") != OFFLINE_PROVIDER)
    models = answered.group_by(_CASE).agg(model=pl.col("model").unique().sort().str.join(", "))
    misquotes = pl.col("details").str.contains(_MARK, literal=True).fill_null(value=False)
    counted = (
        scores.filter(status="scored")
        .select(*_CASE, misquotes=misquotes)
        .join(models, on=_CASE)
        .group_by("judge", "model")
        .agg(findings=pl.len(), unsupported=pl.col("misquotes").sum())
        .sort("judge", "model")
    )
    return tuple(QuoteCount.model_validate(row) for row in collect_rows(counted).to_dicts())


def quote_lines(counts: Sequence[QuoteCount]) -> Iterator[str]:
    """A warning for each judge and model whose reasons quote what is not there."""
    for count in counts:
        if count.unsupported:
            yield (
                f"{UNSUPPORTED_QUOTE}: {count.unsupported:,} of {count.findings:,} findings of "
                f"{count.judge} with {count.model} quote words that the judge did not read; their "
                "scores stand"
            )
