"""TOML files of custom judges: names, scales, thresholds, and files that are refused."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from assizes.judge.case import Expected
from assizes.judge.catalog import judges_listing, resolve_judges
from assizes.judge.config.judging import JudgeConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.score import Score
from tests.judge.families.custom.custom_judges import (
    CASE,
    EFFORT,
    FRESH,
    POLITE,
    asked,
    heard,
    judge_of,
    parsed_judge,
    rating,
    refused,
    sitting,
    written,
)


def scaled(scale: str, **more: str) -> str:
    rest = "\n".join(f"{name} = {value}" for name, value in more.items())
    lines = [line for line in POLITE.splitlines() if not line.startswith("levels")]
    return "\n".join([*lines, f'scale = "{scale}"', rest])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@pytest.mark.row("004-75")
@pytest.mark.parametrize(
    ("name", "holder"),
    [
        ("safety", "a built-in judge"),
        ("conversation", "a built-in judge"),
        ("tool_routing", "a built-in metric"),
        ("expected_outcomes", None),
    ],
)
def test_a_name_that_is_taken_is_rejected(folder: Path, name: str, holder: str | None):
    where = written(folder, POLITE.replace('"polite"', f'"{name}"'))
    with pytest.raises(ConfigurationError) as error:
        resolve_judges(JudgeConfig(rubrics=(where,)))
    if holder is None:
        assert "name: this name is reserved" in str(error.value)
    else:
        assert str(error.value) == (
            f"{where}/judge_0.toml: judge name {name!r} is already taken ({holder}); "
            "choose another name"
        )


@pytest.mark.row("004-75")
def test_two_files_of_one_name_are_rejected(folder: Path):
    where = written(folder, POLITE, FRESH.replace('"fresh"', '"polite"'))
    with pytest.raises(ConfigurationError, match=r"judge_1\.toml: judge name 'polite' is already"):
        resolve_judges(JudgeConfig(rubrics=(where,)))


def test_judges_and_metrics_share_a_folder(folder: Path):
    tone = """
