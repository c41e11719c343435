"""Which labels of people count: the newest of each person about each question.

Tables of people are append-only (docs/rows.md). A row that corrects an earlier one names it in
`supersedes`; a row of kind `withdrawn` takes a label back and puts nothing in its place.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from assizes.judge.calibration.labelled import ADJUDICATOR

QUESTION: Final = ("run_id", "case_id", "repetition", "metric")
"""The columns that say what a label is about."""

LABEL: Final = "label"
SKIP: Final = "skip"
WITHDRAWN: Final = "withdrawn"


def current_labels(rows: pl.DataFrame) -> pl.DataFrame:
    """The labels and skips that nobody corrected or withdrew, in order of time.

    There is at most one for each question, rater and role: the newest.
    """
    replaced = rows["supersedes"].drop_nulls().implode()
    ordered = rows.sort("at", "label_id")
    newest = ordered.unique((*QUESTION, "rater", "role"), keep="last", maintain_order=True)
    # Checked after the newest is known: a withdrawn label does not bring an older one back.
    return newest.filter((pl.col("kind") != WITHDRAWN) & ~pl.col("label_id").is_in(replaced))


def settled_labels(rows: pl.DataFrame, queues: pl.DataFrame | None = None) -> pl.DataFrame:
    """The value on which people settled, for each question that anybody labelled.

    The adjudicator's value wins; else it is the value that all raters gave; else `value` is `None`,
    as the raters are divided. Columns: those of `QUESTION`, `value`, `raters` (how many labelled),
    and `probability`, the chance (0..1) with which the case was drawn, `None` for a case that was
    chosen by hand. The chance is that of the case: an answer that was given outside a queue takes
    none away. It is the lowest of the rows about the case, those that were corrected too; with rows
    of `queues` it is that of all the queues that hold the case (`combined_chances`).
    """
    labels = current_labels(rows).filter(pl.col("kind") == LABEL)
    final = pl.col("value").filter(pl.col("role") == ADJUDICATOR)
    values = pl.col("value").filter(pl.col("role") != ADJUDICATOR)
    common = pl.when(values.n_unique() == 1).then(values.first())
    settled = labels.group_by(QUESTION, maintain_order=True).agg(
        pl.coalesce(final.last(), common).alias("value"), values.len().alias("raters")
    )
    drawn = rows.drop_nulls("probability")
    lowest = drawn.group_by(QUESTION).agg(pl.col("probability").min())
    settled = settled.join(lowest, on=QUESTION, how="left", maintain_order="left")
    if queues is None:
        return settled
    combined = combined_chances(settled, drawn, queues)
    return settled.join(combined, on=QUESTION, how="left", maintain_order="left").select(
        *QUESTION, "value", "raters", pl.coalesce("combined", "probability").alias("probability")
    )


def combined_chances(
    labelled: pl.DataFrame, answers: pl.DataFrame, queues: pl.DataFrame
) -> pl.DataFrame:
    """The chance that stands for all queues of a run, as column `combined` beside `QUESTION`.

    `labelled` are the cases that have a label, and `answers` all rows that were given in queues.

    Each queue alone gives unbiased numbers with the weights 1 / p of its cases, and so does a mean
    of several queues: a case weighs the sum over its queues of share / p, and its chance here is 1
    over that. The share of a queue is that of its labelled cases among those of all queues (Singh
    and Mecatti 2011, "Generalized multiplicity-adjusted Horvitz-Thompson estimation"). A queue
    counts once a case was answered in it: up to the last such case that has a label, as its order is
    random, and as a whole where all its cases have one. A case that an earlier queue held, or that
    somebody had labelled by hand, counts too, though people do not answer it again. Behind the last
    one it does not count: it has a label because somebody chose it.
    """
    queue = ("queue_id", "run_id", "metric")
    drawn = queues.select(
        *("queue_id", "position", *QUESTION),
        pl.col("probability").alias("chance"),
        pl.len().over(queue).alias("size"),
    ).join(labelled, on=QUESTION, how="semi")
    reached = (
        drawn.join(answers, on=("queue_id", *QUESTION), how="semi")
        .group_by(queue)
        .agg(pl.col("position").max().alias("last"))
    )
    is_whole = pl.len().over(queue) == pl.col("size")
    counted = drawn.join(reached, on=queue).filter(
        is_whole | (pl.col("position") <= pl.col("last"))
    )
    share = pl.len().over(queue) / pl.len().over("run_id", "metric")
    return (
        counted.with_columns(weight=share / pl.col("chance"))
        .group_by(QUESTION)
        .agg((1 / pl.col("weight").sum()).clip(upper_bound=1.0).alias("combined"))
    )


def current_annotations(rows: pl.DataFrame) -> pl.DataFrame:
    """The annotations that nobody replaced or withdrew, in order of time."""
    replaced = rows["supersedes"].drop_nulls().to_list()
    stands = ~pl.col("annotation_id").is_in(replaced) & (pl.col("kind") != "withdrawn")
    return rows.filter(stands).sort("at", "annotation_id")
