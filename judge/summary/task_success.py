"""What a run can say of task success: where nothing judged it, and where rewards contradict it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import polars as pl

from assizes.judge.config.judging import OFFLINE_MODEL
from assizes.judge.evidence.tool_calls import NO_TOOL_TRACE_REASON
from assizes.judge.families.deterministic import RECORDED_REWARD
from assizes.judge.heuristic.conversation import BY_WORDS
from assizes.judge.protocol import Judge
from assizes.judge.rubrics.rubric import OUTCOMES
from assizes.judge.summary.case_values import CASE_KEY, KEY
from assizes.judge.summary.headlines import headlines
from assizes.judge.verdicts.executions import CASE, collect_rows, executions, states

OF_TASK_SUCCESS = ("task_completion", OUTCOMES)
"""The metrics of the conversation judge that say whether the agent did its task."""

NO_TOOL_TRACE: Final = "no tool trace in"
"""How the warning begins of a run whose whole input holds no tool call."""


def unjudged_count(
    cases: pl.LazyFrame, scores: pl.LazyFrame, asks: pl.LazyFrame, judges: Iterable[Judge]
) -> int:
    """The executions with a verdict in which text rules alone judged, and none of them the task.

    Metrics that decide cases by ground truth tell of the task, as those of `OF_TASK_SUCCESS` do; an
    outcome that is judged by words alone tells what the agent claims.
    """
    by_model = pl.col("model") != OFFLINE_MODEL
    if not collect_rows(asks.select((~by_model).any())).item():
        return 0  # the text rules judged nothing
    gating = [metric for judge in judges for metric in judge.metrics if metric.gate]
    needing = [m.name for m in gating if m.gate == "judges" or m.needs_ground_truth]
    is_telling = pl.col("metric").is_in([*OF_TASK_SUCCESS, *needing])
    telling = scores.filter(is_telling, status="scored")
    by_words = pl.col("details").str.contains(BY_WORDS, literal=True)
    compared = telling.group_by(CASE_KEY, "repetition", "metric").agg(by_words.any())
    decided = executions(cases).filter(pl.col("state") != "errored")
    # Hashes stand for the cases: their ids, as text, would keep whole blocks of rows in memory.
    evidence = pl.concat(
        (
            decided.select(CASE_KEY, "repetition", decided=pl.lit(value=True)),
            asks.select(CASE_KEY, "repetition", ruled=~by_model, seen=by_model),
            compared.select(KEY, "repetition", seen=~pl.col("details")),
        ),
        how="diagonal",
    )
    by_case = evidence.group_by(KEY, "repetition").agg(pl.col("decided", "ruled", "seen").any())
    unjudged = pl.col("decided") & pl.col("ruled") & ~pl.col("seen")
    return int(collect_rows(by_case.select(unjudged.sum())).item())


def truth_lines(cases: pl.LazyFrame, scores: pl.LazyFrame) -> Iterator[str]:
    """Warnings of an input without tool calls, and of recorded rewards that disagree."""
    untraced = scores.filter(pl.col("reason") == NO_TOOL_TRACE_REASON).select(CASE).unique()
    if count := collect_rows(untraced.select(pl.len())).item():
        executed = collect_rows(executions(cases).select(pl.len())).item()
        yield (
            f"{NO_TOOL_TRACE} {count} of {executed} conversations: calls are expected or tools were "
            "offered, and the whole input holds no tool call; what rests on calls is skipped"
        )
    yield from _disagreements(cases, scores)


def _disagreements(cases: pl.LazyFrame, scores: pl.LazyFrame) -> Iterator[str]:
    rated = headlines(scores).filter(pl.col("status") == "scored")
    key = (CASE_KEY, "repetition")
    rewarded = rated.filter(pl.col("metric") == RECORDED_REWARD.name)
    rewards = collect_rows(rewarded.select(*key, reward="success"))
    if rewards.is_empty():
        return
    decided = states(cases).filter(pl.col("state").is_in(["passed", "failed"]))
    verdicts = decided.select(
        *key, pl.lit("the verdict").alias("metric"), success=pl.col("state") == "passed"
    )
    by_metric = rated.filter(pl.col("metric").is_in(OF_TASK_SUCCESS)).drop_nulls("success")
    pairs = pl.concat([verdicts, by_metric.select(*key, "metric", "success")]).join(
        rewards.lazy(), on=[KEY, "repetition"]
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
