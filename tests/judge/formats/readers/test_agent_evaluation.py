from __future__ import annotations

import json
from typing import Any

import pytest

from assizes.judge.case import Chunk, Expected, ExpectedDocument, Transcript, Turn, Usage
from assizes.judge.errors import DataError
from assizes.judge.families.deterministic import latency_seconds
from assizes.judge.formats import FORMATS, detect_format
from assizes.judge.formats.shared.parsing import FIDELITY
from tests.builders import agent, call, result, user
from tests.judge.formats.shared.test_spans import model_call, retriever

ROWS = FORMATS["agent_evaluation"]
ASKED = {"request_id": "q1", "request": "What does a bag cost?"}


def read(**row: Any):
    return ROWS.case(json.dumps(row).encode())


def said(role: str, content: str | None, **rest: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **rest}


def test_a_row_becomes_a_case():
    one = read(
        **ASKED,
        response="50 dollars.",
        retrieved_context=[{"doc_uri": "fees.md", "content": "50 dollars"}, {"content": "x"}],
        expected_response="50 dollars",
        expected_retrieved_context=[{"doc_uri": "fees.md"}, {"doc_uri": "b.md", "content": "y"}],
        guidelines=["be kind"],
    )
    assert one.case_id == "q1"
    assert one.transcript == Transcript(
        turns=(user("What does a bag cost?"), agent("50 dollars.")),
        chunks=(Chunk(content="50 dollars", doc_uri="fees.md"), Chunk(content="x")),
    )
    assert one.expected == Expected(
        response="50 dollars",
        retrieved_context=(
            ExpectedDocument(doc_uri="fees.md"),
            ExpectedDocument(doc_uri="b.md", content="y"),
        ),
    )


def test_blank_lines_are_no_records():
    assert ROWS.records(b'{"request": "a"}\n\n \r\n{"request": "b"}') == [
        b'{"request": "a"}',
        b'{"request": "b"}',
    ]


@pytest.mark.row("004-29")
@pytest.mark.parametrize("response", ["", "  \n", None])
def test_an_empty_expected_response_is_none(response: str | None):
    assert read(**ASKED, response="x", expected_response=response).expected.response is None


@pytest.mark.row("004-48")
def test_expected_facts_replace_the_expected_response_but_not_beside_it():
    one = read(**ASKED, response="x", expected_facts=["a", " ", "b"], expected_response="")
    assert one.expected.facts == ("a", "b")
    with pytest.raises(DataError, match="schema: .*not both"):
        read(**ASKED, response="x", expected_facts=["a"], expected_response="b")


@pytest.mark.row("004-17")
def test_an_empty_retrieval_is_kept_apart_from_none():
    assert read(**ASKED, response="x", retrieved_context=[]).transcript.retrieval() == ()
    assert read(**ASKED, response="x").transcript.retrieval() is None


@pytest.mark.row("004-93")
def test_a_request_of_several_messages_is_a_conversation():
    messages = [
        said("system", "Be brief."),
        said("user", "Hi"),
        said("assistant", "Hello"),
        said("user", "What does a bag cost?"),
    ]
    found = read(request_id=7, request={"messages": messages}, response="50").transcript
    assert found.turns == (user("Hi"), agent("Hello"), user("What does a bag cost?"), agent("50"))
    assert found.request() == "What does a bag cost?"
    assert read(request_id=7, request="a", response="b").case_id == "7"


TRACE = [
    said("system", "You sell tickets."),
    said("user", "What does a bag cost?"),
    said(
        "assistant",
        None,
        tool_calls=[{"id": "c1", "function": {"name": "search", "arguments": '{"q": "bag"}'}}],
        usage={"prompt_tokens": 100, "completion_tokens": 20},
    ),
    said(
        "tool",
        "found 1",
        tool_call_id="c1",
        retrieved_context=[{"content": "50 dollars", "doc_uri": "fees.md"}],
    ),
    said(
        "assistant",
        "50 dollars.",
        usage={"input_tokens": 200, "output_tokens": 30},
        latency_ms=500,
        started_at="2026-11-21T12:00:01Z",
    ),
]


@pytest.mark.row("004-97")
def test_a_trace_of_messages_gives_response_context_and_tokens():
    found = read(**ASKED, trace=TRACE).transcript
    assert found.response() == "50 dollars."
    assert found.retrieved_chunks() == (Chunk(content="50 dollars", doc_uri="fees.md"),)
    assert found.agent_usage() == Usage(input_tokens=300, output_tokens=50)
    assert found.system == "You sell tickets."
    assert found.turns[:3] == (
        user("What does a bag cost?"),
        agent(calls=[call("search", "c1", q="bag")]).model_copy(
            update={"usage": Usage(input_tokens=100, output_tokens=20)}
        ),
        result("found 1", call_id="c1").model_copy(update={"chunks": found.retrieved_chunks()}),
    )


