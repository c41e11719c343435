"""Rare shapes of other formats: each gives the whole conversation, or a clear error."""

from __future__ import annotations

import json

import pytest

from assizes.judge.errors import DataError
from assizes.judge.formats import FORMATS
from assizes.judge.formats.shared.parsing import FIDELITY, REASONING
from tests.judge.formats.foreign import joined, turn_lines
from tests.judge.formats.shapes_of_others import COLLECTED

ASKED = "user: Where is order 77?"
LATE = "assistant: It is late, sorry."
POLICY = "You are Fern, a flower-shop agent."
USER = {"role": "user", "content": "Where is order 77?"}
AGENT = {"role": "assistant", "content": "It is late, sorry."}


def block(kind: str, **rest: object) -> dict[str, object]:
    return {"type": kind, **rest}


def test_an_answer_is_split_where_the_provider_ran_a_tool_itself():
    search = block("server_tool_use", id="s", name="web_search", input={"q": 77})
    found = block("web_search_tool_result", tool_use_id="s", content="late")
    answer = [search, found, block("text", text="It is late, sorry.")]
    case = joined(
        "anthropic", {"stop_reason": "x", "messages": [USER, {**AGENT, "content": answer}]}
    )
    assert turn_lines(case) == [ASKED, 'assistant: web_search({"q": 77})', "tool: late", LATE]


def test_an_answer_that_ends_with_what_a_tool_found_has_no_empty_turn_behind_it():
    answer = [block("web_search_tool_result", tool_use_id="s", content="late")]
    case = joined(
        "anthropic", {"stop_reason": "x", "messages": [USER, {**AGENT, "content": answer}]}
    )
    assert turn_lines(case)[-1] == "tool: late"


def test_a_system_message_among_the_others_is_the_prompt_and_hidden_thinking_is_counted():
    answer = [block("redacted_thinking", data="x"), block("text", text="It is late, sorry.")]
    messages = [{"role": "system", "content": POLICY}, USER, {**AGENT, "content": answer}]
    case = joined("anthropic", {"stop_reason": "x", "messages": messages})
    assert (turn_lines(case), case.transcript.system) == ([ASKED, LATE], POLICY)
    assert case.metadata[FIDELITY]["dropped redacted_thinking"] == 1


def test_thinking_inside_the_result_of_a_tool_is_dropped_and_counted():
    result = [block("text", text="late"), block("thinking", thinking="Hm.")]
    said = [block("tool_result", tool_use_id="t", content=result)]
    case = joined(
        "anthropic", {"stop_reason": "x", "messages": [{"role": "user", "content": said}]}
    )
    assert turn_lines(case) == ["tool: late"]
    assert case.metadata[FIDELITY] == {f"dropped {REASONING}": 1}


def test_a_completion_may_be_the_message_itself_and_names_of_people_are_dropped():
    case = joined("openai_chat", {"messages": [{**USER, "name": "kim"}], "response": AGENT})
    assert turn_lines(case) == [ASKED, LATE]
    assert case.metadata[FIDELITY] == {"dropped message.name": 1}


def sample(**rest: object) -> dict[str, object]:
    return {"eval": {"task": "t"}, "sample": {"id": "s", "messages": [USER, AGENT], **rest}}


def test_long_texts_of_a_log_stand_where_their_hashes_stood_and_prompts_are_no_turns():
    messages = [{"role": "system", "content": POLICY}, {**USER, "content": "attachment://a1"}]
    case = joined("inspect_ai", sample(messages=messages, attachments={"a1": "Where is order 77?"}))
    assert (turn_lines(case), case.transcript.system) == ([ASKED], POLICY)


def test_of_the_error_that_ended_a_sample_its_message_is_kept():
    case = joined("inspect_ai", sample(error={"message": "no quota", "traceback": "File ..."}))
    assert case.metadata["error"] == "no quota"
    assert not case.transcript.finished


