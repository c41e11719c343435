"""Any case, written in a format and read back: equal in all that the format can hold."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from assizes.judge.case import Case, ToolCall, ToolResult, ToolSpec, Transcript, Turn, Usage
from assizes.judge.formats import FORMATS, WRITERS, lost_fields, native_line
from assizes.judge.formats.shared.parsing import FIDELITY
from tests.drawn import examples

SOME = examples(60)
NAMES = st.text("abcXYZ_09", min_size=1, max_size=8)
TEXTS = st.none() | st.text(min_size=1, max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
ARGUMENTS = st.dictionaries(st.text(max_size=5), VALUES, max_size=3)
CALLS = st.builds(ToolCall, name=NAMES, arguments=ARGUMENTS, id=st.none() | NAMES) | st.builds(
    ToolCall, name=NAMES, id=st.none() | NAMES, raw=st.just("{broken")
)
USED = st.builds(Usage, input_tokens=st.integers(1, 9999), output_tokens=st.integers(0, 9999))
TIMES = st.none() | st.integers(1, 2**31).map(lambda second: datetime.fromtimestamp(second, UTC))
TURNS = st.one_of(
    st.builds(Turn, role=st.just("user"), text=TEXTS),
    st.builds(
        Turn,
        role=st.just("assistant"),
        text=TEXTS,
        tool_calls=st.lists(CALLS, max_size=2).map(tuple),
        usage=st.none() | USED,
        latency_ms=st.none() | st.floats(0, 1e6),
        started_at=TIMES,
    ),
    st.builds(
        Turn,
        role=st.just("tool"),
        tool_result=st.builds(
            ToolResult,
            content=st.text(max_size=20),
            call_id=st.none() | NAMES,
            name=st.none() | NAMES,
            is_error=st.booleans(),
        ),
    ),
)
CASES = st.builds(
    Case,
    case_id=NAMES,
    repetition=st.integers(0, 3),
    agent=st.none() | NAMES,
    agent_version=st.none() | NAMES,
    cluster=st.none() | NAMES,
    tags=st.dictionaries(NAMES, NAMES, max_size=2),
    labels=st.dictionaries(NAMES, st.floats(0, 1), max_size=2),
    metadata=st.dictionaries(st.text("xyz", min_size=1, max_size=3), VALUES, max_size=2),
    transcript=st.builds(
        Transcript,
        turns=st.lists(TURNS, max_size=6).map(tuple),
        system=st.none() | st.text(min_size=1, max_size=20),
        tools=st.lists(
            st.builds(ToolSpec, name=NAMES, description=st.text(max_size=9), parameters=ARGUMENTS),
            max_size=2,
        ).map(tuple),
        started_at=TIMES,
        duration_ms=st.none() | st.floats(0, 1e6),
        finished=st.none() | st.booleans(),
    ),
)


@SOME
@given(CASES)
def test_native_to_native_is_the_identity(case: Case):
    native = FORMATS["native"]
    assert native.case(native_line(case).rstrip(b"\n")) == case
    assert native_line(native.case(native_line(case))) == native_line(case)


@SOME
@given(CASES)
def test_chat_completions_give_back_all_that_they_can_hold(case: Case):
    assert _back(case, "openai_chat") == _held(case, _openai_turn)


@SOME
@given(CASES)
def test_anthropic_messages_give_back_all_that_they_can_hold(case: Case):
    assert _back(case, "anthropic") == _held(case, _anthropic_turn)


@SOME
@given(CASES)
def test_what_is_lost_by_writing_is_told_by_field(case: Case):
    for name, (write, layout) in WRITERS.items():
        gone = lost_fields(case, write(case), layout)
        assert ("repetition" in gone) == (case.repetition > 0)
        assert not {"case_id", "transcript.turns.text", "transcript.system"} & gone.keys()
        failed = [t for t in case.transcript.turns if t.tool_result and t.tool_result.is_error]
        assert gone["transcript.turns.tool_result.is_error"] == (
            len(failed) if name == "openai_chat" else 0
        )


def _back(case: Case, name: str) -> Case:
    record = WRITERS[name][0](case)
    found = FORMATS[name].case(json.dumps(record).encode())
    assert FORMATS[f"{name}.document"].case(json.loads(json.dumps(record))) == found
    return found.model_copy(
        update={"metadata": {k: v for k, v in found.metadata.items() if k != FIDELITY}}
    )


def _held(case: Case, turn: Any) -> Case:
    """Return the case without the fields for which chat formats have no place."""
    last = max(
        (place for place, one in enumerate(case.transcript.turns) if one.role == "assistant"),
        default=None,
    )
    turns = [turn(one, place == last) for place, one in enumerate(case.transcript.turns)]
    transcript = case.transcript.model_copy(
        update={"turns": tuple(turns), "duration_ms": None, "finished": None}
    )
    return case.model_copy(
        update={"transcript": transcript, "repetition": 0, "tags": {}, "labels": {}}
    )


def _openai_turn(turn: Turn, is_last: bool) -> Turn:
    answer = turn.tool_result and turn.tool_result.model_copy(update={"is_error": False})
    return _plain(turn, is_last).model_copy(update={"tool_result": answer})


def _anthropic_turn(turn: Turn, is_last: bool) -> Turn:
    answer = turn.tool_result and turn.tool_result.model_copy(update={"name": None})
    calls = tuple(call.model_copy(update={"raw": None}) for call in turn.tool_calls)
    return _plain(turn, is_last).model_copy(update={"tool_result": answer, "tool_calls": calls})


def _plain(turn: Turn, is_last: bool) -> Turn:
    return turn.model_copy(
        update={
            "latency_ms": None,
            "started_at": None,
            "usage": turn.usage if is_last else None,
        }
    )
