"""The Prefect automations of a configuration: trigger, notifications, and the end of dead runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from prefect.client.schemas.objects import BlockDocument, StateType
from prefect.events.actions import CallWebhook, ChangeFlowRunState, RunDeployment, SendNotification
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.events.schemas.events import Event, RelatedResource, Resource

from assizes.deployments.registration.apply import tag_of
from assizes.judge.config.notify import NotificationReason
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import ConfigurationError
from assizes.tasks import publish_report

# Names and reasons that others wrote must give no order to a chat program. They are replaced, not
# escaped (decision 106): Apprise, which sends Prefect's messages, undoes escapes on the way.
REPLACEMENTS: Final[Mapping[str, str]] = {
    "<": "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}",  # Slack: <!channel>, <address|text>
    ">": "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}",
    "@": "\N{FULLWIDTH COMMERCIAL AT}",  # @here, @channel
    "*": "\N{ASTERISK OPERATOR}",  # bold
    "`": "\N{MODIFIER LETTER GRAVE ACCENT}",  # code
    "~": "\N{TILDE OPERATOR}",  # struck through
    "://": ": //",  # a bare address becomes a link
    "](": "] (",  # [text](address)
    "\r": " ",
    "\n": " ",  # a forged further field of the message
}
"""Characters and their replacements. `&` stays: without the others it has no effect."""


def message_template(fields: Mapping[str, str]) -> str:
    """A Jinja template of a message: for each field its name and its Jinja expression's value."""
    quoted = {"\r": "\\r", "\n": "\\n"}  # as Jinja writes them in its strings
    replaced = " | ".join(
        f'replace("{quoted.get(char, char)}", "{replacement}")'
        for char, replacement in REPLACEMENTS.items()
    )
    return "\n".join(
        f"{name}: {{{{ {text} | string | {replaced} }}}}" for name, text in fields.items()
    )


DEPLOYED_EVENT: Final = "model.deployed"
"""The event that begins the flow `after-deployment`; its payload has `version`, and may have `agent`
and `min_transcripts`."""

HEARTBEAT_AUTOMATION: Final = "assizes: runs without a heartbeat"
"""Name of the one automation that all configurations share."""

HEARTBEAT_TIMEOUT: Final = timedelta(seconds=90)
"""Time without a heartbeat after which a run counts as dead: three heartbeats."""

NOTIFIED_TRIGGERS: Final = ("nightly", "deployment")
"""Triggers of the runs that send notifications; a person waits for the runs of other triggers."""

_HEARTBEAT_EVENT: Final = "prefect.flow-run.heartbeat"  # of the flow run's process
_ANY_FLOW_RUN_EVENT: Final = "prefect.flow-run.*"
"""Every event of a flow run. Prefect names events after the name of a state, and states of our runs
have names of their own, so a list of event names would not match them."""

_REGISTERED_EVENT: Final = "assizes.nightly.registered"
_REGISTERED: Final = "REGISTERED"
"""Stands in its event where those of flow runs have the type of a state."""

_EVENTS: Final[Mapping[NotificationReason, str]] = {  # [notify] on -> event
    "finished": publish_report.EVENT_FINISHED,
    "regression": publish_report.EVENT_REGRESSION,
    "inconclusive": publish_report.EVENT_INCONCLUSIVE,
    "failed": publish_report.EVENT_FAILED,
}

