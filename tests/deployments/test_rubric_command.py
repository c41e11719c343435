"""`assizes rubric test` as a person runs it: tests of the file, cases, labels, another rubric."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.command import Answer, assizes
from tests.deployments.test_align_command import folder  # noqa: F401  # a run with labels
from tests.doubles.fixtures import OPENAI_KEY
from tests.flows.test_align import RUBRIC

MODEL = """
[transcripts]
uri = ""
[judge]
model = "openai/long-hater"
api_base = "{}"
[limits]
ledger = "ledger.db"
"""
LONG = "This is right. " + "More words follow here. " * 20
GUIDELINE = '\n[[guidelines]]\ntitle = "What counts"\ntext = "The length is no fault."\n'


def own_tests(*pairs: tuple[str, str]) -> str:
    return "".join(
        f'\n[[tests]]\nrequest = "Q?"\nresponse = "{text}"\nexpected = "{level}"\n'
        for text, level in pairs
    )


def command(at: Path, *words: str) -> Answer:
    return assizes("rubric", "test", *words, cwd=at, env={"OPENAI_API_KEY": OPENAI_KEY})


@pytest.fixture
def place(tmp_path: Path, judge_server: Any) -> Path:
    (tmp_path / "assizes.toml").write_text(MODEL.format(judge_server.api_base))
    good = own_tests(("This is right.", "yes"), ("This is wrong.", "no"))
    (tmp_path / "good.toml").write_text(RUBRIC + good)
    (tmp_path / "bad.toml").write_text(RUBRIC + good + own_tests((LONG, "yes")))
    return tmp_path


def test_the_exit_code_says_whether_each_test_of_the_file_got_its_level(place: Path):
    good, bad = command(place, "good.toml"), command(place, "bad.toml")
    assert (good.code, bad.code) == (0, 1), (good, bad)
    assert "tests of the file: 2 of 2 passed" in good.out
    assert "FAILED test-3: wanted yes, got no" in bad.out
    assert not list(place.glob("*.duckdb"))


def test_a_rubric_is_compared_with_another_on_the_same_cases(place: Path):
    rows = [f"Q{n}?,{LONG if n % 2 else 'This is right.'},yes" for n in range(24)]
    (place / "c.csv").write_text("\n".join(["request,response,expected", *rows]))
    (place / "new.toml").write_text(RUBRIC + GUIDELINE)
    answer = command(place, "new.toml", "--cases", "c.csv", "--against", "good.toml", "--json")
    assert answer.code == 0, answer
    document = json.loads(answer.out)
    comparison = document["comparison"]
    assert (comparison["right"], comparison["right_against"]) == (1.0, 0.5)
    assert comparison["only_this"] == 12
    assert comparison["p_value"] < 0.01
    assert document["never_given"] == ["no"]


@pytest.mark.full
def test_labels_of_a_stored_run_are_tried_too(folder: Path):  # noqa: F811
    answer = command(folder, "rubrics/helpful.toml", "--run", "latest", "--json")
    assert answer.code == 0, answer
    document = json.loads(answer.out)
    assert document["cases"] == 96
    assert {each["origin"] for each in document["mismatches"]} == {"labels"}
    assert document["wanted"] == ["pass", "fail"]


def test_mistakes_are_one_line_and_nothing_is_asked(place: Path, judge_server: Any):
    judge_server.reset()
    (place / "c.csv").write_text("request,response,expected\nQ?,A.,maybe\n")
    (place / "worse.toml").write_text(RUBRIC + own_tests(("A.", "maybe")))
    wrong = {
        ("gone.toml",): "cannot be read",
        ("groundednes",): (
            "unknown rubric 'groundednes'; known: a rubric file such as rubrics/helpful.toml, "
        ),
        ("good.toml", "--against", "groundednes"): "did you mean 'groundedness'?",
        ("worse.toml",): "none of yes, no",
        ("good.toml", "--cases", "c.csv"): "row 1: expected 'maybe'; accepted: yes, no",
        ("good.toml", "--cases", "gone.csv"): "cannot be read",
        ("good.toml", "--set", "judge.model=offline/lexical"): "no rule for 'helpful'",
    }
    for words, reason in wrong.items():
        answer = command(place, *words)
        assert (answer.code, reason in answer.err) == (2, True), (words, answer)
        assert "Traceback" not in answer.err
    assert judge_server.stats()["requests"] == 0


def test_without_asking_the_text_is_read(place: Path):
    text = RUBRIC.replace("Is it helpful?", "Is it helpful? Longer is better.")
    (place / "long.toml").write_text(text)
    answer = command(place, "long.toml", "--no-ask")
    assert answer.code == 0, answer
    assert "question: 'longer' asks for length or detail" in answer.out
