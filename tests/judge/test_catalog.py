from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.catalog import (
    JUDGES,
    available_metrics,
    court,
    fingerprints,
    judges_listing,
    metrics_listing,
    resolved_weights,
)
from judge.config import JudgeConfig, MetricSelection
from judge.errors import ConfigurationError
from judge.jury import Jury
from judge.protocol import Judge
from judge.rubric import BUILT_IN
from judge.score import Metric

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

TONE = """
name = "tone"
display_name = "Tone"
description = "Friendly and calm."
tier = "delivery"
score_type = "binary"
default_weight = 0.2
levels.pass.criteria = "Friendly."
levels.fail.criteria = "Unfriendly."
"""


@pytest.fixture
def folder(tmp_path: Path) -> str:
    (tmp_path / "tone.toml").write_text(TONE, "utf-8")
    return str(tmp_path)


def weights(*metrics: Any, **rest: Any) -> dict[str, float]:
    return dict(court(JudgeConfig(metrics=metrics or None, **rest)).weights)


def refused(*metrics: Any, **rest: Any) -> str:
    with pytest.raises(ConfigurationError) as error:
        weights(*metrics, **rest)
    assert "\n" not in str(error.value)
    return str(error.value)


def select(metric: str, weight: float | None = None) -> MetricSelection:
    return MetricSelection(metric=metric, weight=weight)


@pytest.mark.row("000-17", "000-18", "000-29", "000-35")
@pytest.mark.parametrize("metrics", [None, []])
def test_without_a_selection_the_eight_defaults_are_judged(metrics):
    found = court(JudgeConfig(metrics=metrics)).weights
    assert found == pytest.approx(DEFAULTS, abs=1e-9)
    assert list(found) == list(DEFAULTS)
    assert sum(found.values()) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.row("000-32")
def test_the_documents_example_is_normalised():
    assert weights(select("tool_routing", 1.0), select("task_completion", 0.5)) == pytest.approx(
        {"tool_routing": 2 / 3, "task_completion": 1 / 3}
    )


@pytest.mark.row("000-34", "000-39", "001-24")
@pytest.mark.parametrize(
    ("given", "shares"),
    [
        ((None, None), (0.6, 0.4)),
        ((2, 2), (0.5, 0.5)),
        ((3, 1), (0.75, 0.25)),
        ((None, 0.15), (0.5, 0.5)),
        ((1, 0), (1.0, 0.0)),
    ],
)
def test_weights_default_and_are_renormalised(given, shares):
    found = weights(select("tool_routing", given[0]), select("response_delivery", given[1]))
    assert tuple(found.values()) == pytest.approx(shares, abs=1e-9)


@pytest.mark.row("000-44")
def test_an_explicit_weight_of_zero_is_judged_and_contributes_nothing():
    chosen = court(JudgeConfig(metrics=(select("tool_routing", 1), select("task_completion", 0))))
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
    one, other = (
        weights("tool_routing", "response_delivery"),
        weights("response_delivery", "tool_routing"),
    )
    assert list(one) == list(other) == ["tool_routing", "response_delivery"]


@given(
    st.lists(st.floats(0, 1e9, allow_subnormal=False), min_size=9, max_size=9).filter(
        lambda found: sum(found) > 0
    )
)
def test_normalised_weights_sum_to_one_and_keep_their_ratios(given):
    known = [Metric(name) for name in BUILT_IN]
    chosen = [select(name, weight) for name, weight in zip(BUILT_IN, given, strict=True)]
    found = resolved_weights(chosen, known)
    assert sum(found.values()) == pytest.approx(1.0, abs=1e-9)
    total = sum(given)
    assert [share * total for share in found.values()] == pytest.approx(given)


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
    chosen = court(JudgeConfig(judges=("recorded",), pass_threshold=50))
    assert chosen.weights == {}
    assert [metric.name for metric in chosen.metrics] == ["recorded_reward"]
    assert chosen.pass_threshold == 50


def test_judges_sit_in_the_order_given():
    chosen = court(JudgeConfig(judges=("recorded", "conversation")))
    assert [judge.name for judge in chosen.judges] == ["recorded", "conversation"]
    assert all(isinstance(judge, Judge) for judge in chosen.judges)


