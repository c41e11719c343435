from __future__ import annotations

from pathlib import Path

import pytest

from assizes.judge.errors import ConfigurationError
from assizes.judge.rubrics.rubric import (
    BINARY_LEVELS,
    BUILT_IN,
    SCORED_LEVELS,
    Rubric,
    built_in_rubrics,
    metric_of,
    parse_rubric,
    rubric_section,
    rubrics,
)
from assizes.judge.score import Scale

DESCRIPTIONS = {
    "tool_routing": "Correct tool names and call sequence.",
    "parameter_extraction": "Argument values correctly extracted from conversation for tools.",
    "result_interpretation": "Tool output accurately reflected in agent response.",
    "grounding_fidelity": "Every agent claim traceable to context, tools, or business rules.",
    "instruction_compliance": "Agent follows explicit rules from system prompt and business rules.",
    "information_gathering": "Required info collected before action; previously stated info reused.",
    "conversation_management": "Ambiguity handling, error recovery, and conversation closure.",
    "response_delivery": "Concise, natural, TTS-friendly, non-repetitive responses.",
    "task_completion": "Whether the agent completed the primary task from expected_outcomes.",
}

TONE = """
name = "tone"
display_name = "Tone"
description = "Friendly and calm."
tier = "delivery"
score_type = "binary"
default_weight = 0.2

[levels.pass]
criteria = "Friendly throughout."
example = "Thanks the user."

[levels.fail]
criteria = "Unfriendly."
"""


def built_in(name: str) -> Rubric:
    return next(rubric for rubric in built_in_rubrics() if rubric.name == name)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tone.toml").write_text(TONE, "utf-8")
    return tmp_path


def one_line(error: pytest.ExceptionInfo[ConfigurationError]) -> str:
    message = str(error.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("name", "display_name", "tier", "weight", "score_type", "default"),
    [
        pytest.param(*row, marks=pytest.mark.row(*ids))
        for ids, row in [
            (
                ("000-12", "000-19"),
                ("tool_routing", "Tool Routing", "execution", 0.15, "scored", True),
            ),
            (
                ("000-12", "000-20"),
                ("parameter_extraction", "Parameter Extraction", "execution", 0.15, "scored", True),
            ),
            (
                ("000-12", "000-21"),
                (
                    "result_interpretation",
                    "Result Interpretation",
                    "execution",
                    0.15,
                    "scored",
                    True,
                ),
            ),
            (
                ("000-13", "000-22"),
                ("grounding_fidelity", "Grounding Fidelity", "knowledge", 0.125, "scored", True),
            ),
            (
                ("000-13", "000-23"),
                (
                    "instruction_compliance",
                    "Instruction Compliance",
                    "knowledge",
                    0.125,
                    "scored",
                    True,
                ),
            ),
            (
                ("000-14", "000-24"),
                ("information_gathering", "Information Gathering", "process", 0.1, "scored", True),
            ),
            (
                ("000-14", "000-25"),
                (
                    "conversation_management",
                    "Conversation Management",
                    "process",
                    0.1,
                    "scored",
                    True,
                ),
            ),
            (
                ("000-15", "000-26"),
                ("response_delivery", "Response Delivery", "delivery", 0.1, "scored", True),
            ),
            (
                ("000-12", "000-30"),
                ("task_completion", "Task Completion", "execution", 0.0, "binary", False),
            ),
        ]
    ],
)
def test_a_built_in_rubric_is_as_documented(name, display_name, tier, weight, score_type, default):
    rubric = built_in(name)
    shown = (
        rubric.name,
        rubric.display_name,
        rubric.tier,
        rubric.default_weight,
        rubric.score_type,
        rubric.include_in_defaults,
    )
    assert shown == (name, display_name, tier, weight, score_type, default)
    assert set(rubric.levels) == set(SCORED_LEVELS if score_type == "scored" else BINARY_LEVELS)
    assert all(level.criteria and level.example for level in rubric.levels.values())


@pytest.mark.row("000-27")
def test_the_descriptions_are_the_documents_measures_lines():
    assert {r.name: r.description for r in built_in_rubrics()} == DESCRIPTIONS


@pytest.mark.row("000-19")
def test_level_texts_are_the_documents_criteria():
    levels = built_in("tool_routing").levels
    assert [levels[key].criteria for key in SCORED_LEVELS] == [
        "All expected tools called in correct sequence. No unnecessary calls.",
        "All critical tools called. Minor sequence deviation or one redundant call.",
        "One expected tool missed OR one wrong tool called, but core flow mostly intact.",
        "Multiple tool errors. Flow significantly impacted but partially functional.",
        "Most tool calls incorrect or missing. Only 1 of N expected tools called.",
        "No tools called when required, or entirely wrong tool set used.",
    ]


@pytest.mark.row("000-20")
def test_parameter_extraction_says_that_only_called_tools_are_scored():
    assert "only calls that were made" in rubric_section(built_in("parameter_extraction"))


@pytest.mark.row("000-26")
def test_response_delivery_level_three_names_two_questions_in_a_turn():
    assert "2+ questions in one turn" in built_in("response_delivery").levels["3"].criteria


