"""The steps of an agent: its tool calls in order, including the calls of its sub-agents.

The agent-step judges get their evidence from here: code, and no model, says which tools were
called. Every pattern runs in linear time, because the texts are untrusted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from assizes.judge.case import Case, Expected, ToolCall, ToolResult, Transcript, Turn
from assizes.judge.evidence.outages import is_outage
from assizes.judge.evidence.same_values import canonical_text
from assizes.judge.evidence.tool_calls import MadeCall, made_calls

# The keys under which a step of seed 002 may give its name, its input and its output.
_NAMES: Final = ("name", "tool_name", "tool")
_INPUTS: Final = ("input", "arguments", "args")
_OUTPUTS: Final = ("output", "result")


@dataclass(frozen=True, slots=True)
class AgentStep:
    """One tool call with its result."""

    turn: int  # index of the turn that made the call
    name: str
    arguments: Mapping[str, Any]
    raw: str | None = None  # the argument text where it was no JSON object
    result: str | None = None  # what the tool returned; `None`: nothing
    failed: bool = False  # whether the result is an error
    within: tuple[str, ...] = ()  # names of the calls around this one, the outermost first
    prevented: bool = False  # whether the environment failed, by no fault of the agent


@dataclass(frozen=True, slots=True)
class UserExchange:
    """A message of the user and the turns up to the next message."""

    start: int  # index of the first of the turns
    turns: tuple[Turn, ...]


def steps_of(transcript: Transcript) -> tuple[AgentStep, ...]:
    """The agent's tool calls in order; nested calls follow the call in which they were made.

    A call that an outage prevented is left out where the agent made it again: no step of its own.
    """
    steps = tuple(
        step
        for made in made_calls(transcript)
        for step in _walk_call(made.turn, made.call, made.result)
    )
    if not any(step.prevented for step in steps):
        return steps
    keys = [(step.name, canonical_text(step.arguments)) for step in steps]
    last = {key: place for place, key in enumerate(keys)}
    return tuple(
        step for place, step in enumerate(steps) if not step.prevented or last[keys[place]] == place
    )


def is_agent_silent(transcript: Transcript) -> bool:
    """Whether the agent called no tool and wrote nothing that can be seen in the whole transcript."""
    signs = (sign for _, text in transcript.agent_texts() for sign in text)
    # Neither blanks nor characters such as U+200B, which have no width, can be seen.
    is_seen = any(sign.isprintable() and not sign.isspace() for sign in signs)
    return not is_seen and not any(transcript.calls())


def exchanges(transcript: Transcript) -> tuple[UserExchange, ...]:
    """The conversation cut before each message of the user; user turns in a row are one message."""
    turns = transcript.turns
    cuts = [
        index
        for index, turn in enumerate(turns)
        if turn.role == "user" and (index == 0 or turns[index - 1].role != "user")
    ]
    # Turns before the first message belong to the first exchange.
    borders = pairwise([0, *cuts[1:], len(turns)] if turns else [])
    return tuple(UserExchange(start, turns[start:end]) for start, end in borders)


def requests(transcript: Transcript) -> tuple[str, ...]:
    """The texts of the user, in order."""
    return tuple(turn.text for turn in transcript.turns if turn.role == "user" and turn.text)


def final_response(transcript: Transcript) -> str:
    """The agent's last answer: after the user's last turn unless that ends all; empty for none."""
    turns = transcript.turns
    last_user = max((i for i, turn in enumerate(turns) if turn.role == "user"), default=-1)
    ended_by_user = bool(turns) and last_user == len(turns) - 1  # e.g. by thanks
    places = [
        index
        for index, text in transcript.agent_texts()
        if text.strip() and (ended_by_user or index > last_user)
    ]
    answers = transcript.answer_places(places[-1]) if places else []
    return (turns[answers[-1]].text or "").strip() if answers else ""


def json_value(text: str | None) -> Any:
    """The JSON value of a text; `None` where the text is no JSON, or has NaN or infinities."""
    try:
        return json.loads(text or "", parse_constant=_refuse_constant)  # else NaN is accepted
    except (ValueError, RecursionError):  # RecursionError: ten thousand opening brackets
        return None


def _content(made: MadeCall) -> str | None:
    return made.result.content if made.result else None


def _walk_call(
    turn: int, call: ToolCall, answer: ToolResult | None, within: tuple[str, ...] = ()
) -> Iterator[AgentStep]:
    prevented = answer is not None and is_outage(answer.content, is_error=answer.is_error)
    failed = prevented or (answer is not None and answer.is_error)
    content = answer.content if answer else None
    yield AgentStep(
        turn, call.name, call.arguments, call.raw, content, failed, within, prevented=prevented
    )
    for inner in call.tool_calls:
        # A nested call does not say whether it failed.
        inner_answer = None if inner.result is None else ToolResult(content=inner.result)
        yield from _walk_call(turn, inner, inner_answer, (*within, call.name))


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


# Question and answer as two objects, the shape in which seed 002 gives cases to a judge


def case_of(
    input_data: Mapping[str, Any],  # `question`, perhaps `context` and `id`
    output_data: Mapping[str, Any],  # `response` and `steps`
    expected: Mapping[str, Any] | None = None,
) -> Case:
    """A case from two objects: a question with its context, and an answer with its steps.

    A step has a name, an input, an output, and the `tool_calls` of a sub-agent in the same shape.
    Keys of `expected` that are no fields of `Expected` go to its `additional_input`.
    """
    steps = list(output_data.get("steps") or ())
    calls = tuple(_call(step, f"step_{place}") for place, step in enumerate(steps))
    results: list[Turn] = []
    for place, step in enumerate(steps):
        error, output = step.get("error"), _first(step, _OUTPUTS)
        if error is not None or output is not None:
            content, is_error = (
                _as_text(output if error is None else error) or "",
                error is not None,
            )
            result = ToolResult(content=content, call_id=f"step_{place}", is_error=is_error)
            results.append(Turn(role="tool", tool_result=result))
    called = (Turn(role="assistant", tool_calls=calls), *results) if calls else ()
    fields = dict(expected or {})
    held = {key: fields.pop(key) for key in list(fields) if key not in Expected.model_fields}
    held |= fields.pop("additional_input", None) or {}
    return Case(
        case_id=str(input_data.get("id") or "case"),
        transcript=Transcript(
            system=_as_text(input_data.get("context")),
            turns=(
                Turn(role="user", text=_as_text(input_data.get("question"))),
                *called,
                Turn(role="assistant", text=_as_text(output_data.get("response"))),
            ),
        ),
        expected=Expected.model_validate({**fields, "additional_input": held}),
    )


def as_data(case: Case) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """A case as the objects `input_data`, `output_data` and `expected`; reverses `case_of`."""
    asked = requests(case.transcript)
    steps = [_step_data(made.call, _content(made)) for made in made_calls(case.transcript)]
    return (
        {
            "id": case.case_id,
            "question": asked[-1] if asked else "",  # the last of the `questions`
            "questions": list(asked),
            "context": case.transcript.system,
        },
        {"response": final_response(case.transcript), "steps": steps},
        case.expected.model_dump(mode="json", exclude_defaults=True),
    )


def _step_data(call: ToolCall, output: str | None) -> dict[str, Any]:
    arguments = call.raw if call.raw is not None and not call.arguments else call.arguments
    inner = [_step_data(inner_call, inner_call.result) for inner_call in call.tool_calls]
    return {"name": call.name, "input": arguments, "output": output, "tool_calls": inner}


def _call(step: Mapping[str, Any], call_id: str | None = None) -> ToolCall:
    arguments = _first(step, _INPUTS)
    value = json_value(arguments) if isinstance(arguments, str) else arguments
    is_object = isinstance(value, Mapping)  # else the text is kept raw
    return ToolCall(
        name=str(_first(step, _NAMES) or ""),
        arguments={str(key): item for key, item in value.items()} if is_object else {},
        raw=None if is_object else _as_text(arguments),
        id=call_id,
        tool_calls=tuple(_call(inner) for inner in step.get("tool_calls") or ()),
        result=None if call_id else _as_text(_first(step, _OUTPUTS)),  # with an id, a turn has it
    )


def _first(step: Mapping[str, Any], keys: Sequence[str]) -> Any:
    return next((step[key] for key in keys if step.get(key) is not None), None)


def _as_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)
