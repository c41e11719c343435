"""Scores to Langfuse: what arrives, once, whatever the server answers."""

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
from assizes.tasks.publishing.langfuse import Langfuse
from assizes.tasks.publishing.publisher import Publisher, PublishReport
from assizes.tasks.store import open_store
from assizes.tasks.trace_stores.connection import connection_to
from assizes.tasks.trace_stores.http_client import JsonClient
from tests.command import assizes
from tests.doubles.json_server import JsonServer, Reply, json_server
from tests.doubles.langfuse_scores import KEYS, Generation, LangfuseScores
from tests.tasks.publishing.sample import RUN_ID, SECRET, TRACES, stored

pytestmark = pytest.mark.data


@pytest.fixture(params=["lists", "events"])
def generation(request: pytest.FixtureRequest) -> Generation:
    return request.param


@pytest.fixture
def langfuse(generation: Generation) -> Iterator[tuple[LangfuseScores, JsonServer]]:
    double = LangfuseScores(generation)
    with json_server(double.answer) as server:
        yield double, server


def publish(
    config: StoreConfig, server: JsonServer, settings: dict[str, Any] | None = None, **how: Any
) -> PublishReport:
    connection = connection_to("langfuse", {**KEYS, "LANGFUSE_BASE_URL": server.url})
    place = Langfuse(JsonClient(connection, sleep=lambda _: None))
    with open_store(config) as store:
        publisher = Publisher(store, delivery_log(config), PublishConfig(**settings or {}))
        return publisher.publish(store.run(RUN_ID), destination=place, **how)


def test_every_score_and_verdict_arrives_and_the_second_time_nothing_is_sent(
    tmp_path: Path, langfuse: tuple[LangfuseScores, JsonServer]
):
    double, server = langfuse
    config = stored(tmp_path)
    report = publish(config, server)
    assert report.exit_code == 0
    assert dict(report.sent) == {"score": 12, "verdict": 4}
    assert len(double.scores) == double.writes == 16
    by_name = {(s["traceId"], s["name"]): s for s in double.scores.values()}
    assert {trace for trace, _ in by_name} == set(TRACES)
    score = by_name[(TRACES[1], "tool_routing")]
    assert (score["value"], score["dataType"]) == (1.0, "NUMERIC")
    assert score["metadata"]["assizes.judge"] == "conversation"
    assert score["metadata"]["assizes.rubric_hash"] == "0123456789abcdef"
    assert score["metadata"]["assizes.run_id"] == RUN_ID
    assert "assizes.model" in score["metadata"]
    assert by_name[(TRACES[0], "verdict")]["value"] == 0.0
    sent = len(server.requests)
    again = publish(config, server)
    assert (again.unchanged, dict(again.sent)) == (16, {})
    assert len(server.requests) == sent


def test_a_score_that_failed_is_a_word_and_never_a_number(
    tmp_path: Path, langfuse: tuple[LangfuseScores, JsonServer]
):
    double, server = langfuse
    publish(stored(tmp_path), server)
    of_case = {s["name"]: s for s in double.scores.values() if s["traceId"] == TRACES[-1]}
    assert "tool_routing" not in of_case
    failed = of_case["tool_routing:status"]
    assert (failed["value"], failed["dataType"]) == ("failed", "CATEGORICAL")
    assert failed["metadata"]["assizes.error"] == "timeout"


def test_no_word_of_a_conversation_leaves_unless_reasons_are_included(
    tmp_path: Path, langfuse: tuple[LangfuseScores, JsonServer]
):
    double, server = langfuse
    config = stored(tmp_path)
    publish(config, server)
    assert SECRET not in json.dumps(list(double.scores.values()))
    with_reasons = publish(config, server, {"include": ["scores", "verdicts", "reasons"]})
    assert with_reasons.sent["score"] > 0
    assert any(s.get("comment") == SECRET for s in double.scores.values())
    assert len(double.scores) == 16  # replaced, not added


def test_a_refused_score_is_named_and_stops_no_other(
    tmp_path: Path, langfuse: tuple[LangfuseScores, JsonServer]
):
    double, server = langfuse
    config = stored(tmp_path)
    double.rejects = lambda s: "no such trace" if s["traceId"] == TRACES[2] else None
    report = publish(config, server)
    assert (report.refused, report.exit_code) == (4, 4)
    assert len(double.scores) == 12
    assert "no such trace" in report.reasons[0]
    assert TRACES[2] in report.reasons[0]
    again = publish(config, server)
    assert (again.refused, again.refused_before, again.unchanged) == (0, 4, 12)
    double.rejects = lambda _: None
    retried = publish(config, server, retry_refused=True)
    assert sum(retried.sent.values()) == 4
    assert len(double.scores) == 16


