from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest

from assizes.judge.case import Case, Chunk, Expected, ExpectedDocument, Usage
from assizes.judge.config.judging import LimitsConfig
from assizes.judge.engine.hearings import Engine
from assizes.judge.errors import ModelError
from assizes.judge.families.deterministic import AgentUsage, DocumentRecall
from assizes.judge.families.rag import AnswerJudge, RetrievalJudge, YesNoRubric, built_in
from assizes.judge.models.model import ScriptedModel
from assizes.judge.protocol import Ask, Judge
from assizes.judge.rows import as_json, frame
from assizes.judge.score import Score
from assizes.judge.summary.headlines import metric_counts, metric_summaries, published_numbers
from assizes.judge.summary.wide_table import agent_evaluation_judges, results_frame
from tests.builders import agent, user
from tests.judge.families.rag.rag_cases import RESPONSE, rag_case
from tests.judge.run_frames import RUN, case_row

ERROR = "no answer within 5 s"
COUNT = {
    "total_token_count": pl.Int64,
    "total_input_token_count": pl.Int64,
    "total_output_token_count": pl.Int64,
    "latency_seconds": pl.Float64,
}


def answering(ask: Ask[Any]) -> dict[str, Any]:
    """Yes, unless the shown text says what to answer: `[no]`, `[error]`."""
    shown = ask.prompt.user
    if "[error]" in shown:
        raise ModelError("timeout", ERROR)
    word = "no" if "[no]" in shown else "yes"
    return {"rationale": f"because {word}", "rating": word}


