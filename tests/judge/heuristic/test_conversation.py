"""The offline judge: one rule a metric."""

from __future__ import annotations

from dataclasses import replace

import pytest

from assizes.judge.case import ToolResult, ToolSpec, Turn
from assizes.judge.errors import ModelError
from assizes.judge.families.conversation import reply_model
from assizes.judge.heuristic.conversation import RULES, answer
from assizes.judge.rubrics.rubric import BUILT_IN
from assizes.judge.score import Metric, Scale
from tests.judge.heuristic.turns import EXPECT_W, METRICS, W, called, due, evidence, reply_for, says


def user(text):
    return Turn(role="user", text=text)


def failed():
    return Turn(role="tool", tool_result=ToolResult(content="Error", is_error=True))


def returned(content):
    return Turn(role="tool", tool_result=ToolResult(content=content))


def level(metric, *turns, **more):
    block = reply_for(metric, *turns, **more)
    return (block["score"], block["failure_code"], block["turns"])


def test_there_is_a_rule_with_a_docstring_for_each_built_in_metric():
    assert tuple(RULES) == BUILT_IN
    assert all(rule.__doc__ for rule in RULES.values())


@pytest.mark.parametrize("outcomes", [(), ("Agent greets the user.",)])
def test_the_answer_fits_the_reply_model_it_is_an_answer_for(outcomes):
    given = answer(evidence(user("Hi"), says("Hello"), outcomes=outcomes))
    names = tuple((m.name, m.scale) for m in METRICS)
    model = reply_model(names, outcomes=bool(outcomes), offline=True)
    assert model.model_validate(given).model_dump() == given


def test_the_answer_holds_the_chosen_metrics_alone():
    given = answer(evidence(says("Hello. Goodbye!"), metrics=METRICS[7:8]))
    assert given == {
        "response_delivery": {
            "justification": "Plain text rule: of 1 turn 0 too long, 0 with lists or markup, "
            "0 with two or more questions.",
            "score": 5,
            "failure_code": None,
            "turns": [],
        }
    }


@pytest.mark.parametrize(
    ("given", "what"),
    [
        (evidence(metrics=(Metric("tone", Scale.SCORED),)), "metric 'tone' on scale 'scored'"),
        (
            evidence(metrics=(Metric("tool_routing", Scale.YES_NO),)),
            "metric 'tool_routing' on scale 'yes_no'",
        ),
    ],
)
def test_what_has_no_rule_is_refused_by_name(given, what):
    with pytest.raises(ModelError, match=what) as caught:
        answer(given)
    assert caught.value.code == "no_offline_rule"


@pytest.mark.row("000-60")
def test_the_tool_metrics_are_5_where_no_tool_was_expected_and_none_was_called():
    given = answer(evidence(user("Hi"), says("Hello"), tool_calls=()))
    for metric in ("tool_routing", "parameter_extraction", "result_interpretation"):
        block = given[metric]
        assert (block["score"], block["failure_code"], block["turns"]) == (5, None, [])
        assert "not applicable" in block["justification"]


A, B, C, X = called("a"), called("b"), called("c"), called("x")


@pytest.mark.parametrize(
    ("turns", "expected", "wanted"),
    [
        ([A, B], "ab", (5, None, [])),
        ([B, A], "ab", (4, None, [])),
        ([A, A, B], "ab", (4, None, [1])),
        ([A, failed(), A, B], "ab", (4, None, [0])),
        ([A, A, A, A, B], "ab", (3, None, [1, 2, 3])),
        ([A], "ab", (3, None, [])),
        ([A, B, X], "ab", (3, None, [2])),
        ([A, B, B], "ab", (3, None, [2])),
        ([A, X], "ab", (2, "wrong_tool_selected", [1])),
        ([A], "abc", (1, "wrong_tool_selected", [])),
        ([X], "ab", (1, "wrong_tool_selected", [0])),
        ([], "ab", (0, "no_tool_called", [])),
        ([A, called("read")], "a", (5, None, [])),
    ],
)
def test_tool_routing_follows_recall_unexpected_writes_and_order(turns, expected, wanted):
    calls = None if expected is None else tuple(due(name) for name in expected)
    assert level("tool_routing", *turns, tool_calls=calls, writes=("b", "x")) == wanted


