"""Which labels of people count: the newest of each person about each question.

Tables of people are append-only (docs/rows.md). A row that corrects an earlier one names it in
`supersedes`; a row of kind `withdrawn` takes a label back and puts nothing in its place.
"""

from __future__ import annotations

from typing import Final

import polars as pl

QUESTION: Final = ("run_id", "case_id", "repetition", "metric")
"""The columns that say what a label is about."""

LABEL: Final = "label"
SKIP: Final = "skip"
WITHDRAWN: Final = "withdrawn"

ADJUDICATOR: Final = "adjudicator"
"""The role of the person who settles what raters answered differently."""


def current_labels(rows: pl.DataFrame) -> pl.DataFrame:
    """The labels and skips that nobody corrected or withdrew, in order of time.

    There is at most one for each question, rater and role: the newest.
    """
    replaced = rows["supersedes"].drop_nulls().implode()
    ordered = rows.sort("at", "label_id")
    newest = ordered.unique((*QUESTION, "rater", "role"), keep="last", maintain_order=True)
    # Checked after the newest is known: a withdrawn label does not bring an older one back.
    return newest.filter((pl.col("kind") != WITHDRAWN) & ~pl.col("label_id").is_in(replaced))


def settled_labels(rows: pl.DataFrame) -> pl.DataFrame:
    """The value on which people settled, for each question that anybody labelled.

    The adjudicator's value wins; else it is the value that all raters gave; else `value` is `None`,
    as the raters are divided. Columns: those of `QUESTION`, `value`, `raters` (how many labelled),
    and `probability`, the lowest inclusion probability (0..1) of the labels, `None` for a case
    that was chosen by hand.
    """
    labels = current_labels(rows).filter(pl.col("kind") == LABEL)
    final = pl.col("value").filter(pl.col("role") == ADJUDICATOR)
    values = pl.col("value").filter(pl.col("role") != ADJUDICATOR)
    common = pl.when(values.n_unique() == 1).then(values.first())
    return labels.group_by(QUESTION, maintain_order=True).agg(
        pl.coalesce(final.last(), common).alias("value"),
        values.len().alias("raters"),
        pl.when(pl.col("probability").null_count() == 0)
        .then(pl.col("probability").min())
        .alias("probability"),
    )
