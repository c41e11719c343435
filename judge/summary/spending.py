"""The cost of a run, in tokens, dollars and calls, and warnings about its numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import polars as pl

from assizes.judge.models.model import NOT_CACHED
from assizes.judge.statistics.exact import rounded_value, total
from assizes.judge.summary.headlines import FrozenModel
from assizes.judge.verdicts.executions import CASE, collect_rows, executions, states

MIXED_JUDGE: Final = "mixed_judge"
"""The beginning of the lines about a judge model that changed during a run."""

P_VALUE: Final = 0.01
"""The p-value below which two pass rates count as different."""

MIN_CASES: Final = 20
"""The cases that each of two groups needs before their pass rates are compared."""

_DROPPED: Final = "dropped:"
"""The beginning of the flag of an ask whose model does not accept a parameter."""

_KIND: Final = r"^(?s)(.*?: .*?)(?:[:;] |$)"
"""The code of an ask's error with the first part of its text: what follows differs from ask to ask,
such as the place of a fault in a reply."""

_NAMED: Final = 5
"""The most names in one line."""

_PAID: Final = ~pl.col("cached") & (pl.col("attempts") > 0)
"""Whether a model was called for an ask, also in vain: a failed call may have been charged."""


class ModelCalls(FrozenModel):
    """The asks of a run and their calls of judge models.

    `asks` counts all asks, `cached` those answered by the reply cache, `unanswered` those without a
    reply; `attempts` counts the calls, retries among them.
    """

    asks: int
    cached: int
    unanswered: int
    attempts: int


class JudgeSpending(FrozenModel):
    """The asks of one judge with their calls, tokens and dollars.

    Replies from the cache cost no tokens and no dollars. Tokens are those that a provider metered,
    `null` where none were; `cost_usd` is `null` as soon as one call has no known price.
    """

    asks: int
    cached: int
    calls: int
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None


def spending(cases: pl.LazyFrame, asks: pl.LazyFrame) -> dict[str, Any]:
    """The fields of a run's summary about tokens, dollars and calls, by their names.

    Those of the agents are sums over the cases that recorded them, those of the judge models
    (`platform`) leave out replies from the cache.
    """
    executed = executions(cases)
    costs = collect_rows(executed.select("agent_cost_usd"))["agent_cost_usd"].drop_nulls()
    agent, platform = total(costs.to_list()), _platform_cost(asks)
    columns = {name: pl.col(f"agent_{name}_tokens") for name in ("input", "output")}
    columns["total"] = pl.coalesce("agent_tokens", columns["input"] + columns["output"])
    # The sum of no number is 0 in Polars; here it is not known.
    sums = [pl.when(c.count() > 0).then(c.sum()).alias(name) for name, c in columns.items()]
    agent_tokens = collect_rows(executed.select(sums)).row(0, named=True)
    estimated = pl.col("cost_usd").filter(pl.col("cost_source") == "estimated")
    some, every = collect_rows(
        asks.filter(_PAID).select(some=estimated.sum(), every=pl.col("cost_usd").sum())
    ).row(0)
    judges = {}
    for judge in collect_rows(asks.select(pl.col("judge").unique()).sort("judge"))["judge"]:
        own = asks.filter(judge=judge)
        calls, tokens = _model_calls(own), _platform_tokens(own) or {}
        judges[judge] = JudgeSpending(
            asks=calls.asks,
            cached=calls.cached,
            calls=calls.attempts,
            input_tokens=tokens.get("input"),
            output_tokens=tokens.get("output"),
            cost_usd=_platform_cost(own),
        )
    return {
        "total_agent_token_usage": {n: s for n, s in agent_tokens.items() if s is not None} or None,
        "total_platform_token_usage": _platform_tokens(asks),
        "total_agent_cost_usd": agent,
        "total_platform_cost_usd": platform,
        "total_estimated_cost_usd": (
            None if agent is None or platform is None else rounded_value(agent + platform)
        ),
        # A share 0..1 of the dollars; none where no tokens were estimated.
        "cost_estimated": rounded_value(some / every) if some else None,
        "model_calls": _model_calls(asks),
        "ask_failures": tuple(_ask_failures(asks)),
        "judges": judges,
    }


def known_cost_usd(asks: pl.LazyFrame) -> float:
    """Dollars of the paid asks whose cost is known."""
    costs = collect_rows(asks.filter(_PAID).select("cost_usd"))["cost_usd"]
    return total(costs.drop_nulls().to_list()) or 0.0


def _platform_cost(asks: pl.LazyFrame) -> float | None:
    costs = collect_rows(asks.filter(_PAID).select("cost_usd"))["cost_usd"]
    # One call without a price makes the sum unknown; a sum of the rest would look cheap.
    return None if costs.null_count() else total(costs.to_list()) or 0.0


def _platform_tokens(asks: pl.LazyFrame) -> dict[str, int] | None:
    input_tokens, output_tokens = pl.col("input_tokens"), pl.col("output_tokens")
    unmetered = input_tokens.is_null() & output_tokens.is_null()
    sums = (unmetered.sum().alias("unmetered"), input_tokens.sum(), output_tokens.sum())
    missing, tokens_in, tokens_out = collect_rows(asks.filter(_PAID).select(sums)).row(0)
    if missing and not tokens_in + tokens_out:  # nothing was metered: not known, not 0
        return None
    return {"input": tokens_in, "output": tokens_out, "total": tokens_in + tokens_out}


def _ask_failures(asks: pl.LazyFrame) -> Iterator[str]:
    """Yield a line for each of the most frequent kinds of failed asks: its error, how many of all."""
    error = pl.col("error")
    kind = pl.coalesce(error.str.extract(_KIND, 1), error).alias("kind")
    kinds = asks.drop_nulls("error").group_by(kind).agg(count=pl.len(), error=error.min())
    ranked = kinds.sort("count", "kind", descending=[True, False]).head(_NAMED)
    every = collect_rows(asks.select(pl.len())).item()
    for text, count, example in collect_rows(ranked).rows():
        rest = example.removeprefix(text).lstrip(":; ")
        yield f"{text}, {count} of {every} asks{f' (such as: {rest})' if rest else ''}"


def _model_calls(asks: pl.LazyFrame) -> ModelCalls:
    counts = collect_rows(
        asks.select(
            pl.col("cached", "attempts").sum(), asks=pl.len(), unanswered=pl.col("error").count()
        )
    )
    return ModelCalls.model_validate(counts.row(0, named=True))


def cautions(cases: pl.LazyFrame, asks: pl.LazyFrame) -> tuple[str, ...]:
    """The warning lines for the rows of one run; empty where there is nothing to warn of."""
    return (*_model_lines(asks), *_retry_lines(cases, asks), *_cost_lines(asks))


def _model_lines(asks: pl.LazyFrame) -> Iterator[str]:
    """A line for each model that answered under more than one name, or never while others did."""
    for column, words in (
        ("answered_by", "was answered by"),
        ("fingerprint", "answered under the system fingerprints"),
    ):
        # Not every provider says which model or system answered: no name is no other name.
        seen = asks.filter(pl.col("error").is_null() & (pl.col(column) != ""))
        names_by_model = seen.group_by("model").agg(names=pl.col(column).unique().sort())
        several = names_by_model.filter(pl.col("names").list.len() > 1)
        for model, names in collect_rows(several.sort("model")).iter_rows():
            shown = ", ".join(names[:_NAMED])
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            says = f"{MIXED_JUDGE}: {model} {words} {shown}{more}"
            yield f"{says}; its scores are not those of one judge"
    answered = pl.col("error").is_null().sum()
    by_model = asks.group_by("model").agg(asks=pl.len(), answered=answered).sort("model")
    counted = collect_rows(by_model)
    # Where no model answered at all, none of them stands out.
    if counted["answered"].sum():
        for model, asked in counted.filter(answered=0).select("model", "asks").iter_rows():
            yield f"silent_model: {model} answered none of its {_ask_count(asked)}"


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
    # Imported here, because scipy.stats is slow to import and few runs come this far.
    from scipy.stats import fisher_exact  # type: ignore[import-untyped]  # it has no types

    (passed, of), (others, of_others) = groups[True], groups[False]
    p_value = float(fisher_exact([[passed, of - passed], [others, of_others - others]]).pvalue)
    if p_value < P_VALUE:
        yield (
            f"retries: of the cases that took retries {passed} of {of} pass, of the others {others} "
            f"of {of_others} (Fisher's exact test, p = {p_value:.2g}): retries succeed mostly on "
            "one class of inputs"
        )


def _cost_lines(asks: pl.LazyFrame) -> Iterator[str]:
    """Lines about estimated tokens, parameters that a model does not take, and missing replies."""
    estimated = (pl.col("cost_source") == "estimated").sum()
    some, of = collect_rows(asks.filter(_PAID).select(estimated, pl.len())).row(0)
    if some:
        yield (
            f"estimated_tokens: {some} of {of} paid asks not metered; their tokens and cost are "
            "estimated"
        )
    flags = asks.select("model", flag=pl.col("flags")).explode("flag")
    dropped = flags.filter(pl.col("flag").str.starts_with(_DROPPED)).group_by("model", "flag")
    counted = collect_rows(dropped.agg(asks=pl.len()).sort("model", "flag"))
    for model, flag, times in counted.iter_rows():
        name = flag.removeprefix(_DROPPED)
        yield f"dropped_parameter: {model} does not take {name}; {_ask_count(times)} went without it"
    missed = pl.col("error").str.starts_with(f"{NOT_CACHED}:")
    if times := collect_rows(asks.select(missed.sum())).item():
        asked = _ask_count(times)
        yield f"{NOT_CACHED}: no reply is kept for {asked}, and none was asked for (replay_only)"


def _ask_count(count: int) -> str:
    return f"{count} ask" if count == 1 else f"{count} asks"
