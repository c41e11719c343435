"""The judge interface of seed 002, for judges written by others."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from assizes.judge.catalog import resolve_judges
from assizes.judge.config.judging import JudgeConfig, LimitsConfig
from assizes.judge.engine.hearings import Engine
from assizes.judge.evidence.steps import case_of
from assizes.judge.families.agent_steps.base_judge import BaseJudge, EvaluationStrategy, JudgeResult
from assizes.judge.models.model import ScriptedModel
from assizes.judge.protocol import Judge
from assizes.judge.rows import frame
from assizes.judge.score import Metric, Score
from assizes.judge.verdicts.case_rows import RowKey, findings
from tests.builders import agent, call, case, result, user

INPUT = {"id": "q1", "question": "How many orders?"}
OUTPUT = {
    "response": "There are 3.",
    "steps": [{"name": "sql_agent", "tool_calls": [{"name": "run_sql", "output": "3"}]}],
}


class Brevity(BaseJudge):
    """Likes short answers.

    More of it.
    """

    name = "brevity"

    def evaluate(
        self,
        input_data: dict[str, Any],
        output_data: dict[str, Any],
        expected: dict[str, Any] | None = None,
    ) -> JudgeResult | None:
        """Ten words or fewer are short."""
        if not expected or "tone" not in expected.get("additional_input", {}):
            return None
        score = 10 / max(10, len(output_data["response"].split()))
        return JudgeResult(score, score >= 0.7, "counted words", {"words": {"score": score}})


class Fixed(BaseJudge):
    """A judge of seed 002 whose result a test chooses."""

    name = "fixed"
    strategy = EvaluationStrategy.TRAJECTORY

    def __init__(self, found: JudgeResult | None) -> None:
        self.found = found
        self.seen: list[Any] = []

    def evaluate(self, input_data, output_data, expected=None):
        self.seen.append((input_data, output_data, expected))
        return self.found


def scores_of(found: JudgeResult | None) -> list[Score]:
    return Fixed(found).judge(case(user("Hi"), agent("Hello")))


@pytest.mark.row("002-06")
def test_the_interface_is_abstract_and_has_the_defaults_of_the_document():
    with pytest.raises(TypeError, match="abstract"):
        BaseJudge()
    assert (BaseJudge.name, BaseJudge.strategy) == (
        "base_judge",
        EvaluationStrategy.FINAL_RESPONSE,
    )
    judge = Brevity()
    assert isinstance(judge, Judge)
    assert judge.evaluate(INPUT, OUTPUT) is None
    assert judge.metrics == (
        Metric(
            "brevity",
            display_name="Brevity",
            description="Likes short answers.",
            gate="judges",
        ),
    )


@pytest.mark.row("002-07")
def test_a_result_has_a_score_a_verdict_a_reasoning_and_metadata():
    one = JudgeResult(0.5, False, "so so")
    assert (one.score, one.passed, one.reasoning, one.metadata) == (0.5, False, "so so", {})
    assert one.metadata is not JudgeResult(0.5, False, "so so").metadata


@pytest.mark.row("002-01")
def test_no_result_is_a_skipped_judge():
    assert scores_of(None) == [Score.skipped("fixed", "the judge does not apply to this case")]


@pytest.mark.row("002-05", "002-16")
def test_a_result_becomes_a_headline_with_a_part_for_each_sub_score():
    metadata = {
        "tone": {"score": 1, "reasoning": "kind"},
        "length": {"score": 0.5},
        "extracted": {"n": math.inf},
        "flag": {"score": True},
        "path": Path("x"),
    }
    headline, length, tone = scores_of(JudgeResult(0.75, True, "good", metadata))
    assert (headline.value, headline.passed, headline.part) == (0.75, True, "")
    assert headline.details == {
        "reasoning": "good",
        "strategy": "trajectory",
        "extracted": {"n": "Infinity"},
        "flag": {"score": True},
        "path": "x",
    }
    assert (length.part, length.value, length.details) == ("length", 0.5, {"reasoning": ""})
    assert (tone.part, tone.value, tone.details) == ("tone", 1.0, {"reasoning": "kind"})


@pytest.mark.row("002-08")
@pytest.mark.parametrize(("given", "value"), [(1.2, 1.0), (-3, 0.0)])
def test_a_score_is_held_to_0_to_1_with_a_warning(given, value):
    (headline,) = scores_of(JudgeResult(given, True, "odd"))
    assert headline.value == value
    assert headline.details["warnings"] == [f"score {given:g} is outside 0..1, taken as {value:g}"]


@pytest.mark.parametrize("given", [math.nan, math.inf])
def test_a_score_that_is_no_number_fails_the_judge(given):
    (headline,) = scores_of(JudgeResult(given, True, "odd"))
    assert (headline.status, headline.details) == ("failed", {"error": "invalid_score"})


@pytest.mark.row("002-16", "002-03")
def test_a_judge_sees_all_steps_in_order():
    judge = Fixed(None)
    one = case_of(INPUT, OUTPUT, {"sql": "null", "chart_type": None})
    judge.judge(one)
    ((input_data, output_data, expected),) = judge.seen
    assert input_data["question"] == "How many orders?"
    assert output_data["response"] == "There are 3."
    (step,) = output_data["steps"]
    assert (step["name"], step["tool_calls"][0]["output"]) == ("sql_agent", "3")
    assert expected == {"sql": "null"}


def test_a_judge_of_a_conversation_sees_its_last_question_and_answer():
    judge = Fixed(None)
    turns = (user("a"), agent("x"), user("b"), agent(calls=[call("t")]), result("r"), agent("y"))
    judge.judge(case(*turns))
    ((input_data, output_data, _),) = judge.seen
    assert (input_data["question"], input_data["questions"]) == ("b", ["a", "b"])
    assert (output_data["response"], output_data["steps"][0]["output"]) == ("y", "r")


@pytest.mark.row("002-61")
async def test_a_judge_named_in_the_configuration_is_run_and_appears_in_the_rows():
    chosen = resolve_judges(JudgeConfig(judges=(f"{__name__}:Brevity",)))
    one = case_of(INPUT, OUTPUT, {"tone": "brief"})
    engine = Engine(ScriptedModel([]), LimitsConfig(max_in_flight=1, timeout_s=5))

    heard = [await engine.hear(judge, one) for judge in chosen.judges]

    rows = findings(RowKey("run", "file", 0), one, heard, chosen).rows["scores"]
    table = frame("scores", rows)
    assert table.select("judge", "metric", "part", "value", "passed", "status").rows() == [
        ("brevity", "brevity", "", 1.0, True, "scored"),
        ("brevity", "brevity", "words", 1.0, None, "scored"),
    ]
    assert engine.calls == 0
