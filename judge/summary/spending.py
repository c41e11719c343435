"""The cost of a run: tokens and dollars of the agents and of the judge models, and the calls."""

from __future__ import annotations

from typing import Any

import polars as pl
from pydantic import BaseModel, ConfigDict

from assizes.judge.statistics.exact import rounded_value, total
from assizes.judge.verdicts.executions import collect_rows, executions


class ModelCalls(BaseModel):
    """The asks of a run and their calls of judge models.

    `asks` counts all asks, `cached` those answered by the reply cache, `unanswered` those without a
    reply; `attempts` counts the calls, retries among them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    asks: int
    cached: int
    unanswered: int
    attempts: int


class JudgeSpending(BaseModel):
    """The asks of one judge with their calls, tokens and dollars.

    Replies from the cache cost no tokens and no dollars. Tokens are those that a provider metered,
    `null` where none were; `cost_usd` is `null` as soon as one call has no known price.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    asks: int
    cached: int
    calls: int
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None


def spending(cases: pl.LazyFrame, asks: pl.LazyFrame) -> dict[str, Any]:
    """The fields of a run's summary about tokens, dollars and calls, by their names.

    Those of the agents are sums over the cases that recorded them. Those of the judge models
    (`platform`) leave out replies from the cache; their tokens are those that a provider metered,
    their dollars are `None` as soon as one call has no known price.

    Args:
        cases: rows of `cases`, of one run.
        asks: rows of `asks`.
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
        "cost_estimated": _estimated_share(asks),
        "model_calls": _model_calls(asks),
        "judges": _judge_spending(asks),
    }


def known_cost_usd(asks: pl.LazyFrame) -> float:
    """Dollars of the paid asks whose cost is known."""
    return total(_known_values(paid_asks(asks), "cost_usd")) or 0.0


def _known_values(rows: pl.LazyFrame, column: str) -> list[float]:
    return collect_rows(rows.select(pl.col(column).drop_nulls()))[column].to_list()


def _agent_tokens(cases: pl.LazyFrame) -> dict[str, int] | None:
    columns = {name: pl.col(f"agent_{name}_tokens") for name in ("input", "output")}
    columns["total"] = pl.coalesce("agent_tokens", columns["input"] + columns["output"])
    sums = [pl.when(c.count() > 0).then(c.sum()).alias(name) for name, c in columns.items()]
    totals = collect_rows(executions(cases).select(sums)).row(0, named=True)
    return {name: tokens for name, tokens in totals.items() if tokens is not None} or None


def paid_asks(asks: pl.LazyFrame) -> pl.LazyFrame:
    """The asks for which a model was called, also in vain: a failed call may have been charged."""
    return asks.filter(~pl.col("cached") & (pl.col("attempts") > 0))


def _platform_cost(asks: pl.LazyFrame) -> float | None:
    costs = collect_rows(paid_asks(asks).select("cost_usd"))["cost_usd"]
    return None if costs.null_count() else total(costs.to_list()) or 0.0


def _platform_tokens(asks: pl.LazyFrame) -> dict[str, int] | None:
    input_tokens, output_tokens = pl.col("input_tokens"), pl.col("output_tokens")
    unmetered = input_tokens.is_null() & output_tokens.is_null()
    totals = collect_rows(
        paid_asks(asks).select(
            unmetered=unmetered.sum(), input=input_tokens.sum(), output=output_tokens.sum()
        )
    ).row(0, named=True)
    tokens_in, tokens_out = int(totals["input"]), int(totals["output"])
    if totals["unmetered"] and not tokens_in + tokens_out:
        return None
    return {"input": tokens_in, "output": tokens_out, "total": tokens_in + tokens_out}


def _estimated_share(asks: pl.LazyFrame) -> float | None:
    """The share 0..1 of the dollars whose tokens were estimated; `None` where none were."""
    estimated = pl.col("cost_source") == "estimated"
    (some, all_), *_ = collect_rows(
        paid_asks(asks).select(
            some=pl.col("cost_usd").filter(estimated).sum(), all=pl.col("cost_usd").sum()
        )
    ).rows()
    return rounded_value(some / all_) if some else None


def _model_calls(asks: pl.LazyFrame) -> ModelCalls:
    """The counts of asks and calls over the rows of `asks`."""
    counts = collect_rows(
        asks.select(
            asks=pl.len(),
            cached=pl.col("cached").sum(),
            unanswered=pl.col("error").count(),
            attempts=pl.col("attempts").sum(),
        )
    )
    return ModelCalls.model_validate(counts.row(0, named=True))


def _judge_spending(asks: pl.LazyFrame) -> dict[str, JudgeSpending]:
    """Asks, calls, tokens and dollars of each judge that asked anything, by the judge's name."""
    spending_by_judge = {}
    for judge in collect_rows(asks.select(pl.col("judge").unique()).sort("judge"))["judge"]:
        own = asks.filter(pl.col("judge") == judge)
        calls, tokens = _model_calls(own), _platform_tokens(own) or {}
        spending_by_judge[judge] = JudgeSpending(
            asks=calls.asks,
            cached=calls.cached,
            calls=calls.attempts,
            input_tokens=tokens.get("input"),
            output_tokens=tokens.get("output"),
            cost_usd=_platform_cost(own),
        )
    return spending_by_judge
