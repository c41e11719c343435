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
from assizes.judge.config.triggers import NotificationReason
from assizes.judge.errors import ConfigurationError
from assizes.tasks.publish_report import (
    EVENT_FAILED,
    EVENT_FINISHED,
    EVENT_INCONCLUSIVE,
    EVENT_REGRESSION,
    RUN_RESOURCE,
    TAG,
)

DEPLOYED_EVENT: Final = "model.deployed"
"""The event that begins `after-deployment`; its payload has `version`, and may have `agent` and
`min_transcripts`."""

ZOMBIES: Final = "assizes: runs without a heartbeat"
HEARTBEAT_TIMEOUT: Final = timedelta(seconds=90)
"""Three heartbeats; a run that is silent for so long is dead."""

NOTIFIED_TRIGGERS: Final = ("nightly", "deployment")
"""What started the runs that somebody is told of; the others have somebody who waits for them."""

_HEARTBEAT_EVENT: Final = "prefect.flow-run.heartbeat"
_ANY_FLOW_RUN_EVENT: Final = "prefect.flow-run.*"
"""Events of flow runs are named for the name of the state, and ours have names of their own."""

_EVENTS: Final[Mapping[NotificationReason, str]] = {
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
class DeploymentIds:
    """Ids of the deployments that automations need, by the name of the flow."""

    ids: Mapping[str, UUID]

    def related_filter(self, *flows: str) -> dict[str, Any]:
        """Matches events of flow runs of these deployments."""
        ids = [f"prefect.deployment.{self.ids[flow]}" for flow in flows]
        return {"prefect.resource.role": "deployment", "prefect.resource.id": ids}


@dataclass(frozen=True)
class Notifier:
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


def notifier_of(block: BlockDocument, block_name: str) -> Notifier:
    """A block that can tell something.

    Raises:
        ConfigurationError: when it cannot.
    """
    capabilities = block.block_schema.capabilities if block.block_schema else []
    if is_webhook(block) or "notify" in capabilities:
        return Notifier(block)
    raise ConfigurationError(
        f"[notify] block: {block_name!r} neither notifies nor is a webhook; give a block such as "
        "slack-webhook/NAME or webhook/NAME"
    )


def wanted_automations(
    config: RunConfig, deployment_ids: DeploymentIds, notifier: Notifier | None
) -> list[AutomationCore]:
    """What `assizes deploy` registers for a configuration; `ZOMBIES` is one for all of them."""
    wanted = [_zombies(), _after_deployment(config, deployment_ids)]
    if notifier is None:
        return wanted
    notifications = [
        _outcome_notification(config, finding, notifier) for finding in config.notify.on
    ]
    if "failed" in config.notify.on:
        notifications.append(_failure_notification(config, deployment_ids, notifier))
    if config.nightly.cron.strip():
        notifications.append(_missed_notification(config, deployment_ids, notifier))
    return [*wanted, *notifications]


def _zombies() -> AutomationCore:
    """A process that was killed cannot say that its run is over."""
    return AutomationCore(
        name=ZOMBIES,
        description="A run whose process sends no heartbeat any more is marked as crashed.",
        tags=[TAG],
        trigger=EventTrigger(
            after={_HEARTBEAT_EVENT},
            expect={_ANY_FLOW_RUN_EVENT},
            match={"prefect.resource.id": "prefect.flow-run.*"},
            match_related={"prefect.resource.role": "tag", "prefect.resource.id": _tag_id(TAG)},
            for_each={"prefect.resource.id"},
            posture=Posture.Proactive,
            threshold=1,
            within=HEARTBEAT_TIMEOUT,
        ),
        actions=[
            ChangeFlowRunState(
                state=StateType.CRASHED,
                message=f"no heartbeat for {HEARTBEAT_TIMEOUT.total_seconds():.0f} s; the process is gone",
            )
        ],
    )


def _after_deployment(config: RunConfig, deployment_ids: DeploymentIds) -> AutomationCore:
    """An event of a model starts the flow; where the configuration has one agent, of that alone."""
    agent = config.transcripts.where.get("agent") or config.transcripts.agent
    parameters = {
        "version": _typed_parameter("{{ event.payload.version | string | tojson }}"),
        "agent": _typed_parameter("{{ event.payload.agent | default(none) | tojson }}"),
        "min_transcripts": _typed_parameter(
            "{{ event.payload.min_transcripts | default(none) | tojson }}"
        ),
    }
    return AutomationCore(
        name=f"assizes {config.name}: after a deployment",
        description=f"The event {DEPLOYED_EVENT} of a model begins after-deployment.",
        tags=[TAG, tag_of(config)],
        trigger=EventTrigger(
            expect={DEPLOYED_EVENT},
            match={"prefect.resource.id": f"model.{agent or '*'}"},
            for_each={"prefect.resource.id"},
            posture=Posture.Reactive,
            threshold=1,
            within=timedelta(0),
        ),
        actions=[
            RunDeployment(
                deployment_id=deployment_ids.ids["after-deployment"], parameters=parameters
            )
        ],
    )


def _outcome_notification(
    config: RunConfig, finding: NotificationReason, notifier: Notifier
) -> AutomationCore:
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
                "assizes.trigger": list(NOTIFIED_TRIGGERS),
            },
            posture=Posture.Reactive,
            threshold=1,
            within=timedelta(0),
        ),
        actions=[notifier.action(finding, fields)],
    )


def _failure_notification(
    config: RunConfig, deployment_ids: DeploymentIds, notifier: Notifier
) -> AutomationCore:
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
            expect={_ANY_FLOW_RUN_EVENT},
            match={
                "prefect.resource.id": "prefect.flow-run.*",
                "prefect.state-name": ["Failed", "Crashed", "TimedOut"],
            },
            match_related=deployment_ids.related_filter("nightly", "after-deployment", "backfill"),
            posture=Posture.Reactive,
            threshold=1,
            within=timedelta(0),
        ),
        actions=[notifier.action("failed", fields)],
    )


def _missed_notification(
    config: RunConfig, deployment_ids: DeploymentIds, notifier: Notifier
) -> AutomationCore:
    hours = config.notify.missed_after_hours
    fields = {"name": f'"{config.name}"', "hours": f"{hours:g}"}
    return AutomationCore(
        name=f"assizes {config.name}: missed nightly",
        description=f"No nightly run ended for {hours:g} hours.",
        tags=[TAG, tag_of(config)],
        trigger=EventTrigger(
            expect={_ANY_FLOW_RUN_EVENT},
            match={
                "prefect.resource.id": "prefect.flow-run.*",
                "prefect.state-type": [StateType.COMPLETED.value, StateType.FAILED.value],
            },
            match_related=deployment_ids.related_filter("nightly"),
            posture=Posture.Proactive,
            threshold=1,
            within=timedelta(hours=hours),
        ),
        actions=[notifier.action("missed nightly", fields)],
    )


def _tag_id(tag: str) -> str:
    return f"prefect.tag.{tag}"


def _typed_parameter(template: str) -> dict[str, Any]:
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
