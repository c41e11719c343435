"""The tutorial as a reader follows it: its scripts, files and commands in order, in one folder."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import Answer, assizes
from tests.test_docs import FENCE

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
OFFLINE = TEXT.partition("\n## 7. ")[0].partition("\n## 2. ")[2]
"""The part that needs neither a key nor a worker, after the installation."""


def follow(folder: Path) -> dict[str, Answer]:
    """Do what the blocks say; the answers of `assizes` by command line."""
    answers: dict[str, Answer] = {}
    for language, text in FENCE.findall(OFFLINE):
        if language == "python":
            (folder / re.findall(r"^# (\w+\.py)$", text, re.MULTILINE)[0]).write_text(text)
        elif language == "toml":
            (folder / "assizes.toml").write_text(text)
        for line in text.splitlines() if language == "sh" else ():
            program, *args = shlex.split(line)
            if program == "python":
                subprocess.run([sys.executable, *args], cwd=folder, check=True)
            else:
                number = sum(key.startswith(line) for key in answers)
                answers[f"{line}{' again' * number}"] = assizes(*args, cwd=folder)
    return answers


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Answer]:
    return follow(tmp_path_factory.mktemp("tutorial"))


def test_every_command_ends_as_the_tutorial_says(answers: dict[str, Answer]):
    codes = {line: answer.code for line, answer in answers.items()}
    assert codes.pop("assizes run --set transcripts.uri=conversations-2/") == 1
    assert set(codes.values()) == {0}, {line: answers[line].err for line in codes}


def test_the_first_run_says_that_task_success_was_not_judged(answers: dict[str, Answer]):
    assert "TASK SUCCESS NOT JUDGED" in answers["assizes run"].out


def test_with_ground_truth_27_of_30_conversations_pass(answers: dict[str, Answer]):
    assert "90.0 %" in answers["assizes run again"].out
    failed = next(answer.out for line, answer in answers.items() if line.startswith("assizes sql"))
    assert re.findall(r"talk-\d\d", failed) == ["talk-00", "talk-10", "talk-20"]


def test_the_second_version_is_a_regression(answers: dict[str, Answer]):
    out = answers["assizes run --set transcripts.uri=conversations-2/"].out
    assert "REGRESSION" in out
    assert "90.0 %" in out
    assert "66.7 %" in out
