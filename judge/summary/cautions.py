"""Warnings that a reader needs before trusting the numbers of a run: one line for each finding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from assizes.judge.models.replayed import NOT_CACHED
from assizes.judge.summary.spending import paid_asks
from assizes.judge.verdicts.executions import CASE, collect_rows, states

MIXED_JUDGE: Final = "mixed_judge"
"""The beginning of the lines about a judge model that changed during a run."""

P_VALUE: Final = 0.01
"""The p-value below which two pass rates count as different."""

MIN_CASES: Final = 20
"""The cases that each of two groups needs before their pass rates are compared."""

_DROPPED: Final = "dropped:"
"""The beginning of the flag of an ask whose model does not accept a parameter."""

_NAMED: Final = 5
"""The most names in one line."""


def cautions(cases: pl.LazyFrame, asks: pl.LazyFrame) -> tuple[str, ...]:
    """The warning lines for the rows of one run; empty where there is nothing to warn of.

    Args:
        cases: rows of `cases`.
        asks: rows of `asks`.
    """
    return (
        *_mixed_model_lines(asks, "answered_by", "was answered by"),
        *_mixed_model_lines(asks, "fingerprint", "answered under the system fingerprints"),
        *_silent_model_lines(asks),
        *_retry_lines(cases, asks),
        *_estimated_cost_lines(asks),
        *_dropped_parameter_lines(asks),
        *_missing_reply_lines(asks),
    )


def _mixed_model_lines(asks: pl.LazyFrame, column: str, words: str) -> Iterator[str]:
    """A line for each model that answered under more than one name in `column`."""
    seen = asks.filter(pl.col("error").is_null() & (pl.col(column) != ""))
    named = collect_rows(
        seen.group_by("model")
        .agg(names=pl.col(column).unique().sort())
        .filter(pl.col("names").list.len() > 1)
        .sort("model")
    )
    for model, names in named.iter_rows():
        shown_names = ", ".join(names[:_NAMED])
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        yield f"{MIXED_JUDGE}: {model} {words} {shown_names}{more}; its scores are not those of one judge"


def _silent_model_lines(asks: pl.LazyFrame) -> Iterator[str]:
    """A line for each model that never answered, while other models did."""
    counted = collect_rows(
        asks.group_by("model")
        .agg(asks=pl.len(), answered=pl.col("error").is_null().sum())
        .sort("model")
    )
    if not counted["answered"].sum():
        return
    for model, asked, answered in counted.iter_rows():
        if not answered:
            yield f"silent_model: {model} answered none of its {_asks(asked)}"


def _retry_lines(cases: pl.LazyFrame, asks: pl.LazyFrame) -> Iterator[str]:
    """A line where cases with retries pass significantly more or less often than the others."""
    calls = asks.group_by(CASE).agg(calls=pl.col("attempts").max()).filter(pl.col("calls") > 0)
    decided = states(cases).filter(pl.col("state").is_in(["passed", "failed"]))
    counted = collect_rows(
        decided.join(calls, on=CASE)
        .group_by(retried=pl.col("calls") > 1)
        .agg(passed=(pl.col("state") == "passed").sum(), cases=pl.len())
    )
    groups = {retried: (int(passed), int(of)) for retried, passed, of in counted.iter_rows()}
    if len(groups) < 2 or min(of for _, of in groups.values()) < MIN_CASES:
        return
    from scipy.stats import fisher_exact  # type: ignore[import-untyped]  # it has no types

    (passed, of), (others, of_others) = groups[True], groups[False]
    p_value = float(fisher_exact([[passed, of - passed], [others, of_others - others]]).pvalue)
    if p_value < P_VALUE:
        yield (
            f"retries: of the cases that took retries {passed} of {of} pass, of the others {others} "
            f"of {of_others} (Fisher's exact test, p = {p_value:.2g}): retries succeed mostly on "
            "one class of inputs"
        )


def _estimated_cost_lines(asks: pl.LazyFrame) -> Iterator[str]:
    estimated = pl.col("cost_source") == "estimated"
    counts = collect_rows(paid_asks(asks).select(some=estimated.sum(), of=pl.len()))
    some, of = counts.row(0)
    if some:
        yield (
            f"estimated_tokens: {some} of {of} paid asks not metered; their tokens and cost are "
            "estimated"
        )


def _dropped_parameter_lines(asks: pl.LazyFrame) -> Iterator[str]:
    flags = asks.select("model", flag=pl.col("flags")).explode("flag")
    counted = collect_rows(
        flags.filter(pl.col("flag").str.starts_with(_DROPPED))
        .group_by("model", "flag")
        .agg(asks=pl.len())
        .sort("model", "flag")
    )
    for model, flag, times in counted.iter_rows():
        name = flag.removeprefix(_DROPPED)
        yield f"dropped_parameter: {model} does not take {name}; {_asks(times)} went without it"


def _missing_reply_lines(asks: pl.LazyFrame) -> Iterator[str]:
    missed = pl.col("error").str.starts_with(f"{NOT_CACHED}:")
    times = collect_rows(asks.select(missed.sum())).item()
    if times:
        yield (
            f"{NOT_CACHED}: no reply is kept for {_asks(times)}, and none was asked for (replay_only)"
        )


def _asks(count: int) -> str:
    return f"{count} ask" if count == 1 else f"{count} asks"
