from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assizes.judge.case import (
    MOST_MS,
    MOST_TOKENS,
    MOST_USD,
    Case,
    Chunk,
    Expected,
    ExpectedCall,
    ToolCall,
    ToolResult,
    ToolSpec,
    Transcript,
    Turn,
    Usage,
)
from assizes.judge.errors import DataError
from assizes.judge.formats import FORMATS, native_line
from tests.builders import agent, call, case, result, user
from tests.judge.formats.files import RESULT_FILES, cases_of

NATIVE = FORMATS["native"]
GOOD = b'{"case_id": "c1", "transcript": {"turns": [{"role": "user", "text": "Hi"}]}}'

texts = st.text(st.characters(codec="utf-8"), max_size=20)
words = st.none() | texts
numbers = st.none() | st.floats(0, min(MOST_MS, MOST_USD))
TOKENS = st.integers(-MOST_TOKENS, MOST_TOKENS)
moments = st.none() | st.datetimes() | st.datetimes(timezones=st.just(UTC))
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
objects = st.dictionaries(texts, values, max_size=3)


def some(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(strategy, max_size=2).map(tuple)


turns = st.builds(
    Turn,
    role=st.sampled_from(["user", "assistant", "tool"]),
    text=words,
    tool_calls=some(st.builds(ToolCall, name=texts, arguments=objects, id=words, raw=words)),
    tool_result=st.none()
    | st.builds(ToolResult, content=texts, call_id=words, name=words, is_error=st.booleans()),
    started_at=moments,
    latency_ms=numbers,
    usage=st.none() | st.builds(Usage, input_tokens=TOKENS, output_tokens=TOKENS),
    cost_usd=numbers,
)
transcripts = st.builds(
    Transcript,
    turns=some(turns),
    system=words,
    tools=some(
        st.builds(ToolSpec, name=texts, parameters=objects, writes=st.none() | st.booleans())
    ),
    chunks=some(st.builds(Chunk, content=texts, doc_uri=words)),
    started_at=moments,
    duration_ms=numbers,
    agent_cost_usd=numbers,
    finished=st.none() | st.booleans(),
)
expectations = st.builds(
    Expected,
    outcomes=some(texts),
    tool_calls=st.none() | some(st.builds(ExpectedCall, name=texts, arguments=st.none() | objects)),
    said=some(texts),
    writes=st.none() | some(texts),
    response=words,
)
cases = st.builds(
    Case,
    case_id=st.text(st.characters(codec="utf-8"), min_size=1, max_size=512),
    repetition=st.integers(0, 10**9),
    transcript=transcripts,
    expected=expectations,
    agent=words,
    agent_version=words,
    status=texts,
    tags=st.dictionaries(texts, texts, max_size=2),
    cluster=words,
    evaluation_criteria_override=words,
    labels=st.dictionaries(texts, st.floats(0, 1), max_size=2),
    metadata=objects,
)


@given(cases)
def test_writing_a_case_and_reading_it_again_gives_the_same_case(one: Case):
    line = native_line(one)
    assert NATIVE.case(line) == one
    assert line.count(b"\n") == 1


def test_a_line_holds_no_field_at_its_default():
    one = case(user("Hi"), agent(calls=[call("look_up", key=1)]), result("found"))
    assert json.loads(native_line(one)) == {
        "case_id": "c1",
        "transcript": {
            "turns": [
                {"role": "user", "text": "Hi"},
                {
                    "role": "assistant",
                    "tool_calls": [{"name": "look_up", "arguments": {"key": 1}, "id": "call_1"}],
                },
                {"role": "tool", "tool_result": {"content": "found", "call_id": "call_1"}},
            ]
        },
    }


def test_no_expected_calls_is_kept_apart_from_unknown_ones():
    nothing_needed = case(user("Hi"), expected=Expected(tool_calls=()))
    assert NATIVE.case(native_line(nothing_needed)).expected.tool_calls == ()
    assert NATIVE.case(native_line(case(user("Hi")))).expected.tool_calls is None


@pytest.mark.parametrize("line", [GOOD, b"\xef\xbb\xbf" + GOOD, GOOD + b"\r\n", b"  " + GOOD])
def test_marks_and_blanks_around_a_line_do_not_matter(line: bytes):
    assert NATIVE.case(line) == case(user("Hi"))


def test_a_time_without_zone_is_taken_as_utc():
    line = b'{"case_id": "c1", "transcript": {"started_at": "2026-11-21T10:00:00"}}'
    assert NATIVE.case(line).transcript.started_at == datetime(2026, 11, 21, 10, tzinfo=UTC)


def test_the_records_of_a_document_are_its_lines_that_are_not_blank():
    assert NATIVE.records(b"\n{}\n \r\n[]\r\n{") == [b"{}", b"[]\r", b"{"]


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        (b"", "json", "EOF"),
        (b"Dear all,", "json", "line 1 column 1"),
        (GOOD[:-1], "json", "column 75"),
        (GOOD + b"x", "json", "trailing"),
        (b"[" * 5000, "too_deep", "deeper than 200"),
        (GOOD.replace(b'"Hi"', b"NaN"), "json", "column"),
        (GOOD.replace(b'"Hi"', b"-Infinity"), "json", "column"),
        (GOOD.replace(b"Hi", b"\xff"), "encoding", "byte 69"),
        (GOOD.replace(b"Hi", b"\xed\xa0\x80"), "encoding", "byte 69"),
        (GOOD.replace(b"Hi", b"\\ud800"), "encoding", "surrogate"),
        (GOOD.replace(b"Hi", b"\\udc00!"), "encoding", "surrogate"),
        (GOOD.replace(b'"text"', b'"role"'), "duplicate_key", "column 68"),
        (b"[]", "schema", "record: "),
        (b"{}", "schema", "case_id: Field required (and 1 more)"),
        (GOOD.replace(b"user", b"robot"), "schema", "transcript.turns.0.role: "),
        (GOOD.replace(b"text", b"txet"), "schema", "transcript.turns.0.txet: "),
        (GOOD.replace(b'"c1"', b'""'), "schema", "case_id: "),
        (GOOD.replace(b'"Hi"', b"7"), "schema", "transcript.turns.0.text: "),
        (GOOD.replace(b'"text": "Hi"', b'"cost_usd": 1e999'), "schema", "cost_usd: "),
        (GOOD.replace(b'"text": "Hi"', b'"latency_ms": "slow"'), "schema", "latency_ms: "),
    ],
)
def test_a_line_that_is_no_case_is_refused_with_a_code(line: bytes, code: str, said: str):
    with pytest.raises(DataError) as refused:
        NATIVE.case(line)
    assert (refused.value.code, said in refused.value.detail) == (code, True), refused.value


def test_a_refusal_does_not_quote_the_record():
    secret = "correct-horse-battery-staple"
    for line in (
        GOOD.replace(b'"Hi"', f'["{secret}"]'.encode()),
        GOOD.replace(b'"c1"', f'{{"{secret}": 1, "{secret}": 2}}'.encode()),
        GOOD.replace(b"Hi", secret.encode() + b"\xff"),
        GOOD.replace(b"user", secret.encode()),
    ):
        with pytest.raises(DataError) as refused:
            NATIVE.case(line)
        assert secret not in str(refused.value)


def test_a_long_path_is_cut():
    line = GOOD.replace(b'"text"', b'"' + b"k" * 1000 + b'"')
    with pytest.raises(DataError, match=r"schema: transcript\.turns\.0\.k+\.\.\.: ") as refused:
        NATIVE.case(line)
    assert len(refused.value.detail) < 200


@pytest.mark.data
@pytest.mark.parametrize(("path", "name"), RESULT_FILES)
def test_foreign_cases_survive_being_written_as_native_lines(data: Path, path: str, name: str):
    for one in cases_of(data / path, name):
        assert NATIVE.case(native_line(one)) == one