@pytest.mark.parametrize(
    ("arguments", "writes", "wanted"),
    [
        ({"id": "AB12", "n": 1, "s": "x"}, (), (5, None, [])),
        ({"id": "AB12", "n": 2, "s": "x"}, (), (4, None, [1])),
        ({"id": "AB12", "n": 2, "s": "x"}, ("a",), (3, None, [1])),
        ({"id": "AB12", "n": 2}, ("a",), (0, "wrong_parameter", [1])),
        ({"id": "AB12", "n": 2, "s": "y"}, ("a",), (2, "wrong_parameter", [1])),
        ({"id": "ZZ99", "n": 1, "s": "x", "t": 1}, ("a",), (2, "wrong_parameter", [1])),
    ],
)
def test_parameter_extraction_follows_arguments_that_differ_or_were_never_mentioned(
    arguments, writes, wanted
):
    expected = (due("a", {"id": "AB12", "n": 1, "s": "x"}),)
    turns = (user("For AB12 please"), called("a", arguments))
    assert level("parameter_extraction", *turns, tool_calls=expected, writes=writes) == wanted


def test_values_nobody_mentioned_count_without_ground_truth_too():
    turns = (user("For my order"), called("a", {"id": "ZZ99", "note": "urgent"}))
    assert level("parameter_extraction", *turns) == (4, None, [1])


def test_an_unreadable_argument_text_is_an_error():
    turns = (called("a", {"x": "one", "y": "two"}), called("b", raw="{"))
    assert level("parameter_extraction", *turns) == (3, None, [1])


PRICES = (user("Prices?"), called("a"), returned("451 452 453 454"))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("451, 452, 453 and 454", (5, None, [])),
        ("451, 452, 453 and 999", (4, None, [3])),
        ("451 452 453 454 701 702", (2, "hallucinated_result", [3])),
        ("451 701 702 703", (1, "hallucinated_result", [3])),
        ("701 702", (0, "hallucinated_result", [3])),
    ],
)
def test_result_interpretation_follows_the_values_said_after_results(text, wanted):
    assert level("result_interpretation", *PRICES, says(text)) == wanted


def test_success_claimed_after_a_failed_call_is_a_misreport():
    turns = (called("a"), failed(), says("Your order has been changed."))
    assert level("result_interpretation", *turns) == (2, "hallucinated_result", [2])
    again = (called("a"), failed(), says("It has been booked."))
    assert level("result_interpretation", *turns, *again) == (1, "hallucinated_result", [2, 5])


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Order AB12 it is", (5, None, [])),
        ("Order ZZ99 it is", (4, None, [1])),
        (" ".join(["AB12", *(f"AB{i}" for i in range(20, 39)), "Z701", "Z702"]), None),
    ],
)
def test_grounding_follows_every_specific_value_said(text, wanted):
    known = " ".join(["AB12", *(f"AB{i}" for i in range(20, 39))])
    given = level("grounding_fidelity", user(known), says(text))
    assert given == (wanted or (3, None, [1]))


@pytest.mark.parametrize(
    ("turns", "more", "wanted"),
    [
        ([W], EXPECT_W, (5, None, [])),
        ([W, failed(), W, failed(), W], EXPECT_W, (4, None, [2])),
        ([W, called("v")], EXPECT_W, (3, None, [1])),
        ([called("v"), called("v"), W], EXPECT_W, (2, "instruction_violated", [0, 1])),
        ([says("I can't do that.")], EXPECT_W, (3, None, [0])),
        ([says("I can't do that.")], {"tool_calls": (due("w"),)}, (5, None, [])),
        ([W, called("z")], {"tools": (ToolSpec(name="w"),)}, (3, None, [1])),
        ([called("z")] * 4, {"tools": (ToolSpec(name="w"),)}, None),
    ],
)
def test_instruction_compliance_follows_what_was_not_expected_or_not_offered(turns, more, wanted):
    given = level("instruction_compliance", *turns, **more)
    assert given == (wanted or (0, "instruction_violated", [0, 1, 2, 3]))


NO_CALL = "no tool was called"


