"""ATIF trajectories (Agent Trajectory Interchange Format, v1): a step holds its calls and results.

From v1.7 on a trajectory can embed those of its sub-agents. A result of the step that delegated names
them; what they said and did stands before that result, under their names.

{"schema_version": "ATIF-v1.4", "session_id": "s1", "agent": {"name": "fern", "version": "1"},
 "steps": [{"step_id": 1, "source": "user", "message": "Where is order 77?"}, ...]}
"""

from __future__ import annotations

from typing import Any, Final

from assizes.judge.case import Case, Transcript, Turn
from assizes.judge.errors import DataError
from assizes.judge.formats.shared import json_shapes as shapes
from assizes.judge.formats.shared.containers import Layout
from assizes.judge.formats.shared.messages import ConversationBuilder, call_of, tools_of, usage_of

_STEP_FIELDS: Final = {
    *("step_id", "source", "timestamp", "message", "reasoning_content", "tool_calls"),
    *("observation", "metrics", "model_name", "reasoning_effort"),
}
_REFERENCE: Final = "subagent_trajectory_ref"
MAX_DEPTH: Final = 20
"""The most sub-agents within one another that are read."""

_ROLES: Final = {"user": "user", "agent": "assistant"}  # by source; a system step is no turn
_TOKEN_FIELDS: Final = ("prompt_tokens", "completion_tokens")


def _fits(value: dict[str, Any]) -> bool:
    return str(value.get("schema_version", "")).startswith("ATIF-v1")


def _read(value: dict[str, Any]) -> Case:
    builder = ConversationBuilder()
    agent = shapes.mapping(value.get("agent"), "agent")
    steps = list(shapes.numbered_objects(value.get("steps"), "steps"))
    _Trajectory(value, builder).add_steps(steps)
    totals = shapes.mapping(value.get("final_metrics"), "final_metrics")
    return Case(
        case_id=shapes.first_identifier(value, ("session_id", "trajectory_id"))
        or shapes.content_id(value),
        transcript=Transcript(
            turns=_named_if_several(builder.turns),
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


class _Trajectory:
    """A trajectory that is read into a conversation, and the sub-agents that it embeds."""

    def __init__(
        self, value: dict[str, Any], builder: ConversationBuilder, path: str = "", depth: int = 0
    ) -> None:
        self._builder, self._path, self._depth = builder, path, depth
        self._agent = shapes.name_of(shapes.mapping(value.get("agent"), f"{path}agent").get("name"))
        embedded = shapes.objects(
            value.get("subagent_trajectories"), f"{path}subagent_trajectories"
        )
        # Each is read where it is first referred to; a later reference repeats it.
        self._embedded = {str(each.get("trajectory_id")): each for each in embedded}

    def add_steps(self, steps: list[tuple[str, dict[str, Any]]]) -> None:
        """Add the steps in order; sub-agents that no result names are counted as dropped."""
        for path, step in steps:
            self._add_step(step, f"{self._path}{path}")
        self._builder.tally.count("dropped", "subagent trajectory", len(self._embedded))

    def _add_step(self, step: dict[str, Any], path: str) -> None:
        builder = self._builder
        builder.tally.count_unread(step, _STEP_FIELDS, "step")
        source = str(step.get("source"))
        if source not in (*_ROLES, "system"):
            raise DataError(
                "schema", f"{path}.source: found {source[:40]!r}, expected user, agent, system"
            )
        if self._depth and source != "agent":  # the task of a sub-agent stands in the call as well
            builder.tally.count("dropped", f"subagent {source} step")
        elif source == "system":
            builder.add_system(builder.text_of(step.get("message")))
        else:
            self._add_message(step, _ROLES[source], path)
        if source != "system":
            self._add_results(step, path)

    def _add_message(self, step: dict[str, Any], role: str, path: str) -> None:
        thoughts = [step["reasoning_content"]] if step.get("reasoning_content") else []
        calls = [
            call_of(
                call.get("function_name"),
                call.get("arguments"),
                call.get("tool_call_id"),
                path=path,
            )
            for call in shapes.objects(step.get("tool_calls"), f"{path}.tool_calls")
        ]
        metrics = shapes.mapping(step.get("metrics"), f"{path}.metrics")
        self._builder.add_message(
            role,
            step.get("message"),
            calls,
            thoughts,
            agent=self._agent if role == "assistant" else None,
            started_at=shapes.moment(step.get("timestamp")),
            usage=usage_of({name: metrics.get(name) for name in _TOKEN_FIELDS}),
            cost_usd=shapes.dollars(metrics.get("cost_usd")),
        )

    def _add_results(self, step: dict[str, Any], path: str) -> None:
        observation = shapes.mapping(step.get("observation"), f"{path}.observation")
        for result in shapes.objects(observation.get("results"), f"{path}.observation.results"):
            for reference in shapes.objects(result.get(_REFERENCE), f"{path}.{_REFERENCE}"):
                self._add_subagent(reference, path)
            content, call_id = result.get("content"), result.get("source_call_id")
            if content is not None or call_id is not None or not result.get(_REFERENCE):
                self._builder.add_result(content, call_id)

    def _add_subagent(self, reference: dict[str, Any], path: str) -> None:
        """Add what a sub-agent said and did; one in another file is counted as dropped."""
        name = str(reference.get("trajectory_id"))
        child = self._embedded.pop(name, None)
        if child is None or self._depth == MAX_DEPTH:
            self._builder.tally.count("dropped", "subagent trajectory")
            return
        inner = f"{path}.subagent {name[:40]}."
        steps = list(shapes.numbered_objects(child.get("steps"), "steps"))
        _Trajectory(child, self._builder, inner, self._depth + 1).add_steps(steps)


def _named_if_several(turns: list[Turn]) -> tuple[Turn, ...]:
    """The turns; where one agent alone speaks, the case has its name, and its turns need none."""
    names = {turn.agent for turn in turns if turn.role == "assistant"}
    if len(names) > 1:
        return tuple(turns)
    return tuple(turn.model_copy(update={"agent": None}) for turn in turns)


ATIF: Final = Layout("atif", frozenset({"schema_version"}), _fits, _read)
"""The layout of ATIF trajectories."""
