"""Traces of Langfuse become transcript objects: pages, windows, faults, kills, and copies."""

from __future__ import annotations

import copy
import json
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from assizes.judge.config.transcripts import TranscriptsConfig
from assizes.judge.errors import ConfigurationError, Inconclusive
from assizes.tasks.intake.shards import plan_intake, read_shard
from assizes.tasks.sources.spool import Spool
from assizes.tasks.sources.trace_copies import check_trace_store, trace_sources
from assizes.tasks.sources.trace_forgetting import forget_traces
from assizes.tasks.trace_stores import http_client
from assizes.tasks.trace_stores.http_client import TraceStoreError
from assizes.tasks.trace_stores.marks import RUN_KEY
from tests.doubles.json_server import Reply, json_server
from tests.doubles.langfuse_traces import KEYS, LangfuseTraces

pytestmark = pytest.mark.data


@pytest.fixture
def double():
    return LangfuseTraces()


@pytest.fixture
def server(double, monkeypatch):
    with json_server(lambda request: double.answer(request)) as server:  # noqa: PLW0108 - replaced
        monkeypatch.setattr(http_client, "_BACKOFF", lambda _: 0.0)
        for name, value in {**KEYS, "LANGFUSE_BASE_URL": server.url}.items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.fixture
def config(tmp_path):
    return with_traces(tmp_path)


def with_traces(tmp_path, since_last=False, **traces):
    return TranscriptsConfig(
        uri="langfuse://support",
        since_last=since_last,
        traces={"copies": str(tmp_path / "copies"), **traces},
    )


def cases_of(config, window=None):
    with Spool.of(config) as spool:
        sources = trace_sources(config, window)
        listed = [source.uri for source in sources]
        wanted = TranscriptsConfig(uri=str(Path(listed[0]).parent / "*.jsonl"))
        plan = plan_intake(wanted, 20, spool)
        records = [record for shard in plan.shards for record in read_shard(shard, wanted, spool)]
    return {record.case.case_id: record.case for record in records if record.case is not None}


def texts(case):
    return [turn.all_text() for turn in case.transcript.turns]


@pytest.mark.parametrize("page", [1, 7, 1000])
def test_every_page_is_read_whatever_its_size(server, double, config, page):
    double.page = page
    sources = trace_sources(config)
    rows = [json.loads(line) for s in sources for line in Path(s.uri).read_text().splitlines()]
    observations = [row for row in rows if "dataType" not in row]
    scores = [row for row in rows if "dataType" in row]
    assert len(observations) == 36
    assert len({row["id"] for row in observations}) == 36
    assert sorted(row["id"] for row in scores) == sorted(
        score["id"] for trace in double.traces for score in trace["scores"]
    )
    assert all(row["value"] is not None for row in scores)


def test_the_copies_are_the_same_whatever_the_pages_were(server, double, config, tmp_path):
    first = trace_sources(config)
    double.page = 3
    other = trace_sources(with_traces(tmp_path / "other"))
    assert [s.etag for s in first] == [s.etag for s in other]
    assert [Path(s.uri).name for s in first] == [Path(s.uri).name for s in other]


def test_old_and_new_servers_give_the_same_conversations(server, double, config, tmp_path):
    new = cases_of(config)
    double.generation = "v3"
    old = cases_of(with_traces(tmp_path / "old"))
    assert new.keys() == old.keys()
    assert len(new) >= 7  # one of the eight has no text at all
    for case_id, case in new.items():
        assert texts(case) == texts(old[case_id])
        assert case.labels == old[case_id].labels


