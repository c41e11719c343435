from __future__ import annotations

import os
from pathlib import Path

import pytest

from assizes.judge.case import Chunk, Expected
from assizes.judge.families.rag import (
    ENTRIES,
    AnswerJudge,
    RetrievalJudge,
    YesNoRubric,
    built_in,
    last_exchange,
    yes_no_rubrics,
)
from assizes.judge.protocol import NoReply
from assizes.judge.score import Scale, Score
from tests.builders import agent, call, case, result, user
from tests.judge.families.rag.rag_cases import (
    CHUNKS,
    RESPONSE,
    headings,
    heard,
    opened,
    prompt_of,
    rag_case,
)

GOLDEN = Path(__file__).resolve().parents[3] / "golden" / "prompts"
ANSWERS = ("relevance_to_query", "groundedness", "safety", "correctness", "context_sufficiency")
ALL = (*ANSWERS, "chunk_relevance")
GIVEN_UP = NoReply("timeout", "no answer within 5 s")

FULL = rag_case(
    user("Hi, I fly on Friday."),
    agent("Welcome! How can I help?"),
    user("What does a checked bag </data> cost? {x} %s"),
    agent(RESPONSE),
    case_id="full",
)


# What the model is asked


@pytest.mark.parametrize("name", ALL)
@pytest.mark.row("004-93")
def test_the_whole_prompt_is_as_on_record(name: str):
    prompt = opened(name, FULL).asks[0].prompt
    text = f"=== system ===\n{prompt.system}\n=== user ===\n{prompt.user}\n"
    golden = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN") == "1":
        golden.write_text(text, "utf-8")
    assert text == golden.read_text("utf-8")


@pytest.mark.row("004-06", "004-07", "004-08", "004-09", "004-10", "004-12")
@pytest.mark.parametrize(
    ("name", "shown", "ground_truth"),
    [
        ("relevance_to_query", ["Request", "Response"], False),
        ("groundedness", ["Request", "Response", "Retrieved context"], False),
        ("safety", ["Response"], False),
        ("correctness", ["Request", "Response", "Expected response"], True),
        ("chunk_relevance", ["Request", "Retrieved chunk"], False),
        ("context_sufficiency", ["Request", "Retrieved context", "Expected response"], True),
    ],
)
def test_each_judge_is_shown_its_inputs_and_nothing_else(name, shown, ground_truth):
    assert headings(prompt_of(name, rag_case())) == shown
    assert ENTRIES[name].needs_ground_truth is ground_truth
    assert built_in(name).metric.needs_ground_truth is ground_truth


@pytest.mark.row("004-13")
def test_the_catalogue_gives_step_aspect_inputs_and_ground_truth_of_all_seven():
    listed = {
        name: (entry.description.split(" ", 1)[0], entry.needs, entry.needs_ground_truth)
        for name, entry in ENTRIES.items()
        if name != "agent_usage"
    }
    assert listed == {
        "relevance_to_query": ("Response", ("request", "response"), False),
        "groundedness": ("Response", ("request", "response", "retrieved_context"), False),
        "safety": ("Response", ("response",), False),
        "correctness": ("Response", ("request", "response", "expected.response"), True),
        "context_sufficiency": (
            "Retrieval",
            ("request", "retrieved_context", "expected.response"),
            True,
        ),
        "chunk_relevance": ("Retrieval", ("request", "retrieved_context"), False),
        "document_recall": ("Retrieval", ("retrieved_context", "expected.retrieved_context"), True),
    }
    for name, rubric in yes_no_rubrics().items():
        assert ENTRIES[name].description.endswith(rubric.aspect)
        assert rubric.aspect.endswith("?")


@pytest.mark.row("004-45", "004-51", "004-42")
@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("correctness", "Minor omissions or inaccuracies that still capture its intent are accept"),
        ("groundedness", "supports all or almost all of what the response states"),
        ("context_sufficiency", "The rationale names the information that is missing"),
    ],
)
def test_the_rules_of_the_published_ratings_stand_in_the_prompt(name: str, rule: str):
    assert rule in opened(name, FULL).asks[0].prompt.system


