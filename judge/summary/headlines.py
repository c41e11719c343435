"""Numbers from the headline scores of a run: metrics, tiers, the quality judges together, votes.

A headline score is the score of a metric itself (column `part` is empty), not of a part of it.
"""

from __future__ import annotations

import json
import operator
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from itertools import combinations, groupby
from operator import itemgetter
from typing import Any, Final, get_args

import polars as pl
from pydantic import BaseModel, ConfigDict, Field

from assizes.judge.protocol import Judge
from assizes.judge.score import Gate, Metric, Tier
from assizes.judge.statistics.exact import mean_of_counts, rounded_value
from assizes.judge.verdicts.executions import CASE, collect_rows
from assizes.judge.verdicts.verdict import RATIONALE_KEYS

METRIC = ("judge", "metric")
"""The columns that identify a metric within a run."""

OVERALL: Final = "response/overall_assessment/rating/percentage"
"""The published name of the share of cases whose quality judges all said yes."""


class FrozenModel(BaseModel):
    """Data of a summary or a comparison that cannot be changed and takes no unknown field."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class MetricSummary(FrozenModel):
    """The numbers of one metric over the headline scores of a run.

    `mean_raw` is in the metric's own unit; `mean_value` is on 0..1 (`null` for amounts).
    `pass_rate` is the share of successes among the scores that say pass or fail (or yes or no);
    `null` where no score does. `scored`, `skipped` and `failed` count the scores; skipped and
    failed scores enter no mean. `run_names` are the names under which the run publishes the mean.
    `gate` says how the metric decides cases; `null` where it does so by its weight.
    """

    name: str  # the metric's own name; not unique in a run
    judge: str
    tier: str | None
    is_binary: bool
    weight: float | None  # share in the overall score; None: it has none
    scored: int
    skipped: int
    failed: int
    mean_raw: float | None
    mean_value: float | None
    pass_rate: float | None
    labels: dict[str, int]  # label -> scores that have it
    gate: Gate | None = None
    run_names: tuple[str, ...] = ()


def headlines(scores: pl.LazyFrame) -> pl.LazyFrame:
    """The headline rows of `scores`, with two more columns.

    `two_valued`: the score is pass or fail, or yes or no. `success`: the score's own `passed`, else
    its two-valued label as true or false; `null` for a score that has neither.
    """
    label, raw = pl.col("label"), pl.col("raw")
    # The word `fail` also names level 1 of the scored metrics; a failed binary metric has raw 0.
    negative = (label == "no") | ((label == "fail") & (raw == 0))
    positive = label.is_in(["pass", "yes"])
    two_valued = (positive | negative).fill_null(value=False)
    return scores.filter(pl.col("part") == "").with_columns(
        two_valued=two_valued, success=pl.coalesce("passed", pl.when(two_valued).then(positive))
    )


def metric_counts(scores: pl.LazyFrame) -> pl.DataFrame:
    """How often each headline score occurs in a run, in column `rows`.

    There is one row for each combination of metric, tier, weight, status, label and numbers.
    """
    # Metrics take few values, so millions of scores become some hundred rows.
    keys = [*METRIC, "tier", "weight", "status", "label", "passed", "raw", "value"]
    # One number stands for each combination: to compare nine columns, five of them of text, takes
    # twice as long.
    combination = reduce(operator.xor, (pl.col(key).hash(seed) for seed, key in enumerate(keys)))
    headline = scores.filter(pl.col("part") == "")
    counted = headline.group_by(combination.alias("combination")).agg(
        pl.col(keys).first(), rows=pl.len(), part=pl.lit("")
    )
    return collect_rows(headlines(collect_rows(counted).lazy().drop("combination")))


def metric_summaries(
    counts: pl.DataFrame, judges: Sequence[Judge] = ()
) -> tuple[MetricSummary, ...]:
    """The numbers of every metric from `metric_counts`, sorted by judge and name.

    The metrics of the judges hold the gates and the published names.
    """
    promised = {(judge.name, metric.name): metric for judge in judges for metric in judge.metrics}
    summaries = []
    by_metric = groupby(counts.sort(*METRIC).rows(named=True), key=itemgetter(*METRIC))
    for (judge, name), group in by_metric:
        rows, metric = list(group), promised.get((judge, name), Metric(name))
        scored = [row for row in rows if row["status"] == "scored"]
        statuses, decided = _counts(rows, "status"), _counts(scored, "success")  # value -> scores
        summary = MetricSummary(
            name=name,
            judge=judge,
            tier=min((row["tier"] for row in rows if row["tier"]), default=None),
            is_binary=bool(scored) and all(row["two_valued"] for row in scored),
            weight=min((row["weight"] for row in rows if row["weight"] is not None), default=None),
            scored=statuses["scored"],
            skipped=statuses["skipped"],
            failed=statuses["failed"],
            mean_raw=mean_of_counts(_counts(scored, "raw").items()),
            mean_value=mean_of_counts(_counts(scored, "value").items()),
            pass_rate=rounded_value(decided[True] / decided.total()) if decided else None,
            labels=dict(sorted(_counts(scored, "label").items())),
            gate=metric.gate,
            run_names=metric.run_names,
        )
        summaries.append(summary)
    return tuple(summaries)


def _counts(rows: Iterable[dict[str, Any]], column: str) -> Counter[Any]:
    counts: Counter[Any] = Counter()
    for row in rows:
        if row[column] is not None:
            counts[row[column]] += row["rows"]
    return counts


def published_numbers(scores: pl.LazyFrame, metrics: Sequence[MetricSummary]) -> dict[str, float]:
    """The means of a run under the names that its judges publish.

    Fractions and ratings run 0..1, amounts are in their own unit. A metric without any score is
    left out. With quality judges, `OVERALL` is the share of yes among the cases that these judges
    together rate yes or no.
    """
    numbers = {
        name: metric.mean_raw if metric.mean_value is None else metric.mean_value
        for metric in metrics
        for name in metric.run_names
    }
    if not any(metric.gate == "quality" for metric in metrics):
        return {name: number for name, number in sorted(numbers.items()) if number is not None}
    rated = quality_ratings(scores, metrics).drop_nulls("rating")
    if cases := dict(collect_rows(rated.group_by("rating").agg(pl.len())).rows()):
        numbers[OVERALL] = rounded_value(cases.get("yes", 0) / sum(cases.values()))
    return {name: number for name, number in sorted(numbers.items()) if number is not None}


def quality_ratings(scores: pl.LazyFrame, metrics: Iterable[MetricSummary]) -> pl.LazyFrame:
    """The rating of each case by all quality judges together, in column `rating`.

    It is no where any judge said no; else missing where a judge's rating is missing; else yes. A
    case to which no quality judge applied is left out.
    """
    said_no, undecided = (~pl.col("success")).any(), pl.col("success").is_null().any()
    rating = pl.when(said_no).then(pl.lit("no")).when(~undecided).then(pl.lit("yes"))
    return _quality_headlines(scores, metrics).group_by(CASE).agg(rating=rating)


def _quality_headlines(scores: pl.LazyFrame, metrics: Iterable[MetricSummary]) -> pl.LazyFrame:
    gating = [(metric.judge, metric.name) for metric in metrics if metric.gate == "quality"]
    named = pl.LazyFrame(gating, schema=dict.fromkeys(METRIC, pl.String), orient="row")
    applied = headlines(scores).filter(pl.col("status") != "skipped")
    return applied.join(named, on=METRIC, how="semi")


def overall_assessments(
    cases: pl.LazyFrame, scores: pl.LazyFrame, metrics: Sequence[MetricSummary]
) -> pl.LazyFrame:
    """The overall assessment of each case by the quality judges, in the columns of the wide table.

    The columns are `case_id`, `repetition`, `response/overall_assessment/rating` (yes, no, `null`),
    `response/overall_assessment/rationale` (of the root cause; `null` unless the rating is no) and
    `root_cause`. A case to which no quality judge applied is left out.
    """
    # Judges keep their explanation under different keys; the first that is there counts.
    rationales = [pl.col("details").str.json_path_match(f"$.{key}") for key in RATIONALE_KEYS]
    causes = _quality_headlines(scores, metrics).select(
        *CASE, root_cause="metric", rationale=pl.coalesce(rationales)
    )
    # Joined on the metric too, so that the rationale is the one of the root cause.
    traced = cases.select(*CASE, "root_cause").join(causes, on=[*CASE, "root_cause"], how="left")
    assessed = quality_ratings(scores, metrics).join(traced, on=CASE, how="left").sort(CASE)
    names = {name: f"response/overall_assessment/{name}" for name in ("rating", "rationale")}
    return assessed.select(*CASE, "rating", "rationale", "root_cause").rename(names)


def published_names(metrics: Iterable[MetricSummary]) -> dict[tuple[str, str], str]:
    """Published names by (judge, metric): the metric's name, or `judge/metric` if not unique."""
    keys = [(metric.judge, metric.name) for metric in metrics]
    sharing = Counter(name for _, name in keys)
    return {(judge, m): m if sharing[m] == 1 else f"{judge}/{m}" for judge, m in keys}


