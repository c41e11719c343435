"""The steps of an agent: its tool calls in order, including the calls of its sub-agents.

The judges of seed 002 get their evidence from here: code, and no model, says which tools were
called. Every pattern runs in linear time, because the texts are untrusted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from assizes.judge.case import Case, Expected, ToolCall, ToolResult, Transcript, Turn
from assizes.judge.evidence.tool_calls import MadeCall, made_calls

_DEEPEST: Final = 8  # a bound for hostile nesting
"""Levels of nested argument values that are searched for texts."""

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


@dataclass(frozen=True, slots=True)
class UserExchange:
    """A message of the user and the turns up to the next message."""

    start: int  # index of the first of the turns
    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class SqlCall:
    """An SQL statement and the step that ran it."""

    statement: str
    step: AgentStep


def steps_of(transcript: Transcript) -> tuple[AgentStep, ...]:
    """The agent's tool calls in order; nested calls follow the call in which they were made."""
    return tuple(
        step
        for made in made_calls(transcript)
        for step in _walk_call(made.turn, made.call, _content(made), failed=made.has_failed)
    )


def steps_of_tools(steps: Iterable[AgentStep], tools: Sequence[str]) -> tuple[AgentStep, ...]:
    """The steps that call one of these tools."""
    return tuple(step for step in steps if step.name in tools)


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
    return (turns[transcript.answer_places(places[-1])[-1]].text or "").strip() if places else ""


# The content of a step: SQL, found items, charts

