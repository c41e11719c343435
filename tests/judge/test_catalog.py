from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assizes.judge.catalog import JUDGES, available_metrics, resolve_judges, resolved_weights
from assizes.judge.config.judging import JudgeConfig, MetricSelection
from assizes.judge.errors import ConfigurationError
from assizes.judge.protocol import Judge
from assizes.judge.rubrics.rubric import BUILT_IN
from assizes.judge.score import Metric
from tests.judge.catalog_cases import refused, select, weights

DEFAULTS = {
    "tool_routing": 0.15,
    "parameter_extraction": 0.15,
    "result_interpretation": 0.15,
    "grounding_fidelity": 0.125,
    "instruction_compliance": 0.125,
    "information_gathering": 0.1,
    "conversation_management": 0.1,
    "response_delivery": 0.1,
}


@pytest.mark.row("000-17", "000-18", "000-29", "000-35")
@pytest.mark.parametrize("metrics", [None, []])
def test_without_a_selection_the_eight_defaults_are_judged(metrics):
    resolved = resolve_judges(JudgeConfig(metrics=metrics)).weights
    assert resolved == pytest.approx(DEFAULTS, abs=1e-9)
    assert list(resolved) == list(DEFAULTS)
    assert sum(resolved.values()) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.row("000-32")
def test_the_documents_example_is_normalised():
    assert weights(select("tool_routing", 1.0), select("task_completion", 0.5)) == pytest.approx(
        {"tool_routing": 2 / 3, "task_completion": 1 / 3}
    )


@pytest.mark.row("000-34", "000-39", "001-24")
@pytest.mark.parametrize(
    ("selected", "shares"),
    [
        ((None, None), (0.6, 0.4)),
        ((2, 2), (0.5, 0.5)),
        ((3, 1), (0.75, 0.25)),
        ((None, 0.15), (0.5, 0.5)),
        ((1, 0), (1.0, 0.0)),
    ],
)
def test_weights_default_and_are_renormalised(selected, shares):
    resolved = weights(
        select("tool_routing", selected[0]), select("response_delivery", selected[1])
    )
    assert tuple(resolved.values()) == pytest.approx(shares, abs=1e-9)


@pytest.mark.row("000-44")
def test_an_explicit_weight_of_zero_is_judged_and_contributes_nothing():
    chosen = resolve_judges(
        JudgeConfig(metrics=(select("tool_routing", 1), select("task_completion", 0)))
    )
    assert chosen.weights == {"tool_routing": 1.0, "task_completion": 0.0}
    assert [metric.name for metric in chosen.metrics] == [
        "tool_routing",
        "task_completion",
        "expected_outcomes",
    ]


@pytest.mark.row("001-23")
def test_a_selection_replaces_the_defaults():
    assert weights("response_delivery") == {"response_delivery": 1.0}


def test_the_order_of_a_selection_does_not_matter():
    first, other = (
        weights("tool_routing", "response_delivery"),
        weights("response_delivery", "tool_routing"),
    )
    assert list(first) == list(other) == ["tool_routing", "response_delivery"]


@given(
    st.lists(st.floats(0, 1e9, allow_subnormal=False), min_size=9, max_size=9).filter(
        lambda drawn: sum(drawn) > 0
    )
)
def test_normalised_weights_sum_to_one_and_keep_their_ratios(drawn):
    known = [Metric(name) for name in BUILT_IN]
    chosen = [select(name, weight) for name, weight in zip(BUILT_IN, drawn, strict=True)]
    resolved = resolved_weights(chosen, known)
    assert sum(resolved.values()) == pytest.approx(1.0, abs=1e-9)
    total = sum(drawn)
    assert [share * total for share in resolved.values()] == pytest.approx(drawn)


@pytest.mark.row("000-31")
def test_task_completion_needs_an_explicit_weight():
    assert refused("task_completion") == (
        "[judge] metrics: 'task_completion' has no default weight; "
        'give one, e.g. { metric = "task_completion", weight = 0.5 }'
    )


@pytest.mark.row("000-41")
def test_weights_must_not_sum_to_zero():
    assert "tool_routing sum to 0" in refused(
        select("tool_routing", 0), select("response_delivery", 0)
    )


@pytest.mark.row("000-41")
@pytest.mark.parametrize("weight", [-1.0, float("inf"), float("nan")])
def test_a_weight_is_a_positive_number(weight: float):
    unchecked = MetricSelection.model_construct(metric="tool_routing", weight=weight)
    with pytest.raises(ConfigurationError, match="'tool_routing'; wanted 0 to 1e\\+09"):
        resolved_weights([unchecked], available_metrics())
    with pytest.raises(ValueError, match="weight"):
        select("tool_routing", weight)


@pytest.mark.row("000-42")
def test_an_unknown_metric_is_named_with_the_known_ones():
    assert refused("nope") == (
        f"[judge] metrics: unknown metric 'nope'; known: {', '.join(sorted(BUILT_IN))}"
    )


@pytest.mark.row("000-43")
def test_a_metric_cannot_be_selected_twice():
    assert refused("tool_routing", select("tool_routing", 1)) == (
        "[judge] metrics: 'tool_routing' is selected twice"
    )


@pytest.mark.parametrize(
    ("judges", "message"),
    [
        (
            ("nobody",),
            f"[judge] judges: unknown judge 'nobody'; known: {', '.join(sorted(JUDGES))}",
        ),
        (("recorded", "recorded"), "[judge] judges: 'recorded' is chosen twice"),
        ((), f"[judge] judges: none is chosen; known: {', '.join(JUDGES)}"),
    ],
)
def test_judges_are_known_single_and_at_least_one(judges, message: str):
    assert refused(judges=judges) == message


def test_metrics_without_the_judge_that_scores_them_are_refused():
    assert "add 'conversation' to judges ['recorded']" in refused(
        "tool_routing", judges=("recorded",)
    )


def test_a_court_without_the_conversation_judge_has_no_weights():
    chosen = resolve_judges(JudgeConfig(judges=("recorded",), pass_threshold=50))
    assert chosen.weights == {}
    assert [metric.name for metric in chosen.metrics] == ["recorded_reward"]
    assert chosen.pass_threshold == 50


def test_judges_sit_in_the_order_given():
    chosen = resolve_judges(JudgeConfig(judges=("recorded", "conversation")))
    assert [judge.name for judge in chosen.judges] == ["recorded", "conversation"]
    assert all(isinstance(judge, Judge) for judge in chosen.judges)


def test_a_floor_of_a_metric_that_nobody_scores_is_refused():
    assert dict(resolve_judges(JudgeConfig(floors={"tool_routing": 2})).floors) == {
        "tool_routing": 2
    }
    message = refused(floors={"tool_ruoting": 2})
    assert "[judge.floors]" in message
    assert "tool_routing" in message
    with pytest.raises(ValueError, match="less than or equal to 5"):
        JudgeConfig(floors={"tool_routing": 6})