_WEIGHING: Final = pl.all_horizontal(
    pl.col("part") == "",
    pl.col("status") == "scored",
    pl.col("weight") > 0,
    pl.col("tier", "value").is_not_null(),
)
"""Whether a score counts in the score of its tier."""

_TIER_POINTS: Final = (
    (pl.col("value") * pl.col("weight")).sum() / pl.col("weight").sum() * 100
).round(2)
"""The score of a tier over the scores of one case."""


_EXECUTION: Final = (pl.col("case_id").hash() ^ pl.col("repetition").hash(1)).alias("case")
"""A number for each case and repetition; two have one number in some 1 of 10**7 runs of a million."""


def tier_counts(
    scores: pl.LazyFrame, errored: pl.LazyFrame | None, counts: pl.DataFrame
) -> dict[str, pl.DataFrame]:
    """How often each score of a tier occurs over the cases with a verdict, by tier.

    Column `points` holds the score 0..100, column `rows` how often it occurs. The score of one case
    is sum(value x weight) / sum(weight) x 100 over the tier's scored metrics. `errored` identifies
    the errored cases, which are left out, and is `None` where there are none; `counts` are those
    of `metric_counts`.
    """
    tiers = counts.filter(_WEIGHING)["tier"].unique().sort()
    by_tier = {}
    # One tier at a time, so that memory holds one number for each case, not one for each tier too.
    for tier in tiers:
        # A number stands for each case: ids, as text, take twice the time and the memory.
        scored = scores.filter(_WEIGHING & (pl.col("tier") == tier))
        by_case = scored.select("value", "weight", _EXECUTION).group_by("case")
        points = by_case.agg(points=_TIER_POINTS)
        if errored is not None:
            points = points.join(errored.select(_EXECUTION), on="case", how="anti")
        occurrences = points.group_by("points").agg(rows=pl.len())
        by_tier[tier] = collect_rows(occurrences.sort("points"))
    return {tier: counts for tier, counts in by_tier.items() if counts.height}


