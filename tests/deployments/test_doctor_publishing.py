"""`assizes doctor` says whether the place of `[publish]` takes scores, and writes nothing there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.command import assizes
from tests.doubles.json_server import JsonServer, Reply, Request, json_server
from tests.doubles.langfuse_traces import KEYS, LangfuseTraces
from tests.doubles.otlp_logs import OtlpLogs

pytestmark = [pytest.mark.data, pytest.mark.promised]


def checked(folder: Path, publish: str, **env: str) -> tuple[int, dict[str, str]]:
    """The exit code of the command, and its check of the place."""
    (folder / "in.jsonl").write_text('{"turns": []}\n')
    (folder / "assizes.toml").write_text(f'[transcripts]\nuri = "in.jsonl"\n[publish]\n{publish}')
    ended = assizes("doctor", "--json", cwd=folder, env=env)
    (check,) = [each for each in json.loads(ended.out) if each["name"] == "publishing"]
    return ended.code, check


def written(server: JsonServer) -> list[Any]:
    return [request.body for request in server.requests if request.method != "GET"]


def test_without_a_place_scores_stay(tmp_path: Path):
    _, check = checked(tmp_path, "")
    assert (check["state"], check["finding"]) == (
        "ok",
        "[publish] names no place: scores stay here",
    )


@pytest.mark.full
def test_langfuse_is_asked_for_its_project(tmp_path: Path):
    with json_server(LangfuseTraces().answer) as server:
        env = {**KEYS, "LANGFUSE_BASE_URL": server.url}
        _, check = checked(tmp_path, 'to = "langfuse://support"\nafter_run = true', **env)
        assert check["state"] == "ok"
        assert "its keys may write; scores, verdicts are sent after each run" in check["finding"]
        code, check = checked(tmp_path, 'to = "langfuse://other"', **env)
        assert (code, check["state"]) == (2, "fault")
        assert "'other'" in check["finding"]
        wrong = {**env, "LANGFUSE_SECRET_KEY": "sk-lf-of-somebody-else"}
        code, check = checked(tmp_path, 'to = "langfuse://support"', **wrong)
        assert (code, check["state"]) == (2, "fault")
        assert "401" in check["finding"]
        assert written(server) == []
    missing = {
        "LANGFUSE_BASE_URL": server.url,
        "LANGFUSE_PUBLIC_KEY": "",
        "LANGFUSE_SECRET_KEY": "",
    }
    code, check = checked(tmp_path, 'to = "langfuse://support"', **missing)
    assert (code, check["state"]) == (2, "fault")
    assert "set LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY" in check["finding"]


@pytest.mark.full
def test_a_receiver_of_events_is_sent_none(tmp_path: Path):
    double = OtlpLogs()
    with json_server(double.answer) as server:
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": server.url}
        headers = {"OTEL_EXPORTER_OTLP_HEADERS": "x-key=otlp%20secret"}
        _, check = checked(tmp_path, 'to = "otlp"', **env, **headers)
        assert check["state"] == "ok"
        assert (
            "it takes events; scores, verdicts are sent by `assizes publish RUN`"
            in (check["finding"])
        )
        assert written(server) == [{"resourceLogs": []}]
        assert double.events == []
        code, check = checked(tmp_path, 'to = "otlp"', **env)
        assert (code, check["state"]) == (2, "fault")
        assert "401" in check["finding"]


@pytest.mark.full
@pytest.mark.parametrize("status", [200, 403, 422])
def test_phoenix_is_asked_whether_the_key_may_write(tmp_path: Path, status: int):
    def answer(request: Request) -> Reply:
        if request.method == "GET":
            return Reply(200, {"data": [{"id": "1", "name": "support"}], "next_cursor": None})
        assert (request.path, request.body) == ("/v1/span_annotations", {"data": []})
        return Reply(status, {"data": []})

    with json_server(answer) as server:
        env = {"PHOENIX_COLLECTOR_ENDPOINT": server.url, "PHOENIX_API_KEY": "key-of-the-tests"}
        code, check = checked(tmp_path, 'to = "phoenix://support"', **env)
    if status == 403:
        assert (code, check["state"]) == (2, "fault")
    else:
        said = "its key may write" if status == 200 else "is seen when scores are sent"
        assert said in check["finding"]
        assert check["state"] == "ok"


@pytest.mark.full
def test_a_server_that_is_away_is_a_fault(tmp_path: Path):
    env = {"MLFLOW_TRACKING_URI": "http://127.0.0.1:9"}
    code, check = checked(tmp_path, 'to = "mlflow://support"', **env)
    assert (code, check["state"]) == (2, "fault")
    assert "mlflow" in check["finding"]