@pytest.mark.parametrize(
    ("metric", "turns", "expected", "why"),
    [
        ("tool_routing", [A, A], None, "no expected calls are given to compare the calls with"),
        (
            "tool_routing",
            [A],
            (),
            "no call was expected, and which calls change state is not known",
        ),
        ("parameter_extraction", [says("Hi")], None, NO_CALL),
        ("parameter_extraction", [says("Hi")], (due("a"),), NO_CALL),
        ("result_interpretation", [says("Hi")], (due("a"),), NO_CALL),
        (
            "result_interpretation",
            [A, returned("451"), says("Done.")],
            None,
            "no specific value was said after a tool result",
        ),
        ("grounding_fidelity", [says("How can I help?")], None, "no specific value was said"),
        (
            "instruction_compliance",
            [says("Hi")],
            None,
            "neither expected calls nor calls of offered tools are there",
        ),
        (
            "information_gathering",
            [says("Hi")],
            None,
            "no tool was called, and no question was asked",
        ),
        (
            "task_completion",
            [says("All done"), says("Sorry")],
            None,
            "nothing expected is known: no calls, strings or outcomes",
        ),
        ("task_completion", [A], (), "which of the calls made change state is not known"),
    ],
)
def test_where_nothing_is_to_be_seen_no_level_is_given(metric, turns, expected, why):
    block = reply_for(metric, *turns, tool_calls=expected)
    assert block == {"justification": f"Plain text rule: {why}."}


def test_no_justification_speaks_of_none_of_none():
    cases = (
        evidence(user("Hi"), A, says("Hello. Shall I go on?"), tool_calls=(due("a"),)),
        evidence(user("Hi"), A, failed(), says("Hm"), tool_calls=(), writes=("w",)),
        evidence(says("Hello"), tool_calls=()),
    )
    why = [block["justification"] for read in cases for block in answer(read).values()]
    assert not [text for text in why if " 0 of 0 " in text]


def test_information_gathering_follows_acting_on_incomplete_data_and_repeated_questions():
    writes = {"writes": ("w",)}
    ask = says("What is your id?")
    act = [called("w", {"id": f"ZZ{i}99"}) for i in range(3)]
    metric = "information_gathering"
    assert level(metric, ask, user("AB12"), called("w", {"id": "AB12"}), **writes) == (5, None, [])
    assert level(metric, ask, user("AB12"), ask, **writes) == (4, None, [2])
    assert level(metric, act[0], **writes) == (3, None, [0])
    assert level(metric, *act[:2], **writes) == (2, "acted_on_incomplete_data", [0, 1])
    assert level(metric, *act, ask, ask, **writes) == (0, "acted_on_incomplete_data", [0, 1, 2, 4])
    assert level(metric, W, failed(), **writes) == (3, None, [0])
    assert level(metric, called("w"), **EXPECT_W) == (3, None, [0])


@pytest.mark.parametrize(
    ("turns", "finished", "wanted"),
    [
        ([user("Hi"), says("Hello"), says("Goodbye!")], True, (5, None, [])),
        ([user("Hi"), says("Hello")], None, (4, None, [1])),
        ([says("Hello"), says("Hello"), says("Thanks!")], True, (4, None, [1])),
        ([user("Hi"), says("Hm"), user("Hi"), says("Thanks!")], True, (4, None, [2])),
        ([says("Thanks!")], False, (3, None, [])),
        ([says("Hm"), says("Hm"), says("Hm")], False, (0, "poor_conversation_flow", [1, 2])),
        ([user("Hi")], True, (0, "no_response", [])),
    ],
)
def test_conversation_management_follows_repetition_and_the_end(turns, finished, wanted):
    assert level("conversation_management", *turns, finished=finished) == wanted


PLAIN, LIST, TWO = says("Fine."), says("- one\n- two"), says("What is it? Where is it?")


@pytest.mark.parametrize(
    ("turns", "wanted"),
    [
        ([PLAIN] * 3, (5, None, [])),
        ([PLAIN, LIST], (4, None, [1])),
        ([PLAIN, says("word " * 121)], (4, None, [1])),
        ([PLAIN, TWO], (3, None, [1])),
        ([PLAIN] * 6 + [LIST, TWO], (3, None, [6, 7])),
        ([PLAIN, PLAIN, LIST, TWO], (2, "verbose", [2, 3])),
        ([PLAIN, LIST, TWO], (1, "verbose", [1, 2])),
        ([LIST] * 4, (0, "verbose", [0, 1, 2, 3])),
        ([user("Hi")], (0, "no_response", [])),
    ],
)
def test_response_delivery_follows_length_markup_and_double_questions(turns, wanted):
    assert level("response_delivery", *turns) == wanted


