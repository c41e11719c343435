"""What is checked of a label or an annotation before it is stored, also while the file is held."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from assizes.deployments.api import create_app
from assizes.deployments.web.guard import LOOPBACK, Access
from assizes.judge.config.run import RunConfig, StoreConfig
from assizes.tasks.store import duckdb_file, open_store
from assizes.tasks.store.people import people_tables
from tests.tasks.reports.sample import BEGUN, Said, run
from tests.tasks.stored_runs import put

TOKEN = "0123456789abcdef"
RUN, OTHER = (f"nightly-{letter * 12}" for letter in "ba")
ROW = "0123456789abcdef" * 2
HOLDER = """
import duckdb, sys
connection = duckdb.connect(sys.argv[1])
connection.execute("begin")
print("held", flush=True)
input()
"""


@pytest.fixture
def store_config(tmp_path: Path) -> StoreConfig:
    """A store of two runs, and of queues of two cases: one of the verdict, one of a metric."""
    config = StoreConfig(uri=f"duckdb:///{tmp_path}/s.duckdb")
    with open_store(config, writing=True) as store:
        for run_id in (OTHER, RUN):
            put(store, run([Said(f"c{n}", (5, 5)) for n in range(12)], run_id=run_id))
    rows = [
        {
            **{"queue_id": queue, "position": place, "run_id": RUN, "metric": metric},
            **{"case_id": f"c{place}", "repetition": 0, "part": "random", "reason": "drawn"},
            **{"stratum": "all", "probability": 0.5, "at": BEGUN, "drawn_by": "Ada"},
        }
        for queue, metric in (("q-verdict", "verdict"), ("q-routing", "tool_routing"))
        for place in range(2)
    ]
    people_tables(config).add("queues", rows)
    return config


@pytest.fixture
async def client(store_config: StoreConfig) -> AsyncIterator[httpx.AsyncClient]:
    document = {"name": "nightly", "transcripts": {"uri": "in"}, "store": {"uri": store_config.uri}}
    access = Access(LOOPBACK, token=TOKEN, labelling=True)
    app = create_app(RunConfig.model_validate(document), access)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://127.0.0.1:8320", headers=headers
    ) as opened:
        yield opened


@contextmanager
def held(config: StoreConfig) -> Iterator[None]:
    """A program that is not Assizes has the DuckDB file open."""
    words = [sys.executable, "-c", HOLDER, config.uri.removeprefix("duckdb:///")]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield
        process.communicate("\n", timeout=30)


def label(**more: Any) -> dict[str, Any]:
    return {"run": RUN, "case_id": "c0", "rater": "Ada", "value": 1, **more}


def said(**more: Any) -> dict[str, Any]:
    fields = {"run": RUN, "case_id": "c0", "kind": "comment", "text": "see", "author": "Ada"}
    return {**fields, **more}


async def rows(client: httpx.AsyncClient, table: str, **query: str) -> list[dict[str, Any]]:
    return list((await client.get(f"/{table}", params=query)).json()["data"])


async def test_a_queue_that_does_not_hold_the_case_is_refused(client: httpx.AsyncClient) -> None:
    for fields, reason in (
        ({"queue_id": "nope"}, f"run '{RUN}' has no queue 'nope' of verdict"),
        ({"queue_id": "q-routing"}, f"run '{RUN}' has no queue 'q-routing' of verdict"),
        ({"queue_id": "q-verdict", "run": OTHER}, f"run '{OTHER}' has no queue 'q-verdict'"),
        ({"queue_id": "q-verdict", "case_id": "c5"}, "queue 'q-verdict' does not hold case 'c5'"),
        ({"queue_id": "q-verdict", "case_id": "c5", "kind": "skip", "value": None}, "not hold"),
    ):
        answer = await client.post("/labels", json=label(**fields))
        assert answer.status_code == 404, fields
        assert reason in answer.json()["detail"]
    assert await rows(client, "labels") == []
    drawn = await client.post("/labels", json=label(queue_id="q-verdict"))
    assert (drawn.status_code, drawn.json()["probability"]) == (201, 0.5)


async def test_a_label_is_withdrawn_once_and_the_same_id_again_is_answered_with_200(
    client: httpx.AsyncClient,
) -> None:
    assert (await client.post("/labels", json=label())).status_code == 201
    gone = label(kind="withdrawn", value=None, label_id=ROW)
    first, again = [await client.post("/labels", json=gone) for _ in range(2)]
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    another = await client.post("/labels", json=gone | {"label_id": ROW[::-1]})
    assert another.status_code == 404
    assert [row["kind"] for row in await rows(client, "labels")] == ["label", "withdrawn"]


async def test_of_concurrent_labels_with_one_id_one_is_stored_and_the_others_are_told(
    client: httpx.AsyncClient,
) -> None:
    async def sent(bodies: list[dict[str, Any]]) -> list[int]:
        answers = await asyncio.gather(*[client.post("/labels", json=body) for body in bodies])
        return sorted(answer.status_code for answer in answers)

    assert await sent([label(label_id=ROW)] * 12) == [*[200] * 11, 201]
    bodies = [label(label_id=ROW[::-1], case_id=f"c{n}") for n in range(12)]
    assert await sent(bodies) == [201, *[409] * 11]
    assert len(await rows(client, "labels")) == 2


@pytest.mark.parametrize("kind", ["comment", "withdrawn"])
async def test_an_annotation_replaces_none_of_another_case(
    client: httpx.AsyncClient, kind: str
) -> None:
    first = (await client.post("/annotations", json=said())).json()["annotation_id"]
    changed = said(kind=kind, supersedes=first)
    for place in ({"case_id": "c1"}, {"repetition": 1}):
        refused = await client.post("/annotations", json=changed | place)
        assert refused.status_code == 404, place
    assert len(await rows(client, "annotations", current="true")) == 1
    assert (await client.post("/annotations", json=changed)).status_code == 201
    kept = {row["annotation_id"] for row in await rows(client, "annotations", current="true")}
    assert first not in kept


async def test_an_annotation_is_withdrawn_without_the_case_that_it_is_about(
    client: httpx.AsyncClient,
) -> None:
    first = (await client.post("/annotations", json=said())).json()["annotation_id"]
    gone = {"run": RUN, "kind": "withdrawn", "author": "Ada", "supersedes": first}
    assert (await client.post("/annotations", json=gone)).status_code == 201
    assert await rows(client, "annotations", current="true") == []


async def test_an_annotation_of_a_turn_or_a_finding_that_is_not_there_is_refused(
    client: httpx.AsyncClient,
) -> None:
    code = {"kind": "code", "text": "wrong_tool"}
    wrong = {"kind": "finding_wrong", "text": ""}
    for fields, reason in (
        ({"turn": 6}, "case 'c0' has no turn 6; it has 6, counted from 0"),
        ({"turn": 9999, **code, "metric": "tool_routing"}, "has no turn 9999"),
        ({**code, "metric": "nope"}, f"case 'c0' of run {RUN}: unknown finding 'nope'"),
        ({**wrong, "metric": "other/tool_routing"}, "unknown finding 'other/tool_routing'"),
    ):
        answer = await client.post("/annotations", json=said(**fields))
        assert answer.status_code == (404 if "turn" in fields else 400), fields
        assert reason in answer.json()["detail"]
    for fields in (
        {"turn": 5},
        {**code, "metric": "tool_routing"},
        {**wrong, "metric": "conversation/tool_routing"},
    ):
        assert (await client.post("/annotations", json=said(**fields))).status_code == 201


async def test_while_the_file_is_held_only_a_known_run_can_be_labelled(
    client: httpx.AsyncClient, store_config: StoreConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duckdb_file, "LOCK_WAIT_S", 0.1)
    assert (await client.get("/runs")).status_code == 200  # a listing leaves the index of the runs
    with held(store_config):
        for path, body in (("/labels", label()), ("/annotations", said())):
            for name in ("latest", "nightly~1", RUN[:-1], "no-such-run"):
                busy = await client.post(path, json=body | {"run": name})
                assert busy.status_code == 503, name
                assert "the full id of a run" in busy.json()["detail"]
            unchecked = await client.post(path, json=body | {"case_id": "any"})
            assert (unchecked.status_code, unchecked.json()["run_id"]) == (201, RUN)
        turn = await client.post("/annotations", json=said(turn=9999))
        assert turn.status_code == 201  # the case is not checked meanwhile
        refused = await client.post("/labels", json=label(queue_id="nope"))
        assert refused.status_code == 404  # queues lie beside the file
    for table, count in (("labels", 1), ("annotations", 2)):
        assert len(await rows(client, table)) == len(await rows(client, table, run=RUN)) == count
