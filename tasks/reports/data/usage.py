"""What the agent and the judge of a run took, as a report shows it: time, tokens and money."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from assizes.judge.summary.run_summary import RunSummary
from assizes.judge.verdicts.executions import collect_rows
from assizes.tasks.reports.formatting import count, duration, money, share
from assizes.tasks.reports.schema.parts import NameValue
from assizes.tasks.reports.schema.report import Facts


def usage_facts(summary: RunSummary, asks: pl.LazyFrame) -> list[Facts]:
    """The figures of the agent and of the judge, and of votes where a metric had several.

    Args:
        summary: the summary of the run.
        asks: table `asks` of the run.
    """
    calls = summary.model_calls
    answered = asks.filter(~pl.col("cached") & pl.col("error").is_null()).select("latency_ms")
    latency = collect_rows(answered)["latency_ms"]
    median, p95 = (latency.quantile(level, interpolation="linear") for level in (0.5, 0.95))
    agent = {
        "Latency, median of cases": _latency(summary, "latency_p50_ms"),
        "Latency, 95th percentile": _latency(summary, "latency_p95_ms"),
        "Latency, longest": duration(summary.latency_max_ms),
        "Latency, mean": _latency(summary, "latency_avg_ms"),
        **_tokens(summary.total_agent_token_usage),
        "Cost": money(summary.total_agent_cost_usd),
    }
    judge = {
        "Questions asked": count(calls.asks),
        "Answered from kept replies": count(calls.cached),
        "Never answered": count(calls.unanswered),
        "Calls made": count(calls.attempts),
        "Latency of an answer, median": duration(median),
        "Latency of an answer, 95th percentile": duration(p95),
        **_tokens(summary.total_platform_token_usage),
        "Cost": money(summary.total_platform_cost_usd),
        **_ledger(summary),
        "Cost with the agent's": money(summary.total_estimated_cost_usd),
    }
    titled_facts = {"Agent": agent, "Judge": judge}
    if summary.stability:
        titled_facts["Votes"] = _votes(summary)
    return [
        Facts(title=title, facts=[NameValue(name=name, value=facts[name]) for name in facts])
        for title, facts in titled_facts.items()
    ]


def _latency(summary: RunSummary, name: str) -> str:
    shown, interval = duration(getattr(summary, name)), summary.intervals.get(name)
    if interval is None or interval.low is None or interval.high is None:
        return shown
    low, high = duration(interval.low), duration(interval.high)
    return f"{shown} ({interval.confidence:.0%} CI {low} to {high})"


def _votes(summary: RunSummary) -> dict[str, str]:
    """How often the replies differ, for each metric that was asked more than once."""
    return {
        f"{metric.metric} ({metric.judge})": f"flips {share(metric.flip_rate)}, models agree "
        f"{share(metric.agreement)}, escalated {count(metric.escalated)}"
        for metric in summary.stability
    }


def _ledger(summary: RunSummary) -> dict[str, str]:
    """What the ledger adds to the cost in the rows; empty where there is no ledger."""
    lines = {
        "Spent over all sittings, by the ledger": summary.spent_usd,
        "Of that, in no row": summary.spent_outside_rows_usd,
    }
    known = {name: money(usd) for name, usd in lines.items() if usd is not None}
    if summary.cost_estimated is not None:
        known["Cost of estimated tokens"] = share(summary.cost_estimated)
    return known


def _tokens(usage: Mapping[str, int] | None) -> dict[str, str]:
    """Tokens in, out and in all; tokens that were not counted are unknown, not 0."""
    known = usage or {}
    return {
        "Tokens in": count(known.get("input")),
        "Tokens out": count(known.get("output")),
        "Tokens in all": count(known.get("total")),
    }