def test_only_the_window_is_asked_for_and_no_trace_is_cut(server, double, config):
    first = min(double.traces, key=lambda trace: trace["timestamp"])
    begin = datetime.fromisoformat(min(row["startTime"] for row in first["observations"]))
    window = (begin, begin + timedelta(milliseconds=1))
    (source,) = trace_sources(config, window)
    rows = [json.loads(line) for line in Path(source.uri).read_text().splitlines()]
    ids = {row["id"] for row in rows if "dataType" not in row}
    assert ids == {row["id"] for row in first["observations"]}  # also those that began later
    asked = [r.params for r in server.requests if "observations" in r.path]
    assert all({"fromStartTime", "toStartTime"} <= set(params) for params in asked)
    with pytest.raises(Inconclusive, match="no traces in 'langfuse://support' from"):
        trace_sources(config, (datetime(2001, 1, 1, tzinfo=UTC), datetime(2001, 1, 2, tzinfo=UTC)))


def test_a_busy_and_a_failing_server_are_asked_again(server, config):
    server.faults += [Reply(429, {}, {"retry-after": "0"}), Reply(503), Reply(hang_up=True)]
    assert trace_sources(config)


def test_a_server_that_stays_busy_is_an_error_and_the_next_run_goes_on(server, double, config):
    double.page = 5
    kept = double.answer
    calls = {"observations": 0}

    def busy_later(request):
        calls["observations"] += "observations" in request.path
        return Reply(500) if calls["observations"] > 3 else kept(request)

    double.answer = busy_later
    with pytest.raises(TraceStoreError, match="HTTP 500"):
        trace_sources(config)
    del double.answer
    server.requests.clear()
    assert trace_sources(config)
    first = next(r for r in server.requests if "observations" in r.path)
    assert "cursor" in first.params  # where the run before was cut off


def test_an_absurdly_large_answer_is_not_read(server, double, config):
    server.faults += [Reply(200, endless=True)]
    assert trace_sources(config)  # by smaller pages
    asked = [int(r.params["limit"]) for r in server.requests if "observations" in r.path]
    assert asked[0] > max(asked[1:])
    double.answer = lambda _: Reply(200, endless=True)
    with pytest.raises(TraceStoreError, match="more than 67108864 bytes"):
        trace_sources(config)


def test_a_server_that_turns_in_circles_is_left(server, double, config):
    double.answer = lambda _: Reply(200, {"data": [], "meta": {"cursor": "again"}})
    with pytest.raises(TraceStoreError, match="the same page again"):
        trace_sources(config)


@pytest.mark.parametrize("body", [[], {"data": {}}, {"data": [1]}, "text"])
def test_an_answer_of_another_shape_is_an_error(server, double, config, body):
    double.answer = lambda _: Reply(200, body)
    with pytest.raises(TraceStoreError, match="holds no list 'data'"):
        trace_sources(config)


def test_wrong_keys_and_another_project_are_named(server, double, config, monkeypatch):
    assert server.url in check_trace_store(config)
    double.project = "other"
    with pytest.raises(ConfigurationError, match="has no project 'support'; there are other"):
        check_trace_store(config)
    monkeypatch.setenv("LANGFUSE_SECRET_KEY", "sk-lf-wrong-12345678")
    with pytest.raises(TraceStoreError, match="keys are not accepted"):
        check_trace_store(config)


def test_scores_that_were_published_by_a_run_change_nothing(server, double, config):
    before = trace_sources(config)
    own = {**copy.deepcopy(double.traces[0]["scores"][0]), "id": "own", "metadata": {RUN_KEY: "r"}}
    double.traces[0]["scores"].append(own)
    assert trace_sources(config) == before


def test_filters_by_tag_version_and_score(server, double, tmp_path):
    chosen = double.traces[2]
    chosen |= {"tags": ["vip", "de"], "version": "v7"}
    name, value = chosen["scores"][0]["name"], chosen["scores"][0]["value"]
    for number, setting in enumerate(
        (
            {"tags": ["vip", "de"]},
            {"version": "v7"},
            {"scores": {name: f"= {value}"}, "version": "v7"},
        )
    ):
        sources = trace_sources(with_traces(tmp_path / str(number), **setting))
        ids = {
            json.loads(line)["traceId"] for line in Path(sources[0].uri).read_text().splitlines()
        }
        assert ids == {chosen["id"]}
    with pytest.raises(Inconclusive):
        trace_sources(with_traces(tmp_path / "none", tags=["vip", "fr"]))