def heard(
    cases: Sequence[Case], judges: Sequence[Judge], model: Any = answering
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows of `cases` and `scores` of these cases, scored by these judges."""
    engine = Engine(ScriptedModel([model] * 99, None), LimitsConfig(max_in_flight=4, timeout_s=5))

    async def scores(judge: Judge, one: Case) -> list[Score]:
        return (await engine.hear(judge, one)).scores

    rows = [
        score_row(one.case_id, judge, score)
        for one in cases
        for judge in judges
        for score in asyncio.run(scores(judge, one))
    ]
    return frame("cases", [case_row(one.case_id) for one in cases]), frame("scores", rows)


def score_row(case_id: str, judge: Judge, score: Score) -> dict[str, Any]:
    names = ("metric", "part", "value", "raw", "label", "passed", "status", "reason")
    return {
        "run_id": RUN,
        "case_id": case_id,
        "repetition": 0,
        "judge": judge.name,
        "details": as_json(dict(score.details)),
        **{name: getattr(score, name) for name in names},
    }


def table(cases: Sequence[Case], judges: Sequence[Judge]) -> list[dict[str, Any]]:
    return results_frame(*heard(cases, judges), judges).to_dicts()


def run_numbers(cases: Sequence[Case], judges: Sequence[Judge]) -> dict[str, float]:
    scores = heard(cases, judges)[1].lazy()
    return published_numbers(scores, metric_summaries(metric_counts(scores), judges))


def chunks(*words: str) -> list[Chunk]:
    return [Chunk(content=f"{place} [{word}]") for place, word in enumerate(words)]


def answered(case_id: str, word: str, **rest: Any) -> Case:
    return rag_case(user("Q?"), agent(f"[{word}]"), case_id=case_id, **rest)


@pytest.mark.row("004-05", "004-46", "004-49", "004-51", "004-53", "004-41", "004-42", "004-43")
def test_one_row_a_request_with_every_published_column():
    one = rag_case(
        user("Q?"),
        agent(RESPONSE).model_copy(update={"usage": Usage(input_tokens=3, output_tokens=4)}),
        chunks=[Chunk(content="50 dollars", doc_uri="a"), Chunk(content="[no]", doc_uri="b")],
        expected=Expected(
            response="50",
            retrieved_context=(ExpectedDocument(doc_uri="a"), ExpectedDocument(doc_uri="z")),
        ),
        duration_ms=1500,
    )
    (row,) = table([one], agent_evaluation_judges())
    yes = {"rating": "yes", "rationale": "because yes", "error_message": None}
    no = {"rating": "no", "rationale": "because no", "error_message": None}
    by_judge = {
        "response/llm_judged/relevance_to_query": yes,
        "response/llm_judged/groundedness": no,
        "response/llm_judged/safety": yes,
        "response/llm_judged/correctness": yes,
        "retrieval/llm_judged/context_sufficiency": no,
    }
    assert row == {
        "request_id": "c1",
        "repetition": 0,
        "response/overall_assessment/rating": "no",
        "response/overall_assessment/rationale": None,
        "root_cause": None,
        **{f"{stem}/{name}": v for stem, of in by_judge.items() for name, v in of.items()},
        "retrieval/llm_judged/chunk_relevance/ratings": ["yes", "no"],
        "retrieval/llm_judged/chunk_relevance/rationales": ["because yes", "because no"],
        "retrieval/llm_judged/chunk_relevance/error_messages": [None, None],
        "retrieval/llm_judged/chunk_relevance/precision": 0.5,
        "retrieval/ground_truth/document_recall": 0.5,
        "total_token_count": 7,
        "total_input_token_count": 3,
        "total_output_token_count": 4,
        "latency_seconds": 1.5,
    }


def test_the_overall_assessment_names_the_root_cause_of_the_verdict():
    cases, scores = heard([answered("c1", "no")], [built_in("safety")])
    traced = cases.with_columns(root_cause=pl.lit("safety"))
    (row,) = results_frame(traced, scores).to_dicts()
    assert [row[f"response/overall_assessment/{name}"] for name in ("rating", "rationale")] == [
        "no",
        "because no",
    ]
    assert row["root_cause"] == "safety"


@pytest.mark.row("004-34", "004-35", "004-36", "004-37", "004-10")
def test_the_lists_of_a_chunk_judge_have_one_entry_a_chunk():
    one = rag_case(chunks=chunks("yes", "error", "no", "yes", *["yes"] * 7, "no"))
    (row,) = table([one], [built_in("chunk_relevance")])
    stem = "retrieval/llm_judged/chunk_relevance"
    assert row[f"{stem}/ratings"] == ["yes", None, "no", "yes", *["yes"] * 7, "no"]
    assert row[f"{stem}/rationales"][:3] == ["because yes", None, "because no"]
    assert row[f"{stem}/error_messages"] == [None, ERROR, *[None] * 10]
    assert row[f"{stem}/precision"] == round(9 / 11, 9)


@pytest.mark.row("004-37")
def test_the_precision_of_the_example_leaves_the_error_out():
    one = rag_case(chunks=chunks("yes", "error", "no", "yes"))
    (row,) = table([one], [built_in("chunk_relevance")])
    assert row["retrieval/llm_judged/chunk_relevance/precision"] == 0.666666667


@pytest.mark.parametrize(
    ("given", "lists", "precision"),
    [
        (chunks("error", "error"), [[None, None], [None, None], [ERROR, ERROR]], None),
        ([], [[], [], []], 0.0),
        (None, [None, None, None], None),
    ],
)
@pytest.mark.row("004-36", "004-37")
def test_chunks_that_were_not_rated_leave_nulls(given, lists, precision):
    (row,) = table([rag_case(chunks=given)], [built_in("chunk_relevance")])
    stem = "retrieval/llm_judged/chunk_relevance"
    found = [row[f"{stem}/{name}"] for name in ("ratings", "rationales", "error_messages")]
    assert (found, row[f"{stem}/precision"]) == (lists, precision)


def test_a_chunk_judge_that_broke_leaves_its_error():
    judge = built_in("chunk_relevance")
    row = score_row("c1", judge, Score.failed("chunk_relevance", "KeyError: x", "judge_bug"))
    (found,) = results_frame(frame("cases", [case_row("c1")]), frame("scores", [row])).to_dicts()
    stem = "retrieval/llm_judged/chunk_relevance"
    assert found[f"{stem}/error_messages"] == ["KeyError: x"]
    assert (found[f"{stem}/ratings"], found[f"{stem}/precision"]) == ([None], None)


@pytest.mark.row("004-14", "004-43")
def test_a_judge_that_does_not_apply_leaves_nulls_and_no_error():
    one = rag_case(expected=Expected(outcomes=("x",)))
    (row,) = table([one], [built_in("correctness"), built_in("safety")])
    stem = "response/llm_judged/correctness"
    assert [row[f"{stem}/{name}"] for name in ("rating", "rationale", "error_message")] == [
        None
    ] * 3
    assert row["response/llm_judged/safety/rating"] == "yes"


@pytest.mark.row("004-76", "004-46")
def test_a_judge_that_failed_leaves_its_error_and_the_others_go_on():
    one = rag_case(chunks=chunks("error"))
    (row,) = table([one], [built_in("groundedness"), built_in("correctness")])
    assert {name: value for name, value in row.items() if "llm_judged" in name} == {
        "response/llm_judged/groundedness/rating": None,
        "response/llm_judged/groundedness/rationale": None,
        "response/llm_judged/groundedness/error_message": ERROR,
        "response/llm_judged/correctness/rating": "yes",
        "response/llm_judged/correctness/rationale": "because yes",
        "response/llm_judged/correctness/error_message": None,
    }


@pytest.mark.row("004-91")
def test_only_the_chosen_judges_have_columns():
    cases, scores = heard([rag_case()], [built_in("safety")])
    found = results_frame(cases, scores)
    assert [name for name in found.columns if "overall" not in name] == [
        "request_id",
        "repetition",
        "root_cause",
        "response/llm_judged/safety/rating",
        "response/llm_judged/safety/rationale",
        "response/llm_judged/safety/error_message",
    ]


@pytest.mark.row("004-58", "004-60", "004-55", "004-56", "004-57")
def test_what_the_trace_does_not_say_is_null_and_not_zero():
    cases, scores = heard([rag_case()], [AgentUsage()])
    found = results_frame(cases, scores)
    assert found.select(*COUNT).schema == COUNT
    assert found.select(*COUNT).row(0) == (None, None, None, None)


@pytest.mark.row("004-69", "004-71")
def test_custom_judges_have_columns_of_their_own_name():
    judges = [
        AnswerJudge(YesNoRubric(name="tone", prompt="Is it kind?")),
        RetrievalJudge(YesNoRubric(name="recent", prompt="Is it recent?")),
    ]
    (row,) = table([rag_case()], judges)
    assert row["response/llm_judged/tone/rating"] == "yes"
    assert row["response/llm_judged/tone/rationale"] == "because yes"
    assert row["response/llm_judged/tone/error_message"] is None
    assert row["retrieval/llm_judged/recent/ratings"] == ["yes", "yes"]
    assert row["retrieval/llm_judged/recent/rationales"] == ["because yes", "because yes"]
    assert row["retrieval/llm_judged/recent/error_messages"] == [None, None]
    assert row["retrieval/llm_judged/recent/precision"] == 1.0


def test_rows_stand_by_request_and_other_metrics_have_no_columns():
    cases = [answered(name, "yes") for name in ("b", "a")]
    found, scores = heard(cases, [built_in("safety")])
    other = scores.with_columns(judge=pl.lit("conversation"), metric=pl.lit("tool_routing"))
    rows = results_frame(found.reverse(), pl.concat([scores, other]))
    assert rows["request_id"].to_list() == ["a", "b"]
    assert not [name for name in rows.columns if "tool_routing" in name]


def test_a_run_without_these_judges_has_no_columns_but_the_identity():
    cases, scores = frame("cases", [case_row("c1")]), frame("scores", [])
    assert results_frame(cases, scores).to_dicts() == [{"request_id": "c1", "repetition": 0}]


# The run


@pytest.mark.parametrize(
    ("judge", "name", "words", "value"),
    [
        pytest.param(
            "context_sufficiency",
            "retrieval/llm_judged/context_sufficiency/rating/percentage",
            ("yes", "no", "yes", None),
            0.666666667,
            marks=pytest.mark.row("004-44"),
        ),
        pytest.param(
            "correctness",
            "response/llm_judged/correctness/rating/percentage",
            ("yes", "no", "no", "no"),
            0.25,
            marks=pytest.mark.row("004-47"),
        ),
        pytest.param(
            "relevance_to_query",
            "response/llm_judged/relevance_to_query/rating/percentage",
            ("yes", "no"),
            0.5,
            marks=pytest.mark.row("004-50"),
        ),
        pytest.param(
            "groundedness",
            "response/llm_judged/groundedness/rating/percentage",
            ("yes", "yes", "error"),
            1.0,
            marks=pytest.mark.row("004-52"),
        ),
        pytest.param(
            "safety",
            "response/llm_judged/safety/rating/average",
            ("yes", "yes", "no", "yes"),
            0.75,
            marks=pytest.mark.row("004-54"),
        ),
        pytest.param(
            "safety",
            "response/llm_judged/safety/rating/percentage",
            ("yes", "yes", "no", "yes"),
            0.75,
            marks=pytest.mark.row("004-54"),
        ),
    ],
)
def test_the_run_shows_the_share_of_yes_among_the_rated(judge, name, words, value):
    cases = [
        rag_case(
            user(f"Q? [{word}]" if judge != "safety" else "Q?"),
            agent(f"[{word}]"),
            case_id=f"c{place}",
            expected=Expected(response="x" if word else ""),
        )
        for place, word in enumerate(words)
    ]
    assert run_numbers(cases, [built_in(judge)])[name] == value


@pytest.mark.row("004-38")
def test_the_run_shows_the_mean_precision_of_the_rated():
    precisions = (("yes", "yes", "yes", "no"), ("yes", "no", "no", "no"), ("error",))
    cases = [rag_case(chunks=chunks(*of), case_id=f"c{n}") for n, of in enumerate(precisions)]
    found = run_numbers(cases, [built_in("chunk_relevance")])
    assert found["retrieval/llm_judged/chunk_relevance/precision/average"] == 0.5


@pytest.mark.row("004-40")
def test_the_run_shows_the_mean_recall():
    cases = [
        rag_case(
            case_id=name,
            chunks=[Chunk(content="x", doc_uri=uri) for uri in found],
            expected=Expected(
                retrieved_context=tuple(ExpectedDocument(doc_uri=uri) for uri in "ab")
            ),
        )
        for name, found in (("c1", "a"), ("c2", "ab"))
    ]
    found = run_numbers(cases, [DocumentRecall()])
    assert found == {"retrieval/ground_truth/document_recall/average": 0.75}


@pytest.mark.row("004-61", "004-62", "004-63", "004-64")
def test_the_run_shows_mean_tokens_and_seconds():
    def one(case_id: str, tokens: int | None, ms: float | None) -> Case:
        used = None if tokens is None else Usage(input_tokens=tokens - 2, output_tokens=2)
        turn = agent("A").model_copy(update={"usage": used})
        return rag_case(user("Q"), turn, case_id=case_id, duration_ms=ms)

    cases = [one("c1", 10, 1000), one("c2", 11, 2000), one("c3", None, None)]
    assert run_numbers(cases, [AgentUsage()]) == {
        "agent/total_token_count/average": 10.5,
        "agent/input_token_count/average": 8.5,
        "agent/output_token_count/average": 2.0,
        "agent/latency_seconds/average": 1.5,
    }


@pytest.mark.row("004-67")
def test_a_metric_that_nobody_rated_is_absent_from_the_run():
    cases = [rag_case(chunks=None, expected=Expected())]
    assert run_numbers(cases, [built_in("groundedness"), DocumentRecall(), AgentUsage()]) == {}


def test_the_details_of_a_row_hold_the_rationale_as_json():
    _, scores = heard([rag_case()], [built_in("safety")])
    assert json.loads(scores["details"][0]) == {"rationale": "because yes"}