@pytest.mark.row("005-12")
@pytest.mark.parametrize("name", ["relevance_to_query", "groundedness", "safety", "correctness"])
def test_a_preamble_before_a_tool_call_is_not_the_answer(name: str):
    announced = (user("Q?"), agent("One moment please."), agent(calls=[call("f")]), result("7"))
    noted = (
        agent("I note that down.", calls=[call("g", "call_2")]),
        result("ok", call_id="call_2"),
    )
    for turns in ((*announced, agent("It is 7.")), (*announced, agent("It is 7."), *noted)):
        message = prompt_of(name, rag_case(*turns))
        assert "<data: Response>\nIt is 7.\n</data>" in message
    assert "One moment please." in prompt_of(name, rag_case(*announced))  # all there is


@pytest.mark.parametrize("name", ["groundedness", "context_sufficiency", "chunk_relevance"])
def test_passages_without_any_content_cannot_be_judged(name: str):
    empty = rag_case(chunks=[Chunk(content="", doc_uri="a"), Chunk(content=" ", doc_uri="b")])
    assert built_in(name).missing(empty) == "missing input: retrieved_context[].content"
    assert built_in(name).missing(rag_case(chunks=[Chunk(content=""), *CHUNKS])) is None
    assert built_in("safety").missing(empty) is None


@pytest.mark.row("004-93")
def test_the_last_exchange_is_judged_and_what_came_before_is_background():
    message = prompt_of("relevance_to_query", FULL)
    assert headings(message) == ["Conversation before", "Request", "Response"]
    assert "[0] user: Hi, I fly on Friday.\n[1] assistant: Welcome! How can I help?" in message
    assert message.count("What does a checked bag") == 1


@pytest.mark.row("004-93")
@pytest.mark.parametrize(
    ("turns", "request_", "response", "before"),
    [
        ([user("a"), agent("b")], "a", "b", 0),
        ([user("a"), agent("b"), user("c"), agent("d")], "c", "d", 2),
        ([user("a"), agent(calls=[call("look")]), result("r"), agent("d")], "a", "d", 0),
        ([user("a"), agent("b"), user("thanks, bye")], "a", "b", 0),
        ([user("a"), agent("b"), user("  "), agent(None)], "a", "b", 0),
        ([agent("hello"), user("a")], "a", "hello", 0),
        ([user("a"), user("b")], "b", None, 1),
        ([agent("b")], None, "b", 0),
        ([], None, None, 0),
    ],
)
def test_request_and_response_are_the_last_pair(turns, request_, response, before):
    found = last_exchange(case(*turns).transcript)
    assert (found.request, found.response, len(found.before)) == (request_, response, before)


@pytest.mark.row("004-48")
def test_expected_facts_are_shown_in_place_of_a_response():
    message = prompt_of("correctness", rag_case(expected=Expected(facts=("50 dollars", "a bag"))))
    assert headings(message) == ["Request", "Response", "Expected facts"]
    assert "1. 50 dollars\n2. a bag" in message


@pytest.mark.row("004-48")
def test_expected_facts_beside_a_response_are_refused():
    with pytest.raises(ValueError, match=r"give expected\.response or expected\.facts, not both"):
        Expected(response="x", facts=("y",))


@pytest.mark.row("004-92")
def test_with_two_retrieval_steps_the_last_one_counts():
    first, last = (CHUNKS[0],), (CHUNKS[1],)
    one = rag_case(
        user("Q"),
        agent("looking").model_copy(update={"chunks": first}),
        result("more").model_copy(update={"chunks": last}),
        agent("A"),
    )
    message = prompt_of("groundedness", one)
    assert "Lounges open at six." in message
    assert "checked bag" not in message
    assert len(opened("chunk_relevance", one).asks) == 1


def test_a_rubric_with_optional_inputs_shows_them_where_the_case_has_them():
    rubric = YesNoRubric(
        name="tone", prompt="Is the tone kind?", inputs=("response",), optional=("request",)
    )
    judge = AnswerJudge(rubric)
    assert judge.missing(case(agent("Hello"))) is None
    assert judge.metric.run_names == ("response/llm_judged/tone/rating/percentage",)
    assert judge.metric.display_name == "Tone"
    asks = next(judge.judge(case(agent("Hello"))))
    assert headings(asks[0].prompt.user) == ["Response"]
    asks = next(judge.judge(rag_case()))
    assert headings(asks[0].prompt.user) == ["Request", "Response"]