@pytest.mark.row("000-48", "000-49")
def test_the_listing_has_the_documents_fields_for_all_nine():
    listing = metrics_listing()
    assert listing["count"] == 9
    assert [entry["name"] for entry in listing["data"]] == list(BUILT_IN)
    assert {tuple(entry) for entry in listing["data"]} == {
        (
            "name",
            "display_name",
            "description",
            "tier",
            "default_weight",
            "score_type",
            "rubric",
            "include_in_defaults",
        )
    }
    assert all(entry["rubric"].count("\n") >= 1 for entry in listing["data"])


@pytest.mark.row("000-50", "000-51")
def test_the_listing_opens_and_ends_with_the_documented_values():
    first, *_, last = metrics_listing()["data"]
    del first["rubric"], last["rubric"]
    assert first == {
        "name": "tool_routing",
        "display_name": "Tool Routing",
        "description": "Correct tool names and call sequence.",
        "tier": "execution",
        "default_weight": 0.15,
        "score_type": "scored",
        "include_in_defaults": True,
    }
    assert last == {
        "name": "task_completion",
        "display_name": "Task Completion",
        "description": "Whether the agent completed the primary task from expected_outcomes.",
        "tier": "execution",
        "default_weight": 0.0,
        "score_type": "binary",
        "include_in_defaults": False,
    }


@pytest.mark.row("000-52")
def test_a_custom_metric_is_listed_and_can_be_selected(folder: str):
    assert metrics_listing([folder])["count"] == 10
    found = weights(select("tool_routing", 0.6), "tone", rubrics=(folder,), model="openai/gpt-4.1")
    assert found == pytest.approx({"tool_routing": 0.75, "tone": 0.25})


def test_the_offline_judge_refuses_custom_metrics(folder: str):
    assert refused("tool_routing", "tone", rubrics=(folder,)) == (
        "[judge] metrics: the offline judge has no rule for 'tone'; "
        "set [judge] model to a language model, or choose built-in metrics only"
    )
    assert weights("tool_routing", rubrics=(folder,)) == {"tool_routing": 1.0}


JUDGE_ORDER = [
    "conversation",
    "sql",
    "search",
    "visualization",
    "response_quality",
    "trajectory",
    "answer_criteria",
    "answer_completeness",
    "relevance_to_query",
    "groundedness",
    "safety",
    "correctness",
    "context_sufficiency",
    "chunk_relevance",
    "document_recall",
    "agent_usage",
    "recorded",
]


def listed() -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in judges_listing()}


def test_the_judges_are_listed_in_the_order_of_the_documents():
    assert list(listed()) == JUDGE_ORDER
    assert listed()["conversation"]["metrics"] == [*BUILT_IN, "expected_outcomes"]
    assert all(one["description"] and one["metrics"] and one["scale"] for one in listed().values())


def test_every_built_in_judge_can_be_answered_offline_and_all_can_sit_together():
    assert {one["offline"] for one in listed().values()} == {True}
    bench = court(JudgeConfig(judges=tuple(JUDGE_ORDER)))
    assert [judge.name for judge in bench.judges] == JUDGE_ORDER


@pytest.mark.row("004-13")
@pytest.mark.parametrize(
    ("name", "step", "needs", "ground_truth"),
    [
        ("relevance_to_query", "response", ["request", "response"], False),
        ("groundedness", "response", ["request", "response", "retrieved_context"], False),
        ("safety", "response", ["response"], False),
        ("correctness", "response", ["request", "response", "expected.response"], True),
        ("chunk_relevance", "retrieval", ["request", "retrieved_context"], False),
        (
            "context_sufficiency",
            "retrieval",
            ["request", "retrieved_context", "expected.response"],
            True,
        ),
        (
            "document_recall",
            "retrieval",
            ["retrieved_context", "expected.retrieved_context"],
            True,
        ),
    ],
)
def test_the_listing_gives_step_aspect_inputs_and_ground_truth(name, step, needs, ground_truth):
    one = listed()[name]
    assert (one["step"], one["needs"], one["needs_ground_truth"]) == (step, needs, ground_truth)
    assert one["description"].endswith("?")


@pytest.mark.row("002-10", "002-11", "002-12", "002-13", "003-02")
def test_the_listing_gives_each_option_with_its_default():
    thresholds = {
        name: one["options"]["threshold"]
        for name, one in listed().items()
        if "threshold" in one["options"]
    }
    assert thresholds == {
        "sql": 0.7,
        "search": 0.6,
        "visualization": 0.7,
        "response_quality": 0.7,
        "trajectory": 0.7,
        "answer_criteria": 0.5,
        "answer_completeness": 0.5,
    }
    assert listed()["recorded"]["options"] == {"model": None, "temperature": None}


