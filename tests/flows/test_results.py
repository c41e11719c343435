"""Results are stored as JSON, and a pickle in the result storage is never read."""

from __future__ import annotations

import importlib
import json
import pkgutil
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import UUID

import pytest
from prefect import Flow, Task, flow
from prefect.client.orchestration import get_client
from prefect.serializers import CompressedSerializer, PickleSerializer
from prefect.settings import (
    PREFECT_LOCAL_STORAGE_PATH,
    PREFECT_RESULTS_PERSIST_BY_DEFAULT,
    temporary_settings,
)

from assizes import flows, tasks
from assizes.flows.evaluate import evaluate
from assizes.flows.nightly import nightly
from assizes.judge.config.run import RunConfig
from assizes.judge.formats import native_line
from assizes.tasks.runtime.process import redacts_secrets
from tests.builders import agent, case, user


class Bomb:
    """An object that writes a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return (Path.touch, (self.mark,))


def modules(package: ModuleType) -> list[ModuleType]:
    names = [one.name for one in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    return [importlib.import_module(name) for name in names if "__main__" not in name]


def test_every_flow_and_task_keeps_its_results_as_json_and_its_secrets_to_itself():
    found = {
        made.name: made
        for module in (*modules(flows), *modules(tasks))
        for made in vars(module).values()
        if isinstance(made, Flow | Task)
    }
    assert len(found) >= 14
    assert {made.result_serializer for made in found.values()} == {"json"}
    assert {name for name, made in found.items() if not hasattr(made.fn, "__wrapped__")} == set()


@redacts_secrets
@flow(name="reader", result_serializer="json")
async def reader(run_id: str) -> str:
    """Read a stored result as a retried flow run reads that of its subflow."""
    async with get_client() as client:
        run = await client.read_flow_run(UUID(run_id))
    assert run.state is not None
    return str(await run.state.aresult())


def planted(mark: Path) -> list[bytes]:
    """A pickle as Prefect stores one: bare, with a word about how it is to be read, and packed."""
    bare = PickleSerializer().dumps(Bomb(mark))
    packed = CompressedSerializer(serializer="pickle").dumps(Bomb(mark))
    kinds = {"pickle": bare, "compressed/pickle": packed}
    told = [
        {"metadata": {"serializer": {"type": kind}}, "result": data.decode()}
        for kind, data in kinds.items()
    ]
    return [bare, *(json.dumps(one).encode() for one in told)]


@pytest.mark.full
@pytest.mark.row("S7")
async def test_a_planted_pickle_is_not_run(tmp_path: Path, prefect_server: str):
    (tmp_path / "in").mkdir()
    one = case(user("Hello"), agent("Good day."))
    (tmp_path / "in" / "t.jsonl").write_bytes(native_line(one))
    storage, mark = tmp_path / "storage", tmp_path / "mark"
    config = RunConfig.model_validate(
        {
            "transcripts": {"uri": f"{tmp_path}/in"},
            "store": {"uri": f"{tmp_path}/lake"},
            "report": {"uri": f"{tmp_path}/reports"},
            "thresholds": {"metrics_pass_threshold": 0, "cases_pass_threshold": 0},
        }
    )
    settings = {PREFECT_LOCAL_STORAGE_PATH: storage, PREFECT_RESULTS_PERSIST_BY_DEFAULT: True}
    with temporary_settings(settings):
        first = await evaluate(config, return_state=True)
        stored = [path for path in storage.rglob("*") if path.is_file()]
        assert stored
        kept = [json.loads(path.read_bytes()) for path in stored]
        assert {one["__class__"] for one in kept} == {"assizes.flows.outcome.RunOutcome"}
        for data in planted(mark):
            for path in stored:
                path.write_bytes(data)
            again = await evaluate(config, return_state=True)
            await nightly(config.model_copy(update={"name": "another"}), return_state=True)
            assert first.name == again.name == "Passed"
            run_id = str(first.state_details.flow_run_id)
            read = await reader(run_id, return_state=True)
            assert read.is_failed()
    assert not mark.exists()
    await reader.fn.__wrapped__(run_id)
    assert mark.exists(), "outside of our flows it would have run"
