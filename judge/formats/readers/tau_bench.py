"""tau-bench result files: one JSON list of trajectories in the chat-completions shape.

The system message is the agent's policy; turns are counted from the message after it. A simulated
customer ends the conversation with a marker. The agent never saw that marker, so judges do not see
it either. The instructions of the simulated customer go into the metadata, which no judge sees.
"""

from __future__ import annotations

from itertools import takewhile
from typing import Any, Final

from pydantic import AliasChoices, BaseModel, Field

from assizes.judge.case import Case, Expected, ExpectedCall, ToolResult, Transcript, Turn
from assizes.judge.errors import DataError
from assizes.judge.formats.shared.containers import Format, strict_document
from assizes.judge.formats.shared.messages import ChatMessage, without_marker_turn, without_markers
from assizes.judge.formats.shared.parsing import schema_errors


class _Action(BaseModel):
    name: str
    arguments: dict[str, Any] | None = Field(None, validation_alias=AliasChoices("kwargs"))


class _Task(BaseModel):
    actions: list[_Action] | None = None
    outputs: list[str] | None = None  # texts that the user must be told
    instruction: str | None = None  # of the simulated customer: no judge may see it
    user_id: str | None = None


class _Info(BaseModel):
    task: _Task = Field(default_factory=_Task)
    source: str | None = None
    reward_info: dict[str, Any] | None = None


class _Trajectory(BaseModel):
    task_id: int | str
    trial: int = 0  # the repetition of the case
    reward: float | None = None
    info: _Info = Field(default_factory=_Info)
    traj: list[ChatMessage]


def _records(document: bytes) -> list[Any]:
    """Return the trajectories of a file, an `UnreadableRecord` for each that is no strict JSON."""
    value, unread = strict_document(document)
    if not isinstance(value, list):
        found = type(value).__name__
        raise DataError("schema", f"document: found {found}, expected a list of trajectories")
    return [unread.get(position, trajectory) for position, trajectory in enumerate(value)]


def _case(record: Any) -> Case:
    with schema_errors():
        trajectory = _Trajectory.model_validate(record)
        task, info = trajectory.info.task, trajectory.info
        facts = {"instruction": task.instruction, "user_id": task.user_id, "ended_by": info.source}
        return Case(
            case_id=str(trajectory.task_id),
            repetition=trajectory.trial,
            transcript=_transcript(trajectory),
            expected=Expected(
                tool_calls=None
                if task.actions is None
                else tuple(
                    ExpectedCall(name=action.name, arguments=action.arguments)
                    for action in task.actions
                ),
                said=tuple(task.outputs or ()),
            ),
            tags={"trial": str(trajectory.trial)},
            cluster=str(trajectory.task_id),
            labels={} if trajectory.reward is None else {"reward": trajectory.reward},
            metadata={name: value for name, value in facts.items() if value is not None},
        )


def _transcript(trajectory: _Trajectory) -> Transcript:
    policies = list(takewhile(lambda message: message.role == "system", trajectory.traj))
    messages = trajectory.traj[len(policies) :]
    turns = [_turn(message) for message in messages]
    return Transcript(
        turns=without_marker_turn(turns, messages[-1].content if messages else None),
        system="\n\n".join(policy.content or "" for policy in policies) or None,
        # The environment computes a reward only when the conversation came to its end; a
        # conversation without one ran out of steps.
        finished=trajectory.info.reward_info is not None,
    )


def _turn(message: ChatMessage) -> Turn:
    text = message.content
    if message.role == "tool":
        result = ToolResult(
            content=text or "",
            call_id=message.tool_call_id,
            name=message.name,
            is_error=(text or "").startswith("Error"),  # how tau-bench's tools report one
        )
        return Turn(role="tool", tool_result=result)
    if message.role == "user" and text is not None:
        text = without_markers(text)
    calls = message.calls()
    # A system message after the first turn has no place in a transcript: Turn refuses the role.
    return Turn.model_validate({"role": message.role, "text": text, "tool_calls": calls})


TAU_BENCH: Final = Format(
    name="tau_bench",
    keys=frozenset({"task_id", "traj"}),
    fits=lambda value: isinstance(value, list),
    case=_case,
    records=_records,
    by_line=False,
)
"""The format of tau-bench's result files."""