name = "tone"
display_name = "Tone"
description = "Friendly and calm."
tier = "delivery"
score_type = "binary"
default_weight = 0.2
levels.pass.criteria = "Friendly."
levels.fail.criteria = "Unfriendly."
"""
    bench = sitting(folder, POLITE, judges=("conversation", "polite"), metrics=("tool_routing",))
    assert [metric.name for metric in bench.metrics] == [
        "tool_routing",
        "expected_outcomes",
        "polite",
    ]
    (folder / "tone.toml").write_text(tone, "utf-8")
    config = JudgeConfig(model="openai/m", rubrics=(str(folder),), metrics=("tone",))
    assert resolve_judges(config).weights == {"tone": 1.0}
    (folder / "tone.toml").write_text(tone.replace('"tone"', '"polite"'), "utf-8")
    with pytest.raises(ConfigurationError, match=r"'polite' is already taken \(a metric\)"):
        resolve_judges(config)


@pytest.mark.parametrize(
    ("scale", "word", "found"),
    [
        ("binary", "pass", (1.0, 5.0, "pass", True)),
        ("binary", " FAIL ", (0.0, 0.0, "fail", False)),
        ("scored", "4", (0.8, 4.0, "good", True)),
        ("scored", 3, (0.6, 3.0, "acceptable", True)),
        ("scored", "2", (0.4, 2.0, "poor", False)),
    ],
)
def test_an_answer_can_be_rated_on_other_scales(folder: Path, scale: str, word: Any, found):
    judge = judge_of(folder, scaled(scale))
    assert heard(judge, rating(word)) == [
        Score("polite", "", "scored", *found, details={"rationale": "why"})
    ]


def test_labels_of_ones_own_have_the_values_of_the_file(folder: Path):
    judge = judge_of(folder, EFFORT)
    system = asked(judge).prompt.system
    assert '- rating: one of "nothing", "one step", "much", nothing else' in system
    assert "- one step: One step is." in system
    found = [heard(judge, rating(word))[0] for word in ("nothing", "One Step", "much")]
    assert [(s.label, s.value, s.passed) for s in found] == [
        ("nothing", 1.0, True),
        ("one step", 0.5, True),
        ("much", 0.0, False),
    ]
    assert judge.metrics[0].run_names == ("response/llm_judged/effort/rating/average",)


def test_a_threshold_is_that_of_the_options_then_of_the_file_then_the_usual_one(folder: Path):
    def passes(text: str, **options: Any) -> bool | None:
        return heard(judge_of(folder, text, **options), rating("4"))[0].passed

    assert passes(scaled("scored")) is True
    assert passes(scaled("scored", threshold="0.9")) is False
    assert passes(scaled("scored", threshold="0.9"), threshold=0.8) is True
    assert passes(scaled("scored", threshold="0.9"), threshold=0.0) is True


def test_the_reply_of_a_graded_judge_asks_for_the_rationale_first(folder: Path):
    reply = asked(judge_of(folder, EFFORT)).reply
    schema = reply.model_json_schema()
    assert list(schema["properties"]) == schema["required"] == ["rationale", "rating"]
    assert schema["properties"]["rating"]["enum"] == ["nothing", "one step", "much"]
    assert schema["additionalProperties"] is False
    with pytest.raises(ValueError, match="rating"):
        reply.model_validate(rating("some"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (POLITE.replace("question", "ask"), "it.toml: ask: no such key; accepted: kind, name,"),
        (POLITE + "colour = 1", "it.toml: colour: no such key; accepted: kind, name,"),
        (POLITE.replace('"polite"', '"Polite"'), "a name is snake_case"),
        (POLITE.replace("levels.no", "levels.maybe"), "do not fit the scale, wanted yes, no"),
        (
            scaled("binary", threshold="0.5"),
            "threshold: the scale 'binary' passes by its own words",
        ),
        (scaled("labelled"), "a labelled scale has two or more labels, each with value"),
        (EFFORT.replace("value = 0.5, ", ""), "two or more labels, each with value"),
        (EFFORT.replace("value = 0.5", "value = 1.5"), "less than or equal to 1 (given: 1.5)"),
        (POLITE + "levels.yes.value = 1.0", "only a labelled scale has values, not 'yes_no'"),
        (FRESH + 'scale = "scored"', "a RETRIEVAL judge rates chunks with yes or no"),
        (POLITE + 'needs = ["reponse"]', "must be 'request', 'response'"),
        ("kind =", "it.toml: not TOML: Invalid value"),
    ],
)
def test_a_file_that_cannot_be_a_judge_is_refused_in_one_line(text: str, message: str):
    assert message in refused(text)


def test_it_needs_what_its_file_says_and_shows_more_where_there_is_more(folder: Path):
    text = POLITE + 'needs = ["response", "expected_response"]\nshows = ["retrieved_context"]'
    judge = judge_of(folder, text)
    assert judge.missing(CASE) == "missing input: expected_response (or expected_facts)"
    one = CASE.model_copy(update={"expected": Expected(response="It ships soon.")})
    assert judge.missing(one) is None
    user_text = asked(judge, one).prompt.user
    assert "<data: Retrieved context>" in user_text
    assert "<data: Expected response>\nIt ships soon.\n</data>" in user_text
    assert "Where is my order?" not in user_text


@pytest.mark.parametrize("text", [POLITE, FRESH, EFFORT])
def test_the_offline_judge_is_refused_before_the_run(folder: Path, text: str):
    name = parsed_judge(text, "it.toml").name
    with pytest.raises(ConfigurationError) as error:
        sitting(folder, text, model=None)
    assert str(error.value) == (
        f"[judge] judges: the offline judge has no rule for {name!r}; set [judge] model, or model "
        f"in [judge.options.{name}], to a language model"
    )
    own = {name: {"model": "openai/m"}}
    assert (
        sitting(folder, text, model=None, options=own).ensembles[name].models[0].model_id
        == "openai/m"
    )


def test_a_changed_word_of_the_file_changes_the_hash(folder: Path):
    hashes = {
        judge_of(folder, text).metrics[0].rubric_hash
        for text in (POLITE, POLITE.replace("polite?", "kind?"), POLITE.replace("It is.", "Is."))
    }
    assert len(hashes) == 2


def test_they_are_listed_with_their_needs_and_options(folder: Path):
    where = written(folder, EFFORT, FRESH)
    effort, fresh = judges_listing(JudgeConfig(rubrics=(where,)))[-2:]
    assert effort == {
        "name": "effort",
        "description": "How little effort does the answer ask of the user?",
        "metrics": ["effort"],
        "needs": ["request", "response"],
        "needs_ground_truth": False,
        "step": "response",
        "scale": ["fraction"],
        "gate": "quality",
        "offline": False,
        "options": {"model": None, "temperature": None, "threshold": None},
    }
    assert (fresh["step"], fresh["needs"]) == ("retrieval", ["request", "retrieved_context"])


def test_a_court_with_them_can_be_sent_to_another_process(folder: Path):
    bench = pickle.loads(pickle.dumps(sitting(folder, POLITE, FRESH, EFFORT)))
    assert [judge.name for judge in bench.judges] == ["polite", "fresh", "effort"]
    assert heard(bench.judges[2], rating("much"))[0].passed is False
