"""The documents' examples of answer criteria, what is reported of a score, and what the model is asked."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import duckdb
import pytest

from assizes.judge.case import Case, Expected
from assizes.judge.families.criteria.asks import CoverageReply, Decomposition
from assizes.judge.families.criteria.coverage import interpretation, pretty
from assizes.judge.families.criteria.judge import ENTRIES, AnswerCriteriaOptions, CoverageJudge
from assizes.judge.protocol import NoReply
from assizes.judge.rows import as_json
from assizes.judge.score import Score
from tests.builders import agent, case, user
from tests.judge.families.criteria.criteria_cases import HALF, TWO, both
from tests.judge.families.criteria.criteria_replies import (
    ANSWER,
    COFFEE,
    CRITERIA,
    FIVE_OF_SEVEN,
    QUERY,
    SEVEN,
    answer,
    aspects,
    check,
    found,
    headline,
    heard,
    opened,
)

GOLDEN = Path(__file__).resolve().parents[3] / "golden" / "prompts"


# The examples of the seed


@pytest.mark.row("003-32")
def test_the_coffee_example_covers_everything():
    reply = check(*(found(f"a{n}", [1]) for n in (1, 2, 3, 4)))
    four = aspects(freshness=["fresh"], grind=["timing"], water=["temperature"], brew=["time"])
    score = headline(COFFEE, four, reply)
    assert (score.value, score.passed) == (1.0, True)


@pytest.mark.row("003-33")
def test_the_return_policy_example_passes_with_half_of_its_aspects():
    one = case(
        user("What's your return policy?"),
        agent("You can return items within 30 days with receipt."),
        expected=Expected(
            acceptance_criteria="""
            Must cover:
            1. Return window (30 days)
            2. Receipt requirement
            3. Condition of items
            4. Refund method
            """
        ),
    )
    four = aspects(window=["30 days"], receipt=["receipt"], condition=["unused"], refund=["card"])
    reply = check(found("a1", [1]), found("a2", [1]), found("a3"), found("a4"))
    score = headline(one, four, reply, scoring_strategy="aspect", check_for_contradictions=True)
    assert (score.value, score.passed) == (0.5, True)


@pytest.mark.row("003-34")
@pytest.mark.parametrize("strategy", ["concept", "aspect", "weighted"])
def test_scenario_1_is_full_in_all_strategies(strategy: str):
    four = aspects(
        greeting=["Hello"],
        acknowledgment=["trouble with your order"],
        solution=["full refund", "3-5 days"],
        follow_up=["anything else I can help"],
    )
    reply = check(found("a1", [1]), found("a2", [1]), found("a3", [1, 2]), found("a4", [1]))
    score = headline(COFFEE, four, reply, scoring_strategy=strategy)
    assert score.value == 1.0
    assert (score.details["total_aspects_count"], score.details["total_concepts"]) == (4, 5)


@pytest.mark.row("003-35", "003-36")
@pytest.mark.parametrize(("covered", "value", "passed"), [(3, 0.75, True), (1, 0.25, False)])
@pytest.mark.parametrize("strategy", ["concept", "aspect"])
def test_scenarios_2_and_3_follow_the_formula(
    covered: int, value: float, passed: bool, strategy: str
):
    four = aspects(one=["a"], two=["b"], three=["c"], four=["d"])
    reply = check(*(found(f"a{n}", [1] if n <= covered else []) for n in (1, 2, 3, 4)))
    score = headline(COFFEE, four, reply, scoring_strategy=strategy)
    assert (score.value, score.passed) == (value, passed)


# Reference answers


def complete(**expected: Any) -> Case:
    return case(user(QUERY), agent(ANSWER), expected=Expected(**expected))


@pytest.mark.row("003-55")
@pytest.mark.parametrize(
    "expected",
    [{"response": "Fresh beans.\nHot water."}, {"facts": ("Fresh beans.", "Hot water.")}],
)
def test_completeness_takes_its_aspects_from_the_reference_answer(expected: Any):
    one = complete(**expected)
    hearing = opened(one, "answer_completeness")
    assert "<data: Reference answer>\nFresh beans.\nHot water.\n</data>" in (
        hearing.asks[0].prompt.user
    )
    answer(answer(hearing, TWO), HALF)
    score = hearing.scores[0]
    assert (score.metric, score.value, score.passed) == ("answer_completeness", 0.5, True)


@pytest.mark.row("003-55")
def test_completeness_without_a_reference_answer_is_skipped():
    assert opened(COFFEE, "answer_completeness").scores == [
        Score.skipped(
            "answer_completeness",
            "no reference answer: no text or list of texts in expected.response or expected.facts",
        )
    ]


# Models that fail


@pytest.mark.parametrize(
    "rounds", [[NoReply("timeout", "late")], [TWO, NoReply("timeout", "late")]]
)
def test_a_model_failure_is_a_failed_score(rounds: Any):
    score = headline(COFFEE, *rounds)
    assert (score.status, score.value, score.details["error"]) == ("failed", None, "timeout")
    assert (score.reason or "").endswith("late")


# Reading it


@pytest.mark.row("003-07")
@pytest.mark.parametrize(
    ("score", "words"),
    [
        (1.0, "all criteria fully covered"),
        (1 - 1e-12, "all criteria fully covered"),
        (0.99, "most criteria met, minor gaps"),
        (0.7, "most criteria met, minor gaps"),
        (0.69, "half of the criteria covered"),
        (0.5, "half of the criteria covered"),
        (0.49, "significant criteria not met"),
        (0.0, "significant criteria not met"),
    ],
)
def test_a_score_has_its_band(score: float, words: str):
    assert interpretation(score) == words


@pytest.mark.row("003-52")
def test_the_plain_text_lists_score_aspects_concepts_and_reasons():
    reply = check(
        found("a1", [1, 2], reason="Beans are named.", concepts_contradicted=["a1c2"]),
        found("a2", [1], reason=""),
    )
    two = aspects(beans=["fresh beans", "quality"], water=["200F"])
    score = headline(
        COFFEE, two, check(*reply["aspects"], found("a3")), check_for_contradictions=True
    )
    assert pretty(score) == "\n".join(
        [
            "answer_criteria: 0.67, passed (half of the criteria covered)",
            "1 of 2 aspects, 2 of 3 concepts covered; scored by concept; 1 turn evaluated",
            "- beans (50% of its concepts, turn 0)",
            "    covered: fresh beans",
            "    missing: quality",
            "    contradicted: quality",
            "    reason: Beans are named.",
            "+ water (100% of its concepts, turn 0)",
            "    covered: 200F",
            "warning: turn 0: ignored an unknown aspect: 'a3'",
        ]
    )


@pytest.mark.row("003-52")
def test_the_plain_text_of_other_scores_is_one_line():
    skipped = Score.skipped("answer_criteria", "no query", "turn:1")
    assert pretty(skipped) == "answer_criteria turn:1: skipped (no query)"
    part = heard(COFFEE, TWO, HALF)["aspect:a2"]
    assert pretty(part) == (
        "answer_criteria aspect:a2: 0.00, failed (significant criteria not met)"
    )


@pytest.mark.row("003-54")
def test_the_breakdown_is_json_that_duckdb_reads():
    details = as_json(dict(headline(COFFEE, SEVEN, FIVE_OF_SEVEN).details))
    with duckdb.connect(":memory:") as db:
        rows = db.execute(
            """
            select entry->>'aspect', (entry->>'concepts_coverage_percentage')::double,
                   json_array_length(entry->'concepts_missing')
            from (select unnest(cast($1::json->'aspect_breakdown' as json[])) as entry)
            where (entry->>'covered')::boolean order by entry->>'id'
            """,
            [details],
        ).fetchall()
    assert rows == [("beans", 100.0, 0), ("grind", 100.0, 0), ("water", 50.0, 1)]
    assert json.loads(details)["evaluated_turns_count"] == 1


# What the model is asked


def recorded(name: str, prompts: dict[str, Any]) -> None:
    text = "".join(
        f"=== {judge}: system ===\n{prompt.system}\n=== {judge}: user ===\n{prompt.user}\n"
        for judge, prompt in prompts.items()
    )
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.write_text(text, "utf-8")
    assert text == path.read_text("utf-8")


def test_the_decomposition_prompt_is_as_on_record():
    recorded("criteria_decompose", {name: one.asks[0].prompt for name, one in both().items()})


def test_the_check_prompt_is_as_on_record():
    hearings = {name: answer(one, SEVEN) for name, one in both().items()}
    recorded("criteria_check", {name: one.asks[0].prompt for name, one in hearings.items()})


@pytest.mark.row("003-53")
def test_the_decomposition_prompt_knows_nothing_of_the_answer():
    others = [
        case(user(QUERY), agent(text), expected=Expected(acceptance_criteria=CRITERIA))
        for text in ("One answer.", "Another answer.")
    ]
    assert len({opened(one).asks[0].prompt_hash for one in others}) == 1


@pytest.mark.parametrize("reply", [Decomposition, CoverageReply])
def test_the_reply_schemas_fit_strict_structured_output(reply: Any):
    schema = reply.model_json_schema()
    for one in (schema, *schema["$defs"].values()):
        assert one["additionalProperties"] is False
        assert one["required"] == list(one["properties"])


def test_the_judge_is_one_class_with_a_version():
    judge = ENTRIES["answer_criteria"].create_judge(AnswerCriteriaOptions(), ())
    assert isinstance(judge, CoverageJudge)
    assert judge.version == "1"
