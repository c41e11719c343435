"""Spoilt records of other formats: each gives a case or a named error, never a traceback."""

from __future__ import annotations

import copy
import json
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from assizes.judge.case import Case, Usage
from assizes.judge.errors import DataError
from assizes.judge.formats import FORMATS, Format, detect_format
from tests.judge.formats.foreign import FIXTURES, lines
from tests.judge.formats.shapes_of_others import WHOLE
from tests.judge.formats.test_foreign import OBSERVED, SCORED

pytestmark = pytest.mark.promised  # takes seconds, too many for `make quick`

SPOILT = [
    None,
    True,
    0,
    -1,
    1.5,
    10**30,
    "",
    "x",
    "\u0000",
    "{",
    '["a"]',
    '{"a": 1}',
    [],
    [None],
    [1],
]
OF_EVERY_TYPE = [None, True, -5, 1e300, "x", "--5", "5" * 5000, "120", [], [1], [[]], ["a"], {}]
OF_EVERY_TYPE += [[{}], {"a": 1}, {"values": None}, {"intValue": "5" * 5000}]
SPOILT += [{}, {"a": 1}, [{}], [[]], {"type": "x"}, [{"type": 3}], "2026-99-99", "1e999"]
TRAJECTORY = {
    "schema_version": "ATIF-v1.4",
    "session_id": "s1",
    "agent": {"name": "fern", "version": "2"},
    "steps": [
        {"source": "user", "message": "Hi", "timestamp": "2026-11-20T01:00:00Z"},
        {
            "source": "agent",
            "message": [{"type": "text", "text": "Hello"}],
            "tool_calls": [{"tool_call_id": "t", "function_name": "f", "arguments": {"a": 1}}],
            "observation": {"results": [{"source_call_id": "t", "content": "late"}]},
            "metrics": {"prompt_tokens": 9, "completion_tokens": 2, "cost_usd": 0.5},
        },
    ],
    "final_metrics": {"total_cost_usd": 1.0},
}


def documents() -> list[tuple[str, Any]]:
    """Return names of formats, each with a value that is a whole file of the format."""
    found = [("atif", TRAJECTORY), ("langfuse", [OBSERVED, SCORED]), *WHOLE]
    for path in sorted(FIXTURES.glob("*.json*")):
        if path.name == "versions.json":
            continue
        document = path.read_bytes()
        name = detect_format(document[: 1 << 16]).name.partition(".")[0]
        if path.suffix == ".json":
            found.append((name, json.loads(document)))
        else:
            found.append((name, [json.loads(line) for line in document.splitlines()]))
    return found


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [path, *(one for name, below in inner for one in places(below, (*path, name)))]


def kinds_of_places(value: Any) -> list[tuple[Any, ...]]:
    """Return the first place of each kind: the messages of a list are all alike."""
    found: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for path in places(value)[1:]:
        kind = tuple(step if isinstance(step, str) else None for step in path)
        found.setdefault(kind, path)
    return list(found.values())


@contextmanager
def changed_at(value: Any, path: tuple[Any, ...], new: Any) -> Iterator[None]:
    """The value with another in one place, which it gets back."""
    holder = value
    for step in path[:-1]:
        holder = holder[step]
    before = holder[path[-1]]
    holder[path[-1]] = new
    yield
    holder[path[-1]] = before


def spoilt(value: Any, rng: random.Random) -> Any:
    """Return the value with one place replaced or removed."""
    changed = copy.deepcopy(value)
    path = rng.choice(places(changed)[1:])
    holder = changed
    for step in path[:-1]:
        holder = holder[step]
    if rng.random() < 0.2:
        del holder[path[-1]]
    else:
        holder[path[-1]] = copy.deepcopy(rng.choice(SPOILT))
    return changed


def ends(name: str, value: Any) -> list[str]:
    """Return the outcome of each record of a file: `case`, or the code of the error."""
    whole = FORMATS.get(f"{name}.document")
    listed = value if isinstance(value, list) else [value]
    document = lines(*listed) if whole is None else json.dumps(value).encode()
    format_ = whole or FORMATS[name]
    try:
        records = format_.records(document)
    except DataError as error:
        return [error.code]
    return [end(format_, record) for record in records]


def end(format_: Format, record: Any) -> str:
    try:
        case = format_.case(record)
    except DataError as error:
        return error.code if len(error.detail) < 400 else "long"
    Case.model_validate(case.model_dump())  # nothing in it is of another type
    used = case.transcript.agent_usage() or Usage()
    fit = max(case.repetition, used.input_tokens, used.output_tokens) < 2**63
    return "case" if case.case_id and fit else "beyond 64 bits"


@pytest.mark.parametrize(("name", "value"), documents())
def test_a_spoilt_record_is_a_case_or_a_named_reason(name: str, value: Any):
    rng = random.Random(20261121)  # a test's own sequence
    found = Counter(one for _ in range(300) for one in ends(name, spoilt(value, rng)))
    assert found.keys() <= {"case", "schema", "json"}
    assert min(found["case"], found["schema"]) > 10


@pytest.mark.parametrize(("name", "value"), documents())
def test_no_value_of_another_type_is_a_traceback(name: str, value: Any):
    for path in kinds_of_places(value):
        for new in OF_EVERY_TYPE:
            with changed_at(value, path, new):
                found = ends(name, value)
            assert set(found) <= {"case", "schema", "json"}, (path, new)


def test_a_flattened_key_of_a_thousand_levels_is_one_of_a_few():
    key = "llm.input_messages" + ".0" * 3000
    span = {"trace_id": "t", "attributes": {"openinference.span.kind": "LLM", key: "x"}}
    assert ends("otel", span) == ["schema"]
    key = f"llm.input_messages.{'9' * 5000}.message.content"
    span["attributes"] |= {"llm.input_messages.0.message.role": "user", key: "x"}
    assert set(ends("otel", span)) <= {"case", "schema"}
