"""README and docs are plain sentences in short lines, and the decisions can be found."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
DECISIONS = ROOT / "docs" / "decisions.md"
LONGEST_LINE = 200

FORMER_SENTENCES = (
    "and what own rules find.",
    "takes them up, on as many machines as it takes",
    "spent by the ledger",
    "in no row of this run",
    "false finds held at",
    "nothing is decided here",
    "the interval lies over minus",
    "so that false alarms do not multiply",
    "the longest chain of model calls is taken",
    "what a later one tells again counts once",
    "counts with the run they took up",
    "leaves its flow runs at work where their processes live on",
    "died with it the heartbeat tells",
    "the documents' rules",
    "by the documents",
)
"""Parts of sentences that readers could not understand, as they stood on these pages."""

UNCLEAR_WORDS = re.compile(r"\b(sittings?|seats it|held against|set beside|who is heard)\b")
"""Words of our own, or idioms, for which there is a plain one."""


def prose(page: Path) -> str:
    """The text of a page without code, its lines joined."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return re.sub(r"\s+", " ", text)


def test_no_line_of_a_page_is_over_200_characters():
    long = [
        f"{page.relative_to(ROOT)}:{number}"
        for page in PAGES
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > LONGEST_LINE
    ]
    assert long == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_holds_a_sentence_that_readers_did_not_understand(page: Path):
    text = prose(page)
    assert [former for former in FORMER_SENTENCES if former in text] == []
    assert UNCLEAR_WORDS.findall(text) == []


def test_figures_of_speed_stand_on_the_performance_page_alone():
    speed = re.compile(r"ms of CPU|\d (cases|asks|rows) a second|\d MiB\b|goal: at most .* s\b")
    found = {page.name for page in PAGES if speed.search(prose(page))}
    assert found == {"performance.md"}


def test_every_decision_has_a_heading_under_a_subject_and_a_line_in_the_index():
    text = DECISIONS.read_text(encoding="utf-8")
    body, _, index = text.partition("\n## Index\n")
    headings = re.findall(r"^### (\d+)\. (.+)$", body, re.M)
    assert sorted(int(number) for number, _ in headings) == list(range(1, len(headings) + 1))
    assert len(headings) > 130
    assert re.findall(r"^- \[(\d+)\. (.+)\]\(#\1-[\w-]+\)$", index, re.M) == sorted(
        headings, key=lambda heading: int(heading[0])
    )
    subjects = re.findall(r"^## (.+)$", body, re.M)[1:]
    table = dict(re.findall(r"^\| \[([^]]+)\]\(#[\w-]+\) \| ([\d, ]+) \|$", body, re.M))
    assert list(table) == subjects
    for subject in subjects:
        section = body.split(f"\n## {subject}\n")[1].split("\n## ")[0]
        assert table[subject] == ", ".join(re.findall(r"^### (\d+)\.", section, re.M))


def test_the_readme_can_be_read_in_five_minutes_and_begins_with_the_install_line_and_the_picture():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    first = text.splitlines()[:14]
    assert any("pip install assizes" in line for line in first)
    assert any(line.startswith("![") for line in first)
    assert len(prose(ROOT / "README.md").split()) < 1200  # 240 words a minute
    for answer in ("Who it is for", "takes about", "MLflow", "Langfuse", "promptfoo", "Inspect"):
        assert answer in text
