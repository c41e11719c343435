"""The numbers of a run's summary under their published names: the rows of table `run_metrics`."""

from __future__ import annotations

from collections.abc import Iterator

from assizes.judge.summary.headlines import published_names
from assizes.judge.summary.run_summary import RunSummary


def run_metrics(summary: RunSummary) -> dict[str, float]:
    """The numbers of a run under their published names; unknown numbers are left out.

    True and false are 1 and 0. A nested number is named by its path: `metrics/<name>/mean_raw`,
    `tiers/<tier>`, `gates/<gate>`, `counts/<name>`, `model_calls/<name>`,
    `judges/<judge>/cost_usd`, `pass^k`. The interval of a number has the number's name with
    `/ci_low` and `/ci_high` after it, the bounds `/worst` and `/best`. A number that its judge
    publishes (seed 004) also stands under that published name.
    """
    return {name: float(value) for name, value in sorted(_numbers(summary)) if value is not None}


def _numbers(summary: RunSummary) -> Iterator[tuple[str, float | None]]:
    for name, value in summary:
        if value is None or isinstance(value, bool | int | float):
            yield name, value
    for path, numbers in (
        ("total_agent_token_usage/", summary.total_agent_token_usage or {}),
        ("total_platform_token_usage/", summary.total_platform_token_usage or {}),
        ("gates/", summary.gates),
        ("tiers/", summary.tier_scores),
        ("failures/", summary.failures),
        ("root_causes/", summary.root_causes),
        ("flags/", summary.flags),
        ("model_calls/", summary.model_calls.model_dump()),
        ("counts/", summary.counts),
        ("", summary.pass_hat_k),
        ("", summary.pass_at_k),
        ("", summary.published),
    ):
        for name, value in numbers.items():
            yield f"{path}{name}", value
    for judge, spent in summary.judges.items():
        for name, value in spent:
            yield f"judges/{judge}/{name}", value
    yield from _metric_numbers(summary)
    for name, interval in summary.intervals.items():
        yield f"{name}/ci_low", interval.low
        yield f"{name}/ci_high", interval.high
        yield f"{name}/worst", interval.worst
        yield f"{name}/best", interval.best


def _metric_numbers(summary: RunSummary) -> Iterator[tuple[str, float | None]]:
    names = published_names(summary.metrics)
    for metric in summary.metrics:
        numbers = metric.model_dump(
            include={"mean_raw", "mean_value", "pass_rate", "scored", "failed", "skipped"}
        )
        for name, value in numbers.items():
            yield f"metrics/{names[metric.judge, metric.name]}/{name}", value
    for votes in summary.stability:
        for name, value in votes.model_dump(exclude={"judge", "metric", "cases"}).items():
            yield f"metrics/{names[votes.judge, votes.metric]}/{name}", value
