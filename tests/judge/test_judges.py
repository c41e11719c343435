from __future__ import annotations

import asyncio

import pytest

from assizes.judge import judges
from assizes.judge.errors import ConfigurationError, DataError, ModelError
from assizes.judge.judges import Assessment
from assizes.judge.models.model import ScriptedModel
from tests.doubles.fixtures import OPENAI_KEY, OpenAIServer, running_openai_server

REQUEST = "What is MLflow?"
RESPONSE = "MLflow is an open-source platform"
CONTENT = "MLflow is an open-source platform for the machine learning lifecycle."
CONTEXT = [{"content": CONTENT}]
NO = {"rationale": "not so", "rating": "no"}
YES = {"rationale": "it is", "rating": "yes"}


def test_the_documented_sample_calls_are_answered_offline():
    assert [
        (assessment.name, assessment.rating, assessment.error_message)
        for assessment in (
            *judges.chunk_relevance(request=REQUEST, response=RESPONSE, retrieved_context=CONTEXT),
            judges.context_sufficiency(
                request=REQUEST, expected_response=CONTENT, retrieved_context=CONTEXT
            ),
            judges.correctness(
                request=REQUEST, response=RESPONSE, expected_response="an open-source platform"
            ),
            judges.relevance_to_query(request=REQUEST, response=RESPONSE),
            judges.groundedness(request=REQUEST, response=RESPONSE, retrieved_context=CONTEXT),
            judges.safety(request=REQUEST, response=RESPONSE),
        )
    ] == [
        ("chunk_relevance", "yes", None),
        ("context_sufficiency", "yes", None),
        ("correctness", "yes", None),
        ("relevance_to_query", "yes", None),
        ("groundedness", "yes", None),
        ("safety", "yes", None),
    ]


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        pytest.param(
            "context_sufficiency",
            (REQUEST, "It is a platform.", CONTEXT),
            marks=pytest.mark.row("004-80"),
        ),
        pytest.param(
            "correctness", (REQUEST, RESPONSE, "a platform"), marks=pytest.mark.row("004-81")
        ),
        pytest.param("relevance_to_query", (REQUEST, RESPONSE), marks=pytest.mark.row("004-82")),
        pytest.param("groundedness", (REQUEST, RESPONSE, CONTEXT), marks=pytest.mark.row("004-83")),
        pytest.param("safety", (REQUEST, RESPONSE), marks=pytest.mark.row("004-84")),
    ],
)
def test_a_direct_call_gives_one_result(name, inputs):
    model = ScriptedModel([NO])
    assert getattr(judges, name)(*inputs, model=model) == Assessment(name, "no", "not so")
    ((ask, _),) = model.asked
    assert ask.evidence.judge == name


@pytest.mark.row("004-79", "004-85")
def test_chunk_relevance_gives_one_result_a_chunk():
    context = [{"content": "one", "doc_uri": "a.md"}, {"content": "two"}, {"content": "three"}]
    model = ScriptedModel([YES, ModelError("refused", "will not"), NO])
    assert judges.chunk_relevance(REQUEST, context, model=model) == [
        Assessment("chunk_relevance", "yes", "it is"),
        Assessment("chunk_relevance", None, None, "will not"),
        Assessment("chunk_relevance", "no", "not so"),
    ]
    assert judges.chunk_relevance(REQUEST, [], RESPONSE) == []


@pytest.mark.row("004-85")
@pytest.mark.parametrize("context", [["a text"], [{"text": "x", "content": 7}]])
def test_chunks_of_another_shape_are_refused_by_their_place(context):
    with pytest.raises(DataError, match=r"schema: retrieved_context\.0"):
        judges.groundedness(REQUEST, RESPONSE, context)


def test_expected_facts_stand_in_for_the_expected_response():
    model = ScriptedModel([YES])
    assessment = judges.correctness(REQUEST, RESPONSE, expected_facts=["a platform"], model=model)
    assert assessment.rating == "yes"
    assert model.asked[0][0].evidence.expected == ("a platform",)
    with pytest.raises(DataError, match="not both"):
        judges.correctness(REQUEST, RESPONSE, "x", expected_facts=["y"])


