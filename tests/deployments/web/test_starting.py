"""Runs that begin over HTTP, on a real Prefect server where `assizes deploy` registered them."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter
from prefect.client.schemas.objects import FlowRun

from tests.command import assizes
from tests.deployments.web.conftest import Reply, Served, ask, serving

TOML = """
name = "http"
[transcripts]
uri = "in/{date}/"
agent = "http-agent"
[store]
uri = "duckdb:///http.duckdb"
[nightly]
cron = ""
[runner]
work_pool = "pool-http"
"""
JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True)
class Api:
    url: str

    def post(self, path: str, body: Any, key: str | None = None) -> Reply:
        named = JSON if key is None else {**JSON, "Idempotency-Key": key}
        sent = json.dumps(body).encode()
        return ask(self.url + path, method="POST", headers=named, body=sent)


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory, prefect_server: str) -> Iterator[Api]:
    folder = tmp_path_factory.mktemp("api")
    (folder / "assizes.toml").write_text(TOML)
    env = {"PREFECT_API_URL": prefect_server}
    done = assizes("deploy", cwd=folder, env=env)
    assert done.code == 0, done
    with serving(folder, **env, store=None) as url:
        yield Api(url)


async def flow_run(answer: Reply) -> FlowRun:
    async with get_client() as client:
        return await client.read_flow_run(answer.json["flow_run_id"])


async def test_a_run_is_begun_with_the_deployed_configuration_and_what_was_said(api: Api):
    wanted = {"flow": "evaluate", "parameters": {"on": "2026-11-20", "run_id": "http-one"}}
    answer = api.post("/runs", wanted)
    assert (answer.status, answer.json["deployment"]) == (202, "evaluate/assizes-http")
    run = await flow_run(answer)
    assert run.parameters["config"]["transcripts"]["uri"] == "in/{date}/"
    assert (run.parameters["on"], run.parameters["run_id"]) == ("2026-11-20", "http-one")
    assert run.state_name == answer.json["state"] == "Scheduled"
    assert answer.json["url"].endswith(f"/runs/flow-run/{run.id}")


@pytest.mark.full
@pytest.mark.parametrize(
    "wanted",
    [
        {"flow": "nightly"},
        {"flow": "nightly", "parameters": {"on": "2026-11-20"}},
        {"flow": "backfill", "parameters": {"since": "2026-11-01", "until": "2026-11-02"}},
        {"flow": "after-deployment", "parameters": {"version": "7", "min_transcripts": 5}},
        {"flow": "compare", "parameters": {"baseline": "a", "candidate": "b"}},
    ],
    ids=lambda wanted: wanted["flow"],
)
async def test_every_flow_takes_what_it_can_be_told(api: Api, wanted: dict[str, Any]):
    answer = api.post("/runs", wanted)
    assert answer.status == 202, answer
    run = await flow_run(answer)
    given_parameters = wanted.get("parameters", {})
    assert {name: run.parameters[name] for name in given_parameters} == given_parameters


async def test_the_same_key_begins_one_run_and_never_another(api: Api):
    wanted = {"flow": "nightly", "parameters": {"on": "2026-11-19"}}
    first, again = (api.post("/runs", wanted, key="night-19") for _ in range(2))
    assert (first.status, again.status) == (202, 202)
    assert first.json["flow_run_id"] == again.json["flow_run_id"]
    other = api.post("/runs", {"flow": "nightly"}, key="night-19")
    assert (other.status, "night-19" in other.json["detail"]) == (409, True)
    assert api.post("/runs", wanted).json["flow_run_id"] != first.json["flow_run_id"]


@pytest.mark.full
@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ({}, "flow"),
        ({"flow": "calibrate"}, "flow"),
        ({"flow": "evaluate", "parameters": {"config": {"name": "mine"}}}, "config"),
        ({"flow": "evaluate", "parameters": {"on": "yesterday"}}, "on"),
        ({"flow": "evaluate", "parameters": {"run_id": "../elsewhere"}}, "run_id"),
        ({"flow": "backfill", "parameters": {}}, "since"),
        (
            {"flow": "backfill", "parameters": {"since": "2026-11-02", "until": "2026-11-01"}},
            "before since",
        ),
    ],
)
def test_what_cannot_be_begun_is_a_problem_that_names_the_field(
    api: Api, wanted: dict[str, Any], reason: str
):
    answer = api.post("/runs", wanted)
    assert (answer.status, reason in answer.json["detail"]) == (422, True), answer
    assert len(answer.json["errors"]) == 1


async def test_the_event_of_a_deployment_begins_a_run_once(api: Api):
    payload = {
        "model": "http-agent",
        "version": "2026.11",
        "agent": "http-agent",
        "min_transcripts": 3,
    }
    replies = [api.post("/events/model-deployed", payload, key="rollout-1") for _ in range(2)]
    assert [reply.status for reply in replies] == [202, 202]
    assert replies[0].json == replies[1].json
    assert (replies[0].json["event"], replies[0].json["resource"]) == (
        "model.deployed",
        "model.http-agent",
    )
    begun = await begun_by_the_event()
    assert [
        {name: run.parameters[name] for name in ("version", "agent", "min_transcripts")}
        for run in begun
    ] == [{"version": "2026.11", "agent": "http-agent", "min_transcripts": 3}]


def test_a_key_that_was_used_for_one_model_hides_no_other(api: Api):
    bodies = [
        {"model": "airline", "version": "7"},
        {"model": "retail", "version": "7"},
        {"model": "airline", "version": "8"},
        {"model": "airline", "version": "7", "min_transcripts": 9},
    ]
    replies = [api.post("/events/model-deployed", body, key="rollout-2") for body in bodies]
    assert [reply.status for reply in replies] == [202] * 4
    assert len({reply.json["event_id"] for reply in replies}) == 4
    again = api.post("/events/model-deployed", bodies[0], key="rollout-2")
    assert again.json == replies[0].json


async def begun_by_the_event() -> list[FlowRun]:
    async with get_client() as client:
        there = await client.read_deployment_by_name("after-deployment/assizes-http")
        only = FlowRunFilter(deployment_id={"any_": [there.id]})
        for _ in range(150):
            runs = await client.read_flow_runs(flow_run_filter=only)
            if mine := [run for run in runs if run.parameters.get("version") == "2026.11"]:
                await asyncio.sleep(2)
                runs = await client.read_flow_runs(flow_run_filter=only)
                return [run for run in runs if run.parameters.get("version") == "2026.11"]
            await asyncio.sleep(0.2)
    return mine


def test_a_configuration_that_is_not_deployed_is_told_with_what_to_do(
    served: Served, prefect_server: str, tmp_path: Path
):
    file = tmp_path / "assizes.toml"
    file.write_text('name = "never-deployed"\n\n[transcripts]\nuri = "in"\n')
    with serving(served.folder, "-c", str(file), PREFECT_API_URL=prefect_server) as url:
        answer = Api(url).post("/runs", {"flow": "evaluate"})
    assert answer.status == 400
    assert "`assizes deploy`" in answer.json["detail"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/runs", {"flow": "nightly"}),
        ("/events/model-deployed", {"model": "m", "version": "1"}),
    ],
)
def test_without_a_prefect_server_the_answer_says_what_to_do(
    served: Served, path: str, body: dict[str, str]
):
    answer = Api(served.url).post(path, body)
    assert (answer.status, answer.headers["content-type"]) == (503, "application/problem+json")
    assert "`assizes up`" in answer.json["detail"]


def test_a_server_that_does_not_answer_is_named(served: Served):
    dead = "http://127.0.0.1:9/api"
    with serving(served.folder, PREFECT_API_URL=dead) as url:
        answer = Api(url).post("/runs", {"flow": "nightly"})
    assert (answer.status, dead in answer.json["detail"]) == (503, True)


def test_a_page_of_another_site_begins_nothing(api: Api):
    body = json.dumps({"flow": "nightly"}).encode()
    for headers in ({**JSON, "Origin": "https://evil.test"}, {"Content-Type": "text/plain"}):
        assert ask(f"{api.url}/runs", method="POST", headers=headers, body=body).status in (
            403,
            422,
        )


@pytest.mark.full
def test_reading_does_not_load_prefect():
    code = "import sys, assizes.deployments.api; assert 'prefect' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