@pytest.mark.row("000-11")
def test_tiers_and_score_types_are_closed_sets():
    text = TONE.replace('"delivery"', '"mood"')
    with pytest.raises(ConfigurationError, match=r"tier.*given: 'mood'"):
        parse_rubric(text, "tone.toml")
    assert {r.tier for r in built_in_rubrics()} == {
        "execution",
        "knowledge",
        "process",
        "delivery",
    }


@pytest.mark.row("000-63")
def test_a_score_type_is_scored_or_binary():
    with pytest.raises(ConfigurationError, match=r"score_type.*given: 'yes_no'"):
        parse_rubric(TONE.replace('"binary"', '"yes_no"'), "tone.toml")
    assert {r.score_type for r in built_in_rubrics()} == {"scored", "binary"}


def test_the_prompt_shows_the_examples_a_rubric_names_and_all_by_default():
    tone = parse_rubric(TONE, "tone.toml")
    assert rubric_section(tone) == (
        "## tone (pass/fail)\n"
        "Friendly and calm.\n"
        "pass: Friendly throughout. E.g. Thanks the user.\n"
        "fail: Unfriendly."
    )
    none = parse_rubric(TONE.replace("\n[levels.pass]", "prompt_examples = []\n[levels.pass]"), "")
    assert "E.g." not in rubric_section(none)
    routing = built_in("tool_routing")
    examples = [f"E.g. {routing.levels[key].example}" for key in SCORED_LEVELS]
    assert [example in rubric_section(routing) for example in examples] == [
        key == "3" for key in SCORED_LEVELS
    ]


def test_a_metric_carries_the_whole_rubric_and_its_hash():
    metric = metric_of(parse_rubric(TONE, "tone.toml"))
    assert metric.scale is Scale.BINARY
    assert metric.rubric == "pass: Friendly throughout. E.g. Thanks the user.\nfail: Unfriendly."
    assert metric.rubric_hash == parse_rubric(TONE, "elsewhere.toml").content_hash()


def test_the_hash_follows_the_content_and_not_its_layout():
    tone = parse_rubric(TONE, "tone.toml").content_hash()
    comment = parse_rubric(f"# a comment\n\n{TONE}", "tone.toml").content_hash()
    changed = parse_rubric(TONE.replace("Unfriendly.", "Unfriendly!"), "tone.toml").content_hash()
    assert len(tone) == 16
    assert comment == tone
    assert changed != tone


def test_folders_add_to_the_built_in_rubrics(folder: Path):
    assert [rubric.name for rubric in rubrics([str(folder)])] == [*BUILT_IN, "tone"]


@pytest.mark.row("000-52")
@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('"tone"', '"Bad Name"', "name: a name is snake_case"),
        ('"tone"', '"model_dump"', "this name is reserved"),
        ('"tone"', '"expected_outcomes"', "this name is reserved"),
        ("default_weight = 0.2", "wieght = 0.2", "wieght: no such key; accepted: name,"),
        (
            "default_weight = 0.2",
            "default_weight = 0.2\nx = 1",
            "x: no such key; accepted: name, display_name,",
        ),
        ("default_weight = 0.2", "default_weight = -1", "greater than or equal to 0"),
        (
            "default_weight = 0.2",
            "default_weight = nan",
            "default_weight: must be a finite number (given: nan)",
        ),
        ("default_weight = 0.2", 'default_weight = "0.2"', "must be a number (given: '0.2')"),
        (
            "default_weight = 0.2",
            "default_weight = 0\ninclude_in_defaults = true",
            "include_in_defaults needs a default_weight above 0",
        ),
        ("[levels.fail]", "[levels.bad]", "levels ['bad', 'pass'] do not fit"),
        ('name = "tone"', 'name = "tone"\nprompt_examples = ["3"]', "prompt_examples ['3']"),
        ('criteria = "Unfriendly."', "", "levels.fail.criteria: required"),
        ('"tone"', "tone", "not TOML"),
        ('"tone"', '"tool_routing"', "already taken (built in)"),
    ],
)
def test_a_rubric_that_cannot_be_used_is_refused_with_file_and_reason(
    folder: Path, old: str, new: str, reason: str
):
    (folder / "tone.toml").write_text(TONE.replace(old, new, 1), "utf-8")
    with pytest.raises(ConfigurationError) as error:
        rubrics([str(folder)])
    assert reason in one_line(error)
    assert one_line(error).startswith(str(folder / "tone.toml"))


def test_two_files_cannot_define_one_metric(folder: Path):
    (folder / "tone2.toml").write_text(TONE, "utf-8")
    with pytest.raises(ConfigurationError, match=r"tone2\.toml.*already taken \(.*tone\.toml\)"):
        rubrics([str(folder)])


def test_a_file_that_is_not_text_is_refused(folder: Path):
    (folder / "tone.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match=r"tone\.toml: cannot be read: 'utf-8' codec"):
        rubrics([str(folder)])


def test_a_folder_must_exist_and_hold_a_rubric(tmp_path: Path):
    with pytest.raises(ConfigurationError, match="is not a folder"):
        rubrics([str(tmp_path / "absent")])
    with pytest.raises(ConfigurationError, match=r"no \.toml file in folder"):
        rubrics([str(tmp_path)])