def test_the_listing_says_which_judges_decide_over_a_case():
    gates = {name: one["gate"] for name, one in listed().items()}
    assert [name for name, gate in gates.items() if gate == "judges"] == JUDGE_ORDER[1:8]
    assert [name for name, gate in gates.items() if gate == "quality"] == JUDGE_ORDER[8:14]
    assert gates["conversation"] is gates["document_recall"] is None


@pytest.mark.row("002-04")
def test_a_judge_can_have_a_model_and_a_temperature_of_its_own():
    config = JudgeConfig(
        judges=("conversation", "safety", "correctness", "sql"),
        provider="openai",
        model="m",
        api_base="http://127.0.0.1:1/v1",
        options={
            "safety": {"model": "small"},
            "correctness": {"temperature": 0.7},
            "sql": {"model": "offline/lexical", "threshold": 0.9},
        },
    )
    models = {name: jury.models[0] for name, jury in court(config).juries.items()}
    assert models.pop("conversation") == config
    assert {
        name: (one.model_id, one.temperature, one.api_base) for name, one in models.items()
    } == {
        "safety": ("openai/small", None, "http://127.0.0.1:1/v1"),
        "correctness": ("openai/m", 0.7, "http://127.0.0.1:1/v1"),
        "sql": ("offline/lexical", None, None),
    }


@pytest.mark.parametrize(
    ("judges", "own", "model_ids"),
    [
        (("safety", "sql"), {}, ("m",)),
        (("safety", "sql"), {"sql": "a"}, ("m", "a")),
        (("safety", "sql"), {"sql": "z", "safety": "a"}, ("a", "z")),
        (("safety", "sql"), {"sql": "m"}, ("m",)),
        (("safety", "sql"), {"sql": "offline/lexical"}, ("m", "offline/lexical")),
        (("safety", "recorded"), {"safety": "a"}, ("a",)),
        (("safety", "trajectory", "document_recall"), {"safety": "a"}, ("a",)),
        (("recorded",), {}, ("m",)),
    ],
)
def test_the_models_that_answer_are_known_each_once_the_shared_one_first(judges, own, model_ids):
    options = {name: {"model": model} for name, model in own.items()}
    assert court(JudgeConfig(judges=judges, model="m", options=options)).model_ids == model_ids


def test_an_option_equal_to_the_runs_makes_no_model_of_its_own():
    config = JudgeConfig(judges=("safety",), model="m", options={"safety": {"model": "m"}})
    assert court(config).juries == {"safety": Jury((config,))}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sql": {}}, "[judge.options.sql]: 'sql' is not among judges ['safety']"),
        (
            {"safety": {"threshold": 1}},
            "[judge.options.safety] threshold: Extra inputs are not permitted (given 1); "
            "options: model, temperature",
        ),
        (
            {"safety": {"temperature": 3}},
            "[judge.options.safety] temperature: Input should be less than or equal to 2 (given 3);"
            " options: model, temperature",
        ),
    ],
)
def test_options_are_those_of_a_chosen_judge(options, message: str):
    assert refused(judges=("safety",), options=options) == message


def test_the_offline_judge_refuses_custom_metrics_whoever_else_has_a_model(folder: str):
    own = {"safety": {"model": "openai/m"}}
    assert "no rule for 'tone'" in refused(
        "tone", rubrics=(folder,), judges=("conversation", "safety"), options=own
    )
    assert weights("tone", rubrics=(folder,), options={"conversation": {"model": "openai/m"}}) == {
        "tone": 1.0
    }


def test_fingerprints_name_judge_versions_and_rubric_hashes():
    chosen = court(JudgeConfig(metrics=("tool_routing",), judges=("conversation", "recorded")))
    routing = available_metrics()[0]
    assert fingerprints(chosen) == {
        "judge:conversation": "3",
        "judge:recorded": "1",
        "metric:tool_routing": routing.rubric_hash,
    }


def test_a_court_can_be_sent_to_another_process():
    chosen = court(JudgeConfig(judges=("conversation", "recorded")))
    assert fingerprints(pickle.loads(pickle.dumps(chosen))) == fingerprints(chosen)
