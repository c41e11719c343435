"""The wide table beside the numbers of its run: they agree without the judges being given."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from assizes.judge.case import Chunk, Expected, ExpectedDocument, Usage
from assizes.judge.families.custom.toml_judges import CustomRubric, GradedJudge
from assizes.judge.families.rag import AnswerJudge, RetrievalJudge, YesNoRubric
from assizes.judge.protocol import Ask
from assizes.judge.score import LABELS
from assizes.judge.summary.headlines import metric_counts, metric_summaries, published_numbers
from assizes.judge.summary.wide_table import agent_evaluation_judges, results_frame
from tests.builders import agent, user
from tests.judge.families.rag.rag_cases import rag_case
from tests.judge.summary.test_wide_table import answering, chunks, heard

OWN = [
    *agent_evaluation_judges(),
    AnswerJudge(YesNoRubric(name="tone", prompt="Is it kind?")),
    RetrievalJudge(YesNoRubric(name="recent", prompt="Is it recent?")),
    GradedJudge(
        CustomRubric(
            name="effort", kind="ANSWER", description="x", question="How hard?", scale="scored"
        )
    ),
]


def grading(ask: Ask[Any]) -> dict[str, Any]:
    """As `answering`; the level 4 where a level is asked for."""
    graded = ask.prompt.system and "How hard?" in ask.prompt.system
    return {"rationale": "because 4", "rating": "4"} if graded else answering(ask)


@pytest.mark.row("005-19")
def test_the_table_needs_no_judges_to_agree_with_the_numbers_of_the_run():
    cases = [
        rag_case(
            user("Q?"),
            agent(f"[{word}]").model_copy(update={"usage": Usage(input_tokens=n, output_tokens=2)}),
            case_id=f"c{n}",
            chunks=found,
            expected=Expected(
                response="x", retrieved_context=(ExpectedDocument(doc_uri="a"),)
            ),
            duration_ms=1000 * n,
        )
        for n, (word, found) in enumerate(
            [
                ("yes", [Chunk(content="[yes]", doc_uri="a"), Chunk(content="[no]", doc_uri="b")]),
                ("no", chunks("yes", "yes")),
                ("no", []),
                ("yes", None),
            ],
            1,
        )
    ]  # fmt: skip
    found, scores = heard(cases, OWN, grading)
    table = results_frame(found, scores)
    by_judges = results_frame(found, scores, OWN)  # the same columns, in the order of the judges
    assert table.equals(by_judges.select(table.columns))
    assert len(table.columns) == len(by_judges.columns)
    summaries = metric_summaries(metric_counts(scores.lazy()), OWN)
    numbers = published_numbers(scores.lazy(), summaries)
    for name, number in numbers.items():
        assert mean_of(table, name) == pytest.approx(number, abs=1e-9), name
    assert {name.split("/")[2] for name in numbers if "llm_judged" in name} > {"tone", "recent"}
    assert "retrieval/ground_truth/document_recall" in table.columns


def mean_of(table: pl.DataFrame, name: str) -> float:
    """The mean of the column behind the published name of a number of a run."""
    column = name.rpartition("/")[0].removeprefix("agent/")
    if column in ("input_token_count", "output_token_count"):
        column = f"total_{column}"
    points = {"yes": 1.0, "no": 0.0, **{label: level / 5 for level, label in enumerate(LABELS)}}
    values = [points.get(value, value) for value in table[column].drop_nulls()]
    return sum(values) / len(values)


@pytest.mark.row("005-19")
def test_a_judge_of_chunks_that_never_saw_one_is_known_by_its_precision():
    cases = [rag_case(chunks=[])]
    (row,) = results_frame(*heard(cases, OWN[-2:-1])).to_dicts()
    assert row["retrieval/llm_judged/recent/precision"] == 0.0


def test_a_judge_in_python_is_not_taken_for_one_of_a_rubric_file():
    found, scores = heard([rag_case()], [OWN[-3]])
    in_python = scores.with_columns(rubric_hash=pl.lit(""))
    assert not [name for name in results_frame(found, in_python).columns if "tone" in name]