# Atomic groups keep the time linear: otherwise comments match in exponentially many ways.
_LEADING = r"(?:\s|--[^\n]*+|(?>/\*.*?\*/)|\()*+"  # blanks, comments, brackets
_SQL: Final = re.compile(
    _LEADING
    + r"""(?:
        select\s++(?:\*|\d|'|distinct\b|\w++\s*+\()
      | select\b(?=.*?\bfrom\s++(?!(?:the|an?|my|our|your|this|that|these|those)\b))
      | with\s++(?:recursive\s++)?[\w"`]++(?:\s*+\([^)]*+\))?\s*+as\s*+(?:not\s++)?
        (?:materialized\s*+)?\(
      | (?:insert|replace)\s++(?:or\s++\w++\s++)?into\s
      | update\s++[\w."`\[\]]++\s++(?:as\s++\w++\s++)?set\s
      | delete\s++from\s | merge\s++into\s | truncate\s++(?:table\s++)?\w
      | (?:create|drop|alter)\s++(?:or\s++replace\s++)?(?:temp(?:orary)?\s++)?
        (?:unique\s++)?(?:table|view|index|schema|database|trigger)\s
      | explain\s++(?:query\s++plan\s++|analyze\s++)?(?:select|with|insert|update|delete)\s
      | (?:pragma\s++\w|show\s++(?:tables|columns|databases)\b)
    )""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)


def is_sql(text: str) -> bool:
    """Whether a text begins like an SQL statement; `select a gift from my list` does not."""
    return _SQL.match(text) is not None


def sql_calls(
    steps: Iterable[AgentStep], tools: Sequence[str], arguments: Sequence[str]
) -> tuple[SqlCall, ...]:
    """Every SQL statement that the steps ran, in order: the arguments that read as SQL.

    With `tools`, only calls of these count, but every text in an argument named in `arguments`.
    """
    calls: list[SqlCall] = []
    for step in steps:
        if tools and step.name not in tools:
            continue
        statements = [
            text
            for key, text in _texts(step.arguments)
            if is_sql(text) or (tools and key in arguments and text.strip())
        ]
        if step.raw is not None and not step.arguments and (tools or is_sql(step.raw)):
            statements.append(step.raw)
        # Some tools write their SQL themselves, and report it in their result.
        calls += [
            SqlCall(text.strip(), step) for text in statements or _reported_sql(step, arguments)
        ]
    return tuple(calls)


def json_value(text: str | None) -> Any:
    """The JSON value of a text; `None` where the text is no JSON, or has NaN or infinities."""
    try:
        return json.loads(text or "", parse_constant=_refuse_constant)  # else NaN is accepted
    except (ValueError, RecursionError):  # RecursionError: ten thousand opening brackets
        return None


# The keys under which a JSON object may hold the list of its results.
_LISTS: Final = ("results", "items", "products", "documents", "hits", "matches", "data")
_NOTHING: Final = re.compile(
    r"(?:\[\]|\{\}|null|none|nothing(?: found)?|[^\n]{0,60}\bnot found"
    r"|(?:no|0|zero)\s[^\n]{0,60}\b(?:found|results?|match(?:es)?|hits?|products?|items?))[.!]?",
    re.IGNORECASE,
)


def found_items(step: AgentStep) -> tuple[Any, ...]:
    """The items that a search returned; none for a failed call or a text such as `no results`.

    The items are the members of a JSON list, or of a list in a JSON object, or the lines of a text.
    """
    text = (step.result or "").strip()
    if step.failed or not text or _NOTHING.fullmatch(text):  # an error text lists no items
        return ()
    value = json_value(text)
    if isinstance(value, Mapping):
        lists = [value[key] for key in _LISTS if isinstance(value.get(key), list)]
        value = lists[0] if lists else [value]
    if isinstance(value, list):
        return tuple(item for item in value if item not in (None, "", {}))
    return tuple(line.strip() for line in text.splitlines() if line.strip())


_TYPE_KEYS: Final = ("chart_type", "visualization_type", "type", "kind", "chart", "mark")
_CHART_WORD: Final = re.compile(r"[\s_-]*(?:chart|graph|plot|diagram)s?")
_SAME_CHART: Final = {"column": "bar", "columns": "bar", "bars": "bar", "doughnut": "donut"}


def chart_type(step: AgentStep) -> str | None:
    """The kind of chart that a step made, by its arguments or result; `None`: not stated."""
    result = json_value(step.result)
    for holder in (step.arguments, result if isinstance(result, Mapping) else {}):
        kinds = [(key, text) for key, text in _texts(holder) if key in _TYPE_KEYS]
        if kinds:
            # The most telling key decides: a bare `type` may be that of an axis.
            return min(kinds, key=lambda pair: _TYPE_KEYS.index(pair[0]))[1]
    return None


def is_same_chart(kind: str | None, other_kind: str | None) -> bool:
    """Whether two names mean one kind of chart, as `Bar Chart`, `bar_chart` and `column` do."""
    return kind is not None and other_kind is not None and _chart(kind) == _chart(other_kind)


def _chart(name: str) -> str:
    # The name of a chart is short; the cut keeps the pattern fast on long texts.
    name = name[:60]
    bare = _CHART_WORD.sub("", " ".join(name.casefold().split()))
    return _SAME_CHART.get(bare, bare)


def _content(made: MadeCall) -> str | None:
    return made.result.content if made.result else None


def _walk_call(
    turn: int, call: ToolCall, result: str | None, *, failed: bool, within: tuple[str, ...] = ()
) -> Iterator[AgentStep]:
    yield AgentStep(turn, call.name, call.arguments, call.raw, result, failed, within)
    for inner in call.tool_calls:
        # A nested call does not say whether it failed.
        yield from _walk_call(turn, inner, inner.result, failed=False, within=(*within, call.name))


def _texts(value: Any, key: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the texts in an argument value, each after the name under which it stands."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, Mapping) and depth < _DEEPEST:
        for name, item in value.items():
            yield from _texts(item, str(name), depth + 1)
    elif isinstance(value, list | tuple) and depth < _DEEPEST:
        for item in value:
            yield from _texts(item, key, depth + 1)  # the members of a list share its name


def _reported_sql(step: AgentStep, arguments: Sequence[str]) -> list[str]:
    result = json_value(step.result)
    if not isinstance(result, Mapping):
        return []
    values = [result.get(key) for key in arguments]
    return [text for text in values if isinstance(text, str) and is_sql(text)]


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