@pytest.mark.row("004-97")
def test_the_latency_of_a_trace_runs_from_its_first_to_its_last_message():
    begun = [{**TRACE[1], "started_at": "2026-11-21T12:00:00Z"}, *TRACE[2:]]
    assert latency_seconds(read(**ASKED, trace=begun).transcript) == 1.5


@pytest.mark.row("004-97")
def test_a_transcript_of_our_own_is_a_trace_too():
    trace = {
        "turns": [{"role": "user", "text": "Q"}, {"role": "assistant", "text": "A"}],
        "chunks": [{"content": "x"}],
        "duration_ms": 1500,
    }
    found = read(request_id="q1", trace=trace).transcript
    assert found == Transcript(
        turns=(user("Q"), agent("A")), chunks=(Chunk(content="x"),), duration_ms=1500
    )


@pytest.mark.row("004-97")
def test_columns_of_the_row_win_over_its_trace():
    found = read(
        **ASKED, trace=TRACE, response="60 dollars.", retrieved_context=[{"content": "60"}]
    ).transcript
    assert (found.response(), found.retrieved_chunks()) == ("60 dollars.", (Chunk(content="60"),))
    assert found.agent_usage() == Usage(input_tokens=300, output_tokens=50)
    same = read(**ASKED, trace=TRACE, response="50 dollars.").transcript
    assert same == read(**ASKED, trace=TRACE).transcript
    only_answer = read(**ASKED, trace=[said("assistant", "50")]).transcript
    assert only_answer.turns == (user("What does a bag cost?"), Turn(role="assistant", text="50"))


@pytest.mark.row("004-98")
@pytest.mark.parametrize(
    ("row", "said"),
    [
        (ASKED, "response: missing, and there is no trace"),
        ({**ASKED, "expected_response": "x"}, "response: missing, and there is no trace"),
        ({"response": "x"}, "request: missing"),
        ({**ASKED, "response": 7}, "response: "),
        ({**ASKED, "response": "x", "retrieved_context": ["y"]}, "retrieved_context.0: "),
        ({**ASKED, "response": "x", "expected_retrieved_context": [{}]}, "doc_uri: Field required"),
        ({**ASKED, "trace": [{"role": "robot"}]}, "trace."),
        ({**ASKED, "response": "x", "request_id": ""}, "case_id: "),
        ([], "record: "),
    ],
)
def test_a_row_that_cannot_be_judged_is_refused_with_the_column(row: Any, said: str):
    with pytest.raises(DataError) as refused:
        ROWS.case(json.dumps(row).encode())
    assert refused.value.code == "schema"
    assert said in refused.value.detail


@pytest.mark.row("004-98")
def test_a_refused_row_leaves_the_others_alone():
    document = b"\n".join(
        json.dumps(one).encode() for one in ({**ASKED, "response": "x"}, ASKED, {"request": 1})
    )
    read_cases, refused = [], []
    for record in ROWS.records(document):
        try:
            read_cases.append(ROWS.case(record).case_id)
        except DataError as error:
            refused.append(error.code)
    assert (read_cases, refused) == (["q1"], ["schema", "schema"])


def test_a_retrieval_can_be_judged_without_a_response():
    one = read(**ASKED, retrieved_context=[{"content": "x"}])
    assert (one.transcript.request(), one.transcript.response()) == ("What does a bag cost?", None)


def test_without_an_id_a_row_is_named_by_its_content():
    first, again, other = (read(request="Q", response=text) for text in ("a", "a", "b"))
    assert first.case_id == again.case_id != other.case_id
    assert len(first.case_id) == 32


@pytest.mark.row("005-16")
def test_a_model_call_of_a_tool_counts_and_one_of_a_simulated_user_does_not():
    trace = [
        said("user", ASKED["request"], usage={"input_tokens": 5000}),
        said("tool", "price of a bag", usage={"input_tokens": 100, "output_tokens": 20}),
        said("assistant", "50 dollars.", usage={"input_tokens": 200, "output_tokens": 30}),
    ]
    found = read(**ASKED, trace=trace).transcript
    assert found.agent_usage() == Usage(input_tokens=300, output_tokens=50)
    assert found.turns[-1].usage == Usage(input_tokens=200, output_tokens=30)


# A trace of MLflow in the column `trace`


