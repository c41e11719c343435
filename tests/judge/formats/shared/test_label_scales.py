"""Scores on another scale than 0 to 1 in traces and logs: none of them is taken for a label."""

from __future__ import annotations

import json
from typing import Any

import pytest

from assizes.judge.formats.shared.parsing import FIDELITY
from tests.judge.formats.foreign import joined

SAID = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]


def otel(*scores: tuple[str, float]) -> dict[str, Any]:
    name = "gen_ai.evaluation"
    events = [
        {
            "name": f"{name}.result",
            "attributes": {f"{name}.name": word, f"{name}.score.value": value},
        }
        for word, value in scores
    ]
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": SAID}
    return {"trace_id": "t", "span_id": "s", "attributes": attributes, "events": events}


def mlflow(*scores: tuple[str, float]) -> dict[str, Any]:
    told = [{"assessment_name": word, "feedback": {"value": value}} for word, value in scores]
    attributes = {"mlflow.spanType": "AGENT", "mlflow.spanInputs": json.dumps({"messages": SAID})}
    spans = [{"span_id": "s", "attributes": attributes}]
    return {"info": {"trace_id": "t", "assessments": told}, "data": {"spans": spans}}


def inspect_ai(*scores: tuple[str, float]) -> dict[str, Any]:
    told = {word: {"value": value} for word, value in scores}  # one score of a name
    return {"eval": {"task": "t"}, "sample": {"id": "s", "messages": SAID, "scores": told}}


@pytest.mark.parametrize("format_", [otel, mlflow])
def test_a_score_above_1_tells_the_scale_of_the_others_of_its_name(format_: Any):
    case = joined(format_.__name__, format_(("stars", 5), ("stars", 1), ("good", 1), ("ok", 0.5)))
    assert case.labels == {"good": 1.0, "ok": 0.5}
    assert case.metadata[FIDELITY] == {"dropped label on another scale": 2}


@pytest.mark.parametrize("format_", [otel, mlflow, inspect_ai])
def test_scores_outside_0_to_1_are_counted(format_: Any):
    case = joined(format_.__name__, format_(("stars", 4), ("mood", -0.5), ("good", 0)))
    assert case.labels == {"good": 0.0}
    assert case.metadata[FIDELITY] == {"dropped label on another scale": 2}
