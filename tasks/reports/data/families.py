"""The judges of a run as a report shows them: families, costs, and the cases they skip."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import polars as pl

from assizes.judge.families.conversation.judge import ConversationJudge
from assizes.judge.summary.headlines import MetricSummary
from assizes.judge.summary.run_summary import RunSummary
from assizes.judge.verdicts.executions import collect_rows
from assizes.tasks.reports.formatting import line_of, name_of
from assizes.tasks.reports.schema.report import Family, JudgeLine, Published, SkipLine, Skips

MAX_SKIPS: Final = 50
"""Reasons for skipped cases that are listed, at most."""

MAX_NAMES: Final = 100
"""Judges, and published numbers, that are listed at most."""

_FAMILIES: Final = {
    "conversation": ("Conversation", "The weighted score and the expected outcomes."),
    "judges": ("Judges", "A case passes when every one of these that applies to it passes."),
    "quality": (
        "Quality",
        "One no fails a case; the first no in causal order is its root cause.",
    ),
    "measured": ("Measured", "These describe a case; they decide nothing."),
}


def family_of(metric: MetricSummary) -> str:
    """`conversation`, `judges` or `quality`; `measured` for a metric that decides nothing."""
    if metric.gate is not None:
        return metric.gate
    of_conversation = metric.weight is not None or metric.judge == ConversationJudge.name
    return "conversation" if of_conversation else "measured"


def family_rows(metrics: Iterable[MetricSummary]) -> list[Family]:
    """The families of the metrics of a run, in a fixed order."""
    present = {family_of(metric) for metric in metrics}
    return [
        Family(family=family, title=title, meaning=meaning)
        for family, (title, meaning) in _FAMILIES.items()
        if family in present
    ]


def published_rows(summary: RunSummary) -> list[Published]:
    """The numbers that judges publish under names of their own."""
    numbers = list(summary.published.items())[:MAX_NAMES]
    return [Published(name=name_of(name), value=value) for name, value in numbers]


def judge_rows(summary: RunSummary) -> list[JudgeLine]:
    """The asks, calls, tokens and cost of each judge, the most expensive first, then by name."""
    judges = sorted(summary.judges.items(), key=lambda pair: (-(pair[1].cost_usd or 0.0), pair[0]))
    return [
        JudgeLine(judge=name_of(name), **spending.model_dump())
        for name, spending in judges[:MAX_NAMES]
    ]


def skip_rows(scores: pl.LazyFrame) -> Skips:
    """The judges that did not apply to some cases: to how many, why, and with which metrics."""
    skipped = scores.filter((pl.col("part") == "") & (pl.col("status") == "skipped"))
    counted = skipped.group_by("judge", "metric", "reason").agg(rows=pl.len())
    metrics: dict[tuple[str, str, int], list[str]] = {}
    for judge, metric, reason, count in collect_rows(
        counted.sort("judge", "metric", "reason")
    ).rows():
        metrics.setdefault((judge, reason, count), []).append(metric)
    ranked = sorted(metrics.items(), key=lambda pair: (pair[0][0], -pair[0][2], pair[0][1]))
    return Skips(
        shown=[
            SkipLine(
                judge=name_of(judge),
                metrics=[name_of(name) for name in names if name != judge],
                reason=line_of(reason),
                count=count,
            )
            for (judge, reason, count), names in ranked[:MAX_SKIPS]
        ],
        more=max(0, len(ranked) - MAX_SKIPS),
    )