def test_arguments_that_inspect_could_not_parse_are_kept_as_they_came():
    call = {"id": "c", "function": "f", "arguments": "{a: 1", "parse_error": "no JSON"}
    answer = {"role": "assistant", "content": "", "tool_calls": [call]}
    case = joined("inspect_ai", sample(messages=[USER, answer]))
    (kept,) = case.transcript.turns[1].tool_calls
    assert (kept.raw, kept.arguments) == ("{a: 1", {})


def test_the_tokens_of_a_sample_go_to_its_last_answer_even_where_a_result_follows_it():
    used = {"m": {"input_tokens": 7, "output_tokens": 2}}
    result = {"role": "tool", "content": "late"}
    case = joined("inspect_ai", sample(messages=[USER, AGENT, result], model_usage=used))
    assert [turn.usage is not None for turn in case.transcript.turns] == [False, True, False]


def test_a_line_of_a_log_that_is_no_sample_is_refused():
    with pytest.raises(DataError, match="sample: missing; a log in lines holds one sample a line"):
        joined("inspect_ai", {"eval": {}, "samples": []})


def span(**attributes: object) -> dict[str, object]:
    number = str(len(attributes))
    plain = {name.replace("__", "."): value for name, value in attributes.items()}
    return {"trace_id": "t", "span_id": number, "attributes": plain}


CHAT = span(
    gen_ai__operation__name="chat",
    gen_ai__input__messages=[
        {"role": "system", "parts": [{"type": "text", "content": POLICY}]},
        {"role": "user", "parts": [{"type": "text", "content": "Where is order 77?"}]},
    ],
    gen_ai__output__messages=[AGENT],
)


def test_what_a_retrieval_found_goes_to_the_answer_and_a_system_message_to_the_prompt():
    documents = [{"content": "Orders ship late.", "id": "a.md"}]
    found = span(gen_ai__operation__name="retrieval", gen_ai__retrieval__documents=documents)
    case = joined("otel", CHAT, found)
    assert (turn_lines(case), case.transcript.system) == ([ASKED, LATE], POLICY)
    (chunk,) = case.transcript.turns[1].chunks or ()
    assert (chunk.content, chunk.doc_uri) == ("Orders ship late.", "a.md")


def test_openinference_tells_parts_of_a_message_and_what_a_retriever_found():
    said = "llm__input_messages__0__message__"
    model = span(
        openinference__span__kind="LLM",
        **{
            f"{said}role": "user",
            f"{said}contents__0__message_content__type": "text",
            f"{said}contents__0__message_content__text": "Where is order 77?",
            "llm__output_messages__0__message__role": "assistant",
            "llm__output_messages__0__message__content": "It is late, sorry.",
        },
    )
    found = span(
        openinference__span__kind="RETRIEVER",
        retrieval__documents__0__document__content="Orders ship late.",
    )
    case = joined("otel", model, found)
    assert turn_lines(case) == [ASKED, LATE]
    assert [chunk.content for chunk in case.transcript.turns[1].chunks or ()] == [
        "Orders ship late."
    ]


def test_of_flattened_keys_that_contradict_each_other_the_first_holds():
    said = "llm__input_messages__0__message"
    case = joined(
        "otel",
        span(
            openinference__span__kind="LLM",
            **{
                f"{said}__role": "user",
                f"{said}__content": "Where is order 77?",
                f"{said}__content__0__text": "Who are you?",
            },
        ),
    )
    assert turn_lines(case) == [ASKED]


def generation(**rest: object) -> dict[str, object]:
    return {"id": "o", "type": "GENERATION", **rest}


