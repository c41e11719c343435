"""The figures of a run as a report shows them: metrics, judges, failure codes, time and money."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import polars as pl

from assizes.judge.comparison.compare import RunComparison
from assizes.judge.comparison.metrics import MetricAggregate
from assizes.judge.families.conversation import ConversationJudge
from assizes.judge.score import LABELS, UNSPECIFIED_FAILURE
from assizes.judge.summary.headlines import MetricSummary, published_names
from assizes.judge.summary.run_intervals import NumberInterval
from assizes.judge.summary.run_summary import RunSummary
from assizes.judge.verdicts.case_rows import suggested_fix
from assizes.judge.verdicts.executions import collect_rows
from assizes.tasks.reports.formatting import count, duration, line_of, money, name_of, share
from assizes.tasks.reports.schema import report as schema
from assizes.tasks.reports.schema.parts import Counted, Interval, NameValue

MAX_METRICS: Final = 100  # metrics that are listed, at most
MAX_CODES: Final = 50  # failure codes, metrics of a code, and root causes that are listed, at most
MAX_SKIPS: Final = 50  # reasons for skipped cases that are listed, at most
MAX_NAMES: Final = 100  # judges, and published numbers, that are listed at most
BIN_POINTS: Final = 10  # width of a bin of the distribution, in points of the overall score

_ORDER: Final = ("pass", "yes", *reversed(LABELS), "no")  # labels, the best first
_LEVEL_WORDS: Final = frozenset({*LABELS, "pass"})  # labels of metrics with levels 0..5
_TIERS: Final = ("execution", "knowledge", "process", "delivery")  # as in a conversation

_LATENCIES: Final = {  # shown name -> field of the summary, in ms
    "median of cases": "latency_p50_ms",
    "95th percentile": "latency_p95_ms",
    "longest": "latency_max_ms",
    "mean": "latency_avg_ms",
}
_TOKENS: Final = {"Tokens in": "input", "Tokens out": "output", "Tokens in all": "total"}

_FAMILIES: Final = {  # family -> (title, meaning), in the order they are shown
    "conversation": ("Conversation", "The weighted score and the expected outcomes."),
    "judges": ("Judges", "A case passes when every one of these that applies to it passes."),
    "quality": ("Quality", "One no fails a case; the first no in causal order is its root cause."),
    "measured": ("Measured", "These describe a case; they decide nothing."),
}


def family_rows(metrics: Iterable[MetricSummary]) -> list[schema.Family]:
    """The families of the metrics of a run, in a fixed order."""
    present = {_family_of(metric) for metric in metrics}
    return [
        schema.Family(family=family, title=title, meaning=meaning)
        for family, (title, meaning) in _FAMILIES.items()
        if family in present
    ]


def _family_of(metric: MetricSummary) -> str:
    """`conversation`, `judges` or `quality`; `measured` for a metric that decides nothing."""
    if metric.gate is not None:
        return metric.gate
    of_conversation = metric.weight is not None or metric.judge == ConversationJudge.name
    return "conversation" if of_conversation else "measured"


def metric_rows(summary: RunSummary, comparison: RunComparison | None) -> list[schema.MetricLine]:
    """One row for each metric of each judge, in the order of tiers and weights.

    `comparison` is that with the baseline, `None` without one.
    """
    names = published_names(summary.metrics)
    deltas = () if comparison is None else comparison.aggregate.per_metric_aggregate_deltas
    delta_by_name = {delta.metric: delta for delta in deltas}
    places: dict[str | None, int] = {tier: place for place, tier in enumerate(_TIERS)}
    ranked = sorted(summary.metrics, key=lambda metric: (metric.name, metric.judge))
    # A stable sort: within a tier and weight the order of names stays.
    ranked.sort(key=lambda metric: (places.get(metric.tier, len(places)), -(metric.weight or 0.0)))
    named = [(names[metric.judge, metric.name], metric) for metric in ranked[:MAX_METRICS]]
    return [_metric_row(name, metric, delta_by_name.get(name), summary) for name, metric in named]


def _metric_row(
    name: str, metric: MetricSummary, delta: MetricAggregate | None, summary: RunSummary
) -> schema.MetricLine:
    # Levels are 0-5, fractions and yes/no 0-1; an amount without a best value has no unit.
    binary_fails = metric.is_binary and "fail" in metric.labels
    unit = "" if metric.mean_value is None else "0-1"
    if binary_fails or _LEVEL_WORDS.intersection(metric.labels):
        unit = "0-5"
    # A comparison holds binary metrics as the share that passed; their level is five times that.
    factor = 5 if delta and delta.is_binary and unit == "0-5" else 1
    before, moved = (
        # Nine digits remove the noise of floats, so that the same run gives the same report.
        value and round(value * factor, 9)
        for value in ((delta.baseline_avg, delta.delta) if delta else (None, None))
    )
    # Labels that are known come from best to worst, then the others by name.
    known = [label for label in _ORDER if label in metric.labels]
    return schema.MetricLine(
        judge=name_of(metric.judge),
        metric=name_of(name),
        **metric.model_dump(include={"tier", "weight", "pass_rate", "scored", "failed", "skipped"}),
        family=_family_of(metric),
        unit=unit,
        mean=metric.mean_raw,
        labels=[
            schema.LabelCount(label=name_of(label.replace("_", " ")), count=metric.labels[label])
            for label in (*known, *sorted(metric.labels.keys() - set(known)))
        ],
        baseline_mean=before,
        delta=moved,
        interval=interval_of(summary.intervals, f"metrics/{name}/mean_raw"),
        pass_rate_interval=interval_of(summary.intervals, f"metrics/{name}/pass_rate"),
    )


def interval_of(intervals: Mapping[str, NumberInterval], name: str) -> Interval | None:
    """The interval of a number by the name of the number; `None` where it has no interval."""
    interval = intervals.get(name)
    if interval is None:
        return None
    texts = []
    if interval.low is not None and interval.high is not None:
        texts.append(f"{interval.confidence:.0%} CI {interval.low:.2f} to {interval.high:.2f}")
    if interval.worst is not None and interval.best is not None and interval.worst < interval.best:
        texts.append(f"with what is missing {interval.worst:.2f} to {interval.best:.2f}")
    return Interval(**interval.model_dump(), shown="; ".join(texts))


def published_rows(summary: RunSummary) -> list[schema.Published]:
    """The numbers that judges publish under names of their own."""
    numbers = list(summary.published.items())[:MAX_NAMES]
    return [schema.Published(name=name_of(name), value=value) for name, value in numbers]


def judge_rows(summary: RunSummary) -> list[schema.JudgeLine]:
    """The asks, calls, tokens and cost of each judge, the most expensive first, then by name."""
    judges = sorted(summary.judges.items(), key=lambda pair: (-(pair[1].cost_usd or 0.0), pair[0]))
    return [
        schema.JudgeLine(judge=name_of(name), **spending.model_dump())
        for name, spending in judges[:MAX_NAMES]
    ]


def skip_rows(scores: pl.LazyFrame) -> schema.Skips:
    """The judges that did not apply to some cases: to how many, why, and with which metrics."""
    skipped = scores.filter((pl.col("part") == "") & (pl.col("status") == "skipped"))
    counted = skipped.group_by("judge", "metric", "reason").agg(rows=pl.len())
    # (judge, reason, cases) -> metrics: one line for all metrics that were skipped alike.
    metrics: dict[tuple[str, str, int], list[str]] = defaultdict(list)
    ordered = collect_rows(counted.sort("judge", "metric", "reason"))
    for judge, metric, reason, rows in ordered.rows():
        metrics[judge, reason, rows].append(metric)
    ranked = sorted(metrics.items(), key=lambda pair: (pair[0][0], -pair[0][2], pair[0][1]))
    return schema.Skips(
        shown=[
            schema.SkipLine(
                judge=name_of(judge),
                metrics=[name_of(name) for name in names if name != judge],
                reason=line_of(reason),
                count=rows,
            )
            for (judge, reason, rows), names in ranked[:MAX_SKIPS]
        ],
        more=max(0, len(ranked) - MAX_SKIPS),
    )


def failure_codes(summary: RunSummary) -> schema.FailureCodes:
    """How often each failure code was given, with the metrics that it was given for."""
    counts: Counter[str] = Counter()
    metrics: dict[str, Counter[str]] = defaultdict(Counter)
    for failure in summary.failure_codes:
        counts[failure.failure_code] += failure.count
        metrics[failure.failure_code][failure.metric] += failure.count
    ranked = most_frequent(counts)
    return schema.FailureCodes(
        total=counts.total(),
        unspecified=counts[UNSPECIFIED_FAILURE],
        more=max(0, len(ranked) - MAX_CODES),
        shown=[
            schema.CodeLine(
                code=name_of(code),
                count=total,
                metrics=[
                    Counted(name=name_of(name), count=times)
                    for name, times in most_frequent(metrics[code])[:MAX_CODES]
                ],
            )
            for code, total in ranked[:MAX_CODES]
        ],
    )


def most_frequent(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Names with their counts, the highest count first; equal counts are sorted by name."""
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))