def test_a_busy_server_is_asked_again_and_one_that_stays_away_leaves_the_rest_for_later(
    tmp_path: Path, langfuse: tuple[LangfuseScores, JsonServer]
):
    double, server = langfuse
    config = stored(tmp_path)
    server.faults = [Reply(429, None, {"retry-after": "1"}), Reply(503), Reply(hang_up=True)]
    assert publish(config, server).exit_code == 0
    assert len(double.scores) == 16
    other = stored(tmp_path / "other")
    server.faults = [Reply(503)] * 6
    report = publish(other, server)
    assert (report.unanswered, report.exit_code) == (16, 4)
    assert report.stopped is not None
    assert "503" in report.stopped
    assert publish(other, server).sent["score"] == 12
    assert len(double.scores) == 16


def test_keys_that_are_not_accepted_end_it_with_one_line(
    tmp_path: Path, langfuse: tuple[LangfuseScores, JsonServer]
):
    _, server = langfuse
    server.answer = lambda _: Reply(401, {"message": "Invalid credentials"})
    with pytest.raises(ConfigurationError, match="401, the keys are not accepted"):
        publish(stored(tmp_path), server)
    assert len(server.requests) == 1


def test_a_dry_run_says_what_would_be_sent_and_sends_nothing(
    tmp_path: Path, langfuse: tuple[LangfuseScores, JsonServer]
):
    _, server = langfuse
    config = stored(tmp_path)
    report = publish(config, server, dry_run=True)
    assert dict(report.sent) == {"score": 12, "verdict": 4}
    assert len(report.first) == 10
    assert server.requests == []
    assert delivery_log(config).rows(RUN_ID).is_empty()


@pytest.mark.parametrize("lake", [False, True])
def test_an_answer_that_was_lost_writes_nothing_twice(
    tmp_path: Path, langfuse: tuple[LangfuseScores, JsonServer], *, lake: bool
):
    double, server = langfuse
    config = stored(tmp_path, lake=lake)
    # The scores arrive, and the process dies before it can note the answer.
    with open_store(config) as store:
        log = delivery_log(config)
        publisher = Publisher(store, log, PublishConfig())
        connection = connection_to("langfuse", {**KEYS, "LANGFUSE_BASE_URL": server.url})

        class Killed(Langfuse):
            def send(self, parcels: Any) -> Any:
                list(super().send(parcels))
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            publisher.publish(store.run(RUN_ID), destination=Killed(JsonClient(connection)))
    assert set(log.rows(RUN_ID)["state"]) == {"sending"}
    assert publish(config, server).sent["score"] == 12
    assert len(double.scores) == 16
    assert set(log.latest(RUN_ID)["state"]) == {"sent"}


def annotation(score_id: str, name: str, value: Any, generation: Generation, **more: Any) -> dict:
    """A score that a person gave on the pages of Langfuse."""
    subject = (
        {"subject": {"kind": "trace", "id": TRACES[0]}}
        if generation == "lists"
        else {"traceId": TRACES[0]}
    )
    times = {"timestamp": "2026-11-20T10:00:00.000Z", "updatedAt": "2026-11-20T10:00:00.000Z"}
    body = {"id": score_id, "name": name, "value": value, "source": "ANNOTATION"}
    return {**body, "authorUserId": "ann", "comment": "so it is", **subject, **times, **more}


