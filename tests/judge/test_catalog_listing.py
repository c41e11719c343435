"""The listings of metrics and judges, and the options of judges."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from assizes.judge.catalog import (
    available_metrics,
    fingerprints,
    judges_listing,
    metrics_listing,
    resolve_judges,
)
from assizes.judge.config.judging import JudgeConfig
from assizes.judge.engine.ensemble import Ensemble
from assizes.judge.rubrics.rubric import BUILT_IN
from tests.judge.catalog_cases import refused, select, weights

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
    resolved = weights(
        select("tool_routing", 0.6), "tone", rubrics=(folder,), model="openai/gpt-4.1"
    )
    assert resolved == pytest.approx({"tool_routing": 0.75, "tone": 0.25})


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
    "diagnosis",
    "run_criteria",
    "recorded",
]


def listed() -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in judges_listing()}


def test_the_judges_are_listed_in_the_order_of_the_documents():
    assert list(listed()) == JUDGE_ORDER
    assert listed()["conversation"]["metrics"] == [*BUILT_IN, "expected_outcomes"]
    assert all(row["description"] and row["metrics"] and row["scale"] for row in listed().values())


def test_every_built_in_judge_can_be_answered_offline_and_all_can_sit_together():
    assert {row["offline"] for row in listed().values()} == {True}
    bench = resolve_judges(JudgeConfig(judges=tuple(JUDGE_ORDER)))
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
    row = listed()[name]
    assert (row["step"], row["needs"], row["needs_ground_truth"]) == (step, needs, ground_truth)
    assert row["description"].endswith("?")


@pytest.mark.row("002-10", "002-11", "002-12", "002-13", "003-02")
def test_the_listing_gives_each_option_with_its_default():
    thresholds = {
        name: row["options"]["threshold"]
        for name, row in listed().items()
        if "threshold" in row["options"]
    }
    assert thresholds == {
        "sql": 0.7,
        "search": 0.6,
        "visualization": 0.7,
        "response_quality": 0.7,
        "trajectory": 0.7,
        "answer_criteria": 0.5,
        "answer_completeness": 0.5,
        "run_criteria": 1.0,
    }
    assert listed()["recorded"]["options"] == {"model": None, "temperature": None}


def test_the_listing_says_which_judges_decide_over_a_case():
    gates = {name: row["gate"] for name, row in listed().items()}
    assert [name for name, gate in gates.items() if gate == "judges"] == [
        *JUDGE_ORDER[1:8],
        "run_criteria",
    ]
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
    models = {name: jury.models[0] for name, jury in resolve_judges(config).ensembles.items()}
    assert models.pop("conversation") == config
    assert {
        name: (model.model_id, model.temperature, model.api_base) for name, model in models.items()
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
    assert (
        resolve_judges(JudgeConfig(judges=judges, model="m", options=options)).model_ids
        == model_ids
    )


def test_an_option_equal_to_the_runs_makes_no_model_of_its_own():
    config = JudgeConfig(judges=("safety",), model="m", options={"safety": {"model": "m"}})
    assert resolve_judges(config).ensembles == {"safety": Ensemble((config,))}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"sql": {}},
            "[judge.options.sql]: 'sql' is not among judges ['safety']; add it to [judge] judges",
        ),
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
    chosen = resolve_judges(
        JudgeConfig(metrics=("tool_routing",), judges=("conversation", "recorded"))
    )
    routing = available_metrics()[0]
    assert fingerprints(chosen) == {
        "judge:conversation": "4",
        "judge:recorded": "1",
        "metric:tool_routing": routing.rubric_hash,
    }


def test_a_court_can_be_sent_to_another_process():
    chosen = resolve_judges(JudgeConfig(judges=("conversation", "recorded")))
    assert fingerprints(pickle.loads(pickle.dumps(chosen))) == fingerprints(chosen)