def test_copies_are_used_while_the_server_is_away(server, config, tmp_path, monkeypatch):
    from_copies = with_traces(tmp_path, use="copies")
    with pytest.raises(ConfigurationError, match="there is no whole copy"):
        trace_sources(from_copies)
    before = trace_sources(config)
    asked = len(server.requests)
    for name in (*KEYS, "LANGFUSE_BASE_URL"):
        monkeypatch.delenv(name)
    assert trace_sources(from_copies) == before
    assert len(server.requests) == asked


def test_since_last_asks_for_what_is_newer_and_keeps_the_rest(server, double, tmp_path):
    config = with_traces(tmp_path, since_last=True)
    now = datetime.now(UTC)
    late = double.traces.pop()
    before = trace_sources(config)
    server.requests.clear()
    for row in late["observations"]:
        row["startTime"] = (now + timedelta(seconds=1)).isoformat()
    time.sleep(1.1)
    double.traces.append(late)
    after = trace_sources(config)
    asked = [r.params["fromStartTime"] for r in server.requests if "observations" in r.path]
    assert all(datetime.fromisoformat(moment) > now - timedelta(hours=3) for moment in asked)
    assert {s.uri for s in before} < {s.uri for s in after}
    new = {s.uri for s in after} - {s.uri for s in before}
    ids = {json.loads(line)["traceId"] for u in new for line in Path(u).read_text().splitlines()}
    assert ids == {late["id"]}


def test_a_killed_reading_goes_on_where_it_was(server, double, config, tmp_path):
    double.page = 4
    killed: list[subprocess.Popen[bytes]] = []
    kept, calls = double.answer, {"observations": 0}

    def kill_in_the_middle(request):
        calls["observations"] += "observations" in request.path
        if calls["observations"] == 4:
            killed[0].send_signal(signal.SIGKILL)
        return kept(request)

    double.answer = kill_in_the_middle
    script = (
        "import sys; from assizes.judge.config.transcripts import TranscriptsConfig;"
        "from assizes.tasks.sources.trace_copies import trace_sources;"
        "trace_sources(TranscriptsConfig.model_validate_json(sys.argv[1]))"
    )
    killed.append(subprocess.Popen([sys.executable, "-c", script, config.model_dump_json()]))
    assert killed[0].wait(60) == -signal.SIGKILL
    del double.answer
    server.requests.clear()
    sources = trace_sources(config)
    first = next(r for r in server.requests if "observations" in r.path)
    assert "cursor" in first.params
    whole = trace_sources(with_traces(tmp_path / "whole"))
    assert [s.etag for s in sources] == [s.etag for s in whole]


def test_a_forgotten_conversation_leaves_the_copies_and_does_not_come_back(server, double, config):
    sources = trace_sources(config)
    gone, other = double.traces[0]["id"], double.traces[1]["id"]
    folder = Path(config.trace_settings.copies)

    def mentions(trace_id):
        return [
            path for path in folder.rglob("*") if path.is_file() and trace_id in path.read_text()
        ]

    assert len(mentions(gone)) == 2  # the pages, and the file of the day
    assert forget_traces(config, [gone]) == 2
    assert mentions(gone) == []
    assert len(mentions(other)) == 2
    again = trace_sources(config)
    assert mentions(gone) == []
    assert {s.etag for s in again} != {s.etag for s in sources}
    assert gone not in cases_of(config)


def test_the_copies_are_for_their_owner_alone(server, config):
    for source in trace_sources(config):
        path = Path(source.uri)
        assert path.stat().st_mode & 0o077 == 0
        assert path.parent.stat().st_mode & 0o077 == 0
