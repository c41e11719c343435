"""What a server keeps between requests is never older than its store: the next answer tells a change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from assizes.judge.config.run import StoreConfig
from assizes.judge.rows import frame
from assizes.tasks.store import open_store
from tests.deployments.web.conftest import environment_without_prefect, serving
from tests.tasks.reports.sample import Said, run

TOKEN = "0123456789abcdef"
KNOWN = {"Authorization": f"Bearer {TOKEN}"}


def keep(config: StoreConfig, run_id: str, *scores: tuple[int, int]) -> None:
    said = [Said(f"c{number}", each) for number, each in enumerate(scores)]
    one = run(said, run_id=run_id)
    with open_store(config, writing=True) as store:
        store.begin(replace(one.record, status="running", finished_at=None, summary=None))
        store.commit_shard(run_id, "s0", one.frames, {"judged": len(said)})
        store.finish(replace(one.record, status="complete"), frame("run_metrics", []))


@pytest.fixture(params=["duckdb:///{}/s.duckdb", "{}/lake"], ids=["duckdb", "lake"])
def config(request: pytest.FixtureRequest, tmp_path: Path) -> StoreConfig:
    config = StoreConfig(uri=request.param.format(tmp_path))
    keep(config, "old", (5, 4), (4, 4), (3, 3))
    keep(config, "new", (2, 2), (4, 4), (3, 3))
    return config


@pytest.fixture
def client(config: StoreConfig, tmp_path: Path) -> Iterator[httpx.Client]:
    env = {**environment_without_prefect(tmp_path), "ASSIZES_API_TOKEN": TOKEN}
    with (
        serving(tmp_path, "--labelling", store=config.uri, **env) as url,
        httpx.Client(base_url=url, headers=KNOWN, timeout=60) as opened,
    ):
        yield opened


def cases(client: httpx.Client, query: str = "") -> list[str]:
    answer = client.get(f"/runs/new/cases?sort=case_id{query}")
    assert answer.status_code == 200, answer.text
    return [case["case_id"] for case in answer.json()["data"]]


def compared(client: httpx.Client) -> set[str]:
    answer = client.get("/runs/compare?baseline=old&candidate=new")
    assert answer.status_code == 200, answer.text
    return {case["test_case_id"] for case in answer.json()["test_case_comparisons"]}


@pytest.mark.full
def test_a_new_run_a_label_and_a_forgotten_case_are_told_at_once(
    client: httpx.Client, config: StoreConfig
) -> None:
    for _ in range(3):  # whatever is kept is kept now
        assert client.get("/runs").json()["count"] == 2
        assert cases(client) == ["c0", "c1", "c2"]
        assert cases(client, "&label=any") == []
        assert compared(client) == {"c0", "c1", "c2"}
        assert "c0" in client.get("/view/runs/new").text

    keep(config, "third", (5, 5))
    assert client.get("/runs").json()["count"] == 3
    assert client.get("/view/runs/third").status_code == 200

    label = {"run": "new", "case_id": "c1", "value": 1, "rater": "ada"}
    told = client.post("/labels", json=label)
    assert told.is_success, told.text
    assert cases(client, "&label=any") == ["c1"]

    with open_store(config, writing=True) as store:
        store.forget("new", ["c0"])
    assert cases(client) == ["c1", "c2"]
    assert compared(client) == {"c1", "c2"}
    assert client.get("/runs/new/cases/c0").status_code == 404

    stranger = {"Authorization": "Bearer another-token-of-16"}
    for path in ("/runs", "/runs/new/cases?sort=case_id", "/view/runs/new"):
        assert client.get(path, headers=stranger).status_code == 401
