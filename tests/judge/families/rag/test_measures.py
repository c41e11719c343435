from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from assizes.judge.case import Chunk, Expected, ExpectedDocument, Transcript, Turn, Usage
from assizes.judge.config.judging import LimitsConfig
from assizes.judge.engine.hearings import Engine
from assizes.judge.families.deterministic import (
    DOCUMENT_RECALL,
    AgentUsage,
    DocumentRecall,
    latency_seconds,
)
from assizes.judge.families.rag import ENTRIES, built_in
from assizes.judge.hearing import Hearing
from assizes.judge.models.model import ScriptedModel
from assizes.judge.score import Score
from tests.builders import agent, case, user
from tests.judge.families.rag.rag_cases import rag_case

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def recalled(expected: list[str], retrieved: list[str] | None) -> Score:
    one = rag_case(
        chunks=None if retrieved is None else [Chunk(content="x", doc_uri=u) for u in retrieved],
        expected=Expected(retrieved_context=tuple(ExpectedDocument(doc_uri=u) for u in expected)),
    )
    hearing = Hearing(DocumentRecall(), one)
    assert hearing.asks == ()
    (score,) = hearing.scores
    return score


@pytest.mark.row("004-11", "004-31", "004-32", "004-33", "004-39")
@pytest.mark.parametrize(
    ("expected", "retrieved", "recall"),
    [
        (["a", "b"], ["a", "x"], 0.5),
        (["a", "b"], ["a", *(f"x{n}" for n in range(19))], 0.5),
        (["a", "b"], ["a", "a", "a"], 0.5),
        (["a", "a", "b"], ["a"], 0.5),
        (["a", "b"], ["b", "a"], 1.0),
        (["a", "b", "c"], ["a"], 0.333333333),
        (["a", "b"], [], 0.0),
        (["a"], ["A"], 0.0),
    ],
)
def test_recall_is_the_share_of_expected_documents_that_were_found(expected, retrieved, recall):
    found = recalled(expected, retrieved)
    assert (found.status, found.value, found.passed) == ("scored", recall, None)


def test_recall_says_what_was_and_was_not_found():
    assert recalled(["b", "a", "c"], ["c", "x"]).details == {
        "found": ["c"],
        "not_found": ["a", "b"],
    }


@pytest.mark.row("004-33")
def test_without_expected_documents_or_retrieval_there_is_no_recall():
    assert recalled([], ["a"]) == Score.skipped(
        "document_recall", "missing input: expected_retrieved_context[].doc_uri"
    )
    assert recalled(["a"], None) == Score.skipped(
        "document_recall", "missing input: retrieved_context"
    )


@pytest.mark.row("005-18")
@pytest.mark.parametrize("uri", [None, ""])
def test_recall_of_passages_without_ids_is_skipped_and_not_zero(uri):
    one = rag_case(
        chunks=[Chunk(content="x", doc_uri=uri), Chunk(content="y")],
        expected=Expected(retrieved_context=(ExpectedDocument(doc_uri="a"),)),
    )
    assert Hearing(DocumentRecall(), one).scores == [
        Score.skipped("document_recall", "missing input: retrieved_context[].doc_uri")
    ]


@pytest.mark.row("005-18")
def test_one_passage_with_an_id_is_enough_for_a_recall():
    one = rag_case(
        chunks=[Chunk(content="x", doc_uri="a"), Chunk(content="y")],
        expected=Expected(retrieved_context=(ExpectedDocument(doc_uri="a"),)),
    )
    assert Hearing(DocumentRecall(), one).scores[0].value == 1.0


@pytest.mark.row("004-40")
def test_recall_gates_nothing_and_has_its_published_name():
    assert DOCUMENT_RECALL.gate is None
    assert DOCUMENT_RECALL.run_names == ("retrieval/ground_truth/document_recall/average",)


def used(*turns: Turn, **transcript) -> dict[str, Score]:
    hearing = Hearing(AgentUsage(), case(*turns, **transcript))
    assert hearing.asks == ()
    return {score.metric: score for score in hearing.scores}


def spending(input_tokens: int, output_tokens: int) -> Turn:
    usage = Usage(input_tokens=input_tokens, output_tokens=output_tokens)
    return agent("...").model_copy(update={"usage": usage})


@pytest.mark.row("004-55", "004-56", "004-57")
def test_tokens_are_summed_over_the_model_calls_of_the_agent():
    found = used(user("Q"), spending(100, 20), spending(200, 30))
    assert {name: score.raw for name, score in found.items() if score.raw is not None} == {
        "total_token_count": 350.0,
        "total_input_token_count": 300.0,
        "total_output_token_count": 50.0,
    }
    assert all(score.value is None for score in found.values())


@pytest.mark.row("004-58", "004-60")
def test_what_the_transcript_does_not_record_is_skipped_and_not_zero():
    assert used(user("Q"), agent("A")) == {
        name: Score.skipped(name, f"the transcript records no {name}")
        for name in (
            "total_token_count",
            "total_input_token_count",
            "total_output_token_count",
            "latency_seconds",
        )
    }


@pytest.mark.row("004-60")
def test_latency_is_the_duration_of_the_trace_in_seconds():
    assert used(user("Q"), agent("A"), duration_ms=1500)["latency_seconds"] == Score(
        "latency_seconds", raw=1.5
    )


@pytest.mark.row("004-60")
@pytest.mark.parametrize(
    ("first", "last", "took_ms", "seconds"),
    [
        (NOON, NOON + timedelta(seconds=1), 500, 1.5),
        (None, NOON, 5, None),
        (NOON, None, 5, None),
        (NOON, NOON, None, None),
        (NOON, NOON, 1e15, 1e12),
    ],
)
def test_without_a_duration_the_turns_tell_when_they_can(first, last, took_ms, seconds):
    turns = (
        user("Q").model_copy(update={"started_at": first}),
        agent("A", latency_ms=took_ms).model_copy(update={"started_at": last}),
    )
    assert latency_seconds(Transcript(turns=turns)) == seconds
    assert latency_seconds(Transcript()) is None


@pytest.mark.row("004-59")
async def test_the_tokens_of_the_judges_are_kept_apart():
    engine = Engine(
        ScriptedModel([{"rationale": "fine", "rating": "yes"}]),
        LimitsConfig(max_in_flight=1, timeout_s=5),
    )
    one = case(user("Q"), spending(100, 20))
    (ask,) = (await engine.hear(built_in("safety"), one)).asks
    usage = (await engine.hear(AgentUsage(), one)).scores
    assert (ask.input_tokens, ask.output_tokens) == (10, 5)
    assert [score.raw for score in usage] == [120.0, 100.0, 20.0, None]


@pytest.mark.row("004-61", "004-62", "004-63", "004-64")
def test_the_run_names_are_those_published():
    assert {metric.name: metric.run_names for metric in AgentUsage.metrics} == {
        "total_token_count": ("agent/total_token_count/average",),
        "total_input_token_count": ("agent/input_token_count/average",),
        "total_output_token_count": ("agent/output_token_count/average",),
        "latency_seconds": ("agent/latency_seconds/average",),
    }
    assert AgentUsage.metrics[-1].gate is None


def test_the_table_makes_the_judges_it_lists():
    made = {name: entry.create_judge(entry.options(), ()).name for name, entry in ENTRIES.items()}
    assert made == {name: name for name in ENTRIES}
