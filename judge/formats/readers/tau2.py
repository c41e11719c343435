"""tau2 result files: one JSON document with simulations, their tasks and the agent's policy.

The simulated user may call tools of its own. Such calls and their results stay in the transcript as
marked text of the user, one turn for each message: no judge takes them for calls of the agent, and
turn indices stay those of the file. Instructions of the simulated user, raw model replies and model
settings (some files hold API keys there) are left out.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final, Literal

from pydantic import BaseModel, Field

from assizes.judge.case import (
    Case,
    Expected,
    ExpectedCall,
    Moment,
    Role,
    ToolResult,
    Transcript,
    Turn,
    Usage,
)
from assizes.judge.errors import DataError
from assizes.judge.formats.shared.containers import Format, strict_document
from assizes.judge.formats.shared.json_shapes import as_text, between_ms
from assizes.judge.formats.shared.messages import tool_call, without_marker_turn, without_markers
from assizes.judge.formats.shared.parsing import DROPPED_TIMES, FidelityCounter, schema_errors

_FINISHED_REASONS = frozenset({"user_stop", "agent_stop"})  # others: max_steps, errors
_SHARED = ("agent_info", "environment_info")  # parts of `info` that every simulation gets


class _Results(BaseModel):
    info: dict[str, Any] = Field(default_factory=dict)  # raw: most of it is never read
    tasks: list[dict[str, Any]] = Field(default_factory=list)
    simulations: list[Any]  # checked one by one, so that one fault costs no other


class _Tau2Call(BaseModel):
    name: str
    arguments: str | dict[str, Any] | None = None
    id: str | None = None


class _Tokens(BaseModel):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Message(BaseModel):
    role: Role
    content: str | None = None
    tool_calls: list[_Tau2Call] | None = None
    id: str | None = None
    requestor: Literal["user", "assistant"] = "assistant"  # of a tool result: who called
    error: bool | None = None
    timestamp: Moment | None = None
    cost: float | None = None  # USD
    usage: _Tokens | None = None


class _RewardInfo(BaseModel):
    reward: float | None = None


class _Simulation(BaseModel):
    id: str | None = None
    task_id: int | str
    trial: int | None = None  # from 0; the repetition of the case
    start_time: Moment | None = None
    duration: float | None = None  # seconds
    termination_reason: str | None = None
    agent_cost: float | None = None  # USD
    reward_info: _RewardInfo | None = None
    messages: list[_Message]


class _Action(BaseModel):
    name: str
    arguments: dict[str, Any] | None = None
    requestor: Literal["user", "assistant"] = "assistant"
    compare_args: list[str] | None = None


class _Criteria(BaseModel):
    actions: list[_Action] | None = None  # None: not known; empty: none is needed
    communicate_info: list[str] | None = None  # texts that the user must be told
    nl_assertions: list[str] | None = None  # statements about the end
    env_assertions: list[Any] | None = None  # functions of the environment, of which none is here


class _Task(BaseModel):
    evaluation_criteria: _Criteria | None = None


class _Agent(BaseModel):
    llm: str | None = None
    implementation: str | None = None  # name of the agent where no model is named


class _EnvironmentInfo(BaseModel):
    policy: str | None = None
    domain_name: str | None = None


class _TaskSimulation(BaseModel):
    simulation: _Simulation
    task: _Task
    agent_info: _Agent | None = None
    environment_info: _EnvironmentInfo | None = None


def _fits(value: Any) -> bool:
    """Whether a value is an object with simulations, or with the `info` that precedes them."""
    if not isinstance(value, dict):
        return False
    info = value.get("info")
    return "simulations" in value or (
        isinstance(info, dict) and any(key.endswith("_info") for key in info)
    )


def _records(document: bytes) -> list[Any]:
    """Return the simulations of a file, each joined with its task and the facts that all share.

    A simulation that is no strict JSON is returned as an `UnreadableRecord`.
    """
    value, unread = strict_document(document, "simulations")
    with schema_errors():
        results = _Results.model_validate(value)
    tasks = {str(task.get("id")): task for task in results.tasks}
    shared = {name: results.info.get(name) for name in _SHARED}

    def record(simulation: Any) -> dict[str, Any]:
        task_id = simulation.get("task_id") if isinstance(simulation, dict) else ""
        return {"simulation": simulation, "task": tasks.get(str(task_id)), **shared}

    return [
        unread.get(position) or record(simulation)  # None stands in place of an unread one
        for position, simulation in enumerate(results.simulations)
    ]


def _case(record: Any) -> Case:
    if isinstance(record, dict) and record.get("task", record) is None:
        raise DataError("schema", "simulation.task_id: the file has no task of this id")
    with schema_errors():
        return _simulation_case(_TaskSimulation.model_validate(record))


def _simulation_case(record: _TaskSimulation) -> Case:
    simulation, agent = record.simulation, record.agent_info or _Agent()
    environment = record.environment_info or _EnvironmentInfo()
    task_id, trial = str(simulation.task_id), simulation.trial or 0
    tags = {"trial": str(trial), "domain": environment.domain_name or ""}
    facts = {
        "simulation_id": simulation.id,
        "termination_reason": simulation.termination_reason,
        DROPPED_TIMES: _backward_times(simulation) or None,
    }
    criteria, counter = record.task.evaluation_criteria or _Criteria(), FidelityCounter()
    counter.count("unchecked", "environment assertion", len(criteria.env_assertions or ()))
    of_user = sum(action.requestor == "user" for action in criteria.actions or ())
    counter.count("unchecked", "call expected of the user", of_user)
    reward = simulation.reward_info.reward if simulation.reward_info else None
    return Case(
        case_id=task_id,
        repetition=trial,
        transcript=_transcript(simulation, environment.policy),
        expected=_expected_values(criteria),
        agent=agent.llm or agent.implementation,
        tags={name: tag for name, tag in tags.items() if tag},
        cluster=task_id,
        labels={} if reward is None else {"reward": reward},
        metadata=counter.metadata()
        | {name: value for name, value in facts.items() if value is not None},
    )


def _transcript(simulation: _Simulation, policy: str | None) -> Transcript:
    reason, messages = simulation.termination_reason, simulation.messages
    seconds = simulation.duration
    # Each message after the one before it: the difference of their times is the latency.
    turns = [
        _turn(message, previous) for previous, message in pairwise([None, *messages]) if message
    ]
    return Transcript(
        turns=without_marker_turn(turns, messages[-1].content if messages else None),
        system=policy,
        started_at=simulation.start_time,
        duration_ms=None if seconds is None or seconds < 0 else round(seconds * 1000, 3),
        agent_cost_usd=simulation.agent_cost,
        finished=None if reason is None else reason in _FINISHED_REASONS,
    )


def _turn(message: _Message, previous: _Message | None) -> Turn:
    if message.role == "assistant":
        return _agent_turn(message, previous)
    if message.role == "user":
        return Turn(role="user", text=_user_text(message))
    content = message.content or ""
    if message.requestor == "user":
        what = "error" if message.error else "result"
        # As the user's words: the agent neither made the call nor saw the result.
        return Turn(role="user", text=f"[{what} of the user's own tool call: {content}]")
    answer = ToolResult(content=content, call_id=message.id, is_error=bool(message.error))
    return Turn(role="tool", tool_result=answer)


def _agent_turn(message: _Message, previous: _Message | None) -> Turn:
    usage = message.usage
    return Turn(
        role="assistant",
        text=message.content,
        tool_calls=tuple(
            tool_call(call.name, call.arguments, call.id) for call in message.tool_calls or ()
        ),
        latency_ms=between_ms(previous.timestamp, message.timestamp) if previous else None,
        usage=usage
        and Usage(input_tokens=usage.prompt_tokens, output_tokens=usage.completion_tokens),
        cost_usd=message.cost,
    )


def _backward_times(simulation: _Simulation) -> int:
    """Count the times that run backwards: between two messages, or over the whole simulation."""
    times = pairwise(message.timestamp for message in simulation.messages)
    back = sum(bool(earlier and later and later < earlier) for earlier, later in times)
    return back + (simulation.duration is not None and simulation.duration < 0)


def _user_text(message: _Message) -> str | None:
    text = None if message.content is None else without_markers(message.content)
    marks = [
        f"[the user's own tool call: {call.name}"
        f"({as_text({} if call.arguments is None else call.arguments)})]"
        for call in message.tool_calls or ()
    ]
    return "\n".join(filter(None, (text, *marks))) if marks else text


def _expected_values(criteria: _Criteria) -> Expected:
    # Of the arguments, only those that the task compares are expected; an empty list: any will do.
    calls = tuple(
        ExpectedCall(name=action.name, arguments=_compared_arguments(action))
        for action in criteria.actions or ()
        if action.requestor == "assistant"  # the user's own actions are not the agent's to make
    )
    return Expected(
        outcomes=tuple(criteria.nl_assertions or ()),
        tool_calls=None if criteria.actions is None else calls,
        said=tuple(criteria.communicate_info or ()),
    )


def _compared_arguments(action: _Action) -> dict[str, Any] | None:
    names, arguments = action.compare_args, action.arguments
    if names is None or arguments is None:
        return arguments
    return {name: arguments[name] for name in names if name in arguments} if names else None


TAU2: Final = Format(
    name="tau2",
    keys=frozenset({"simulations", "info"}),
    fits=_fits,
    case=_case,
    records=_records,
    by_line=False,
)
"""The format of tau2's result files."""