def tier_points(scores: pl.LazyFrame, errored: pl.LazyFrame, tier: str) -> pl.LazyFrame:
    """The score of a tier by case with a verdict: `case_id`, `repetition`, `points` 0..100."""
    scored = scores.filter(_WEIGHING & (pl.col("tier") == tier))
    return scored.join(errored, on=CASE, how="anti").group_by(CASE).agg(points=_TIER_POINTS)


def case_tier_scores(scores: pl.DataFrame) -> dict[str, float]:
    """The score 0..100 of each tier that one case with a verdict has, from its scores."""
    points = dict(scores.filter(_WEIGHING).group_by("tier").agg(points=_TIER_POINTS).rows())
    return {tier: points[tier] for tier in get_args(Tier) if tier in points}


class Stability(FrozenModel):
    """How often two votes on the same headline score differ or agree.

    Votes are compared by their `passed`, else by their label, else by their value. Shares run 0..1
    and are `null` where no case has two votes of the kind.
    """

    judge: str
    metric: str
    cases: int = Field(description="with at least two scored votes")
    flip_rate: float | None = Field(
        description="share of the pairs of repeats of one model whose verdicts differ"
    )
    agreement: float | None = Field(
        description="share of the pairs of votes of different models whose verdicts agree"
    )
    escalated: int = Field(description="cases that a stronger model judged anew")


def stability(scores: pl.LazyFrame) -> tuple[Stability, ...]:
    """The stability of every metric of a run with votes, sorted by judge and name."""
    # Only few scores have votes; JSON is parsed for these alone.
    # What both names end with is looked for in all, as one text is found faster than two.
    may_have = pl.col("details").str.contains('votes":', literal=True)
    voted = collect_rows(
        scores.filter((pl.col("part") == "") & may_have).select(*METRIC, "details")
    )
    has_votes = pl.col("details").str.contains_any(['"votes":', '"first_votes":'])
    counts: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for judge, metric, details in voted.filter(has_votes).iter_rows():
        body, of_metric = json.loads(details), counts[judge, metric]
        votes = [*body.get("first_votes", ()), *body.get("votes", ())]
        scored = [vote for vote in votes if vote["status"] == "scored"]
        of_metric["cases"] += len(scored) > 1
        of_metric["escalated"] += "escalated" in body
        for vote, other in combinations(scored, 2):
            # Repeats of a model tell its noise, votes of two models how far they agree.
            kind = "repeats" if vote["model"] == other["model"] else "across"
            same = _vote_verdict(vote) == _vote_verdict(other)
            of_metric[f"{kind} that agree" if same else f"{kind} that differ"] += 1
    return tuple(
        Stability(
            judge=judge,
            metric=metric,
            cases=pairs["cases"],
            flip_rate=_share_of(pairs["repeats that differ"], pairs["repeats that agree"]),
            agreement=_share_of(pairs["across that agree"], pairs["across that differ"]),
            escalated=pairs["escalated"],
        )
        for (judge, metric), pairs in sorted(counts.items())
    )


def _vote_verdict(vote: Mapping[str, Any]) -> object:
    if vote["passed"] is not None:
        return vote["passed"]
    return vote["value"] if vote["label"] is None else vote["label"]


def _share_of(pairs: int, others: int) -> float | None:
    return rounded_value(pairs / (pairs + others)) if pairs + others else None
