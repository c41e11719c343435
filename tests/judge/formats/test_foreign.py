"""Files that the libraries of other projects wrote, read with a detected format."""

from __future__ import annotations

import json

import pytest

from assizes.judge.errors import DataError
from assizes.judge.formats import FORMATS, detect_format, resolve_format
from assizes.judge.formats.shared.parsing import FIDELITY, HUMAN_LABELS, REASONING
from tests.judge.formats.foreign import FIXTURES, cases_in, fixture, joined, lines, turn_lines

ASKED = "user: Where is order 77?"
CALLED = 'assistant: find_order({"order_id": 77})'
LATE = "assistant: It is late, sorry."
POLICY = "You are Fern, a flower-shop agent."


@pytest.mark.parametrize(
    ("name", "format_"),
    [
        ("openai_chat.jsonl", "openai_chat"),
        ("openai_logs.jsonl", "openai_logs"),
        ("anthropic.json", "anthropic.document"),
        ("otlp.jsonl", "otel"),
        ("otel_spans.jsonl", "otel"),
        ("openinference.jsonl", "otel"),
        ("mlflow.jsonl", "mlflow"),
        ("inspect_ai.json", "inspect_ai.document"),
    ],
)
def test_a_file_of_a_library_is_known_by_how_it_begins(name: str, format_: str):
    document = (FIXTURES / name).read_bytes()
    assert detect_format(document[: 1 << 16]).name == format_
    assert detect_format(document[:700]).name == format_
    assert resolve_format(format_.partition(".")[0], document).name == format_


@pytest.mark.parametrize(
    ("name", "format_"),
    [
        ("openai_logs.jsonl", "openai_logs"),
        ("otlp.jsonl", "otel"),
        ("otel_spans.jsonl", "otel"),
        ("openinference.jsonl", "otel"),
        ("mlflow.jsonl", "mlflow"),
    ],
)
def test_a_list_of_the_same_pieces_is_known_and_read_alike(name: str, format_: str):
    pieces = [json.loads(line) for line in (FIXTURES / name).read_bytes().splitlines()]
    for document in (json.dumps(pieces).encode(), json.dumps(pieces, indent=2).encode()):
        assert detect_format(document[: 1 << 16]).name == format_
        assert detect_format(document[:700]).name == format_
        assert cases_in(document) == fixture(name)


def test_a_log_on_one_line_is_the_same_log():
    log = json.loads((FIXTURES / "inspect_ai.json").read_bytes())
    for line in (json.dumps(log).encode(), json.dumps(log, separators=(",", ":")).encode() + b"\n"):
        assert detect_format(line[: 1 << 16]).name == "inspect_ai.document"
        assert detect_format(line[:700]).name == "inspect_ai.document"
        assert resolve_format("inspect_ai", line[:700]).name == "inspect_ai.document"
        assert cases_in(line) == fixture("inspect_ai.json")
    sample = json.dumps({"eval": log["eval"], "sample": log["samples"][0]}).encode()
    assert detect_format(sample).name == "inspect_ai"
    assert resolve_format("inspect_ai", sample[:700]).name == "inspect_ai"


def test_chat_completions_with_a_picture_a_call_and_the_last_answer_beside_them():
    case, custom = fixture("openai_chat.jsonl")
    assert turn_lines(case) == [f"{ASKED}\n[image]", CALLED, 'tool: {"state":"late"}', LATE]
    assert (case.case_id, case.agent, case.transcript.system) == ("c-1", "m1", POLICY)
    assert case.transcript.agent_usage().input_tokens == 90
    assert [tool.name for tool in case.transcript.tools] == ["find_order"]
    assert case.metadata[FIDELITY] == {"marked image": 1}
    (call,) = custom.transcript.turns[1].tool_calls
    assert (call.name, call.raw) == ("code", "1+1")
    assert custom.transcript.turns[-1].text == "I will not say."


def test_request_logs_become_one_conversation_by_the_longest_chain():
    case, other = fixture("openai_logs.jsonl")
    assert turn_lines(case) == [f"{ASKED}\n[image]", CALLED, 'tool: {"state":"late"}', LATE]
    assert [turn.usage is not None for turn in case.transcript.turns] == [False, True, False, True]
    assert turn_lines(other) == ["user: Hi", LATE]


