"""`assizes deploy` on a real Prefect server: what a first and a second registration leave there."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from prefect.blocks.system import Secret
from prefect.blocks.webhook import Webhook
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import DeploymentUpdate, WorkPoolCreate
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound

from assizes.deployments.commands.deploy import (
    DeployOptions,
    pool_of,
    register_and_run,
    register_or_remove,
)
from assizes.deployments.registration.apply import RegistrationResult
from assizes.deployments.settings import validate_config
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import ConfigurationError
from tests.command import ROOT, assizes
from tests.outward import PYTHONPATH

FLOWS = ("nightly", "after-deployment", "backfill", "evaluate", "compare", "calibrate")

TOML = """
name = "{name}"
[transcripts]
uri = "in/{{date}}"
[nightly]
cron = "{cron}"
time_zone = "Europe/Berlin"
[runner]
work_pool = "assizes-tests"
"""


def toml(name: str, more: str = "", cron: str = "30 3 * * *") -> str:
    return TOML.format(name=name, cron=cron) + more


def config(name: str, more: str = "", cron: str = "30 3 * * *") -> RunConfig:
    return validate_config(tomllib.loads(toml(name, more, cron)), "test")


def pooled(wanted: RunConfig, pool: str) -> RunConfig:
    runner = wanted.runner.model_copy(update={"work_pool": pool})
    return wanted.model_copy(update={"runner": runner})


async def deploy_results(wanted: RunConfig, **how: Any) -> dict[str, RegistrationResult]:
    done = await register_or_remove(DeployOptions(wanted, folder="/srv/nights", **how))
    return {result.name: result for result in done}


async def states(wanted: RunConfig, **how: Any) -> dict[str, str]:
    return {name: result.state for name, result in (await deploy_results(wanted, **how)).items()}


async def saved_webhook(name: str) -> str:
    hook = Webhook(url="http://127.0.0.1:9/none", allow_private_urls=True)
    await hook.save(name, overwrite=True)
    return f'[notify]\nblock = "webhook/{name}"\n'


@pytest.mark.usefixtures("prefect_server")
async def test_everything_is_registered_once_and_a_second_time_changes_nothing():
    wanted = pooled(config("twice"), "pool-twice")
    foretold = await states(wanted, dry_run=True)
    async with get_client() as client:
        pools = {pool.name for pool in await client.read_work_pools()}
    assert "pool-twice" not in pools, "a dry run writes nothing"
    assert await states(wanted) == foretold
    names = {f"{flow}/assizes-twice" for flow in FLOWS}
    assert names | {"judge-partition/assizes"} <= foretold.keys()
    assert set((await states(wanted)).values()) == {"unchanged"}
    async with get_client() as client:
        nightly = await client.read_deployment_by_name("nightly/assizes-twice")
        pool = await client.read_work_pool("pool-twice")
    (schedule,) = nightly.schedules
    assert (schedule.schedule.cron, schedule.schedule.timezone) == ("30 3 * * *", "Europe/Berlin")
    assert nightly.global_concurrency_limit.limit == 1
    assert nightly.concurrency_options.collision_strategy == "ENQUEUE"
    assert nightly.pull_steps[0].popitem()[1] == {"directory": "/srv/nights"}
    assert nightly.parameters["config"]["name"] == "twice"
    assert pool.type == "process"


@pytest.mark.full
@pytest.mark.usefixtures("prefect_server")
async def test_a_folder_in_which_a_worker_cannot_load_the_flows_is_refused(tmp_path: Path):
    for name in ("flows", "tasks", "judge", "deployments"):  # names of our folders, of the user's
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('of the user')\n")
    fine = DeployOptions(config("folders"), folder=str(tmp_path), dry_run=True)
    assert {result.state for result in await register_or_remove(fine)} <= {"created", "unchanged"}
    (tmp_path / "assizes.py").write_text("nothing = 1\n")
    with pytest.raises(ConfigurationError, match=r"No module named 'assizes\.flows'.* --folder"):
        await register_or_remove(DeployOptions(config("folders"), folder=str(tmp_path)))
    async with get_client() as client:
        with pytest.raises(ObjectNotFound):
            await client.read_deployment_by_name("nightly/assizes-folders")


@pytest.mark.full
def test_a_dry_run_says_what_it_would_do(tmp_path: Path, prefect_server: str):
    (tmp_path / "assizes.toml").write_text(toml("would"))
    env = {"PREFECT_API_URL": prefect_server}
    shown = assizes("deploy", "--dry-run", cwd=tmp_path, env=env)
    assert shown.code == 0, shown.err
    lines = [line for line in shown.out.splitlines() if "/assizes-would" in line]
    assert len(lines) >= len(FLOWS)
    assert all("would create" in line for line in lines)


@pytest.mark.full
@pytest.mark.usefixtures("prefect_server")
async def test_what_differs_is_changed_and_named_and_what_was_switched_off_stays_off():
    await deploy_results(config("changes"))
    async with get_client() as client:
        nightly = await client.read_deployment_by_name("nightly/assizes-changes")
        await client.update_deployment_schedule(nightly.id, nightly.schedules[0].id, active=False)
        (trigger,) = await client.read_automations_by_name("assizes changes: after a deployment")
        await client.pause_automation(trigger.id)
        backfill = await client.read_deployment_by_name("backfill/assizes-changes")
        await client.update_deployment(backfill.id, DeploymentUpdate(tags=["mine"]))
    again = await deploy_results(config("changes", cron="15 5 * * *"))
    assert set(again["nightly/assizes-changes"].differs) == {"parameters", "schedules"}
    assert "tags" in again["backfill/assizes-changes"].differs
    assert again["assizes changes: after a deployment"].state == "unchanged"
    async with get_client() as client:
        nightly = await client.read_deployment_by_name("nightly/assizes-changes")
        (trigger,) = await client.read_automations_by_name("assizes changes: after a deployment")
    assert [(schedule.schedule.cron, schedule.active) for schedule in nightly.schedules] == [
        ("15 5 * * *", False)
    ]
    assert not trigger.enabled


@pytest.mark.full
@pytest.mark.usefixtures("prefect_server")
async def test_what_is_not_wanted_any_more_is_removed_and_nothing_else():
    await deploy_results(config("stays"))
    first = await states(config("goes", await saved_webhook("removal")))
    assert first["assizes goes: regression"] == "created"
    second = await states(config("goes"))
    assert second["assizes goes: regression"] == "removed"
    assert second["assizes goes: missed nightly"] == "removed"
    last = await states(config("goes"), remove=True)
    assert {f"{flow}/assizes-goes" for flow in FLOWS} <= last.keys()
    assert set(last.values()) == {"removed"}
    assert set((await states(config("stays"))).values()) == {"unchanged"}


@pytest.mark.full
@pytest.mark.usefixtures("prefect_server")
async def test_what_is_to_be_removed_is_found_behind_any_number_of_others(
    monkeypatch: pytest.MonkeyPatch,
):
    notify = await saved_webhook("pages")
    first = await states(config("pages", notify))
    monkeypatch.setattr("assizes.deployments.registration.apply.PAGE", 2)
    last = await states(config("pages"), remove=True)
    ours = {name for name in first if "pages" in name and not name.startswith("pool")}
    assert ours == last.keys()
    async with get_client() as client:
        assert await client.read_automations_by_name("assizes pages: regression") == []


@pytest.mark.full
@pytest.mark.row("O11")
@pytest.mark.usefixtures("prefect_server")
async def test_who_is_told_of_what():
    notify = 'on = ["failed", "finished"]\nmissed_after_hours = 30\n'
    results = await deploy_results(config("told", await saved_webhook("told") + notify))
    ours = {name.partition(": ")[2] for name in results if name.startswith("assizes told: ")}
    assert ours == {"after a deployment", "failed", "finished", "broken", "missed nightly"}
    async with get_client() as client:
        (missed,) = await client.read_automations_by_name("assizes told: missed nightly")
    assert missed.trigger.within.total_seconds() == 30 * 3600
    assert str(results["nightly/assizes-told"].id) in str(missed.trigger.match_related)
    assert missed.trigger.posture == "Proactive"


@pytest.mark.full
@pytest.mark.usefixtures("prefect_server")
async def test_shared_limits_are_those_that_runs_lease_from():
    shared = '[limits]\nshared = "acme"\nrequests_per_minute = 60\n'
    results = await states(config("limits", shared + '[judge]\nmodel = "openai/gpt-4.1"\n'))
    name = "acme-openai-gpt-4.1-requests"
    assert results[name] == "created"
    async with get_client() as client:
        limit = await client.read_global_concurrency_limit_by_name(name)
    assert limit.limit == 6000
    assert limit.slot_decay_per_second == pytest.approx(98)


@pytest.mark.usefixtures("prefect_server")
async def test_a_block_that_cannot_tell_anything_is_refused():
    for named in ("webhook/nobody", "nothing/nobody"):
        with pytest.raises(ConfigurationError, match=f"no block '{named}'"):
            await deploy_results(config("blocks", f'[notify]\nblock = "{named}"\n'))
    with pytest.raises(ConfigurationError, match="'oncall' is no type/name"):
        await deploy_results(config("blocks", '[notify]\nblock = "oncall"\n'))
    await Secret(value="x").save("mute", overwrite=True)
    with pytest.raises(ConfigurationError, match="neither notifies nor is a webhook"):
        await deploy_results(config("blocks", '[notify]\nblock = "secret/mute"\n'))


@pytest.mark.full
@pytest.mark.usefixtures("prefect_server")
async def test_a_schedule_may_be_left_out_but_not_be_nonsense():
    with pytest.raises(ConfigurationError, match="cron: 'at night' is no cron expression"):
        await deploy_results(config("cron", cron="at night"))
    dateless = toml("cron").replace("in/{date}", "in")
    with pytest.raises(ConfigurationError, match=r"no schedule: \[nightly\] cron"):
        await deploy_results(validate_config(tomllib.loads(dateless), "test"))
    await deploy_results(config("cron", cron=""))
    async with get_client() as client:
        nightly = await client.read_deployment_by_name("nightly/assizes-cron")
    assert nightly.schedules == []


async def test_the_command_says_what_it_did(prefect_server: str, tmp_path: Path):
    (tmp_path / "assizes.toml").write_text(toml("command"))
    wanted = validate_config(tomllib.loads(toml("command")), "test")
    before = await register_or_remove(DeployOptions(wanted, folder=str(tmp_path)))
    env = {"PREFECT_API_URL": prefect_server}
    answer = await asyncio.to_thread(assizes, "deploy", "--json", cwd=tmp_path, env=env)
    assert answer.code == 0, answer.err
    document = json.loads(answer.out)
    assert document["server"] == prefect_server
    assert [result["name"] for result in document["objects"]] == [result.name for result in before]
    assert {result["state"] for result in document["objects"]} == {"unchanged"}


def test_without_a_server_it_says_how_to_have_one(tmp_path: Path):
    (tmp_path / "assizes.toml").write_text(toml("alone"))
    env = {"ASSIZES_HOME": str(tmp_path), "PREFECT_HOME": str(tmp_path)}
    answer = assizes("deploy", cwd=tmp_path, env=env)
    assert (answer.code, len(answer.err.splitlines())) == (2, 1)
    assert "no Prefect server" in answer.err
    away = assizes("deploy", cwd=tmp_path, env={"PREFECT_API_URL": "http://127.0.0.1:9/api"})
    assert (away.code, len(away.err.splitlines())) == (2, 1)
    assert "does not answer" in away.err


@pytest.mark.full
async def test_prefects_own_command_registers_the_yaml(prefect_server: str):
    env = {**os.environ, "PREFECT_API_URL": prefect_server}

    def prefect(*args: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "prefect", "--no-prompt", *args]
        return subprocess.run(
            command, cwd=ROOT, env=env, capture_output=True, text=True, check=False
        )

    async with get_client() as client:  # Prefect's command for it has the server ask GitHub
        with suppress(ObjectAlreadyExists):
            await client.create_work_pool(WorkPoolCreate(name="assizes", type="process"))
    done = prefect("deploy", "--all", "--prefect-file", "deployments/prefect.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    beat = prefect("automation", "create", "--from-file", "deployments/heartbeat.yaml")
    assert beat.returncode == 0, beat.stdout + beat.stderr
    async with get_client() as client:
        await client.read_deployment_by_name("compare/assizes-evaluation")
        nightly = await client.read_deployment_by_name("nightly/assizes-evaluation")
        (trigger,) = await client.read_automations_by_name("assizes evaluation: after a deployment")
    assert nightly.pull_steps[0].popitem()[1] == {"directory": str(ROOT)}
    assert nightly.parameters["config"]["transcripts"]["uri"] == "transcripts/{date}"
    template = trigger.actions[0].parameters["version"]["value"]["template"]
    assert template == "{{ event.payload.version | string | tojson }}"


@pytest.mark.full
async def test_flows_are_served_without_a_work_pool(prefect_server: str, tmp_path: Path):
    (tmp_path / "assizes.toml").write_text(toml("served"))
    env = {**os.environ, "PREFECT_API_URL": prefect_server, "PYTHONPATH": PYTHONPATH}
    serving = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "assizes.deployments.cli", "worker"),
        cwd=tmp_path,
        env=env,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        nightly = await deployment_of(prefect_server, "nightly/assizes-served", paused=False)
        assert nightly["work_pool_name"] is None
        assert await pool_of(config("served")) is None
        await deployment_of(prefect_server, "calibrate/assizes-served", paused=False)
    finally:
        serving.terminate()
        await serving.wait()
    await deploy_results(config("served"))
    after = await deployment_of(prefect_server, "nightly/assizes-served", paused=False)
    assert after["work_pool_name"] == "assizes-tests"
    assert await pool_of(config("served")) == "assizes-tests"  # the worker's own then
    with pytest.raises(ConfigurationError, match="belongs to the work pool 'assizes-tests'"):
        await register_and_run(config("served"), 1)


@pytest.mark.usefixtures("prefect_server")
async def test_a_block_that_is_none_is_refused_before_anything_is_served():
    with pytest.raises(ConfigurationError, match="'oncall' is no type/name"):
        await register_and_run(config("mistyped", '[notify]\nblock = "oncall"\n'), 1)
    async with get_client() as client:
        with pytest.raises(ObjectNotFound):
            await client.read_deployment_by_name("nightly/assizes-mistyped")


@pytest.mark.full
@pytest.mark.usefixtures("prefect_server")
async def test_what_is_served_no_more_is_removed():
    async def serve_until(wanted: set[str], more: str = "") -> None:
        """Serve until the server has exactly these automations, for at most 60 s."""
        task = asyncio.create_task(register_and_run(config("fewer", more), 1))
        ours: set[str] = set()
        try:
            async with get_client() as client, asyncio.timeout(60):
                while ours != wanted:
                    await asyncio.sleep(0.3)
                    assert not task.done(), task.exception()
                    results = [
                        automation.name.partition(": ")
                        for automation in await client.read_automations()
                    ]
                    ours = {what for whose, _, what in results if whose == "assizes fewer"}
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    findings = {"broken", "failed", "inconclusive", "regression", "missed nightly"}
    await serve_until({"after a deployment"} | findings, await saved_webhook("fewer"))
    await serve_until({"after a deployment"})


async def deployment_of(server: str, name: str, *, paused: bool) -> dict[str, Any]:
    """The deployment, read again until it is paused or active as wanted."""
    async with httpx.AsyncClient() as client, asyncio.timeout(90):
        while True:
            answer = await client.get(f"{server}/deployments/name/{name}")
            if answer.status_code == 200 and answer.json()["paused"] is paused:
                return answer.json()
            await asyncio.sleep(0.3)


@pytest.mark.full
async def test_doctor_names_deployments_of_before_the_package_was_renamed(
    tmp_path: Path, prefect_server: str
):
    env = {"PREFECT_API_URL": prefect_server}
    (tmp_path / "t.jsonl").write_text('{"messages": [{"role": "user", "content": "hi"}]}\n')
    await deploy_results(config("renamed"))
    async with get_client() as client:
        for flow, entrypoint in (
            ("nightly", "flows.nightly.nightly"),
            ("backfill", "flows/backfill.py:backfill"),
        ):
            deployment = await client.read_deployment_by_name(f"{flow}/assizes-renamed")
            await client.create_deployment(
                deployment.flow_id, deployment.name, tags=deployment.tags, entrypoint=entrypoint
            )
    shown = assizes("doctor", "--set", "transcripts.uri=t.jsonl", "--json", cwd=tmp_path, env=env)
    assert shown.code == 2, shown.out
    faults = [check for check in json.loads(shown.out) if check["state"] == "fault"]
    assert [fault["name"] for fault in faults] == ["deployments"], faults
    finding = faults[0]["finding"]
    assert finding.startswith("backfill/assizes-renamed, nightly/assizes-renamed: ")
    assert "`assizes deploy`" in finding
    await deploy_results(config("renamed"))
    shown = assizes("doctor", "--set", "transcripts.uri=t.jsonl", "--json", cwd=tmp_path, env=env)
    assert shown.code == 0, shown
    assert "deployments" not in {check["name"] for check in json.loads(shown.out)}
