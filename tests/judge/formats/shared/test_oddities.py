"""Oddities of a case that is judged all the same."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from assizes.judge.case import Chunk
from assizes.judge.errors import DataError
from assizes.judge.formats import FORMATS, native_line, resolve_format
from assizes.judge.formats.shared.containers import strict_document
from assizes.judge.formats.shared.parsing import (
    DROPPED_TIMES,
    FIDELITY,
    check_bounds,
    drop_negative_times,
    fidelity_counts,
    fidelity_lines,
    oddities,
    warning_lines,
    wide_encoding,
)
from tests.builders import agent, call, case, result, user

NOON = datetime(2026, 3, 9, 12, tzinfo=UTC)
NATIVE = FORMATS["native"]


def at(turn, minutes):
    return turn.model_copy(update={"started_at": NOON + timedelta(minutes=minutes)})


def raw(one):
    return one.model_copy(update={"raw": "{a: 1"})


@pytest.mark.parametrize(
    ("found", "codes"),
    [
        (case(user("Hi"), agent("Yo")), set()),
        (case(at(user("Hi"), 1), user("?"), at(agent("Yo"), 2), started_at=NOON), set()),
        (case(at(user("Hi"), 2), at(agent("Yo"), 1)), {"time_order"}),
        (case(at(user("Hi"), -1), agent("Yo"), started_at=NOON), {"time_order"}),
        (case(user("Hi"), agent("Yo"), metadata={DROPPED_TIMES: 1}), {"time_order"}),
        (case(user("Hi")), {"no_agent_turn"}),
        (case(agent("x"), chunks=(Chunk(content="y"),)), set()),
        (case(agent("x"), chunks=(Chunk(content="y"), Chunk(content=" "))), {"empty_passage"}),
        (case(agent(calls=[call("f", "a")]), result("ok", call_id="a")), set()),
        (case(agent(calls=[call("f", "a")])), {"call_without_result"}),
        (case(agent("x"), result("ok", call_id="a")), {"result_without_call"}),
        (
            case(agent(calls=[call("f", "a")]), result("ok", call_id="b")),
            {"call_without_result", "result_without_call"},
        ),
        (case(agent(calls=[call("f", None)]), result("ok", call_id=None)), set()),
        (case(agent(calls=[call("f", None), call("g", None)]), result("ok", call_id=None)),
         {"call_without_result"}),
        (case(agent("x"), result("ok", call_id=None)), {"result_without_call"}),
        (case(agent(calls=[raw(call("f", "a"))]), result("ok", call_id="a")), {"malformed_arguments"}),
    ],
)  # fmt: skip
def test_oddities_are_found_one_by_one(found, codes):
    assert oddities(found) == codes


def test_each_is_told_once_with_how_often():
    assert warning_lines({"no_agent_turn": 1, "time_order": 0, "call_without_result": 2}) == (
        "call_without_result: 2 records with tool calls that nothing answered",
        "no_agent_turn: 1 record in which the agent never speaks",
    )


def test_times_under_zero_are_left_out_wherever_they_stand():
    turns = [{"latency_ms": -1}, {"latency_ms": 2}, "no turn", {"latency_ms": "-1"}]
    value = {"transcript": {"turns": turns, "duration_ms": -5.0}}
    assert drop_negative_times(value) == 2
    assert turns[:2] == [{"latency_ms": None}, {"latency_ms": 2}]
    assert value["transcript"]["duration_ms"] is None


def test_a_native_record_with_times_under_zero_is_read_without_them_and_says_so():
    line = native_line(case(user("Hi"), agent("Yo", latency_ms=7.0), case_id="c"))
    found = NATIVE.case(line.replace(b'"latency_ms":7.0', b'"latency_ms":-7.0'))
    assert found.transcript.turns[1].latency_ms is None
    assert found.metadata[DROPPED_TIMES] == 1


@pytest.mark.parametrize(
    ("version", "is_read"), [(b"1", True), (b"true", False), (b'"1"', False), (b"2", False)]
)
def test_no_version_of_the_format_is_guessed_at(version, is_read):
    line = native_line(case(user("Hi"), agent("Yo")))
    line = b'{"schema_version":' + version + b"," + line[1:]
    if is_read:
        assert NATIVE.case(line).case_id == "c1"
        return
    with pytest.raises(DataError, match="this reader knows 1") as refused:
        NATIVE.case(line)
    assert refused.value.code == "schema_version"


def test_a_conversation_may_have_as_many_turns_as_are_allowed():
    check_bounds(case(user("Hi"), agent("Yo")), 2)
    with pytest.raises(DataError, match=r"3 turns; \[transcripts\] max_turns allows 2"):
        check_bounds(case(user("Hi"), agent("Yo"), user("?")), 2)


@pytest.mark.parametrize("value", [float("inf"), [1, {"deep": float("nan")}], (float("-inf"),)])
def test_a_number_that_is_none_is_refused_wherever_it_stands(value):
    check_bounds(case(agent(calls=[call("f", n=1.5, m=[None, True, "x"])])), 9)
    with pytest.raises(DataError, match="beyond what 64 bits hold"):
        check_bounds(case(agent(calls=[call("f", n=value)])), 9)


@pytest.mark.parametrize(
    ("head", "name"),
    [
        ('{"a": 1}'.encode("utf-16-le"), "UTF-16-LE"),
        ('[{"a": 1}]'.encode("utf-32-be"), "UTF-32-BE"),
        (b'{"a": "\\u0000"}', None),
        (b'{"a": "\0"}', None),
        (b"\0\0\0\0\0\0\0\0", None),
    ],
)
def test_json_in_wide_characters_is_known_by_how_it_begins(head, name):
    assert wide_encoding(head) == name


def test_of_a_document_the_records_that_cannot_be_read_are_told_apart():
    document = b'{"runs": {"simulations": [9]}, "simulations": [{"a": 1}, {"b": 1,}, "]", 3 ]}'
    value, unread = strict_document(document, "simulations")
    assert value["simulations"] == [{"a": 1}, None, "]", 3]
    assert [(at, one.body, one.fault.code) for at, one in unread.items()] == [
        (1, b'{"b": 1,}', "json")
    ]


@pytest.mark.parametrize("document", [b"[1, 2", b'{"a": [}', b"[]x", b'{"a": 1, "a": 2}'])
def test_a_document_whose_fault_is_not_within_a_record_is_refused(document):
    with pytest.raises(DataError):
        strict_document(document)


def test_a_text_without_an_end_in_a_document_is_passed_in_linear_time():
    begun = time.process_time()
    with pytest.raises(DataError):
        strict_document(b'[{"a": "' + b'\\"' * 400_000)
    assert time.process_time() - begun < 5  # squared, it takes an hour
    value, unread = strict_document(b'[{"a": 1}, {"b": "\\"c}]')
    assert (value, list(unread)) == ([{"a": 1}, None], [1])


def test_an_empty_list_holds_no_records():
    assert strict_document(b"[ ]") == ([], {})


def test_a_list_is_a_document_whatever_the_format():
    assert (
        resolve_format("openai_chat", b'\xef\xbb\xbf [{"messages": []}]').name
        == "openai_chat.document"
    )
    assert resolve_format("openai_chat", b'{"messages": []}').name == "openai_chat"


def test_what_a_case_holds_is_counted_with_what_became_of_the_rest():
    noted = {"marked image": 2, "dropped message.audio": 1, "odd": "no count"}
    talk = case(user("Hi"), agent(calls=[call("f")]), result("ok"), metadata={FIDELITY: noted})
    counts = fidelity_counts(talk)
    assert (counts["turns"], counts["tool_calls"], counts["tool_results"]) == (3, 1, 1)
    assert "odd" not in counts
    assert fidelity_lines(counts) == (
        "marked: image 2 (a note in the text stands for it)",
        "dropped: message.audio 1 (a case has no place for it)",
    )
    assert fidelity_lines(fidelity_counts(case(user("Hi"), metadata={FIDELITY: "x"}))) == ()
