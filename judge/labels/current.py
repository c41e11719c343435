"""Which labels of people count: the newest of each person about each question."""

from __future__ import annotations

from typing import Final

import polars as pl

_QUESTION: Final = ("run_id", "case_id", "repetition", "metric", "rater", "role")


def current_labels(rows: pl.DataFrame) -> pl.DataFrame:
    """The labels and skips that nobody corrected or withdrew, one for a question and person."""
    replaced = rows["supersedes"].drop_nulls().to_list()
    stands = ~pl.col("label_id").is_in(replaced) & (pl.col("kind") != "withdrawn")
    newest = rows.filter(stands).sort("at", "label_id")
    return newest.unique(_QUESTION, keep="last", maintain_order=True)
