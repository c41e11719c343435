"""Pages of MLflow and Phoenix, as their servers answer (tests/integrations asks real ones)."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime

import pytest

from assizes.judge.errors import ConfigurationError
from assizes.judge.formats import FORMATS
from assizes.judge.formats.shared.parsing import HUMAN_LABELS
from assizes.tasks.trace_stores.connection import ServerConnection
from assizes.tasks.trace_stores.http_client import JsonClient
from assizes.tasks.trace_stores.marks import RUN_KEY
from assizes.tasks.trace_stores.mlflow_reader import MlflowReader
from assizes.tasks.trace_stores.phoenix_reader import PhoenixReader
from assizes.tasks.trace_stores.reading import TimeWindow
from tests.doubles.json_server import Reply, json_server

WINDOW = TimeWindow(datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 2, tzinfo=UTC))


def pages(reader):
    cursor, found = None, []
    while True:
        page = reader.page(WINDOW, cursor)
        found += page.pieces
        if (cursor := page.cursor) is None:
            return found


def case_of(format_name, pieces):
    lines = b"".join(json.dumps(piece.value).encode() + b"\n" for piece in pieces)
    (record,) = FORMATS[format_name].records(lines)
    return FORMATS[format_name].case(record)


def mlflow_answer(request):
    if request.path.endswith("get-by-name"):
        known = request.params["experiment_name"] == "support"
        body = {"experiment": {"experiment_id": "7"}} if known else {"error_code": "NONE"}
        return Reply(200 if known else 404, body)
    if request.path == "/api/3.0/mlflow/traces/search":
        body = request.body
        assert body["locations"] == [
            {"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": {"experiment_id": "7"}}
        ]
        assert body["max_results"] <= 500
        assert body["filter"] == (
            "trace.timestamp_ms < 1793577600000 AND trace.timestamp_ms >= 1793491200000"
        )
        second = body.get("page_token") == "next"
        info = {
            "trace_id": "tr-2" if second else "tr-1",
            "request_time": f"2026-11-01T0{1 + second}:00:00Z",
            "trace_metadata": {"mlflow.trace.session": "s"},
            "tags": {} if second else {"mlflow.trace.spansLocation": "TRACKING_STORE"},
            "assessments": [
                {"assessment_id": "a", "assessment_name": "q", "feedback": {"value": 1}},
                {"assessment_id": "b", "assessment_name": "own", "metadata": {RUN_KEY: "r"}},
            ],
        }
        return Reply(200, {"traces": [info], **({} if second else {"next_page_token": "next"})})
    if request.path == "/api/3.0/mlflow/traces/batchGet":
        assert request.query == [("trace_ids", "tr-1")]
        return Reply(
            200, {"traces": [{"trace_info": {"trace_id": "tr-1"}, "spans": [stored_span()]}]}
        )
    assert request.path == "/ajax-api/2.0/mlflow/get-trace-artifact"
    assert request.params == {"request_id": "tr-2"}
    return Reply(200, {"spans": [span_of_a_file()]})


def stored_span():
    message = {"key": "content", "value": {"string_value": "123"}}
    role = {"key": "role", "value": {"string_value": "user"}}
    entries = {"array_value": {"values": [{"kvlist_value": {"values": [role, message]}}]}}
    inputs = {"kvlist_value": {"values": [{"key": "messages", "value": entries}]}}
    return {
        "trace_id": base64.b64encode(bytes(16)).decode(),
        "span_id": base64.b64encode(b"12345678").decode(),
        "name": "chat",
        "start_time_unix_nano": 1,
        "end_time_unix_nano": 2,
        "attributes": [
            {"key": "mlflow.spanType", "value": {"string_value": "CHAT_MODEL"}},
            {"key": "mlflow.spanInputs", "value": inputs},
            {"key": "mlflow.spanOutputs", "value": {"string_value": "first"}},
        ],
    }


def span_of_a_file():
    return {
        "span_id": "abcdef0123456789",
        "name": "chat",
        "start_time_unix_nano": 3,
        "attributes": {
            "mlflow.spanType": '"CHAT_MODEL"',
            "mlflow.spanInputs": '{"messages": [{"role": "user", "content": "again"}]}',
            "mlflow.spanOutputs": '"second"',
        },
    }


def test_mlflow_pages_with_spans_of_the_store_and_of_files():
    with json_server(mlflow_answer) as server:
        reader = MlflowReader(JsonClient(ServerConnection("mlflow", server.url, {})), "support")
        pieces = pages(reader)
    assert [(piece.trace, piece.conversation) for piece in pieces] == [("tr-1", "s"), ("tr-2", "s")]
    case = case_of("mlflow", pieces)
    texts = [turn.text for turn in case.transcript.turns]
    assert texts == ["123", "first", "again", "second"]  # a text of digits stays a text
    assert case.labels == {"q": 1.0}
    assert [turn.trace_id for turn in case.transcript.turns] == ["tr-1", "tr-1", "tr-2", "tr-2"]
    assert case.transcript.turns[1].span_id == b"12345678".hex()
    assert case.transcript.turn_spans()[3] == "tr-2/abcdef0123456789"


def test_mlflow_without_the_experiment():
    with json_server(mlflow_answer) as server:
        reader = MlflowReader(JsonClient(ServerConnection("mlflow", server.url, {})), "other")
        with pytest.raises(ConfigurationError, match="has no experiment 'other'"):
            reader.check()


def phoenix_span(number, **more):
    return {
        "id": f"row{number}",
        "name": "llm",
        "context": {"trace_id": "t1", "span_id": f"s{number}"},
        "span_kind": "LLM",
        "parent_id": None if number == 1 else "s1",
        "start_time": f"2026-11-01T00:00:0{number}+00:00",
        "end_time": f"2026-11-01T00:00:0{number}+00:00",
        "status_code": "OK",
        "attributes": {
            "session.id": "c1",
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.content": "hello",
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": f"answer {number}",
        },
        "events": [],
        **more,
    }


def phoenix_answer(request):
    base = "/v1/projects/support"
    if request.path == base:
        return Reply(200, {"data": {"id": "p", "name": "support"}})
    if request.path == f"{base}/spans":
        assert int(request.params["limit"]) <= 1000
        assert request.params["start_time"] == "2026-10-31T23:00:00.000Z"
        assert request.params["end_time"] == "2026-11-02T01:00:00.000Z"
        if "cursor" not in request.params:
            return Reply(200, {"data": [phoenix_span(2)], "next_cursor": "c"})
        return Reply(200, {"data": [phoenix_span(1)], "next_cursor": None})
    if request.path == f"{base}/trace_annotations":
        return Reply(404, b"not found")  # an older server
    if request.path == f"{base}/span_annotations":
        ids = [value for name, value in request.query if name == "span_ids"]
        rows = [
            {
                **{"id": "1", "span_id": ids[0], "name": f"q{ids[0]}", "result": {"score": 0.5}},
                **{"annotator_kind": "HUMAN", "user_id": f"user{ids[0]}"},
            },
            {"id": "2", "span_id": ids[0], "name": "own", "metadata": {RUN_KEY: "r"}},
        ]
        return Reply(200, {"data": rows, "next_cursor": None})
    return Reply(404, b"not found") if request.path != "/v1/projects" else Reply(200, {"data": []})


def test_phoenix_pages_with_annotations():
    with json_server(phoenix_answer) as server:
        reader = PhoenixReader(JsonClient(ServerConnection("phoenix", server.url, {})), "support")
        pieces = pages(reader)
    assert [(piece.trace, piece.key) for piece in pieces] == [("t1", "s2"), ("t1", "s1")]
    case = case_of("otel", pieces)
    assert case.case_id == "c1"
    assert case.labels == {"qs1": 0.5, "qs2": 0.5}
    raters = {row["metric"]: row["rater"] for row in case.metadata[HUMAN_LABELS]}
    assert raters == {"qs1": "users1", "qs2": "users2"}
    assert case.transcript.turns[-1].span_id in ("s1", "s2")


def test_phoenix_without_the_project():
    with json_server(phoenix_answer) as server:
        reader = PhoenixReader(JsonClient(ServerConnection("phoenix", server.url, {})), "other")
        with pytest.raises(ConfigurationError, match="has no project 'other'"):
            reader.check()