def mlflow_trace(**info: Any) -> dict[str, Any]:
    spans = [
        retriever(0, "draft"),
        retriever(1, "50 dollars", "lounges"),
        model_call(2, [said("user", "Rewrite: a bag?")], "price of a bag", (100, 20)),
        model_call(3, [said("user", ASKED["request"])], "50 dollars.", (200, 30)),
    ]
    return {"info": {"trace_id": "tr-1", **info}, "data": {"spans": spans}}


@pytest.mark.row("005-21", "005-16", "005-17")
@pytest.mark.parametrize("written", [dict, json.dumps])
def test_an_mlflow_trace_in_the_column_trace_is_read(written):
    found = read(request_id="q1", trace=written(mlflow_trace()), expected_response="50 dollars")
    assert (found.case_id, found.expected.response) == ("q1", "50 dollars")
    transcript = found.transcript
    assert (transcript.request(), transcript.response()) == (ASKED["request"], "50 dollars.")
    assert [chunk.content for chunk in transcript.retrieved_chunks()] == ["50 dollars", "lounges"]
    assert transcript.agent_usage() == Usage(input_tokens=300, output_tokens=50)
    assert latency_seconds(transcript) == 3.1


@pytest.mark.row("005-21")
def test_a_row_that_holds_a_trace_alone_is_detected():
    line = json.dumps({"trace": mlflow_trace()}).encode()
    assert detect_format(line) is ROWS
    assert ROWS.case(line).transcript.response() == "50 dollars."


@pytest.mark.row("005-21")
def test_a_column_wins_over_the_trace_and_the_rest_is_what_the_trace_says():
    truth = {"assessment_name": "expected_response", "expectation": {"value": "60 dollars"}}
    feedback = {"assessment_name": "useful", "feedback": {"value": 1.0}}
    trace = mlflow_trace(assessments=[truth, feedback], tags={"env": "prod"})
    plain = read(**ASKED, trace=trace)
    assert (plain.expected.response, plain.labels) == ("60 dollars", {"useful": 1.0})
    assert plain.tags == {"env": "prod"}
    won = read(**ASKED, trace=trace, expected_facts=["50"], response="It is 50.")
    assert (won.expected.response, won.expected.facts) == (None, ("50",))
    assert won.transcript.response() == "It is 50."


@pytest.mark.row("005-21")
def test_a_table_of_traces_repeats_inputs_and_outputs_which_are_no_further_turns():
    columns = {"request": json.dumps({"q": ASKED["request"]}), "response": {"text": "50 dollars."}}
    found = read(**columns, trace=json.dumps(mlflow_trace()))
    assert [turn.role for turn in found.transcript.turns] == ["user", "tool", "assistant"]
    assert read(trace=mlflow_trace(), response='"50 dollars."').transcript == found.transcript


def test_a_trace_without_content_gives_tokens_and_the_row_gives_the_texts():
    usage = {"mlflow.chat.tokenUsage": json.dumps({"input_tokens": 9, "output_tokens": 2})}
    silent = {"span_id": "s", "attributes": {"mlflow.spanType": '"LLM"', **usage}}
    trace = {"info": {"trace_id": "t"}, "data": {"spans": [silent]}}
    found = read(**ASKED, response="50 dollars.", trace=trace)
    assert found.transcript.turns == (user(ASKED["request"]), agent("50 dollars."))
    assert found.transcript.agent_usage() == Usage(input_tokens=9, output_tokens=2)
    with pytest.raises(DataError, match="request: missing"):
        read(trace=trace)


def test_a_list_of_messages_may_be_written_as_text():
    assert read(**ASKED, trace=json.dumps(TRACE)) == read(**ASKED, trace=TRACE)


# Columns that nobody knows


def test_a_misspelt_column_is_counted_with_the_one_that_is_meant():
    found = read(**ASKED, response="x", expected_respones="y", Retrieved_Contexts=[1], colour="red")
    assert found.metadata[FIDELITY] == {
        "dropped row.Retrieved_Contexts (misspelt retrieved_context?)": 1,
        "dropped row.colour": 1,
        "dropped row.expected_respones (misspelt expected_response?)": 1,
    }
    assert FIDELITY not in read(**ASKED, response="x", note=None, tags={}).metadata


def test_a_row_that_lacks_a_column_names_the_one_that_is_misspelt():
    with pytest.raises(DataError, match=r"not known: respons \(misspelt response\?\)"):
        read(**ASKED, respons="x")
    with pytest.raises(DataError) as refused:
        read(request_id="q1", **{f"column {n} {'x' * 99}": "y" for n in range(99)})
    assert len(str(refused.value)) < 600