def outage():
    return Turn(role="tool", tool_result=ToolResult(content="Error 503: try again later"))


SORRY = says("I am sorry, the system is down. Is there anything else?")
NO_OUTAGE = [user("Order AB12"), W, returned("ok"), says("Done, it is 50. Thank you!")]
OUTAGES = [
    [user("Order AB12"), W, outage(), *NO_OUTAGE[1:]],
    [user("Order AB12"), W, outage(), W, outage(), *NO_OUTAGE[1:]],
    [
        *(user("Order AB12"), says("One moment."), W, outage(), says("One moment.")),
        *NO_OUTAGE[1:],
    ],
    [user("Order AB12"), W, outage(), SORRY],
    [user("Order AB12"), W, outage(), user("Try again"), W, outage(), user("Try again"), SORRY],
]


@pytest.mark.parametrize("metric", tuple(RULES))
@pytest.mark.parametrize("turns", OUTAGES)
def test_what_the_environment_fails_at_lowers_no_metric_of_the_agent(metric, turns):
    expected = {**EXPECT_W, "said": ("50",)}
    best = reply_for(metric, *NO_OUTAGE, **expected)
    block = reply_for(metric, *turns, **expected)
    assert {k: block.get(k) for k in ("score", "passed")} == {
        k: best.get(k) for k in ("score", "passed")
    }


def test_a_value_that_nobody_mentioned_counts_once_however_often_an_outage_has_it_sent():
    bad = called("w", {"x": 1, "id": "ZZ99"})
    for metric in ("parameter_extraction", "information_gathering"):
        again = level(metric, bad, outage(), bad, outage(), bad, returned("ok"), **EXPECT_W)
        assert again[:2] == level(metric, bad, returned("ok"), **EXPECT_W)[:2]


def test_an_agent_that_only_says_that_the_system_is_down_has_refused_nothing():
    assert reply_for("task_completion", W, outage(), SORRY, **EXPECT_W)["passed"] is True
    assert reply_for("task_completion", W, failed(), SORRY, **EXPECT_W)["passed"] is False
    assert (
        "1 call failed by an outage"
        in reply_for("task_completion", W, outage(), SORRY, **EXPECT_W)["justification"]
    )


def test_success_claimed_after_an_outage_stays_a_misreport():
    turns = (W, outage(), says("Your order has been changed."))
    assert level("result_interpretation", *turns) == (2, "hallucinated_result", [2])


def test_where_an_outage_prevented_every_call_nothing_passes_unchecked():
    turns = (user("Order AB12"), W, outage(), says("The system is down."))
    skipped = reply_for("task_completion", *turns, tool_calls=())
    assert "which of the calls made change state is not known" in skipped["justification"]
    assert "passed" not in skipped
    skipped = reply_for("result_interpretation", *turns)
    assert "no specific value was said after a tool result" in skipped["justification"]
    assert level("information_gathering", *turns, **EXPECT_W) == (5, None, [])


def delivered(channel, *turns):
    found = evidence(*turns, metrics=METRICS[7:8])
    written = found.case.model_copy(update={"tags": {"channel": channel} if channel else {}})
    return answer(replace(found, case=written))["response_delivery"]["score"]


def test_response_delivery_takes_a_list_for_a_fault_where_it_is_heard_and_not_where_it_is_read():
    listed = [says("Two flights:\n- one\n- two")] * 4
    assert [delivered(channel, *listed) for channel in (None, "voice", "Phone call")] == [0, 0, 0]
    assert [delivered(channel, *listed) for channel in ("chat", "web", "email")] == [5, 5, 5]
    assert delivered("chat", PLAIN, says("word " * 251)) == 4
    assert delivered("chat", PLAIN, TWO) == 5
    assert delivered("chat", PLAIN, says("What is it? " * 4)) == 3
