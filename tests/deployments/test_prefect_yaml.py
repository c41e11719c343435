"""The files for Prefect's own command say what `assizes deploy` registers."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
import yaml
from prefect.events.schemas.automations import AutomationCore, EventTrigger

from assizes.deployments.registration.apply import (
    QUEUE_OPTIONS,
    WantedDeployment,
    wanted_deployments,
)
from assizes.deployments.registration.automations import DeploymentIds, wanted_automations
from assizes.deployments.settings import WORKER_ENVIRONMENT
from assizes.judge.config.gates import ComparisonConfig
from assizes.judge.config.run import RunConfig, StoreConfig
from tests.command import ROOT

YAML: dict[str, Any] = yaml.safe_load((ROOT / "deployments" / "prefect.yaml").read_text())
CONFIG = RunConfig.model_validate(YAML["definitions"]["config"])
WANTED = {wanted.entrypoint: wanted for wanted in wanted_deployments(CONFIG)}
WRITTEN = {entry["entrypoint"]: entry for entry in YAML["deployments"]}
IDS = DeploymentIds({wanted.flow.name: UUID(int=7) for wanted in WANTED.values()})
HEARTBEAT, AFTER = wanted_automations(CONFIG, IDS, None)
MODELS = {"config": RunConfig, "store": StoreConfig, "thresholds": ComparisonConfig}


def test_every_deployment_is_there_and_no_other():
    assert WRITTEN.keys() == WANTED.keys()
    assert len(WRITTEN) == len(YAML["deployments"])


@pytest.mark.parametrize("entrypoint", WANTED)
def test_a_deployment_is_the_one_that_is_registered(entrypoint: str):
    written, wanted = WRITTEN[entrypoint], WANTED[entrypoint]
    assert (written["name"], written["description"]) == (wanted.name, wanted.description)
    assert sorted(written["tags"]) == sorted(wanted.tags)
    parameters = {
        name: MODELS[name].model_validate(value).model_dump(mode="json")
        for name, value in written.get("parameters", {}).items()
    }
    assert parameters == dict(wanted.parameters)
    pool = written["work_pool"]
    assert pool["name"] == CONFIG.runner.work_pool
    assert pool["job_variables"] == {"env": dict(WORKER_ENVIRONMENT)}
    assert written.get("concurrency_limit") == queue_options(wanted)
    assert [
        (schedule["slug"], schedule["cron"], schedule["timezone"], schedule["active"])
        for schedule in written.get("schedules", [])
    ] == [
        (schedule.slug, schedule.schedule.cron, schedule.schedule.timezone, schedule.active)
        for schedule in wanted.schedules()
    ]


def queue_options(wanted: WantedDeployment) -> dict[str, Any] | None:
    return (
        {"limit": 1, "collision_strategy": QUEUE_OPTIONS["collision_strategy"].value}
        if wanted.one_at_a_time
        else None
    )


def test_the_trigger_is_the_one_that_is_registered():
    triggers = {name: entry["triggers"] for name, entry in WRITTEN.items() if "triggers" in entry}
    (name,), ((written,),) = triggers.keys(), triggers.values()
    assert name == "assizes.flows.after_deployment.after_deployment"
    assert (written["name"], written["enabled"]) == (AFTER.name, AFTER.enabled)
    assert written["parameters"] == AFTER.actions[0].parameters
    assert (
        EventTrigger.model_validate(
            {name: written[name] for name in written if name in EventTrigger.model_fields}
        )
        == AFTER.trigger
    )


def test_the_automation_for_dead_runs_is_the_one_that_is_registered():
    text = (ROOT / "deployments" / "heartbeat.yaml").read_text()
    assert AutomationCore.model_validate(yaml.safe_load(text)) == HEARTBEAT
