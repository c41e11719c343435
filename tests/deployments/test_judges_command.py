"""`assizes judges`: the listing of judges, the user's own judges included."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command import assizes

FRESH = """
kind = "RETRIEVAL"
name = "fresh"
description = "Are the chunks up to date?"
question = "Does the retrieved chunk speak of this year?"
"""
BRIEF = '''
def brief(case, *, longest: int = 200):
    """Are the agent's turns short?"""
    return []
'''
CONFIG = """
[transcripts]
uri = "cases.jsonl"
[judge]
judges = ["conversation", "own:brief"]
rubrics = ["judges"]
[judge.options.brief]
longest = 100
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "judges").mkdir()
    (tmp_path / "judges" / "fresh.toml").write_text(FRESH, "utf-8")
    (tmp_path / "own.py").write_text(BRIEF, "utf-8")
    (tmp_path / "own.toml").write_text(CONFIG, "utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "own"),
    [
        ((), []),
        (("--rubrics", "judges"), ["fresh"]),
        (("-c", "own.toml"), ["fresh", "brief"]),
        (("-c", "own.toml", "--rubrics", "judges"), ["fresh", "brief"]),
    ],
)
def test_judges_of_ones_own_are_listed_after_the_built_in_ones(folder: Path, arguments, own):
    answer = assizes("judges", *arguments, "--json", cwd=folder)
    notice = "warning: [judge] judges 'own:brief' runs code of the current folder: own.py\n"
    said = f"assizes: {notice}" if "own.toml" in arguments else ""
    assert (answer.code, answer.err) == (0, said)
    listing = json.loads(answer.out)
    names = [judge["name"] for judge in listing]
    assert names[names.index("recorded") + 1 :] == own
    assert listing[-1]["offline"] is (own != ["fresh"])


def test_the_table_shows_own_options_and_who_can_answer(folder: Path):
    answer = assizes("judges", "-c", "own.toml", cwd=folder)
    assert answer.code == 0
    assert all(word in answer.out for word in ("scoring_strategy", "longest", "quality", "fresh"))
    assert "temperature" not in answer.out


def test_a_fault_is_one_line(folder: Path):
    (folder / "judges" / "fresh.toml").write_text(FRESH.replace("fresh", "safety"), "utf-8")
    answer = assizes("judges", "--rubrics", "judges", cwd=folder)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == (
        "assizes: judges/fresh.toml: judge name 'safety' is already taken (a built-in judge); "
        "choose another name; `assizes judges --help` shows its usage\n"
    )
