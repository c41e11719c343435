"""The wide table: a row for each request, a column for each published assessment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from assizes.judge.catalog import JUDGES
from assizes.judge.families.deterministic import AgentUsage, DocumentRecall
from assizes.judge.families.rag import (
    AnswerJudge,
    RetrievalJudge,
    YesNoRubric,
    built_in,
    yes_no_rubrics,
)
from assizes.judge.protocol import Judge
from assizes.judge.score import Metric, Scale
from assizes.judge.summary.headlines import metric_counts, metric_summaries, overall_assessments
from assizes.judge.verdicts.executions import CASE

_RATING: Final = "/rating/"
_PRECISION: Final = "/precision/"
_AVERAGE: Final = "/average"


def agent_evaluation_judges() -> tuple[Judge, ...]:
    """The built-in yes/no judges, in the order of their columns in the wide table."""
    return (*map(built_in, yes_no_rubrics()), DocumentRecall(), AgentUsage())


def results_frame(
    cases: pl.DataFrame, scores: pl.DataFrame, judges: Sequence[Judge] | None = None
) -> pl.DataFrame:
    """The wide table: one row for each case, with the columns of the judges.

    The first columns are `request_id`, `repetition` and those of the overall assessment. The others
    follow the published names of a run. An answer judge has `<name>/rating`, `/rationale` and
    `/error_message`; a judge of chunks has `<name>/ratings`, `/rationales`, `/error_messages`
    (lists in the order of retrieval) and `/precision`; a measure has one column of its own name. A
    judge that did not apply has no values; one that failed has an error message and nothing else.
    Without `judges` the columns are those of the built-in yes/no judges and of the judges in
    rubric files, as the rows show them; so the numbers of the table are those of the run.
    """
    if judges is None:
        judges = (*agent_evaluation_judges(), *_judges_of_files(scores))
    lazy = scores.lazy()
    summaries = metric_summaries(metric_counts(lazy), judges)
    table = cases.select(CASE).sort(CASE)
    if any(summary.gate == "quality" for summary in summaries):
        overall = overall_assessments(cases.lazy(), lazy, summaries).collect()
        table = table.join(overall, on=CASE, how="left", maintain_order="left")
    # A metric that the run did not judge gets no columns.
    judged_metrics = {(summary.judge, summary.name) for summary in summaries}
    for judge in judges:
        for metric in judge.metrics:
            if (judge.name, metric.name) in judged_metrics and metric.run_names:
                columns = _columns(metric, scores.filter(judge=judge.name, metric=metric.name))
                table = table.join(columns, on=CASE, how="left", maintain_order="left")
    return table.rename({"case_id": "request_id"})


def _judges_of_files(scores: pl.DataFrame) -> list[Judge]:
    """The judges in rubric files that gave these scores, by name."""
    # The judge of a file has one metric, of its own name, and a hash of its rubric.
    own = scores.filter(
        (pl.col("judge") == pl.col("metric")) & ~pl.col("judge").is_in(list(JUDGES)),
        pl.col("rubric_hash").ne_missing(""),  # null: an older store
    )
    # The rating of an answer has a label; a precision has none, but parts unless nothing was found.
    of_chunks = (pl.col("part") != "") | (pl.col("label").is_null() & pl.col("value").is_not_null())
    return [
        (RetrievalJudge if rates_chunks else AnswerJudge)(
            YesNoRubric.model_construct(name=name, prompt="(own)")
        )
        for name, rates_chunks in own.group_by("judge").agg(of_chunks.any()).sort("judge").rows()
    ]


def _columns(metric: Metric, scores: pl.DataFrame) -> pl.DataFrame:
    """The columns of one metric with the identity of the case; `scores` are the metric's rows."""
    name = metric.run_names[0]
    if _PRECISION in name:
        return _chunk_columns(name.split(_PRECISION)[0], scores)
    headline = scores.filter(part="")
    if _RATING in name:
        stem = name.split(_RATING)[0]
        columns = (f"{stem}/rating", f"{stem}/rationale", f"{stem}/error_message")
        return headline.select(*CASE, *_texts(columns))
    if metric.scale is Scale.AMOUNT:
        # In seed 004 the column has the plain name; the number of a run has `agent/` before it.
        kind = pl.Float64 if metric.name.endswith("_seconds") else pl.Int64
        return headline.select(*CASE, pl.col("raw").cast(kind).alias(metric.name))
    return headline.select(*CASE, pl.col("value").alias(name.removesuffix(_AVERAGE)))


def _chunk_columns(stem: str, scores: pl.DataFrame) -> pl.DataFrame:
    """Lists with one entry for each chunk, or one entry with the error where the judge failed."""
    place = pl.col("part").str.strip_prefix("chunk:").cast(pl.Int64, strict=False)
    lists = (f"{stem}/ratings", f"{stem}/rationales", f"{stem}/error_messages")
    of_chunk = pl.col("part") != ""
    # A failed judge of chunks has its error in the headline row: it stands in for the chunks.
    entries = scores.filter(of_chunk | (pl.col("status") == "failed"))
    chunks = (
        entries.filter(of_chunk | ~of_chunk.any().over(CASE))
        .sort(*CASE, place)
        .group_by(CASE, maintain_order=True)
        .agg(_texts(lists))
    )
    headline = scores.filter(part="").join(chunks, on=CASE, how="left", maintain_order="left")
    # A retrieval that found nothing has empty lists; a judge that did not apply has none.
    nothing_found = (pl.col("status") == "scored") & pl.col(lists[0]).is_null()
    empty = pl.when(nothing_found).then(pl.lit([], dtype=pl.List(pl.String)))
    filled = [empty.otherwise(pl.col(column)).alias(column) for column in lists]
    return headline.select(*CASE, *filled, pl.col("value").alias(f"{stem}/precision"))


def _texts(columns: tuple[str, str, str]) -> list[pl.Expr]:
    """The rating, the rationale and the error of each score, under the names of these columns."""
    rationale = pl.col("details").str.json_path_match("$.rationale")
    error = pl.when(pl.col("status") == "failed").then(pl.col("reason"))
    texts = (pl.col("label"), rationale, error)
    return [text.alias(column) for text, column in zip(texts, columns, strict=True)]
