"""What the conversation judge makes of a reply: shapes, levels, failure codes, turns."""

from __future__ import annotations

import json
from typing import Any

import pytest

from assizes.judge.case import Expected
from assizes.judge.families.conversation import reply_model
from assizes.judge.prompts.reply import parse_reply, read_reply
from assizes.judge.score import LABELS, Scale, Score
from tests.builders import agent, case, user
from tests.judge.families.conversation.conversation_cases import TURNS, asked, heard, scored


def binary(passed: bool, code: str | None = None) -> dict[str, Any]:
    return {"justification": "because", "passed": passed, "failure_code": code, "turns": []}


def routing(**finding: Any) -> Score:
    return heard(case(*TURNS), {"tool_routing": scored(**finding)})["tool_routing", ""]


# What the model may reply


@pytest.mark.row("000-55")
def test_scored_and_binary_replies_have_their_own_strict_shapes():
    model = reply_model(
        (("tool_routing", Scale.SCORED), ("task_completion", Scale.BINARY)), outcomes=True
    )
    schema = model.model_json_schema()
    assert list(schema["properties"]) == ["tool_routing", "task_completion", "expected_outcomes"]
    finding, verdict, entry = (
        schema["$defs"][name] for name in ("ScoredFinding", "BinaryFinding", "OutcomeFinding")
    )
    assert finding["properties"] == {
        "justification": {"title": "Justification", "type": "string"},
        "score": {"enum": [0, 1, 2, 3, 4, 5], "title": "Score", "type": "integer"},
        "failure_code": {"anyOf": [{"type": "string"}, {"type": "null"}], "title": "Failure Code"},
        "turns": {"items": {"type": "integer"}, "title": "Turns", "type": "array"},
    }
    assert list(verdict["properties"]) == ["justification", "passed", "failure_code", "turns"]
    assert list(entry["properties"]) == ["number", "statement", "justification", "passed"]
    for one in (schema, finding, verdict, entry):
        assert one["additionalProperties"] is False
        assert one["required"] == list(one["properties"])


def test_one_reply_model_serves_all_cases_of_a_metric_set():
    other = case(user("Hi"), agent("Hello"), case_id="c2")
    assert asked(case(*TURNS)).reply is asked(other).reply
    with_outcomes = case(*TURNS, expected=Expected(outcomes=("done",)))
    assert asked(with_outcomes).reply is not asked(other).reply


@pytest.mark.row("000-55", "000-56")
@pytest.mark.parametrize(
    "reply",
    [
        {},
        {"tool_routing": None},
        {"expected_outcomes": []},
        {"tool_routing_": scored()},
        {"tool_routing": binary(passed=True)},
        {"tool_routing": scored(True)},
        {"tool_routing": scored(4.6)},
        {"tool_routing": scored("4.6")},
        {"tool_routing": scored("abc")},
        {"tool_routing": scored("inf")},
        {"tool_routing": scored("nan")},
        {"tool_routing": scored(None)},
        {"tool_routing": scored([4])},
        {"tool_routing": scored(4, turns=["last"])},
        {"tool_routing": scored(4, turns=[True])},
        {"tool_routing": scored(4, turns=[0.5])},
        {"tool_routing": scored() | {"justification": None}},
    ],
    ids=str,
)
def test_a_reply_of_another_shape_is_invalid(reply: dict[str, Any]):
    found = heard(case(*TURNS), reply)["tool_routing", ""]
    assert (found.status, found.details) == ("failed", {"error": "schema"})


@pytest.mark.row("000-55", "000-56")
@pytest.mark.parametrize(
    "reply",
    [
        {"tool_routing": scored(), "extra": 1},
        {"tool_routing": scored() | {"confidence": 1}},
        {"tool_routing": scored(), "expected_outcomes": []},
    ],
    ids=str,
)
def test_keys_that_nobody_asked_for_are_doubted_and_left_out(reply: dict[str, Any]):
    parsed = parse_reply(json.dumps(reply), asked(case(*TURNS)).reply)
    assert parsed.flags == ("extra_keys",)
    assert (parsed.doubt or "").endswith(": Extra inputs are not permitted")
    assert heard(case(*TURNS), reply)["tool_routing", ""].raw == 5


