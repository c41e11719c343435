"""The automations that a configuration wants: triggers, dead runs, and who is told of what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from prefect.client.schemas.objects import BlockDocument, StateType
from prefect.events.actions import CallWebhook, ChangeFlowRunState, RunDeployment, SendNotification
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture

from assizes.deployments.registration.desired import tag_of
from assizes.deployments.registration.plain_text import in_words
from assizes.judge.config.run import RunConfig
from assizes.judge.config.triggers import Finding
from assizes.judge.errors import ConfigurationError
from assizes.tasks.publish_report import (
    EVENT_FAILED,
    EVENT_FINISHED,
    EVENT_INCONCLUSIVE,
    EVENT_REGRESSION,
    RUN_RESOURCE,
    TAG,
)

DEPLOYED: Final = "model.deployed"
"""The event that begins `after-deployment`; its payload has `version`, and may have `agent` and
`min_transcripts`."""

ZOMBIES: Final = "assizes: runs without a heartbeat"
SILENCE: Final = timedelta(seconds=90)
"""Three heartbeats; a run that is silent for so long is dead."""

TOLD: Final = ("nightly", "deployment")
"""What started the runs that somebody is told of; the others have somebody who waits for them."""

_BEAT: Final = "prefect.flow-run.heartbeat"
_ANY: Final = "prefect.flow-run.*"
"""Events of flow runs are named for the name of the state, and ours have names of their own."""

_EVENTS: Final[Mapping[Finding, str]] = {
    "finished": EVENT_FINISHED,
    "regression": EVENT_REGRESSION,
    "inconclusive": EVENT_INCONCLUSIVE,
    "failed": EVENT_FAILED,
}

_RUN_FIELDS: Final = (
    "run_id",
    "name",
    "trigger",
    "outcome",
    "weighted_metrics_score_pct",
    "cases_pass_rate_pct",
    "coverage",
    "baseline",
    "reasons",
    "report",
)


@dataclass(frozen=True)
class Deployed:
    """Ids of the deployments that automations need, by the name of the flow."""

    ids: Mapping[str, UUID]

    def related(self, *flows: str) -> dict[str, Any]:
        """Matches events of flow runs of these deployments."""
        ids = [f"prefect.deployment.{self.ids[flow]}" for flow in flows]
        return {"prefect.resource.role": "deployment", "prefect.resource.id": ids}


@dataclass(frozen=True)
class Teller:
    """The block that tells somebody, by webhook or in words."""

    block: BlockDocument

    def action(self, finding: str, fields: Mapping[str, str]) -> CallWebhook | SendNotification:
        """Tell the fields, which are templates over an event."""
        if is_webhook(self.block):
            return CallWebhook(block_document_id=self.block.id, payload=_as_json(finding, fields))
        return SendNotification(
            block_document_id=self.block.id,
            subject=f"assizes: {finding}",
            body=in_words(fields),
        )


def is_webhook(block: BlockDocument) -> bool:
    """Whether a block calls an address rather than writing to somebody."""
    return block.block_type is not None and block.block_type.slug == "webhook"


def checked_teller(block: BlockDocument, named: str) -> Teller:
    """A block that can tell something.

    Raises:
        ConfigurationError: when it cannot.
    """
    able = block.block_schema.capabilities if block.block_schema else []
    if is_webhook(block) or "notify" in able:
        return Teller(block)
    raise ConfigurationError(
        f"[notify] block: {named!r} neither notifies nor is a webhook; give a block such as "
        "slack-webhook/NAME or webhook/NAME"
    )


def wanted_automations(
    config: RunConfig, deployed: Deployed, teller: Teller | None
) -> list[AutomationCore]:
    """What `assizes deploy` registers for a configuration; `ZOMBIES` is one for all of them."""
    wanted = [_zombies(), _after_deployment(config, deployed)]
    if teller is None:
        return wanted
    told = [_told(config, finding, teller) for finding in config.notify.on]
    if "failed" in config.notify.on:
        told.append(_broken(config, deployed, teller))
    if config.nightly.cron.strip():
        told.append(_missed(config, deployed, teller))
    return [*wanted, *told]


def _zombies() -> AutomationCore:
    """A process that was killed cannot say that its run is over."""
    return AutomationCore(
        name=ZOMBIES,
        description="A run whose process sends no heartbeat any more is marked as crashed.",
        tags=[TAG],
        trigger=EventTrigger(
            after={_BEAT},
            expect={_ANY},
            match={"prefect.resource.id": "prefect.flow-run.*"},
            match_related={"prefect.resource.role": "tag", "prefect.resource.id": _tag_id(TAG)},
            for_each={"prefect.resource.id"},
            posture=Posture.Proactive,
            threshold=1,
            within=SILENCE,
        ),
        actions=[
            ChangeFlowRunState(
                state=StateType.CRASHED,
                message=f"no heartbeat for {SILENCE.total_seconds():.0f} s; the process is gone",
            )
        ],
    )


def _after_deployment(config: RunConfig, deployed: Deployed) -> AutomationCore:
    """An event of a model starts the flow; where the configuration has one agent, of that alone."""
    agent = config.transcripts.where.get("agent") or config.transcripts.agent
    parameters = {
        "version": _typed("{{ event.payload.version | string | tojson }}"),
        "agent": _typed("{{ event.payload.agent | default(none) | tojson }}"),
        "min_transcripts": _typed("{{ event.payload.min_transcripts | default(none) | tojson }}"),
    }
    return AutomationCore(
        name=f"assizes {config.name}: after a deployment",
        description=f"The event {DEPLOYED} of a model begins after-deployment.",
        tags=[TAG, tag_of(config)],
        trigger=EventTrigger(
            expect={DEPLOYED},
            match={"prefect.resource.id": f"model.{agent or '*'}"},
            for_each={"prefect.resource.id"},
            posture=Posture.Reactive,
            threshold=1,
            within=timedelta(0),
        ),
        actions=[
            RunDeployment(deployment_id=deployed.ids["after-deployment"], parameters=parameters)
        ],
    )


def _told(config: RunConfig, finding: Finding, teller: Teller) -> AutomationCore:
    fields = {name: f"event.payload.{name}" for name in _RUN_FIELDS}
    return AutomationCore(
        name=f"assizes {config.name}: {finding}",
        description=f"Tells {config.notify.block} of nightly runs and of runs after a deployment.",
        tags=[TAG, tag_of(config)],
        trigger=EventTrigger(
            expect={_EVENTS[finding]},
            match={
                "prefect.resource.id": f"{RUN_RESOURCE}.*",
                "assizes.name": config.name,
                "assizes.trigger": list(TOLD),
            },
            posture=Posture.Reactive,
            threshold=1,
            within=timedelta(0),
        ),
        actions=[teller.action(finding, fields)],
    )


def _broken(config: RunConfig, deployed: Deployed, teller: Teller) -> AutomationCore:
    """A flow run that ended by an error or a crash has no outcome that it could tell itself."""
    fields = {
        "name": f'"{config.name}"',
        "flow_run": 'event.resource["prefect.resource.name"]',
        "state": 'event.resource["prefect.state-name"]',
        "message": 'event.resource["prefect.state-message"]',
    }
    return AutomationCore(
        name=f"assizes {config.name}: broken",
        description="A flow run that broke or crashed.",
        tags=[TAG, tag_of(config)],
        trigger=EventTrigger(
            expect={_ANY},
            match={
                "prefect.resource.id": "prefect.flow-run.*",
                "prefect.state-name": ["Failed", "Crashed", "TimedOut"],
            },
            match_related=deployed.related("nightly", "after-deployment", "backfill"),
            posture=Posture.Reactive,
            threshold=1,
            within=timedelta(0),
        ),
        actions=[teller.action("failed", fields)],
    )


def _missed(config: RunConfig, deployed: Deployed, teller: Teller) -> AutomationCore:
    hours = config.notify.missed_after_hours
    fields = {"name": f'"{config.name}"', "hours": f"{hours:g}"}
    return AutomationCore(
        name=f"assizes {config.name}: missed nightly",
        description=f"No nightly run ended for {hours:g} hours.",
        tags=[TAG, tag_of(config)],
        trigger=EventTrigger(
            expect={_ANY},
            match={
                "prefect.resource.id": "prefect.flow-run.*",
                "prefect.state-type": [StateType.COMPLETED.value, StateType.FAILED.value],
            },
            match_related=deployed.related("nightly"),
            posture=Posture.Proactive,
            threshold=1,
            within=timedelta(hours=hours),
        ),
        actions=[teller.action("missed nightly", fields)],
    )


def _tag_id(tag: str) -> str:
    return f"prefect.tag.{tag}"


def _typed(template: str) -> dict[str, Any]:
    """A parameter that keeps its type; a plain template would make a text of everything."""
    return {
        "__prefect_kind": "json",
        "value": {"__prefect_kind": "jinja", "template": template},
    }


def _as_json(finding: str, fields: Mapping[str, str]) -> str:
    pairs = [
        f'"{name}": {{{{ {text} | default(none) | tojson }}}}' for name, text in fields.items()
    ]
    return "{" + ", ".join([f'"finding": "{finding}"', *pairs]) + "}"
