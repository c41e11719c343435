"""The failures of a run: its failed scores, and what the judges said about them."""

from __future__ import annotations

from typing import Any, Final

import polars as pl

from assizes.judge.verdicts.executions import collect_rows
from assizes.judge.verdicts.verdict import RATIONALE_KEYS

FAILURES: Final[dict[str, Any]] = {
    "case_id": pl.String,
    "repetition": pl.Int32,
    "metric": pl.String,
    "reason": pl.String,  # the judge's words; empty where there are none
    "code": pl.String,  # `failure_code`; NULL: none
    "points": pl.Float64,  # that the score takes from the overall score of its case, 0..100
}
"""The columns of a frame of failures; a row is a failed score of one metric of one case."""

MOST_CHARS: Final = 1_000
"""The characters of a reason that count; a judge that writes more repeats itself."""


def is_failure() -> pl.Expr:
    """Whether a row of table scores is a failure: it did not pass, or is low where nothing passes.

    A metric without a threshold never passes or fails; a judge names a failure code where its
    score is below acceptable.
    """
    is_low = pl.col("passed").is_null() & pl.col("failure_code").is_not_null()
    return (pl.col("status") == "scored") & (pl.col("passed").eq(other=False) | is_low)


_OF_METRIC: Final = ("case_id", "repetition", "metric")


def failures(scores: pl.LazyFrame) -> pl.DataFrame:
    """The failed scores among rows of table scores, with the columns `FAILURES`, sorted.

    Which scores fail is said by `is_failure`. A judge's explanation in `details` takes the place of an
    empty `reason`. Where a failed metric has neither, as a checklist, its failed parts stand for it.
    A score about which a judge says nothing is left out: no reason, no explanation and no code.
    """
    explained = pl.coalesce(
        pl.when(pl.col("reason") != "").then(pl.col("reason")),
        *(pl.col("details").str.json_path_match(f"$.{key}") for key in RATIONALE_KEYS),
        pl.lit(""),
    )
    failed = collect_rows(
        scores.filter(is_failure()).select(
            *_OF_METRIC,
            "part",
            explained.str.slice(0, MOST_CHARS).alias("reason"),
            pl.col("failure_code").alias("code"),
            ((1 - pl.col("value")) * pl.col("weight") * 100).fill_null(0.0).alias("points"),
        )
    )
    is_silent = (pl.col("reason") == "") & pl.col("code").is_null()
    whole = failed.filter(pl.col("part") == "")
    parts = failed.filter(pl.col("part") != "").join(
        whole.filter(is_silent), on=_OF_METRIC, how="semi"
    )
    rows = pl.concat([whole, parts]).filter(~is_silent)
    return rows.sort(*_OF_METRIC, "part").select(list(FAILURES))