@pytest.mark.full
def test_labels_made_there_come_back_once_with_rater_and_time(
    tmp_path: Path, langfuse: tuple[LangfuseScores, JsonServer], generation: Generation
):
    double, server = langfuse
    stored(tmp_path)
    double.extra = [
        annotation("s1", "verdict", 1, generation, dataType="BOOLEAN"),
        annotation("s2", "tool_routing", 0.4, generation),
        annotation("s3", "mood", 0.4, generation),
        annotation("s4", "tool_routing", 17, generation),
    ]
    double.extra += [
        annotation(f"x{n}", "verdict", 1, generation)
        | {"subject": {"kind": "trace", "id": "f" * 32}, "traceId": "f" * 32}
        for n in range(150)
    ]
    env = {**KEYS, "LANGFUSE_BASE_URL": server.url}
    words = ("labels", "pull", RUN_ID, "--from", "langfuse://agents", "--json")
    first = json.loads(assizes(*words, cwd=tmp_path, env=env).out)
    assert (first["read"], first["labels"], first["new"]) == (154, 2, 2)
    assert (first["elsewhere"], first["unusable"]) == (150, 1)
    assert first["unknown_names"] == {"mood": 1}
    again = json.loads(assizes(*words, cwd=tmp_path, env=env).out)
    assert (again["labels"], again["new"]) == (2, 0)
    named = json.loads(assizes(*words, "--name", "mood=tool_routing", cwd=tmp_path, env=env).out)
    assert named["new"] == 1
    listed = json.loads(assizes("labels", "list", RUN_ID, "--json", cwd=tmp_path).out)
    by_metric = {row["metric"]: row for row in listed}
    assert by_metric["verdict"]["value"] == 1.0
    assert by_metric["verdict"]["rater"] == "ann"
    assert by_metric["verdict"]["note"] == "so it is"
    assert by_metric["verdict"]["at"].startswith("2026-11-20T10:00:00")
    # They are not sent back to where they came from.
    report = publish(
        StoreConfig(uri=f"duckdb:///{tmp_path}/assizes.duckdb"), server, {"include": ["labels"]}
    )
    assert dict(report.sent) == {}


def test_the_command_says_what_it_sent_and_what_it_would_send(
    tmp_path: Path, langfuse: tuple[LangfuseScores, JsonServer]
):
    double, server = langfuse
    stored(tmp_path)
    env = {**KEYS, "LANGFUSE_BASE_URL": server.url}
    words = ("publish", RUN_ID, "--to", "langfuse://agents")
    dry = assizes(*words, "--dry-run", cwd=tmp_path, env=env)
    assert f"{RUN_ID} to langfuse at {server.url}: would send 12 scores, 4 verdicts" in dry.out
    assert "... and 6 more" in dry.out
    assert double.scores == {}
    sent = assizes(*words, cwd=tmp_path, env=env)
    assert sent.out == f"{RUN_ID} to langfuse at {server.url}: sent 12 scores, 4 verdicts\n"
    assert sent.code == 0
    document = json.loads(assizes(*words, "--json", cwd=tmp_path, env=env).out)
    assert document["unchanged"] == 16
    lost = assizes("publish", RUN_ID, cwd=tmp_path, env=env)
    assert lost.code == 2
    assert "[publish] to: not set" in lost.err
    wrong = assizes("publish", RUN_ID, "--to", "ftp://x", cwd=tmp_path, env=env)
    assert wrong.code == 2
    assert "accepted are one of langfuse://project" in wrong.err
    no_keys = assizes(*words, cwd=tmp_path, env={"LANGFUSE_BASE_URL": server.url})
    assert "set LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY" in no_keys.err


@pytest.mark.full
def test_forget_deletes_there_too_and_nothing_here_where_it_cannot(
    tmp_path: Path, langfuse: tuple[LangfuseScores, JsonServer]
):
    double, server = langfuse
    config = stored(tmp_path)
    publish(config, server)
    env = {**KEYS, "LANGFUSE_BASE_URL": server.url}
    words = ("store", "forget", TRACES[0])
    plan = assizes(*words, cwd=tmp_path, env=env)
    assert "sent to other places: 4 scores to delete there, too" in plan.out
    real, server.answer = server.answer, lambda _: Reply(403, {"message": "no"})
    failed = assizes(*words, "--yes", cwd=tmp_path, env=env)
    assert failed.code == 2
    assert "HTTP 403" in failed.err
    assert len(delivery_log(config).latest(RUN_ID)) == 16
    assert TRACES[0] in assizes("sql", RUN_ID, "select case_id from cases", cwd=tmp_path).out
    server.answer = real
    done = json.loads(assizes(*words, "--yes", "--json", cwd=tmp_path, env=env).out)
    assert done["elsewhere"] == {"deleted": 4, "by_hand": []}
    assert {score["traceId"] for score in double.scores.values()} == set(TRACES[1:])
    assert TRACES[0] not in set(delivery_log(config).rows(RUN_ID)["case_id"])
    words = ("store", "forget", TRACES[1], "--yes", "--json")
    listed = json.loads(assizes(*words, "--here-only", cwd=tmp_path, env=env).out)
    assert len(listed["elsewhere"]["by_hand"]) == 4
    assert TRACES[1] in listed["elsewhere"]["by_hand"][0]
    assert len(double.scores) == 12