def test_anthropic_results_are_turns_of_tools_and_thinking_stays_aside():
    (case,) = fixture("anthropic.json")
    assert turn_lines(case) == [
        ASKED,
        'assistant: Checking. find_order({"order_id": 77})',
        "tool: late",
        "user: Hurry.",
        LATE,
    ]
    answer = case.transcript.turns[2].tool_result
    assert answer is not None
    assert (answer.is_error, answer.call_id) == (True, "tu_1")
    assert case.metadata[REASONING] == {"1": "Look it up."}
    assert case.transcript.agent_usage().input_tokens == 100


@pytest.mark.parametrize("name", ["otlp.jsonl", "otel_spans.jsonl"])
def test_traces_of_one_conversation_follow_each_other_and_history_counts_once(name: str):
    (case,) = fixture(name)
    assert turn_lines(case) == [
        ASKED,
        CALLED,
        'tool: {"state": "late"}',
        LATE,
        "user: Thanks",
        "assistant: Welcome.",
    ]
    assert (case.case_id, case.agent, case.transcript.system) == ("c-9", "fern", POLICY)
    assert case.metadata[FIDELITY] == {"dropped span of another kind": 2}
    assert case.transcript.duration_ms is not None


def test_flattened_keys_of_openinference_are_read():
    (case,) = fixture("openinference.jsonl")
    assert turn_lines(case) == [ASKED, CALLED, 'tool: {"state":"late"}', LATE]
    assert (case.case_id, case.transcript.system) == ("s-5", POLICY)


def test_mlflow_traces_of_a_session_with_what_people_said_and_expected():
    (case,) = fixture("mlflow.jsonl")
    assert turn_lines(case) == [
        ASKED,
        CALLED,
        'tool: {"state": "late"}',
        LATE,
        "user: Thanks",
        "assistant: Welcome.",
    ]
    assert (case.case_id, case.cluster, case.agent, case.tags) == (
        "s1",
        "u9",
        "agent",
        {"env": "prod"},
    )
    assert case.expected.response == "It is late."
    assert [chunk.doc_uri for chunk in case.transcript.turns[3].chunks or ()] == ["a.md"]
    assert case.metadata[HUMAN_LABELS][0] == {"metric": "correct", "label": True, "rater": "kim"}


def test_samples_of_inspect_are_cases_and_epochs_their_repetitions():
    first, second = fixture("inspect_ai.json")
    assert [(one.case_id, one.repetition) for one in (first, second)] == [
        ("sums/s1", 0),
        ("sums/s1", 1),
    ]
    assert turn_lines(first)[-2:] == ["tool: 3", "assistant: It is 3."]
    assert first.labels == {"includes": 1.0}
    assert (first.expected.response, first.cluster, first.transcript.finished) == ("3", "k1", True)
    assert first.transcript.agent_usage().input_tokens == 40


def test_a_trajectory_has_results_in_the_step_of_the_call():
    step = {"step_id": 2, "source": "agent", "message": "Wait.", "reasoning_content": "Hm."}
    calls = [{"tool_call_id": "t", "function_name": "find_order", "arguments": {"order_id": 77}}]
    results = {"results": [{"source_call_id": "t", "content": "late"}]}
    used = {"prompt_tokens": 9, "completion_tokens": 2, "cost_usd": 0.5}
    record = {
        "schema_version": "ATIF-v1.4",
        "session_id": "s1",
        "agent": {"name": "fern", "version": "2"},
        "steps": [
            {"step_id": 0, "source": "system", "message": POLICY},
            {"step_id": 1, "source": "user", "message": "Where is order 77?"},
            {**step, "tool_calls": calls, "observation": results, "metrics": used},
        ],
    }
    for document in (lines(record), json.dumps(record, indent=1).encode()):
        (case,) = cases_in(document)
        assert turn_lines(case) == [
            ASKED,
            'assistant: Wait. find_order({"order_id": 77})',
            "tool: late",
        ]
        assert (case.agent, case.agent_version, case.transcript.system) == ("fern", "2", POLICY)
        assert case.transcript.cost_usd() == 0.5
        assert case.metadata[REASONING] == {"1": "Hm."}


