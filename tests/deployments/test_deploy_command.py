"""`assizes deploy` against a real Prefect server: what is there afterwards, and what a second time does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import DeploymentUpdate

from tests.command import ROOT, Answer, assizes

FLOWS = ("nightly", "after-deployment", "backfill", "evaluate", "compare", "calibrate")

CONFIG = """
name = "{name}"
[transcripts]
uri = "in/{{date}}"
[nightly]
cron = "30 3 * * *"
time_zone = "Europe/Berlin"
[runner]
work_pool = "pool-{name}"
"""


def house(folder: Path, name: str, more: str = "") -> Path:
    (folder / "assizes.toml").write_text(CONFIG.format(name=name) + more)
    return folder


def deployed(folder: Path, server: str, *args: str) -> Answer:
    return assizes("deploy", "--json", *args, cwd=folder, env={"PREFECT_API_URL": server})


def states(answer: Answer) -> dict[str, str]:
    assert answer.code == 0, answer.err
    return {one["name"]: one["state"] for one in json.loads(answer.out)["objects"]}


def differs(answer: Answer) -> dict[str, list[str]]:
    found = json.loads(answer.out)["objects"]
    return {one["name"]: one["differs"] for one in found if one["differs"]}


async def test_everything_is_registered_once_and_a_second_time_changes_nothing(
    prefect_server: str, tmp_path: Path
):
    folder = house(tmp_path, "twice")
    foretold = states(deployed(folder, prefect_server, "--dry-run"))
    async with get_client() as client:
        pools = {pool.name for pool in await client.read_work_pools()}
    assert "pool-twice" not in pools, "a dry run writes nothing"
    assert states(deployed(folder, prefect_server)) == foretold
    assert {f"{flow}/assizes-twice" for flow in FLOWS} | {"judge-partition/assizes"} <= set(
        foretold
    )
    assert set(states(deployed(folder, prefect_server)).values()) == {"unchanged"}
    async with get_client() as client:
        nightly = await client.read_deployment_by_name("nightly/assizes-twice")
        pool = await client.read_work_pool("pool-twice")
    (schedule,) = nightly.schedules
    assert (schedule.schedule.cron, schedule.schedule.timezone) == ("30 3 * * *", "Europe/Berlin")
    assert nightly.global_concurrency_limit.limit == 1
    assert nightly.concurrency_options.collision_strategy == "ENQUEUE"
    assert nightly.pull_steps[0].popitem()[1] == {"directory": str(folder)}
    assert nightly.parameters["config"]["name"] == "twice"
    assert pool.type == "process"


async def test_what_differs_is_changed_and_named_and_what_an_operator_switched_off_stays_off(
    prefect_server: str, tmp_path: Path
):
    folder = house(tmp_path, "changes")
    states(deployed(folder, prefect_server))
    async with get_client() as client:
        nightly = await client.read_deployment_by_name("nightly/assizes-changes")
        schedule = nightly.schedules[0]
        await client.update_deployment_schedule(nightly.id, schedule.id, active=False)
        (trigger,) = await client.read_automations_by_name("assizes changes: after a deployment")
        await client.pause_automation(trigger.id)
        backfill = await client.read_deployment_by_name("backfill/assizes-changes")
        await client.update_deployment(backfill.id, DeploymentUpdate(tags=["mine"]))
    again = deployed(folder, prefect_server, "--set", "nightly.cron=15 5 * * *")
    found = differs(again)
    assert set(found.pop("nightly/assizes-changes")) == {"parameters", "schedules"}
    assert "tags" in found.pop("backfill/assizes-changes")
    assert states(again)["assizes changes: after a deployment"] == "unchanged"
    async with get_client() as client:
        nightly = await client.read_deployment_by_name("nightly/assizes-changes")
        (trigger,) = await client.read_automations_by_name("assizes changes: after a deployment")
    assert [(one.schedule.cron, one.active) for one in nightly.schedules] == [("15 5 * * *", False)]
    assert not trigger.enabled


async def test_what_is_not_wanted_any_more_is_removed_and_nothing_else(
    prefect_server: str, tmp_path: Path
):
    other, folder = tmp_path / "other", tmp_path / "own"
    other.mkdir()
    folder.mkdir()
    states(deployed(house(other, "stays"), prefect_server))
    block = await saved_webhook("removal")
    told = f'[notify]\nblock = "{block}"\n'
    first = states(deployed(house(folder, "goes", told), prefect_server))
    assert first["assizes goes: regression"] == "created"
    second = states(deployed(house(folder, "goes"), prefect_server))
    assert second["assizes goes: regression"] == "removed"
    assert second["assizes goes: missed nightly"] == "removed"
    last = states(deployed(folder, prefect_server, "--remove"))
    assert {f"{flow}/assizes-goes" for flow in FLOWS} <= set(last)
    assert set(last.values()) == {"removed"}
    assert set(states(deployed(other, prefect_server)).values()) == {"unchanged"}


async def saved_webhook(name: str) -> str:
    from prefect.blocks.webhook import Webhook

    hook = Webhook(url="http://127.0.0.1:9/none", allow_private_urls=True)
    await hook.save(name, overwrite=True)
    return f"webhook/{name}"


async def test_who_is_told_of_what(prefect_server: str, tmp_path: Path):
    block = await saved_webhook("told")
    told = f'[notify]\nblock = "{block}"\non = ["failed", "finished"]\nmissed_after_hours = 30\n'
    found = states(deployed(house(tmp_path, "told", told), prefect_server))
    ours = {
        name.removeprefix("assizes told: ") for name in found if name.startswith("assizes told")
    }
    assert ours == {"after a deployment", "failed", "finished", "broken", "missed nightly"}
    async with get_client() as client:
        (missed,) = await client.read_automations_by_name("assizes told: missed nightly")
        nightly = await client.read_deployment_by_name("nightly/assizes-told")
    assert missed.trigger.within.total_seconds() == 30 * 3600
    assert str(nightly.id) in str(missed.trigger.match_related)
    assert (
        missed.actions[0].payload
        == '{"finding": "missed nightly", "name": {{ "told" | default(none) | tojson }}, "hours": {{ 30 | default(none) | tojson }}}'
    )


async def test_shared_limits_are_those_that_runs_lease_from(prefect_server: str, tmp_path: Path):
    limits = (
        '[limits]\nshared = "acme"\nrequests_per_minute = 60\n[judge]\nmodel = "openai/gpt-4.1"\n'
    )
    found = states(deployed(house(tmp_path, "limits", limits), prefect_server))
    name = "acme-openai-gpt-4.1-requests"
    assert found[name] == "created"
    async with get_client() as client:
        limit = await client.read_global_concurrency_limit_by_name(name)
    assert limit.limit == 6000
    assert limit.slot_decay_per_second == pytest.approx(98)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ('[notify]\nblock = "webhook/nobody"\n', "no block 'webhook/nobody'"),
        ('[notify]\nblock = "secret/nobody"\n', "no block 'secret/nobody'"),
    ],
)
def test_a_block_that_is_not_there_is_one_line(
    more: str, said: str, prefect_server: str, tmp_path: Path
):
    answer = deployed(house(tmp_path, "blocks", more), prefect_server)
    assert answer.code == 2
    assert said in answer.err
    assert len(answer.err.splitlines()) == 1


async def test_a_block_that_cannot_tell_anything_is_refused(prefect_server: str, tmp_path: Path):
    from prefect.blocks.system import Secret

    await Secret(value="x").save("mute", overwrite=True)
    answer = deployed(house(tmp_path, "mute", '[notify]\nblock = "secret/mute"\n'), prefect_server)
    assert (answer.code, len(answer.err.splitlines())) == (2, 1)
    assert "neither notifies nor is a webhook" in answer.err


def test_without_a_server_it_says_how_to_have_one(tmp_path: Path):
    folder = house(tmp_path, "alone")
    env = {"ASSIZES_HOME": str(tmp_path), "PREFECT_HOME": str(tmp_path)}
    answer = assizes("deploy", cwd=folder, env=env)
    assert answer.code == 2
    assert "no Prefect server" in answer.err
    away = assizes("deploy", cwd=folder, env={"PREFECT_API_URL": "http://127.0.0.1:9/api"})
    assert away.code == 2
    assert "does not answer" in away.err


def test_a_cron_expression_that_is_none_is_one_line(prefect_server: str, tmp_path: Path):
    folder = house(tmp_path, "cron")
    answer = deployed(folder, prefect_server, "--set", "nightly.cron='at night'")
    assert answer.code == 2
    assert "[nightly] cron: 'at night'" in answer.err
    found = states(deployed(folder, prefect_server, "--set", "nightly.cron=''"))
    assert found["nightly/assizes-cron"] == "created"


async def test_prefects_own_command_registers_the_yaml(prefect_server: str):
    env = {**os.environ, "PREFECT_API_URL": prefect_server}

    def prefect(*args: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "prefect", "--no-prompt", *args]
        return subprocess.run(
            command, cwd=ROOT, env=env, capture_output=True, text=True, check=False
        )

    prefect("work-pool", "create", "assizes", "--type", "process")
    done = prefect("deploy", "--all", "--prefect-file", "deployments/prefect.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    async with get_client() as client:
        nightly = await client.read_deployment_by_name("nightly/assizes-evaluation")
        (trigger,) = await client.read_automations_by_name("assizes evaluation: after a deployment")
    assert nightly.pull_steps[0].popitem()[1] == {"directory": str(ROOT)}
    assert nightly.parameters["config"]["transcripts"]["uri"] == "transcripts/{date}"
    template = trigger.actions[0].parameters["version"]["value"]["template"]
    assert template == "{{ event.payload.version | string | tojson }}"


async def test_flows_are_served_without_a_work_pool(prefect_server: str, tmp_path: Path):
    folder = house(tmp_path, "served")
    env = {**os.environ, "PREFECT_API_URL": prefect_server, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "deployments.cli", "serve-flows"]
    with (tmp_path / "log").open("w") as log:
        serving = subprocess.Popen(command, cwd=folder, env=env, stdout=log, stderr=log)
    try:
        nightly = await there(prefect_server, "nightly/assizes-served", paused=False)
        assert nightly["work_pool_name"] is None
        await there(prefect_server, "calibrate/assizes-served", paused=False)
    finally:
        serving.terminate()
        serving.wait(60)
    states(deployed(folder, prefect_server))
    after = await there(prefect_server, "nightly/assizes-served", paused=False)
    assert after["work_pool_name"] == "pool-served"
    refused = assizes("serve-flows", cwd=folder, env={"PREFECT_API_URL": prefect_server})
    assert refused.code == 2
    assert "belongs to the work pool 'pool-served'" in refused.err


async def there(server: str, name: str, *, paused: bool) -> dict[str, Any]:
    """The deployment, as soon as the server has it."""
    import asyncio

    async with httpx.AsyncClient() as client, asyncio.timeout(60):
        while True:
            answer = await client.get(f"{server}/deployments/name/{name}")
            if answer.status_code == 200 and answer.json()["paused"] is paused:
                return answer.json()
            await asyncio.sleep(0.3)
