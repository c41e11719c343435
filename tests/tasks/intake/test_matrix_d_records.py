"""Data faults in the records themselves (rows D10 to D13 of `test_matrix_d`)."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from assizes.judge.case import Case
from assizes.judge.catalog import resolve_judges
from assizes.judge.config.judging import JudgeConfig
from assizes.judge.formats import FORMATS
from assizes.judge.formats.shared.parsing import warning_lines
from assizes.judge.hearing import Hearing
from assizes.judge.prompts.prompt_texts import rendered_transcript
from tests.builders import agent, call, case, result, user
from tests.tasks.intake.intake_files import config, ids, line, written
from tests.tasks.intake.matrix_d import fault_of, faults, intake, timed


def test_d10_a_key_that_stands_twice_is_never_chosen_between():
    twice = line("a").replace(b'"text":"Hello."', b'"text":"Hello.","text":"Bye."')

    assert fault_of(twice).code == "duplicate_key"


SAID = b'"messages":[{"role":"user","content":"Hi, [you] {there}"},{"role":"assistant","content":"Yes."}]'
FAULTY = {
    "duplicate_key": b'{"task_id":"2","task_id":"2",%b}' % SAID,
    "too_deep": b'{"task_id":"2","x":%b,%b}' % (b"[" * 5000 + b"]" * 5000, SAID),
    "json": b'{"task_id":"2","x":NaN,%b}' % SAID,
    "encoding": b'{"task_id":"2","x":"\\ud83d",%b}' % SAID,
}


@pytest.mark.parametrize("code", FAULTY)
@pytest.mark.parametrize("format_", ["tau_bench", "tau2"])
def test_d10_a_faulty_record_of_a_document_costs_no_other_one(tmp_path: Path, code, format_):
    good = [b'{"task_id":"%d","trial":0,"reward":1,%b}' % (number, SAID) for number in (1, 3)]
    records = b"[%b , %b,\n%b]" % (good[0], FAULTY[code], good[1])
    if format_ == "tau_bench":
        document = records.replace(b"messages", b"traj")
    else:
        tasks = b",".join(b'{"id":"%d","x":["]"]}' % number for number in (1, 2, 3))
        document = b'{"info":{"a_info":{"b":[1,[2]]}},"tasks":[%b],"simulations":%b,"end":[]}' % (
            tasks,
            records,
        )
    (tmp_path / "x.json").write_bytes(document)

    plan, read = intake(config(tmp_path))

    assert (ids(read), faults(read)) == (["1", "3"], [(1, code)])
    (reject,) = [record for record in read if record.reject is not None]
    body = FAULTY[code].replace(b"messages", b"traj" if format_ == "tau_bench" else b"messages")
    assert reject.sha256 == hashlib.sha256(body).hexdigest()
    assert reject.excerpt == body[:80].decode()
    assert (plan.read, plan.objects["read"]) == (3, 1)


@pytest.mark.parametrize(
    ("document", "code"),
    [
        (b'{"info":{"a_info":1,"a_info":2},"simulations":[]}', "duplicate_key"),
        (b'{"simulations":[{"task_id":"1"},{"task_id":NaN}', "json"),
        (b'{"simulations":{"a":1,"a":2}}', "duplicate_key"),
    ],
)
def test_d10_a_fault_that_is_in_no_one_record_is_of_the_whole_document(tmp_path, document, code):
    (tmp_path / "x.json").write_bytes(document)
    written(tmp_path / "y.jsonl", line("y"))

    _, read = intake(config(tmp_path))

    assert (ids(read), faults(read)) == (["y"], [(0, code)])


def test_d11_times_that_run_backwards_keep_the_order_and_never_make_a_negative_latency(tmp_path):
    path = written(
        tmp_path / "x.jsonl",
        timed("good", "2026-03-29T00:59:59+00:00", "2026-03-29T03:00:00+02:00", latency_ms=5),
        timed("back", "2026-03-01T10:00:00Z", "2026-03-01T09:00:00Z", latency_ms=-3_600_000),
        timed("none", None, None),
        timed("mixed", "2026-03-01T10:00:00", "2026-03-01T12:00:01+02:00"),
        timed("future", "2999-01-01T00:00:00Z", "2999-01-01T00:00:01Z", latency_ms=1000),
    )

    plan, read = intake(config(path))

    cases = {record.case.case_id: record.case for record in read if record.case is not None}
    assert list(cases) == ["good", "back", "none", "mixed", "future"]
    assert [one.transcript.agent_latency_ms() for one in cases.values()] == [
        5,
        None,
        None,
        None,
        1000,
    ]
    assert [turn.role for turn in cases["back"].transcript.turns] == ["user", "assistant"]
    assert plan.odd == {"time_order": 1}
    assert warning_lines(plan.odd)[0].startswith(
        "time_order: 1 record with times that run backwards"
    )


@pytest.mark.parametrize("format_", ["tau2", "agent_evaluation"])
def test_d11_foreign_formats_leave_out_what_ran_backwards_too(format_: str):
    at = ("2026-03-01T10:00:00", "2026-03-01T09:59:00")
    messages = [
        {"role": role, "content": "x", "timestamp": moment}
        for role, moment in zip(("user", "assistant"), at, strict=True)
    ]
    simulation = {"task_id": "1", "messages": messages, "duration": -60.0}
    records: dict[str, Any] = {
        "tau2": {"simulation": simulation, "task": {}},
        "agent_evaluation": json.dumps(
            {"trace": [{"role": "assistant", "content": "x", "latency_ms": -1}]}
        ).encode(),
    }

    found = FORMATS[format_].case(records[format_])

    assert found.transcript.agent_latency_ms() is None
    assert found.transcript.duration_ms is None
    assert found.metadata["dropped_times"] >= 1


def test_d12_an_agent_that_never_speaks_gets_the_lowest_level_and_no_model_is_asked():
    judge = resolve_judges(JudgeConfig()).judges[0]
    outcome = {"outcomes": ("The order was not cancelled.",)}
    silent = Case.model_validate(
        case(user("Hi."), user("Hello?"), case_id="a").model_dump() | {"expected": outcome}
    )
    hearing = Hearing(judge, silent)

    assert not hearing.asks
    levels = {score.metric: score.raw for score in hearing.scores if not score.part}
    assert set(levels.values()) == {0.0}
    assert all(score.passed is not True for score in hearing.scores)


def test_d13_calls_without_result_and_results_without_call_are_marked_for_the_judge(tmp_path):
    odd = case(
        user("Where is it?"),
        agent(calls=[call("look_up", id="one", key=1)]),
        result("found", call_id="two", name="look_up"),
        agent(calls=[call("ship", id="three")]),
        result("done", call_id="three"),
        agent("Shipped."),
        case_id="a",
    )
    body = json.loads(odd.model_dump_json(exclude_defaults=True))
    body["transcript"]["turns"][3]["tool_calls"][0]["raw"] = "{broken"
    plan, read = intake(config(written(tmp_path / "x.jsonl", json.dumps(body).encode())))

    assert plan.odd == {
        "call_without_result": 1,
        "malformed_arguments": 1,
        "result_without_call": 1,
    }
    (record,) = read
    assert record.case is not None
    shown = rendered_transcript(record.case.transcript).splitlines()
    assert shown[2] == '[1] call: look_up({"key": 1}) (no result)'
    assert shown[3] == "[2] tool look_up (answers no call): found"
    assert shown[5] == "[3] call: ship({broken)"