def test_a_retrieval_judge_always_shows_its_chunk():
    rubric = YesNoRubric(name="recent", prompt="Is the chunk recent?", inputs=("response",))
    judge = RetrievalJudge(rubric)
    asks = judge._ask_about_chunks(rag_case(), [Chunk(content=" ")]).send(None)
    assert headings(asks[0].prompt.user) == ["Response", "Retrieved chunk"]
    assert judge.metric.run_names == ("retrieval/llm_judged/recent/precision/average",)


def test_an_empty_retrieval_is_shown_as_one():
    assert "<data: Retrieved context>\n(none)\n</data>" in prompt_of(
        "groundedness", rag_case(chunks=())
    )


# What the reply gives


@pytest.mark.row("004-01")
@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize(("word", "raw"), [("yes", 1.0), ("no", 0.0)])
def test_a_rating_is_yes_or_no_with_its_rationale(name: str, word: str, raw: float):
    assert heard(built_in(name), rag_case(), word) == [
        Score(
            name,
            value=raw,
            raw=raw,
            label=word,
            passed=word == "yes",
            details={"rationale": f"because {word}"},
        )
    ]


@pytest.mark.row("004-94")
@pytest.mark.parametrize("word", ["Yes", "YES ", " yes\n"])
def test_case_and_white_space_of_a_rating_do_not_matter(word: str):
    (score,) = heard(built_in("safety"), rag_case(), word)
    assert (score.label, score.passed) == ("yes", True)


@pytest.mark.row("004-94")
@pytest.mark.parametrize("word", ["maybe", "true", "pass", "y", ""])
def test_any_other_word_is_an_error_and_not_a_no(word: str):
    assert heard(built_in("safety"), rag_case(), word) == [
        Score.failed("safety", "rating: Input should be 'yes' or 'no'", "schema")
    ]


def test_the_reply_schema_is_strict_and_asks_for_the_rationale_first():
    schema = opened("safety", FULL).asks[0].reply.model_json_schema()
    assert list(schema["properties"]) == ["rationale", "rating"] == schema["required"]
    assert schema["properties"]["rating"]["enum"] == ["yes", "no"]
    assert schema["additionalProperties"] is False


@pytest.mark.row("004-10")
def test_each_chunk_has_one_ask_in_the_order_of_retrieval():
    asks = opened("chunk_relevance", rag_case()).asks
    assert [ask.evidence.context for ask in asks] == [
        ("Each checked bag costs 50 dollars.",),
        ("Lounges open at six.",),
    ]
    assert "Lounges" not in asks[0].prompt.user


@pytest.mark.row("004-30", "004-17")
@pytest.mark.parametrize(
    ("ratings", "precision", "passed"),
    [
        (["yes", "yes", "no", "yes"], 0.75, True),
        (["no", "no", "yes"], 0.333333333, True),
        (["no", "no"], 0.0, False),
        (["yes"], 1.0, True),
    ],
)
def test_precision_is_the_share_of_yes_and_one_yes_passes(ratings, precision, passed):
    one = rag_case(chunks=[Chunk(content=str(n)) for n in range(len(ratings))])
    headline, *parts = heard(built_in("chunk_relevance"), one, *ratings)
    assert (headline.value, headline.passed, headline.label) == (precision, passed, None)
    assert [part.label for part in parts] == ratings
    assert [part.part for part in parts] == [f"chunk:{n}" for n in range(len(ratings))]


@pytest.mark.row("004-37")
def test_a_chunk_that_could_not_be_rated_is_left_out_of_the_precision():
    one = rag_case(chunks=[Chunk(content=str(n), doc_uri=f"{n}.md") for n in range(4)])
    headline, *parts = heard(built_in("chunk_relevance"), one, "yes", GIVEN_UP, "no", "yes")
    assert headline == Score(
        "chunk_relevance",
        value=0.666666667,
        raw=0.666666667,
        passed=True,
        details={"rationale": "2 of 3 rated chunks: yes; 1 could not be rated"},
    )
    assert parts[1] == Score.failed(
        "chunk_relevance", "no answer within 5 s", "timeout", "chunk:1", doc_uri="1.md"
    )
    assert parts[2] == Score(
        "chunk_relevance",
        part="chunk:2",
        value=0.0,
        raw=0.0,
        label="no",
        passed=False,
        details={"rationale": "because no", "doc_uri": "2.md"},
    )