@pytest.mark.row("004-94")
def test_what_could_not_be_judged_says_why():
    assert judges.safety(
        REQUEST, RESPONSE, model=ScriptedModel([ModelError("refused", "late")])
    ) == (Assessment("safety", None, None, "late"))
    assert judges.correctness(REQUEST, RESPONSE, " ") == Assessment(
        "correctness", None, None, "missing input: expected_response (or expected_facts)"
    )
    assert judges.chunk_relevance(" ", CONTEXT) == [
        Assessment("chunk_relevance", None, None, "missing input: request")
    ]
    unclear = {"rationale": "hm", "rating": "maybe"}
    assessment = judges.safety(REQUEST, RESPONSE, model=ScriptedModel([unclear, unclear]))
    assert (assessment.rating, assessment.error_message) == (
        None,
        "rating: Input should be 'yes' or 'no'",
    )


@pytest.mark.row("005-20")
async def test_a_judge_can_be_called_inside_a_running_loop_as_in_a_notebook():
    found = judges.correctness(REQUEST, RESPONSE, "a platform", model=ScriptedModel([NO]))
    assert found == Assessment("correctness", "no", "not so")
    with pytest.raises(DataError, match="not both"):
        judges.correctness(REQUEST, RESPONSE, "x", expected_facts=["y"])


@pytest.mark.row("005-20")
def test_a_model_is_called_where_it_is_served(judge_server: OpenAIServer, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "not-checked")
    found = judges.safety(REQUEST, RESPONSE, model="openai/stub", api_base=judge_server.api_base)
    assert (found.rating, found.error_message) == ("yes", None)
    assert [body["model"] for body in judge_server.requests()] == ["stub"]


@pytest.mark.row("004-79", "004-80", "004-81", "004-82", "004-83", "004-84")
async def test_every_judge_can_be_awaited():
    model = ScriptedModel([YES] * 6)
    assessments = [
        *await judges.achunk_relevance(REQUEST, CONTEXT, model=model),
        await judges.acontext_sufficiency(REQUEST, "a platform", CONTEXT, model=model),
        await judges.acorrectness(REQUEST, RESPONSE, "a platform", model=model),
        await judges.arelevance_to_query(REQUEST, RESPONSE, model=model),
        await judges.agroundedness(REQUEST, RESPONSE, CONTEXT, model=model),
        await judges.asafety(REQUEST, RESPONSE, model=model),
    ]
    assert {assessment.rating for assessment in assessments} == {"yes"}
    assert len({assessment.name for assessment in assessments}) == 6


def test_a_model_name_that_cannot_be_called_is_refused_before_any_call(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY"):
        judges.safety(REQUEST, RESPONSE, model="openai/gpt-4.1")


async def test_a_model_is_called_by_its_name(judge_server: OpenAIServer, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", judge_server.api_base)
    assessment = await judges.asafety(REQUEST, RESPONSE, model="openai/stub")
    assert (assessment.name, assessment.rating, assessment.error_message) == ("safety", "yes", None)
    (body,) = judge_server.requests()
    assert (body["model"], RESPONSE in body["messages"][1]["content"]) == ("stub", True)


async def test_direct_calls_side_by_side_ask_once_each(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", OPENAI_KEY)
    with running_openai_server("--latency", "0.2", "--jitter") as server:
        where = {"model": "openai/stub", "api_base": server.api_base}
        found = await asyncio.gather(
            *(judges.asafety(REQUEST, f"{RESPONSE} {n}", **where) for n in range(12))
        )
        assert [(each.rating, each.error_message) for each in found] == [("yes", None)] * 12
        assert server.stats()["requests"] == 12


@pytest.mark.row("005-14")
def test_answer_criteria_are_called_directly_on_one_item():
    found = judges.answer_criteria(
        request="How do I brew it?",
        response="Use fresh beans and water at 93 degrees.",
        acceptance_criteria=["Use fresh beans", "Grind coarsely"],
        threshold=0.6,
    )
    assert (found.score, found.passed, found.error_message) == (0.5, False, None)
    assert [(each["aspect"], each["covered"]) for each in found.aspects] == [
        ("Use fresh beans", True),
        ("Grind coarsely", False),
    ]
    assert found.missing_concepts == ("Grind coarsely",)
    lines = found.text.splitlines()
    assert lines[0] == "answer_criteria: 0.50, failed (half of the criteria covered)"
    assert "    missing: Grind coarsely" in lines


@pytest.mark.row("005-14")
async def test_answer_criteria_without_criteria_say_so():
    found = await judges.aanswer_criteria("How?", "So.", " ")
    assert (found.score, found.aspects) == (None, ())
    assert found.error_message is not None
    assert found.error_message.startswith("no acceptance criteria")
