"""Failure codes that people gave, beside those that the judge gave in a run."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from assizes.judge.calibration.code_agreement import NO_CODE, CodedItem
from assizes.judge.errors import ConfigurationError
from assizes.judge.labels.current import current_annotations
from assizes.tasks.store import Store

_KEY = ("case_id", "repetition")


def coded_items(store: Store, run_id: str, metric: str, path: Path | None) -> list[CodedItem]:
    """The items that people coded and the run has scored, with both codes.

    The codes are those of a CSV file, which has the columns `case_id` and `code`, and perhaps
    `repetition`; without one (None) those that people gave on the pages of the run's cases, where an
    item counts on which all who coded it agree. An empty code, and `none`, is no fault.

    Raises:
        UnknownRun: the store has no such run.
        ConfigurationError: the file cannot be used, nobody gave a code, or the run scored none of
            the items.
    """
    full_id = store.full_id(run_id)
    place = f"metric {metric!r}" if path is None else str(path)
    given = _annotated(store, full_id, metric) if path is None else _given(path)
    scores = store.scan(full_id, "scores").filter(
        pl.col("metric") == metric, pl.col("part") == "", pl.col("status") == "scored"
    )
    judged = scores.select(*_KEY, pl.col("failure_code").fill_null(NO_CODE).alias("judge"))
    cases = store.scan(full_id, "cases").select(*_KEY, "cluster").collect()
    both = given.join(judged.collect(), on=_KEY).join(cases, on=_KEY, how="left")
    if both.is_empty():
        raise ConfigurationError(
            f"{place}: run {full_id} has a score of {metric!r} for none of its {given.height} items"
        )
    cluster = pl.coalesce("c:" + pl.col("cluster"), "i:" + pl.col("case_id"))
    rows = both.sort(_KEY).select(cluster, "code", "judge").iter_rows()
    return [CodedItem(*row) for row in rows]


def _annotated(store: Store, run_id: str, metric: str) -> pl.DataFrame:
    rows = current_annotations(store.people.rows("annotations")).filter(
        pl.col("kind") == "code", pl.col("run_id") == run_id, pl.col("metric") == metric
    )
    if rows.is_empty():
        raise ConfigurationError(
            f"nobody gave a failure code for {metric!r} in run {run_id}; give codes on the pages of "
            "its cases (`assizes serve --labelling`), or name a CSV file of them"
        )
    code = pl.when(pl.col("text") != "").then("text").otherwise(pl.lit(NO_CODE)).alias("code")
    given = rows.select(*_KEY, code).unique(maintain_order=True)
    return given.filter(~pl.struct(_KEY).is_duplicated())


def _given(path: Path) -> pl.DataFrame:
    try:
        rows = pl.read_csv(path, infer_schema=False)
    except (OSError, pl.exceptions.PolarsError) as error:
        reason = str(error).split("\n", 1)[0]
        raise ConfigurationError(f"{path}: cannot be read: {reason}") from error
    for column in ("case_id", "code"):
        if column not in rows.columns:
            raise ConfigurationError(
                f"{path}: no column {column!r}; there are {', '.join(rows.columns)}"
            )
    number = pl.col("repetition") if "repetition" in rows.columns else pl.lit("0")
    code = pl.col("code").str.strip_chars()
    given = rows.select(
        "case_id",
        number.cast(pl.Int32, strict=False).alias("repetition"),
        pl.when(code != "").then(code).otherwise(pl.lit(NO_CODE)).alias("code"),
    )
    if given["repetition"].has_nulls():
        raise ConfigurationError(f"{path}: repetition: accepted are 0, 1, 2, ...")
    twice = given.unique().filter(pl.struct(_KEY).is_duplicated())
    if twice.height:
        raise ConfigurationError(
            f"{path}: case {twice['case_id'][0]!r} has two codes; give each item the code on which "
            "people settled"
        )
    return given.unique(maintain_order=True)
