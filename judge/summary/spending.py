"""What a run cost: tokens and dollars of the agents, tokens, dollars and calls of the judge model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
from pydantic import BaseModel, ConfigDict

from assizes.judge.engine.ledger import Account
from assizes.judge.statistics.exact import rounded_value, total
from assizes.judge.verdicts.executions import collect_rows, executions

if TYPE_CHECKING:
    from assizes.judge.summary.summary import RunSummary

_ROUNDED_AWAY = 1e-3
"""The ledger keeps whole nano-dollars of each call."""


class ModelCalls(BaseModel):
    """What was asked of the judge model.

    `asks` questions, of which `cached` were answered from kept replies and `unanswered` never;
    `attempts` counts the calls it took.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    asks: int
    cached: int
    unanswered: int
    attempts: int


class JudgeSpending(BaseModel):
    """What one judge asked, and what that took.

    `asks` questions took `calls` model calls. Tokens and dollars leave out kept replies. Tokens are
    those that were metered, null where none were; `cost_usd` is null as soon as one call has no
    known price.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    asks: int
    cached: int
    calls: int
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None


def spending(cases: pl.LazyFrame, asks: pl.LazyFrame) -> dict[str, Any]:
    """The numbers of tokens and dollars under their published names.

    The agents' are summed over the cases that recorded them. The judge's leave out kept replies;
    its tokens are those that were metered, its dollars are null as soon as one call has no known
    price.
    """
    agent = total(_known_values(executions(cases), "agent_cost_usd"))
    platform = _platform_cost(asks)
    return {
        "total_agent_token_usage": _agent_tokens(cases),
        "total_platform_token_usage": _platform_tokens(asks),
        "total_agent_cost_usd": agent,
        "total_platform_cost_usd": platform,
        "total_estimated_cost_usd": (
            None if agent is None or platform is None else rounded_value(agent + platform)
        ),
    }


def _known_values(rows: pl.LazyFrame, column: str) -> list[float]:
    return collect_rows(rows.select(pl.col(column).drop_nulls()))[column].to_list()


def _agent_tokens(cases: pl.LazyFrame) -> dict[str, int] | None:
    columns = {name: pl.col(f"agent_{name}_tokens") for name in ("input", "output")}
    columns["total"] = pl.coalesce("agent_tokens", columns["input"] + columns["output"])
    sums = [pl.when(c.count() > 0).then(c.sum()).alias(name) for name, c in columns.items()]
    totals = collect_rows(executions(cases).select(sums)).row(0, named=True)
    return {name: tokens for name, tokens in totals.items() if tokens is not None} or None


def _paid_asks(asks: pl.LazyFrame) -> pl.LazyFrame:
    """Asks that a model was called for, whatever came of it: an outage may have been charged."""
    return asks.filter(~pl.col("cached") & (pl.col("attempts") > 0))


def _platform_cost(asks: pl.LazyFrame) -> float | None:
    costs = collect_rows(_paid_asks(asks).select("cost_usd"))["cost_usd"]
    return None if costs.null_count() else total(costs.to_list()) or 0.0


def _platform_tokens(asks: pl.LazyFrame) -> dict[str, int] | None:
    input_tokens, output_tokens = pl.col("input_tokens"), pl.col("output_tokens")
    unmetered = input_tokens.is_null() & output_tokens.is_null()
    totals = collect_rows(
        _paid_asks(asks).select(
            unmetered=unmetered.sum(), input=input_tokens.sum(), output=output_tokens.sum()
        )
    ).row(0, named=True)
    tokens_in, tokens_out = int(totals["input"]), int(totals["output"])
    if totals["unmetered"] and not tokens_in + tokens_out:
        return None
    return {"input": tokens_in, "output": tokens_out, "total": tokens_in + tokens_out}


def estimated_share(asks: pl.LazyFrame) -> float | None:
    """The share of the dollars whose tokens were estimated; null where none were."""
    estimated = pl.col("cost_source") == "estimated"
    (some, all_), *_ = collect_rows(
        _paid_asks(asks).select(
            some=pl.col("cost_usd").filter(estimated).sum(), all=pl.col("cost_usd").sum()
        )
    ).rows()
    return rounded_value(some / all_) if some else None


def with_ledger(summary: RunSummary, account: Account, asks: pl.LazyFrame) -> RunSummary:
    """A summary with what the ledger has of the run beside what its rows have; without it where the
    ledger has less, for then calls of the run were counted in others, on other machines.
    """
    in_rows = total(_known_values(_paid_asks(asks), "cost_usd")) or 0.0
    if account.unpriced or account.usd < in_rows * (1 - _ROUNDED_AWAY):
        return summary
    spent = rounded_value(account.usd)
    return summary.model_copy(
        update={"spent_usd": spent, "spent_outside_rows_usd": rounded_value(spent - in_rows)}
    )


def model_calls(asks: pl.LazyFrame) -> ModelCalls:
    """How many questions and calls the rows of `asks` stand for."""
    counts = collect_rows(
        asks.select(
            asks=pl.len(),
            cached=pl.col("cached").sum(),
            unanswered=pl.col("error").count(),
            attempts=pl.col("attempts").sum(),
        )
    )
    return ModelCalls.model_validate(counts.row(0, named=True))


def judge_spending(asks: pl.LazyFrame) -> dict[str, JudgeSpending]:
    """The same by judge, for those that asked anything."""
    names = collect_rows(asks.select(pl.col("judge").unique()).sort("judge"))["judge"].to_list()
    return {name: _spending_of(asks.filter(pl.col("judge") == name)) for name in names}


def _spending_of(asks: pl.LazyFrame) -> JudgeSpending:
    calls, tokens = model_calls(asks), _platform_tokens(asks)
    return JudgeSpending(
        asks=calls.asks,
        cached=calls.cached,
        calls=calls.attempts,
        input_tokens=tokens["input"] if tokens else None,
        output_tokens=tokens["output"] if tokens else None,
        cost_usd=_platform_cost(asks),
    )
