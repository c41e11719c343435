"""tau-bench result files: one JSON list of trajectories in the chat-completions shape.

The system message is the agent's policy; turns are counted from the message after it. A simulated
customer ends the conversation with a marker. The agent never saw that marker, so judges do not see
it either. The instructions of the simulated customer go into the metadata, which no judge sees.
"""

from __future__ import annotations

import itertools
from typing import Any, Literal

from pydantic import AliasChoices, BaseModel, Field

from assizes.judge.case import Case, Expected, ExpectedCall, ToolResult, Transcript, Turn
from assizes.judge.errors import DataError
from assizes.judge.formats.shared.documents import strict_document
from assizes.judge.formats.shared.parsing import (
    ChatToolCall,
    schema_errors,
    without_marker_turn,
    without_markers,
)


class _Message(BaseModel):
    role: Literal["system", "user", "assistant", "tool"]
    content: str | None = None
    tool_calls: list[ChatToolCall] | None = None
    tool_call_id: str | None = None
    name: str | None = None


class _Action(BaseModel):
    name: str
    arguments: dict[str, Any] | None = Field(None, validation_alias=AliasChoices("kwargs"))


class _Task(BaseModel):
    actions: list[_Action] | None = None
    outputs: list[str] | None = None
    instruction: str | None = None
    user_id: str | None = None


class _Info(BaseModel):
    task: _Task = Field(default_factory=_Task)
    source: str | None = None
    reward_info: dict[str, Any] | None = None


class _Trajectory(BaseModel):
    task_id: int | str
    trial: int = 0
    reward: float | None = None
    info: _Info = Field(default_factory=_Info)
    traj: list[_Message]


class TauBench:
    """The format of tau-bench's result files."""

    name = "tau_bench"
    by_line = False

    def fits(self, value: Any) -> bool:
        """Whether a value is a list whose first element begins like a trajectory."""
        return (
            isinstance(value, list)
            and bool(value)
            and isinstance(value[0], dict)
            and not value[0].keys().isdisjoint({"task_id", "traj"})
        )

    def records(self, document: bytes) -> list[Any]:
        """Return the trajectories of a file, an `UnreadableRecord` for each that is no strict JSON.

        Raises:
            DataError: the file is no JSON, or not a list.
        """
        value, unread = strict_document(document)
        if not isinstance(value, list):
            kind = type(value).__name__
            raise DataError("schema", f"document: found {kind}, expected a list of trajectories")
        return [unread.get(position, trajectory) for position, trajectory in enumerate(value)]

    def case(self, record: Any) -> Case:
        """Return the case of one trajectory.

        Raises:
            DataError: `schema`, when a field has another type.
        """
        with schema_errors():
            return _case(_Trajectory.model_validate(record))


def _case(trajectory: _Trajectory) -> Case:
    task, info = trajectory.info.task, trajectory.info
    facts = {"instruction": task.instruction, "user_id": task.user_id, "ended_by": info.source}
    return Case(
        case_id=str(trajectory.task_id),
        repetition=trajectory.trial,
        transcript=_transcript(trajectory),
        expected=_expected_values(task),
        tags={"trial": str(trajectory.trial)},
        cluster=str(trajectory.task_id),
        labels={} if trajectory.reward is None else {"reward": trajectory.reward},
        metadata={name: value for name, value in facts.items() if value is not None},
    )


def _transcript(trajectory: _Trajectory) -> Transcript:
    policies = list(itertools.takewhile(lambda message: message.role == "system", trajectory.traj))
    messages = trajectory.traj[len(policies) :]
    turns = [_turn(message) for message in messages]
    return Transcript(
        turns=without_marker_turn(turns, messages[-1].content if messages else None),
        system="\n\n".join(policy.content or "" for policy in policies) or None,
        # The environment computes a reward only when the conversation came to its end; a
        # conversation without one ran out of steps.
        finished=trajectory.info.reward_info is not None,
    )


def _turn(message: _Message) -> Turn:
    text = message.content
    if message.role == "tool":
        result = ToolResult(
            content=text or "",
            call_id=message.tool_call_id,
            name=message.name,
            is_error=(text or "").startswith("Error"),
        )
        return Turn(role="tool", tool_result=result)
    if message.role == "user" and text is not None:
        text = without_markers(text)
    calls = tuple(call.tool_call() for call in message.tool_calls or ())
    # A system message after the first turn has no place in a transcript: Turn refuses the role.
    return Turn.model_validate({"role": message.role, "text": text, "tool_calls": calls})


def _expected_values(task: _Task) -> Expected:
    actions = task.actions
    return Expected(
        tool_calls=None
        if actions is None
        else tuple(
            ExpectedCall(name=action.name, arguments=action.arguments) for action in actions
        ),
        said=tuple(task.outputs or ()),
    )