OBSERVED = {
    "id": "ob2",
    "trace_id": "t1",
    "session_id": "s1",
    "user_id": "u9",
    "trace_name": "support",
    "parent_observation_id": "ob1",
    "type": "GENERATION",
    "name": "answer",
    "start_time": "2026-11-20 01:00:00.000000",
    "end_time": "2026-11-20 01:00:02.100000",
    "level": "DEFAULT",
    "input": '[{"role":"user","content":"Where is order 77?"}]',
    "output": '{"role":"assistant","content":"It is late, sorry."}',
    "usage_details": {"input": 90, "output": 12},
    "total_cost": 0.0004,
    "tags": ["prod"],
    "release": "r41",
    "environment": "production",
}
SCORED = {
    "id": "sc1",
    "trace_id": "t1",
    "name": "helpful",
    "data_type": "NUMERIC",
    "value": 0.5,
    "string_value": None,
    "source": "ANNOTATION",
}


def test_rows_of_langfuse_make_sessions_and_annotations_labels():
    again = {**OBSERVED, "trace_id": "t2", "id": "ob3", "start_time": "2026-11-20 02:00:00"}
    later = {**again, "input": "Thanks", "output": "Welcome.", "end_time": None}
    tool = {**OBSERVED, "id": "ob4", "type": "TOOL", "name": "find_order"} | {
        "input": '{"order_id": 77}',
        "output": "gone",
        "level": "ERROR",
    }
    case = joined("langfuse", later, OBSERVED, tool, OBSERVED, SCORED)
    assert turn_lines(case) == [
        ASKED,
        CALLED,
        "tool: gone",
        LATE,
        "user: Thanks",
        "assistant: Welcome.",
    ]
    assert (case.case_id, case.agent, case.agent_version, case.cluster) == (
        "s1",
        "support",
        "r41",
        "u9",
    )
    assert case.tags == {"prod": "true", "environment": "production"}
    assert case.labels == {"helpful": 0.5}
    assert case.metadata[HUMAN_LABELS] == [{"metric": "helpful", "label": 0.5, "rater": "human"}]
    assert case.metadata[FIDELITY] == {"repeated row": 1}
    failed = case.transcript.turns[2].tool_result
    assert failed is not None
    assert failed.is_error


def test_a_single_trace_of_langfuse_is_read_with_its_observations_and_scores():
    camel = {"id": "o", "type": "GENERATION", "startTime": "2026-11-20T01:00:00Z"} | {
        "input": [{"role": "user", "content": "Hi"}],
        "output": {"role": "assistant", "content": "Hello"},
        "usageDetails": {"input": 3, "output": 1},
    }
    score = {"id": "s", "name": "ok", "dataType": "BOOLEAN", "value": 1, "source": "ANNOTATION"}
    trace = {"id": "t9", "timestamp": "2026-11-20T01:00:00Z", "name": "chat", "input": "Hi"} | {
        "output": "Hello",
        "sessionId": None,
        "observations": [camel],
        "scores": [score],
    }
    case = joined("langfuse", trace)
    assert turn_lines(case) == ["user: Hi", "assistant: Hello"]
    assert (case.case_id, case.agent, case.labels) == ("t9", "chat", {"ok": 1.0})
    assert case.transcript.agent_usage().input_tokens == 3


def test_messages_as_events_of_older_emitters_are_read():
    events = [
        {"name": "gen_ai.system.message", "attributes": {"content": POLICY}},
        {"name": "gen_ai.user.message", "attributes": {"content": "Where is order 77?"}},
        {
            "name": "gen_ai.choice",
            "attributes": {"message": '{"role":"assistant","content":"It is late, sorry."}'},
        },
    ]
    span = {"trace_id": "t", "span_id": "s", "events": events} | {
        "attributes": {"gen_ai.operation.name": "chat", "gen_ai.system": "acme"}
    }
    case = joined("otel", span)
    assert turn_lines(case) == [ASKED, LATE]
    assert case.transcript.system == POLICY


