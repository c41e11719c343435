"""Several scores of one name: the label of a case, and the labels of each person."""

from __future__ import annotations

import json
from typing import Any

import pytest

from assizes.judge.case import Case
from assizes.judge.formats.shared.parsing import HUMAN_LABELS
from tests.judge.formats.foreign import joined

SAID = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]


def score(value: Any, person: str | None = None, day: int = 1, **more: Any) -> dict[str, Any]:
    return {"value": value, "person": person, "at": f"2026-11-0{day}T00:00:00Z", **more}


def otel(*scores: dict[str, Any]) -> Case:
    name = "gen_ai.evaluation"
    events = [
        {
            "name": f"{name}.result",
            "timestamp": given["at"],
            "attributes": {
                f"{name}.name": "helpful",
                f"{name}.score.value": given["value"],
                "phoenix.annotator_kind": "HUMAN" if given["person"] else "LLM",
                "phoenix.user_id": given["person"],
            },
        }
        for given in scores
    ]
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": SAID}
    span = {"trace_id": "t", "span_id": "s", "attributes": attributes, "events": events}
    return joined("otel", span)


def mlflow(*scores: dict[str, Any], **more: Any) -> Case:
    assessments = [
        {
            "assessment_name": "helpful",
            "source": {
                "source_type": "HUMAN" if given["person"] else "LLM_JUDGE",
                "source_id": given["person"] or "judge",
            },
            "last_update_time": given["at"],
            "feedback": {"value": given["value"]},
            **{name: given[name] for name in ("assessment_id", "overrides") if name in given},
        }
        for given in scores
    ]
    info = {"trace_id": "t", "assessments": [*assessments, *more.get("others", ())]}
    attributes = {"mlflow.spanType": "AGENT", "mlflow.spanInputs": json.dumps({"messages": SAID})}
    return joined("mlflow", {"info": info, "data": {"spans": [{"attributes": attributes}]}})


@pytest.mark.parametrize("case_with", [otel, mlflow])
def test_the_label_is_a_persons_before_that_of_a_program_and_the_latest_of_them(case_with: Any):
    ann, bob = score(0.25, "ann", day=3), score(0.75, "bob", day=2)
    case = case_with(ann, bob, score(1, day=4))
    assert case.labels == {"helpful": 0.25}
    assert case.metadata[HUMAN_LABELS] == [
        {"metric": "helpful", "label": 0.75, "rater": "bob"},
        {"metric": "helpful", "label": 0.25, "rater": "ann"},
    ]


@pytest.mark.parametrize("case_with", [otel, mlflow])
def test_the_latest_score_of_programs_is_no_label_of_people(case_with: Any):
    case = case_with(score(1, day=4), score(0, day=2))
    assert case.labels == {"helpful": 1.0}
    assert HUMAN_LABELS not in case.metadata


def test_an_assessment_of_mlflow_that_another_one_overrides_is_no_label():
    old = score(0.5, "ann", day=1, assessment_id="a-1")
    case = mlflow(old, score(0.75, "bob", day=2, overrides="a-1"))
    assert case.labels == {"helpful": 0.75}
    assert [row["rater"] for row in case.metadata[HUMAN_LABELS]] == ["bob"]


def test_feedback_of_the_name_of_an_expectation_takes_no_ground_truth_away():
    asked = {"assessment_name": "guidelines", "expectation": {"value": ["Be brief."]}}
    judged = {"assessment_name": "guidelines", "feedback": {"value": "yes"}}
    case = mlflow(others=[asked, judged])
    assert case.expected.acceptance_criteria == ("Be brief.",)
