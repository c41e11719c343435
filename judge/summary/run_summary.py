"""The summary of a run as data, which the store keeps, and its numbers as table `run_metrics`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from pydantic import Field, field_validator

from assizes.judge.summary.early_stop import EarlyStop
from assizes.judge.summary.headlines import FrozenModel, MetricSummary, Stability, published_names
from assizes.judge.summary.quotes import QuoteCount
from assizes.judge.summary.run_intervals import NumberInterval, PopulationNumber
from assizes.judge.summary.spending import JudgeSpending, ModelCalls

Outcome = Literal["passed", "failed", "inconclusive"]
"""The outcome of a run by its two thresholds and its coverage."""

COUNTS = (
    *("read", "judged", "reused", "quarantined"),
    *("duplicate", "errored", "skipped", "not_attempted", "not_needed"),
)
"""Counts of the records read, by what happened to them; `read` is the sum of all others.

Only a run that stopped early has `not_needed`.
"""

_OF_METRIC: Final = {"mean_raw", "mean_value", "pass_rate", "scored", "failed", "skipped"}
_OF_VOTES: Final = {"flip_rate", "agreement", "escalated"}


class FailureCode(FrozenModel):
    """How often a metric has one failure code in a run."""

    metric: str
    failure_code: str
    count: int


class RunSummary(FrozenModel):
    """The summary of a run. `None` means "not known", never "failed".

    Fractions (`pass_rate`, `coverage`) run 0..1; scores, and names with `_pct`, run 0..100. Skipped
    cases are no executions. `avg_overall_score` and `weighted_metrics_score_pct` are equal; both
    names are public.
    """

    outcome: Outcome = Field(
        description="inconclusive: coverage under its floor, or no verdict; failed: a gate missed"
    )
    surely_failed: bool = Field(
        default=False,
        description="a gate is missed even if all that errored had passed with 100: the run ends as "
        "failed, whatever its coverage",
    )
    unique_test_case_count: int
    total_executions: int
    passed_count: int
    failed_count: int
    error_count: int  # executions whose verdict hangs on a missing score
    undecided_count: int = Field(description="judged, but no gate applied; not passed")
    pass_flagged_count: int = Field(
        default=0,
        description="passes of cases that speak to their judges, or whose agent says nothing: not "
        "passed, see `flags`",
    )
    task_unjudged_count: int = Field(
        default=0,
        description="executions judged by text rules alone, with nothing that tells task success",
    )
    skipped_count: int  # never judged
    pass_rate: float = Field(description="passed / executions; 0 for an empty run")
    latency_p50_ms: float | None = Field(description="over each case's median agent latency")
    latency_p95_ms: float | None
    latency_max_ms: float | None
    latency_avg_ms: float | None
    total_agent_token_usage: dict[str, int] | None = Field(
        description="input, output, total over the cases that recorded them; unknown sums left out"
    )
    total_platform_token_usage: dict[str, int] | None = Field(
        description="of the judge models; replies from the cache are not counted"
    )
    total_agent_cost_usd: float | None = Field(
        description="over the cases that recorded it; null when none did"
    )
    total_platform_cost_usd: float | None = Field(
        description="of the judge model; null when any paid call has no known price"
    )
    total_estimated_cost_usd: float | None = Field(
        description="agent and judge; null when either is"
    )
    avg_overall_score: float | None
    weighted_metrics_score_pct: float | None
    metrics_pass_threshold: float
    metrics_passed: bool | None  # None: no score
    cases_pass_rate_pct: float | None  # None: no execution
    cases_pass_threshold: float
    cases_passed: bool | None
    coverage: float | None = Field(
        description="scored / due headline scores of the metrics that decide cases, by weight or "
        "by a gate (of all, where none does); null when none is due"
    )
    min_coverage: float  # 0..1
    gates: dict[str, int]  # gate -> executions that it decided
    tier_scores: dict[str, float]  # tier -> mean score, 0..100
    metrics: tuple[MetricSummary, ...]
    failure_codes: tuple[FailureCode, ...]
    failures: dict[str, int] = Field(description="failed headline scores by error code")
    root_causes: dict[str, int]  # metric -> cases whose failure is traced to it
    model_calls: ModelCalls
    ask_failures: tuple[str, ...] = Field(
        default=(), description="asks without a reply: a line a kind of error, most frequent first"
    )
    judges: dict[str, JudgeSpending] = Field(
        default_factory=dict, description="what each judge asked, by its name"
    )
    published: dict[str, float] = Field(
        default_factory=dict,
        description="means under their published names, e.g. "
        "`response/llm_judged/correctness/rating/percentage`; without a rating a name is left out",
    )
    flags: dict[str, int] = Field(
        default_factory=dict, description="cases by what was flagged in them, passed or not"
    )
    quotes: tuple[QuoteCount, ...] = Field(
        default=(),
        description="findings whose reasons quote what is not there, by judge and model; empty where "
        "there is none",
    )
    counts: dict[str, int] = Field(
        description="read = judged + reused + quarantined + duplicate + errored + skipped "
        "+ not_attempted, + not_needed of a run that was decided early"
    )
    score_counts: dict[str, int] = Field(
        default_factory=dict,
        description="due = scored + skipped + failed, over the metrics that the judges promise, one "
        "headline score in each case that was judged",
    )
    pass_hat_k: dict[str, float] = Field(
        description="`pass^k`, and `<metric>/pass^k` where a metric passes or fails; empty without "
        "repetitions"
    )
    pass_at_k: dict[str, float]  # named like `pass_hat_k`, with `pass@k`
    stability: tuple[Stability, ...] = Field(
        default=(), description="of metrics that a panel or repeats voted on"
    )
    spent_usd: float | None = Field(
        default=None,
        description="dollars of the run by the ledger, interrupted attempts included; at the worst "
        "case where a cost is not known; null without a ledger or a price",
    )
    spent_outside_rows_usd: float | None = Field(
        default=None,
        description="the part of `spent_usd` that no row holds: calls of interrupted attempts, "
        "lost calls",
    )
    cost_estimated: float | None = Field(
        default=None,
        description="share of the judge's cost whose tokens were not metered; null: none",
    )
    intervals: dict[str, NumberInterval] = Field(
        default_factory=dict, description="how sure the numbers are, by the names of `run_metrics`"
    )
    population: dict[str, PopulationNumber] = Field(
        default_factory=dict,
        description="of a sample: what the numbers are for all cases it was drawn from",
    )
    early_stop: EarlyStop | None = Field(
        default=None, description="how far a run went that was decided early; null: all were judged"
    )
    warnings: tuple[str, ...] = Field(
        default=(), description="what to know before believing the numbers, one line each"
    )

    @property
    def task_unjudged(self) -> str | None:
        """What a pass leaves open, as a sentence; `None` where task success was judged everywhere."""
        if not self.task_unjudged_count:
            return None
        return (
            f"task success was not judged in {self.task_unjudged_count} of {self.total_executions} "
            "cases: the offline judge needs expected calls, or strings to be told, and the metric "
            "task_completion or expected outcomes"
        )

    @field_validator("counts")
    @classmethod
    def _counts_in_order(cls, counts: dict[str, int]) -> dict[str, int]:
        """The counts in the order of `COUNTS`: stored JSON has its keys sorted by name."""
        names = (name for name in COUNTS if name != "not_needed" or name in counts)
        return {name: counts.get(name, 0) for name in names}


def run_metrics(summary: RunSummary) -> dict[str, float]:
    """The numbers of a run under their published names; unknown numbers are left out.

    True and false are 1 and 0. A nested number is named by its path: `metrics/<name>/mean_raw`,
    `tiers/<tier>`, `gates/<gate>`, `counts/<name>`, `judges/<judge>/cost_usd`, `pass^k`. The
    interval of a number adds `/ci_low` and `/ci_high` to its name, the bounds add `/worst` and
    `/best`.
    """
    own = {name: value for name, value in summary if isinstance(value, bool | int | float)}
    del own["surely_failed"]  # a word about the ending, no number of the run
    names = published_names(summary.metrics)
    by_path: list[tuple[str, Mapping[str, float | None]]] = [  # (path, numbers by name)
        ("", own),
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
        ("", summary.published),  # published names, which hold their own paths
        *((f"judges/{judge}/", spent.model_dump()) for judge, spent in summary.judges.items()),
        *(
            (f"metrics/{names[metric.judge, metric.name]}/", metric.model_dump(include=_OF_METRIC))
            for metric in summary.metrics
        ),
        *(
            (f"metrics/{names[votes.judge, votes.metric]}/", votes.model_dump(include=_OF_VOTES))
            for votes in summary.stability
        ),
    ]
    for name, interval in summary.intervals.items():
        bounds = {"ci_low": interval.low, "ci_high": interval.high}
        by_path.append((f"{name}/", bounds | {"worst": interval.worst, "best": interval.best}))
    # Of two numbers with one name the larger one stays.
    numbers = sorted(
        (f"{path}{name}", float(value))
        for path, by_name in by_path
        for name, value in by_name.items()
        if value is not None
    )
    return dict(numbers)