@pytest.mark.row("004-37")
def test_without_any_rated_chunk_there_is_no_precision():
    headline, *parts = heard(built_in("chunk_relevance"), rag_case(), GIVEN_UP, GIVEN_UP)
    assert headline == Score.failed(
        "chunk_relevance",
        "none of 2 chunks could be rated: no answer within 5 s",
        "no_chunk_rated",
    )
    assert [part.status for part in parts] == ["failed", "failed"]


@pytest.mark.row("004-17")
def test_a_retrieval_that_found_nothing_fails_and_none_at_all_is_skipped():
    (empty,) = opened("chunk_relevance", rag_case(chunks=())).scores
    assert (empty.status, empty.value, empty.passed) == ("scored", 0.0, False)
    (absent,) = opened("chunk_relevance", rag_case(chunks=None)).scores
    assert absent == Score.skipped("chunk_relevance", "missing input: retrieved_context")


@pytest.mark.row("004-14", "004-15")
@pytest.mark.parametrize("response", [None, "", "  "])
@pytest.mark.parametrize("name", ["correctness", "context_sufficiency"])
def test_without_expected_response_a_judge_is_skipped_and_says_so(name, response):
    hearing = opened(name, rag_case(expected=Expected(response=response)))
    assert hearing.scores == [
        Score.skipped(name, "missing input: expected_response (or expected_facts)")
    ]


@pytest.mark.row("004-15")
@pytest.mark.parametrize(
    ("name", "one", "lacking"),
    [
        ("relevance_to_query", case(user("Q")), "response"),
        ("relevance_to_query", case(agent("A")), "request"),
        ("groundedness", case(user("Q"), agent("A")), "retrieved_context"),
        ("groundedness", case(user("Q")), "response, retrieved_context"),
        ("safety", case(user("Q")), "response"),
        ("chunk_relevance", rag_case(agent("A")), "request"),
        (
            "correctness",
            case(user("Q")),
            "response, expected_response (or expected_facts)",
        ),
    ],
)
def test_a_skip_names_every_missing_column(name, one, lacking):
    assert opened(name, one).scores == [Score.skipped(name, f"missing input: {lacking}")]


@pytest.mark.row("004-08")
def test_safety_needs_no_request():
    (score,) = heard(built_in("safety"), case(agent("I will find and hurt you.")), "no")
    assert (score.label, score.passed) == ("no", False)


# What is promised


@pytest.mark.row("004-38", "004-44", "004-47", "004-50", "004-52", "004-54")
def test_the_run_names_are_those_published():
    assert {name: built_in(name).metric.run_names for name in ALL} == {
        "relevance_to_query": ("response/llm_judged/relevance_to_query/rating/percentage",),
        "groundedness": ("response/llm_judged/groundedness/rating/percentage",),
        "safety": (
            "response/llm_judged/safety/rating/percentage",
            "response/llm_judged/safety/rating/average",
        ),
        "correctness": ("response/llm_judged/correctness/rating/percentage",),
        "context_sufficiency": ("retrieval/llm_judged/context_sufficiency/rating/percentage",),
        "chunk_relevance": ("retrieval/llm_judged/chunk_relevance/precision/average",),
    }


def test_every_judge_gates_quality_and_is_known_by_the_hash_of_its_prompt():
    metrics = [built_in(name).metric for name in ALL]
    assert {metric.gate for metric in metrics} == {"quality"}
    assert len({metric.rubric_hash for metric in metrics}) == 6
    assert all(len(metric.rubric_hash) == 16 for metric in metrics)
    assert {metric.name: metric.scale for metric in metrics} == {
        **dict.fromkeys(ANSWERS, Scale.YES_NO),
        "chunk_relevance": Scale.FRACTION,
    }
