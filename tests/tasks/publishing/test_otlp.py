"""Events of evaluations over OTLP: every attribute by the conventions, sent again only if lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assizes.judge.config.publishing import PublishConfig
from assizes.judge.config.run import StoreConfig
from assizes.judge.errors import ConfigurationError
from assizes.tasks.publishing.deliveries import delivery_log
from assizes.tasks.publishing.otlp import Otlp
from assizes.tasks.publishing.publisher import Publisher, PublishReport
from assizes.tasks.store import open_store
from tests.doubles.json_server import JsonServer, Reply, json_server
from tests.doubles.otlp_logs import OtlpLogs
from tests.tasks.publishing.sample import RUN_ID, TRACES, stored, traced_run

SPAN = "b7ad6b7169203331"


@pytest.fixture
def receiver() -> Iterator[tuple[OtlpLogs, JsonServer]]:
    double = OtlpLogs()
    with json_server(double.answer) as server:
        yield double, server


def publish(config: StoreConfig, server: JsonServer) -> PublishReport:
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"{server.url}/",
        "OTEL_EXPORTER_OTLP_HEADERS": "other=1,x-key=otlp%20secret",
    }
    with open_store(config) as store:
        publisher = Publisher(store, delivery_log(config), PublishConfig())
        return publisher.publish(store.run(RUN_ID), destination=Otlp(environment=environment))


def test_every_event_is_parented_to_its_trace_and_a_second_time_none_is_sent(
    tmp_path: Path, receiver: tuple[OtlpLogs, JsonServer]
):
    double, server = receiver
    config = stored(tmp_path)
    assert publish(config, server).exit_code == 0
    assert len(double.events) == 16
    assert {event["traceId"] for event in double.events} == set(TRACES)
    ids = {event["values"]["assizes.delivery_id"] for event in double.events}
    assert len(ids) == 16
    (failed,) = (event["values"] for event in double.events if "error.type" in event["values"])
    assert failed["error.type"] == "timeout"
    assert failed["gen_ai.evaluation.name"] == "tool_routing"
    publish(config, server)
    assert len(double.events) == 16


def test_ids_that_tags_state_are_used_and_a_conversation_is_named_where_no_trace_is_known(
    tmp_path: Path, receiver: tuple[OtlpLogs, JsonServer]
):
    double, server = receiver
    tags = {"trace_id": TRACES[0], "span_id": SPAN, "response_id": "chatcmpl-1"}
    publish(stored(tmp_path, traced_run(("conv-1",), tags=tags)), server)
    assert {event["spanId"] for event in double.events} == {SPAN}
    assert {event["values"]["gen_ai.response.id"] for event in double.events} == {"chatcmpl-1"}
    double.events.clear()
    publish(stored(tmp_path / "b", traced_run(("conv-1",))), server)
    assert {event["values"]["gen_ai.conversation.id"] for event in double.events} == {"conv-1"}


def test_a_refusal_is_repeated_only_where_the_server_took_nothing(
    tmp_path: Path, receiver: tuple[OtlpLogs, JsonServer], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("time.sleep", lambda _: None)
    double, server = receiver
    config = stored(tmp_path)
    server.faults = [Reply(hang_up=True)]  # the answer is lost: nobody knows
    report = publish(config, server)
    assert (report.unanswered, report.exit_code, len(server.requests)) == (16, 4, 1)
    server.faults = [Reply(503, None, {"retry-after": "0"})]
    assert publish(config, server).exit_code == 0
    assert len(double.events) == 16


def test_a_partial_success_is_said_and_never_sent_again(
    tmp_path: Path, receiver: tuple[OtlpLogs, JsonServer]
):
    double, server = receiver
    double.partial = {"rejectedLogRecords": "3", "errorMessage": "too old"}
    config = stored(tmp_path)
    publish(config, server)
    details = set(delivery_log(config).latest(RUN_ID)["detail"])
    assert details == {"3 of 16 events of one request were rejected: too old"}
    publish(config, server)
    assert len(double.events) == 16


def test_a_receiver_that_is_not_named_or_is_no_address_is_one_line():
    with pytest.raises(ConfigurationError, match="set OTEL_EXPORTER_OTLP_ENDPOINT"):
        Otlp(environment={})
    with pytest.raises(ConfigurationError, match="give an address such as"):
        Otlp(environment={"OTEL_EXPORTER_OTLP_ENDPOINT": "localhost:4317"})


@pytest.mark.data
def test_the_records_have_the_shape_that_the_sdk_sends(
    tmp_path: Path, receiver: tuple[OtlpLogs, JsonServer], data: Path
):
    double, server = receiver
    publish(stored(tmp_path), server)
    lines = (data / "integrations/otel/evaluation_logs.otlp.jsonl").read_text("utf-8").splitlines()
    recorded: list[dict[str, Any]] = [
        json.loads(line)["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0] for line in lines
    ]
    known = {key for record in recorded for key in record}
    for event in double.events:
        assert event.keys() - {"values"} <= known