_RUN_FIELDS: Final = (  # of the payload of these events, as notifications tell them
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
    """Ids of registered deployments, by name of the flow."""

    ids: Mapping[str, UUID]

    def related_filter(self, *flows: str) -> dict[str, Any]:
        """A filter for events of flow runs of the deployments of these flows."""
        ids = [f"prefect.deployment.{self.ids[flow]}" for flow in flows]  # any of them will do
        return {"prefect.resource.role": "deployment", "prefect.resource.id": ids}


@dataclass(frozen=True)
class Notifier:
    """Sends notifications through a Prefect block: a webhook, or a message to people."""

    block: BlockDocument

    def action(self, finding: str, fields: Mapping[str, str]) -> CallWebhook | SendNotification:
        """The action that tells a finding, with the values of Jinja expressions over the event."""
        if is_webhook(self.block):
            typed = "default(none) | tojson"  # numbers stay numbers, a missing field is JSON null
            pairs = [f'"{key}": {{{{ {text} | {typed} }}}}' for key, text in fields.items()]
            payload = "{" + ", ".join([f'"finding": "{finding}"', *pairs]) + "}"
            return CallWebhook(block_document_id=self.block.id, payload=payload)
        subject, body = f"assizes: {finding}", message_template(fields)
        return SendNotification(block_document_id=self.block.id, subject=subject, body=body)


def is_webhook(block: BlockDocument) -> bool:
    """Whether a block is a webhook, which calls an address and sends JSON."""
    return block.block_type is not None and block.block_type.slug == "webhook"


def notifier_of(block: BlockDocument, block_name: str) -> Notifier:
    """The notifier over a block; `ConfigurationError` if it neither notifies nor is a webhook."""
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
    """The automations of a configuration; there are no notifications without a notifier."""
    wanted = [_heartbeat_automation(), _deployment_trigger(config, deployment_ids)]
    if notifier is None:
        return wanted
    wanted += [_outcome_notification(config, finding, notifier) for finding in config.notify.on]
    if "failed" in config.notify.on:
        wanted.append(_failure_notification(config, deployment_ids, notifier))
    if config.nightly.cron.strip():
        wanted.append(_missed_notification(config, deployment_ids, notifier))
    return wanted


def _heartbeat_automation() -> AutomationCore:
    """Marks runs without a heartbeat as crashed: a killed process cannot do so itself."""
    return AutomationCore(
        name=HEARTBEAT_AUTOMATION,
        description="A run whose process sends no heartbeat any more is marked as crashed.",
        tags=[publish_report.TAG],
        trigger=EventTrigger(
            after={_HEARTBEAT_EVENT},  # from the first heartbeat on
            expect={_ANY_FLOW_RUN_EVENT},  # the next heartbeat, or the run's end
            match={"prefect.resource.id": "prefect.flow-run.*"},
            match_related={
                "prefect.resource.role": "tag",
                "prefect.resource.id": f"prefect.tag.{publish_report.TAG}",
            },
            for_each={"prefect.resource.id"},  # each flow run by itself
            posture=Posture.Proactive,  # acts when events do not come
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


def _deployment_trigger(config: RunConfig, deployment_ids: DeploymentIds) -> AutomationCore:
    """Begins `after-deployment` on `DEPLOYED_EVENT`, of one model where one is configured."""
    agent = config.transcripts.where.get("agent") or config.transcripts.agent
    parameters = {
        "version": _typed_parameter("payload.version | string"),  # the number 7 is a version too
        "agent": _typed_parameter("payload.agent | default(none)"),  # None: of any agent
        "min_transcripts": _typed_parameter("payload.min_transcripts | default(none)"),
        "deployed_at": _typed_parameter("occurred | string"),  # the event may be posted later
    }
    deployment_id = deployment_ids.ids["after-deployment"]
    return AutomationCore(
        name=f"assizes {config.name}: after a deployment",
        description=f"The event {DEPLOYED_EVENT} of a model begins after-deployment.",
        tags=[publish_report.TAG, tag_of(config)],
        trigger=_on_event(
            DEPLOYED_EVENT,
            match={"prefect.resource.id": f"model.{agent or '*'}"},
            for_each={"prefect.resource.id"},  # each model by itself
        ),
        actions=[RunDeployment(deployment_id=deployment_id, parameters=parameters)],
    )


def _on_event(event: str, **filters: Any) -> EventTrigger:
    """A trigger that acts on each event of this name that passes the filters."""
    return EventTrigger(
        expect={event}, posture=Posture.Reactive, threshold=1, within=timedelta(0), **filters
    )


def _outcome_notification(
    config: RunConfig, finding: NotificationReason, notifier: Notifier
) -> AutomationCore:
    fields = {name: f"event.payload.{name}" for name in _RUN_FIELDS}
    return AutomationCore(
        name=f"assizes {config.name}: {finding}",
        description=f"Tells {config.notify.block} of nightly runs and of runs after a deployment.",
        tags=[publish_report.TAG, tag_of(config)],
        trigger=_on_event(
            _EVENTS[finding],
            match={
                "prefect.resource.id": f"{publish_report.RUN_RESOURCE}.*",
                "assizes.name": config.name,
                "assizes.trigger": list(NOTIFIED_TRIGGERS),
            },
        ),
        actions=[notifier.action(finding, fields)],
    )


def _failure_notification(
    config: RunConfig, deployment_ids: DeploymentIds, notifier: Notifier
) -> AutomationCore:
    """Notifies of flow runs that failed or crashed, which cannot emit an event of ours."""
    fields = {
        "name": f'"{config.name}"',  # a Jinja literal: the event does not hold it
        "flow_run": 'event.resource["prefect.resource.name"]',
        "state": 'event.resource["prefect.state-name"]',
        "message": 'event.resource["prefect.state-message"]',
    }
    return AutomationCore(
        name=f"assizes {config.name}: broken",
        description="A flow run that broke or crashed.",
        tags=[publish_report.TAG, tag_of(config)],
        trigger=_on_event(
            _ANY_FLOW_RUN_EVENT,
            match={
                "prefect.resource.id": "prefect.flow-run.*",
                "prefect.state-name": ["Failed", "Crashed", "TimedOut"],  # not Regression etc.
            },
            match_related=deployment_ids.related_filter("nightly", "after-deployment", "backfill"),
        ),
        actions=[notifier.action("failed", fields)],
    )


def _missed_notification(
    config: RunConfig, deployment_ids: DeploymentIds, notifier: Notifier
) -> AutomationCore:
    """Notifies when no nightly run has ended for `[notify] missed_after_hours`.

    The time begins anew with each end, and once when the automation is registered. Without `after`,
    Prefect divides time into spans of that length and looks for one in which no run ended: a missed
    night would be told one to two spans later.
    """
    hours = config.notify.missed_after_hours
    fields = {"name": f'"{config.name}"', "hours": f"{hours:g}"}
    return AutomationCore(
        name=missed_automation(config),
        description=f"No nightly run ended for {hours:g} hours.",
        tags=[publish_report.TAG, tag_of(config)],
        trigger=EventTrigger(
            after={_REGISTERED_EVENT, _ANY_FLOW_RUN_EVENT},
            expect={_ANY_FLOW_RUN_EVENT},
            match={
                # A failed run is not a missed one. By type: our states have names of their own.
                "prefect.state-type": [
                    StateType.COMPLETED.value,
                    StateType.FAILED.value,
                    _REGISTERED,
                ]
            },
            match_related=deployment_ids.related_filter("nightly"),
            posture=Posture.Proactive,
            threshold=1,
            within=timedelta(hours=hours),
        ),
        actions=[notifier.action("missed nightly", fields)],
    )


def missed_automation(config: RunConfig) -> str:
    """The name of the automation that notifies of missed nights."""
    return f"assizes {config.name}: missed nightly"


def registered_event(config: RunConfig, deployment_ids: DeploymentIds) -> Event:
    """The event with which the wait for the first night begins."""
    deployment = f"prefect.deployment.{deployment_ids.ids['nightly']}"
    return Event(
        event=_REGISTERED_EVENT,
        resource=Resource(
            {
                "prefect.resource.id": f"assizes.nightly.{config.name}",
                "prefect.state-type": _REGISTERED,
            }
        ),
        related=[
            RelatedResource(
                {"prefect.resource.id": deployment, "prefect.resource.role": "deployment"}
            )
        ],
    )


def _typed_parameter(expression: str) -> dict[str, Any]:
    """A field of the event with its JSON type; Prefect renders a plain template as a string."""
    template = f"{{{{ event.{expression} | tojson }}}}"
    return {"__prefect_kind": "json", "value": {"__prefect_kind": "jinja", "template": template}}