@pytest.mark.parametrize(
    "said",
    [
        {"choices": [{"message": AGENT}]},
        {"role": "assistant", "parts": [{"type": "text", "content": "It is late, sorry."}]},
        {
            "role": "assistant",
            "content": [
                block("thinking", thinking="Hm."),
                block("text", text="It is late, sorry."),
            ],
        },
    ],
)
def test_an_output_is_read_in_the_shape_of_any_provider(said: object):
    one = generation(input=[USER], output=said)
    case = joined("langfuse", {"id": "t", "observations": [one]})
    assert turn_lines(case) == [ASKED, LATE]


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0), (2, 0, 1)])
def test_of_the_versions_of_an_observation_the_finished_one_counts(order: tuple[int, ...]):
    versions = [
        generation(input=[USER]),
        generation(input=[USER], output=AGENT, endTime="2026-03-09T09:00:02Z"),
        generation(input=[USER], output=None, endTime=None),
    ]
    case = joined("langfuse", {"id": "t", "observations": [versions[place] for place in order]})
    assert turn_lines(case) == [ASKED, LATE]
    assert case.metadata[FIDELITY]["repeated row"] == 2


def test_of_the_versions_of_a_score_the_later_one_counts():
    row = {"id": "s", "name": "grade", "source": "API", "dataType": "NUMERIC"}
    shown = [generation(input=[USER], output=AGENT)]
    scores = [{**row, "value": value} for value in (0.2, 0.8)]
    case = joined("langfuse", {"id": "t", "observations": shown, "scores": scores})
    assert case.labels == {"grade": 0.8}


def test_a_manifest_names_the_files_beside_it():
    langfuse = FORMATS["langfuse"]
    manifest = {"files": [{"key": "a.jsonl"}, {"size": 3}, "b"]}
    assert langfuse.other_objects(manifest) == ["a.jsonl"]
    assert langfuse.other_objects({"files": "a.jsonl"}) == []
    assert FORMATS["mlflow"].other_objects(manifest) == []


def trace(*spans: dict[str, object], assessments: object = ()) -> dict[str, object]:
    return {
        "info": {"trace_id": "t", "assessments": list(assessments)},
        "data": {
            "spans": [{"span_id": str(place), "attributes": one} for place, one in enumerate(spans)]
        },
    }


def traced(given: object, made: object) -> dict[str, object]:
    return {
        "mlflow.spanType": "AGENT",
        "mlflow.spanInputs": json.dumps(given),
        "mlflow.spanOutputs": json.dumps(made),
    }


def test_the_one_list_of_messages_among_arguments_is_what_was_asked():
    case = joined("mlflow", trace(traced({"history": [USER], "k": 3}, "It is late, sorry.")))
    assert turn_lines(case) == [ASKED, LATE]


def test_one_guideline_of_mlflow_is_one_criterion():
    guideline = {"assessment_name": "guidelines", "expectation": {"value": "Be kind."}}
    case = joined("mlflow", trace(traced("Hi", "Hello"), assessments=[guideline]))
    assert case.expected.acceptance_criteria == ("Be kind.",)


def test_a_trace_in_which_nobody_says_anything_is_refused():
    with pytest.raises(DataError, match="no inputs and no outputs in any of them"):
        joined("mlflow", trace({"mlflow.spanType": "PARSER"}))


def test_traces_of_one_file_may_stand_in_one_document_over_several_lines():
    mlflow, one = FORMATS["mlflow"], trace(traced("Hi", "Hello"))
    for document in ([one], one):
        (record,) = mlflow.records(json.dumps(document, indent=1).encode())
        assert turn_lines(mlflow.case(record)) == ["user: Hi", "assistant: Hello"]


@pytest.mark.parametrize("record", [{"resourceSpans": []}, COLLECTED])
def test_a_record_that_nobody_gathered_is_refused(record: object):
    with pytest.raises(DataError, match="record: nothing of otel in it"):
        FORMATS["otel"].case(json.dumps(record).encode())


@pytest.mark.parametrize(
    ("name", "record"),
    [
        ("openai_chat", b'{"messages": [], "k": 1e999}'),
        ("agent_evaluation", b'{"request": "Hi", "response": "Yo", "k": 1e999}'),
    ],
)
def test_a_number_that_no_computer_holds_leaves_a_record_without_a_name(name: str, record: bytes):
    with pytest.raises(DataError, match="beyond what 64 bits hold") as refused:
        FORMATS[name].case(record)
    assert refused.value.code == "json"