def test_a_summary_in_place_of_the_beginning_does_not_cost_the_beginning():
    def span(number: int, asked: list[tuple[str, str]], answer: str, **more: object):
        def message(role: str, text: str):
            return {"role": role, "parts": [{"type": "text", "content": text}]}

        return {
            "trace_id": "t",
            "span_id": str(number),
            "start_time": f"2026-11-20T01:00:0{number}Z",
            "attributes": {
                "gen_ai.operation.name": "chat",
                "gen_ai.input.messages": [message(*one) for one in asked],
                "gen_ai.output.messages": [message("assistant", answer)],
                **more,
            },
        }

    case = joined(
        "otel",
        span(1, [("user", "one")], "1"),
        span(2, [("user", "one"), ("assistant", "1"), ("user", "two")], "2"),
        span(
            3,
            [("user", "so far: one, two"), ("assistant", "2"), ("user", "three")],
            "3",
            **{"gen_ai.conversation.compacted": True},
        ),
    )
    said = [turn.text for turn in case.transcript.turns]
    assert said == ["one", "1", "two", "2", "three", "3"]


def test_a_model_call_beside_the_conversation_is_counted_and_left_out():
    def request(text: str, answer: str, *more: dict[str, str]):
        asked = [{"role": "user", "content": text}, *more]
        done = {"choices": [{"message": {"role": "assistant", "content": answer}}]}
        return {
            "conversation_id": "c",
            "request": {"model": "m", "messages": asked},
            "response": done,
        }

    case = joined(
        "openai_logs",
        request("hi", "billing"),
        request("hi", "Hello"),
        request(
            "hi",
            "Bye",
            {"role": "assistant", "content": "Hello"},
            {"role": "user", "content": "ok"},
        ),
    )
    assert turn_lines(case) == ["user: hi", "assistant: Hello", "user: ok", "assistant: Bye"]
    assert case.metadata[FIDELITY] == {"dropped request beside the conversation": 1}


@pytest.mark.parametrize(
    ("name", "record", "said"),
    [
        ("openai_chat", {"messages": [{"role": "robot"}]}, "messages.0.role: found 'robot'"),
        ("openai_chat", {"messages": "x"}, "messages: found str, expected a list"),
        ("openai_chat", {}, "messages: missing"),
        ("openai_chat", {"messages": [{"role": "assistant", "tool_calls": [{}]}]}, "name: found None"),
        ("anthropic", {"messages": [{"role": "tool"}]}, "messages.0.role: found 'tool'"),
        ("atif", {"steps": [{"source": "x"}]}, "steps.0.source: found 'x'"),
        ("inspect_ai", {"eval": {}, "sample": {}}, "sample.id: missing"),
        ("otel", {"attributes": {}}, "trace_id: missing"),
        ("otel", [{"trace": "t", "id": "s", "parent": None, "name": "x", "start": 0, "end": 0,
                   "attributes": {}, "events": [], "failed": False}], "spans: no messages"),
        ("langfuse", {"x": 1}, "neither an observation, a score nor a trace"),
        ("langfuse", [{"id": "a", "trace_id": "t", "type": "EVENT"}], "no input and no output"),
        ("mlflow", {"info": {}}, "no info of a trace"),
        ("openai_logs", {"request": {}}, "no request with messages and model"),
    ],
)  # fmt: skip
def test_what_is_no_record_is_refused_with_its_place(name: str, record: object, said: str):
    with pytest.raises(DataError) as refused:
        FORMATS[name].case(json.dumps(record).encode())
    assert refused.value.code == "schema"
    assert said in refused.value.detail


def test_parts_and_fields_that_nobody_knows_are_counted_never_lost_silently():
    record = {
        "messages": [
            {"role": "user", "content": [{"type": "hologram", "x": 1}, {"type": "input_audio"}]},
            {"role": "assistant", "content": "Hi", "annotations": [{"url": "u"}], "audio": None},
            {"role": "system", "content": "Be brief."},
        ],
        "seed": 7,
    }
    (case,) = cases_in(lines(record))
    assert turn_lines(case) == ["user: [part.hologram]\n[audio]", "assistant: Hi"]
    assert case.transcript.system == "Be brief."
    assert case.metadata[FIDELITY] == {
        "dropped message.annotations": 1,
        "dropped record.seed": 1,
        "marked audio": 1,
        "marked part.hologram": 1,
        "moved system message": 1,
    }