def root_causes(summary: RunSummary) -> list[schema.RootCause]:
    """How often each root cause was named, with a suggested fix where one is known."""
    published = {metric.name: metric.run_names for metric in summary.metrics}
    return [
        schema.RootCause(
            name=name_of(name),
            count=times,
            suggested_fix=suggested_fix(name, published.get(name, ())),
        )
        for name, times in most_frequent(summary.root_causes)[:MAX_CODES]
    ]


def tier_rows(summary: RunSummary) -> list[schema.TierLine]:
    """The mean score (0..100) of each tier, in the order of the tiers in a conversation."""
    others = sorted(summary.tier_scores.keys() - set(_TIERS))
    return [
        schema.TierLine(
            tier=name_of(tier),
            score=summary.tier_scores[tier],
            interval=interval_of(summary.intervals, f"tiers/{tier}"),
        )
        for tier in (*_TIERS, *others)
        if tier in summary.tier_scores
    ]


def score_distribution(cases: pl.LazyFrame) -> schema.Distribution:
    """The cases with an overall score in ten bins; the last bin includes a score of 100."""
    lows = range(0, 100, BIN_POINTS)
    counts = [{"passed": 0, "not_passed": 0} for _ in lows]
    judged = cases.drop_nulls("overall_score").group_by("overall_score", "passed")
    for score, passed, rows in collect_rows(judged.agg(rows=pl.len())).rows():
        index = min(int(score // BIN_POINTS), len(lows) - 1)  # 100 is in the last bin
        counts[index]["passed" if passed else "not_passed"] += rows
    return schema.Distribution(
        bins=[
            # `from` is a word of Python, so it cannot be a keyword argument.
            schema.Bin(**{"from": low}, to=low + BIN_POINTS, **numbers)
            for low, numbers in zip(lows, counts, strict=True)
        ]
    )


def usage_facts(summary: RunSummary, asks: pl.LazyFrame) -> list[schema.Facts]:
    """The time, tokens and money of the agent and of the judge; votes where metrics had several."""
    agent: dict[str, str] = {}
    for word, field in _LATENCIES.items():
        shown, interval = duration(getattr(summary, field)), summary.intervals.get(field)
        if interval and interval.low is not None and interval.high is not None:
            low, high = duration(interval.low), duration(interval.high)
            shown = f"{shown} ({interval.confidence:.0%} CI {low} to {high})"
        agent[f"Latency, {word}"] = shown
    # Tokens that were not counted are unknown, not 0.
    agent_tokens, judge_tokens = (
        {name: count((usage or {}).get(kind)) for name, kind in _TOKENS.items()}
        for usage in (summary.total_agent_token_usage, summary.total_platform_token_usage)
    )
    titled_facts = {
        "Agent": agent | agent_tokens | {"Cost": money(summary.total_agent_cost_usd)},
        "Judge": _judge_facts(summary, asks, judge_tokens),
    }
    if summary.stability:
        titled_facts["Votes"] = {
            f"{metric.metric} ({metric.judge})": f"flips {share(metric.flip_rate)}, models agree "
            f"{share(metric.agreement)}, escalated {count(metric.escalated)}"
            for metric in summary.stability
        }
    return [
        schema.Facts(title=title, facts=[NameValue(name=name, value=facts[name]) for name in facts])
        for title, facts in titled_facts.items()
    ]


def _judge_facts(
    summary: RunSummary, asks: pl.LazyFrame, tokens: Mapping[str, str]
) -> dict[str, str]:
    """The questions, times, tokens and cost of the judge; the ledger's numbers where it has any."""
    calls = summary.model_calls
    # Only calls that were answered tell how long an answer takes.
    answered = asks.filter(~pl.col("cached") & pl.col("error").is_null()).select("latency_ms")
    latency = collect_rows(answered)["latency_ms"]
    median, p95 = (latency.quantile(level, interpolation="linear") for level in (0.5, 0.95))
    ledger: dict[str, tuple[Callable[[float | None], str], float | None]] = {
        "Spent over all sessions, by the ledger": (money, summary.spent_usd),
        "Of that, for replies lost before they were stored": (money, summary.spent_outside_rows_usd),
        "Cost of estimated tokens": (share, summary.cost_estimated),
    }
    return {
        "Questions asked": count(calls.asks),
        "Answered from kept replies": count(calls.cached),
        "Never answered": count(calls.unanswered),
        "Calls made": count(calls.attempts),
        "Latency of an answer, median": duration(median),
        "Latency of an answer, 95th percentile": duration(p95),
        **tokens,
        "Cost": money(summary.total_platform_cost_usd),
        **{name: text(value) for name, (text, value) in ledger.items() if value is not None},
        "Cost with the agent's": money(summary.total_estimated_cost_usd),
    }
