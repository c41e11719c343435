"""ATIF trajectories (Agent Trajectory Interchange Format, v1): a step holds its calls and results.

{"schema_version": "ATIF-v1.4", "session_id": "s1", "agent": {"name": "fern", "version": "1"},
 "steps": [{"step_id": 1, "source": "user", "message": "Where is order 77?"}, ...]}
"""

from __future__ import annotations

from typing import Any, Final

from assizes.judge.case import Case, Transcript
from assizes.judge.errors import DataError
from assizes.judge.formats.shared import json_shapes as shapes
from assizes.judge.formats.shared.containers import Layout
from assizes.judge.formats.shared.messages import ConversationBuilder, call_of, tools_of, usage_of

_STEP_FIELDS: Final = {
    *("step_id", "source", "timestamp", "message", "reasoning_content", "tool_calls"),
    *("observation", "metrics", "model_name", "reasoning_effort"),
}
_ROLES: Final = {"user": "user", "agent": "assistant"}  # by source; a system step is no turn
_TOKEN_FIELDS: Final = ("prompt_tokens", "completion_tokens")


def _fits(value: dict[str, Any]) -> bool:
    return str(value.get("schema_version", "")).startswith("ATIF-v1")


def _read(value: dict[str, Any]) -> Case:
    builder = ConversationBuilder()
    agent = shapes.mapping(value.get("agent"), "agent")
    steps = list(shapes.numbered_objects(value.get("steps"), "steps"))
    for path, step in steps:
        _add_step(step, path, builder)
    totals = shapes.mapping(value.get("final_metrics"), "final_metrics")
    return Case(
        case_id=shapes.first_identifier(value, ("session_id", "trajectory_id"))
        or shapes.content_id(value),
        transcript=Transcript(
            turns=tuple(builder.turns),
            system=builder.system_text(),
            tools=tools_of(
                shapes.sequence(agent.get("tool_definitions"), "agent.tool_definitions")
            ),
            started_at=shapes.moment(steps[0][1].get("timestamp")) if steps else None,
            agent_cost_usd=shapes.dollars(totals.get("total_cost_usd")),
        ),
        agent=shapes.name_of(agent.get("name")),
        agent_version=shapes.name_of(agent.get("version")),
        metadata={**shapes.mapping(value.get("extra"), "extra"), **builder.metadata()},
    )


def _add_step(step: dict[str, Any], path: str, builder: ConversationBuilder) -> None:
    builder.tally.count_unread(step, _STEP_FIELDS, "step")
    source = str(step.get("source"))
    if source == "system":
        builder.add_system(builder.text_of(step.get("message")))
        return
    if source not in _ROLES:
        raise DataError(
            "schema", f"{path}.source: found {source[:40]!r}, expected user, agent, system"
        )
    thoughts = [step["reasoning_content"]] if step.get("reasoning_content") else []
    calls = [
        call_of(
            call.get("function_name"), call.get("arguments"), call.get("tool_call_id"), path=path
        )
        for call in shapes.objects(step.get("tool_calls"), f"{path}.tool_calls")
    ]
    metrics = shapes.mapping(step.get("metrics"), f"{path}.metrics")
    builder.add_message(
        _ROLES[source],
        step.get("message"),
        calls,
        thoughts,
        started_at=shapes.moment(step.get("timestamp")),
        usage=usage_of({name: metrics.get(name) for name in _TOKEN_FIELDS}),
        cost_usd=shapes.dollars(metrics.get("cost_usd")),
    )
    observation = shapes.mapping(step.get("observation"), f"{path}.observation")
    for result in shapes.objects(observation.get("results"), f"{path}.observation.results"):
        builder.add_result(result.get("content"), result.get("source_call_id"))


ATIF: Final = Layout("atif", frozenset({"schema_version"}), _fits, _read)
"""The layout of ATIF trajectories."""
