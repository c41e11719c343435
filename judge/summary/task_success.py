"""What a run can say of task success: where nothing judged it, and where rewards contradict it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import polars as pl

from assizes.judge.config.judging import OFFLINE_MODEL
from assizes.judge.evidence.tool_calls import NO_TOOL_TRACE_REASON
from assizes.judge.families.deterministic import RECORDED_REWARD
from assizes.judge.heuristic.conversation import BY_WORDS
from assizes.judge.protocol import Judge
from assizes.judge.rubrics.rubric import OUTCOMES
from assizes.judge.summary.headlines import headlines
from assizes.judge.verdicts.executions import CASE, collect_rows, executions, states

OF_TASK_SUCCESS = ("task_completion", OUTCOMES)
"""The metrics of the conversation judge that say whether the agent did its task."""


def unjudged_count(
    cases: pl.LazyFrame, scores: pl.LazyFrame, asks: pl.LazyFrame, judges: Iterable[Judge]
) -> int:
    """The executions with a verdict in which text rules alone judged, and none of them the task.

    Metrics that decide cases by ground truth tell of the task, as those of `OF_TASK_SUCCESS` do; an
    outcome that is judged by words alone tells what the agent claims.
    """
    gating = [metric for judge in judges for metric in judge.metrics if metric.gate]
    needing = [m.name for m in gating if m.gate == "judges" or m.needs_ground_truth]
    is_telling = pl.col("metric").is_in([*OF_TASK_SUCCESS, *needing])
    telling = scores.filter(is_telling, status="scored")
    by_words = telling.filter(pl.col("details").str.contains(BY_WORDS, literal=True))
    compared = telling.join(by_words, on=[*CASE, "metric"], how="anti")
    by_rules = pl.col("model") == OFFLINE_MODEL
    decided = executions(cases).filter(pl.col("state") != "errored")
    ruled = decided.join(asks.filter(by_rules), on=CASE, how="semi")
    seen = pl.concat(rows.select(CASE) for rows in (compared, asks.filter(~by_rules)))
    return int(collect_rows(ruled.join(seen, on=CASE, how="anti").select(pl.len())).item())


def truth_lines(cases: pl.LazyFrame, scores: pl.LazyFrame) -> Iterator[str]:
    """Warnings of an input without tool calls, and of recorded rewards that disagree."""
    untraced = scores.filter(pl.col("reason") == NO_TOOL_TRACE_REASON).select(CASE).unique()
    if count := collect_rows(untraced.select(pl.len())).item():
        executed = collect_rows(executions(cases).select(pl.len())).item()
        yield (
            f"no tool trace in {count} of {executed} conversations: calls are expected or tools were "
            "offered, and the whole input holds no tool call; what rests on calls is skipped"
        )
    yield from _disagreements(cases, scores)


def _disagreements(cases: pl.LazyFrame, scores: pl.LazyFrame) -> Iterator[str]:
    rated = headlines(scores).filter(pl.col("status") == "scored")
    rewards = rated.filter(pl.col("metric") == RECORDED_REWARD.name)
    decided = states(cases).filter(pl.col("state").is_in(["passed", "failed"]))
    verdicts = decided.select(
        *CASE, pl.lit("the verdict").alias("metric"), success=pl.col("state") == "passed"
    )
    by_metric = rated.filter(pl.col("metric").is_in(OF_TASK_SUCCESS)).drop_nulls("success")
    pairs = pl.concat([verdicts, by_metric.select(*CASE, "metric", "success")]).join(
        rewards.select(*CASE, reward="success"), on=CASE
    )
    differing = (pl.col("success") != pl.col("reward")).sum()
    counted = pairs.group_by("metric").agg(differ=differing, of=pl.len()).sort("metric")
    for metric, differ, of in collect_rows(counted).iter_rows():
        if differ * 3 > of:
            yield (
                f"disagreement: {metric} and the recorded reward differ in {differ} of {of} cases; "
                "likely causes: ground truth of other conversations, tools that the user calls, "
                "assertions on the environment, [transcripts] writes unset or wrong"
            )
