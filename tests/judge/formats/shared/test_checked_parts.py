"""Parts that readers make without validation equal those that the models make."""

from __future__ import annotations

import copy
import json
import random
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from assizes.judge.case import Case, ToolCall, ToolResult, ToolSpec, Transcript, Turn
from assizes.judge.errors import DataError
from assizes.judge.formats import FORMATS, WRITERS
from assizes.judge.formats.shared import checked_parts as parts
from benchmarks.varied_texts import varied_record

CALL = ToolCall(name="find_order", arguments={"id": 7, "deep": {"a": [1]}}, id="c1")
MADE: list[tuple[BaseModel, BaseModel]] = [
    (parts.message_turn("user", "Hi"), Turn(role="user", text="Hi", tool_calls=(), agent=None)),
    (
        parts.message_turn("assistant", None, (CALL,), "planner"),
        Turn(role="assistant", text=None, tool_calls=(CALL,), agent="planner"),
    ),
    (
        parts.result_turn("late", "c1", None, is_error=True),
        Turn(
            role="tool",
            tool_result=ToolResult(content="late", call_id="c1", name=None, is_error=True),
        ),
    ),
    (
        parts.named_call("f", {"é": [None]}, None),
        ToolCall(name="f", arguments={"é": [None]}, id=None),
    ),
    (
        parts.declared_tool("f", "", {"type": "object"}),
        ToolSpec(name="f", description="", parameters={"type": "object"}),
    ),
]
STARTED = datetime(2026, 11, 27, tzinfo=UTC)
JUNK: list[Any] = [
    *(None, "", 0, True, [], {}, "text", '{"a": 1}', '{"a": 1, "a": 2}', [1], -3.5, "x" * 600),
    *({"type": "text", "text": "x"}, {"type": "text", "text": 5}, "9999-12-31T23:00:00-10:00"),
    {"type": "tool_use", "name": "x", "input": {}},
    {"type": "tool_result", "tool_use_id": 3, "content": [{"type": "text", "text": "r"}]},
    [{"id": 7, "function": {"name": "f", "arguments": "[1]"}}],
    {"prompt_tokens": 5, "output_tokens": "7"},
    *("user", "assistant", "system", "tool"),
]


def case_fields() -> dict[str, Any]:
    """The fields of a case that the readers of messages fill."""
    names = ("agent", "agent_version", "cluster")
    return {"case_id": "c", **dict.fromkeys(names), "metadata": {"m": 1}}


def made_case(started_at: datetime | None = None, **changes: Any) -> Case:
    return parts.conversation_case(
        (parts.message_turn("user", "Hi"),), "Be kind.", (), started_at, **case_fields() | changes
    )


@pytest.mark.parametrize(("made", "validated"), MADE, ids=lambda part: type(part).__name__)
def test_a_part_equals_that_of_its_model(made: BaseModel, validated: BaseModel) -> None:
    assert made == validated
    assert made.model_fields_set == validated.model_fields_set
    # The order of the fields too: content hashes are taken over the JSON.
    assert made.model_dump_json() == validated.model_dump_json()
    assert copy.copy(made) == copy.deepcopy(made) == validated


@pytest.mark.parametrize("started_at", [None, STARTED])
def test_a_case_equals_that_of_its_model(started_at: datetime | None) -> None:
    turns = (parts.message_turn("user", "Hi"),)
    transcript = Transcript(turns=turns, system="Be kind.", tools=(), started_at=started_at)
    made, validated = made_case(started_at), Case(transcript=transcript, **case_fields())
    assert made == validated
    assert made.model_fields_set == validated.model_fields_set
    assert made.expected.model_fields_set == set()
    assert made.model_dump_json() == validated.model_dump_json()
    assert made.content_hash() == validated.content_hash()


def test_cases_share_no_default_that_can_be_changed() -> None:
    first, second = made_case(), made_case()
    first.tags["a"], first.labels["a"] = "b", 1.0
    first.expected.rubrics["a"] = first.expected.additional_input["a"] = 1
    own = (second.tags, second.labels, second.expected.rubrics, second.expected.additional_input)
    assert own == ({}, {}, {}, {})


@pytest.mark.parametrize(
    ("started_at", "changes", "words"),
    [
        (None, {"case_id": "x" * 513}, "at most 512"),
        (None, {"case_id": ""}, "at least 1"),
        (datetime.fromisoformat("9999-12-31T23:00:00-10:00"), {}, "after the year 9999"),
    ],
)
def test_bounds_that_readers_do_not_check_stay(
    started_at: datetime | None, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValidationError, match=words):
        made_case(started_at, **changes)


def spoilt(value: Any, draw: random.Random) -> Any:
    """A record with one to three values in it replaced or left out."""
    value = copy.deepcopy(value)
    for _ in range(draw.randrange(1, 4)):
        places = list(places_of(value))
        if not places:
            return value
        holder, key = draw.choice(places)
        if draw.random() < 0.2:
            del holder[key]
        else:
            holder[key] = copy.deepcopy(draw.choice(JUNK))
    return value


def places_of(value: Any) -> Any:
    """Yield all places of a JSON value as its holder and a key."""
    keys = list(value) if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from places_of(value[key])


@pytest.mark.parametrize("name", ["openai_chat", "anthropic"])
def test_what_a_reader_makes_of_spoilt_records_passes_the_models(name: str) -> None:
    draw, read = random.Random(24), 0
    for number in range(600):
        case = Case.model_validate(varied_record(number % 20, chars=1500))
        record = json.dumps(spoilt(WRITERS[name][0](case), draw)).encode()
        try:
            case = FORMATS[name].case(record)
        except DataError:
            continue
        read += 1
        again = Case.model_validate_json(case.model_dump_json())
        assert again.model_dump_json() == case.model_dump_json()
        assert again.content_hash() == case.content_hash()
        again = Case.model_validate(case.model_dump(), strict=False)
        assert again == case
    assert read > 200