def test_a_metric_left_out_has_failed_and_the_others_are_scored():
    names = ("tool_routing", "response_delivery")
    ask = asked(case(*TURNS), *names)
    reply = {"response_delivery": scored(4), "tool_routing": None}

    found = heard(case(*TURNS), reply, *names)

    assert read_reply(ask, json.dumps(reply)).doubt == "no entry for tool_routing"
    assert found["response_delivery", ""].raw == 4
    assert found["tool_routing", ""] == Score.failed(
        "tool_routing", "the judge's reply has no entry for it", "missing_metric"
    )


# What it means


@pytest.mark.row("001-04", "001-05", "001-06", "001-07", "001-08", "001-09")
@pytest.mark.parametrize("level", range(6))
@pytest.mark.parametrize("form", [int, float, str, lambda level: f" {level}.0 "])
def test_a_level_gets_its_label_in_whatever_form_it_is_whole(level: int, form):
    found = routing(score=form(level), code="x")
    assert (found.raw, found.value, found.label, found.passed) == (
        float(level),
        level / 5,
        LABELS[level],
        None,
    )


@pytest.mark.row("000-58")
@pytest.mark.parametrize(("given", "level"), [(10, 5), (-2, 0), ("6", 5), (1e300, 5)])
def test_a_level_out_of_range_is_clamped_with_a_warning(given: Any, level: int):
    found = routing(score=given)
    assert found.raw == level
    assert found.details["warnings"] == [
        f"score {int(float(given))} is outside 0..5, taken as {level}"
    ]


@pytest.mark.row("001-10")
@pytest.mark.parametrize(("passed", "raw", "label"), [(True, 5.0, "pass"), (False, 0.0, "fail")])
def test_pass_and_fail_are_five_and_zero(passed: bool, raw: float, label: str):
    reply = {"task_completion": binary(passed)}
    found = heard(case(*TURNS), reply, "task_completion")["task_completion", ""]
    assert (found.raw, found.label, found.passed) == (raw, label, passed)


@pytest.mark.row("000-06")
def test_a_failure_code_that_is_written_otherwise_is_a_warning():
    details = routing(score=1, code="Wrong Tool Selected").details
    assert details["warnings"] == [
        "failure_code 'Wrong Tool Selected' is written wrong_tool_selected"
    ]
    assert "warnings" not in routing(score=1, code="wrong_tool_selected").details
    assert "warnings" not in routing(score=4, code="Wrong Tool").details


@pytest.mark.row("000-06", "000-07", "000-10")
@pytest.mark.parametrize(
    ("score", "given", "code"),
    [
        (1, "Wrong Tool Selected", "wrong_tool_selected"),
        (0, "wrongToolSelected", "wrong_tool_selected"),
        (0, "HTTPError", "http_error"),
        (0, "wrongUserIDs", "wrong_user_ids"),
        (2, "something_unheard_of", "something_unheard_of"),
        (2, " --Timeout / 504!-- ", "timeout_504"),
        (2, "wrong - _tool", "wrong_tool"),
        (2, None, "unspecified_failure"),
        (0, "", "unspecified_failure"),
        (1, "N/A", "unspecified_failure"),
        (1, "null", "unspecified_failure"),
        (3, "x", None),
        (5, "x", None),
        (5, None, None),
    ],
)
def test_a_failure_code_is_snake_case_below_acceptable_and_null_from_there_on(score, given, code):
    assert routing(score=score, code=given).failure_code == code


@pytest.mark.row("000-07", "000-10")
def test_a_binary_metric_has_a_failure_code_only_when_failed():
    codes = [
        heard(case(*TURNS), {"task_completion": binary(passed, code)}, "task_completion")[
            "task_completion", ""
        ].failure_code
        for passed, code in ((True, "x"), (False, "Not Done"), (False, None))
    ]
    assert codes == [None, "not_done", "unspecified_failure"]


def test_a_failure_code_is_bounded():
    assert routing(score=2, code="a" * 500).failure_code == "a" * 80


@pytest.mark.row("000-09")
@pytest.mark.parametrize(
    ("given", "turns", "warnings"),
    [
        ([1, 3], (1, 3), None),
        ([], (), None),
        ([3, 1, "1", 1.0], (1, 3), None),
        ([1, 99, -1], (1,), ["turns [-1, 99] are not among the 4 of the transcript"]),
    ],
)
def test_turns_outside_the_transcript_are_dropped_with_a_warning(given, turns, warnings):
    found = routing(score=2, code="x", turns=given)
    assert found.turns == turns
    assert found.details.get("warnings") == warnings


def test_the_justification_is_kept_in_the_details():
    assert routing().details == {"justification": "because"}
