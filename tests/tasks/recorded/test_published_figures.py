"""Every figure that the authors of the recorded sets printed comes out again, to their decimals."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from assizes.judge.errors import ConfigurationError
from assizes.tasks.recorded import llmbar
from assizes.tasks.recorded.published import (
    PublishedFigure,
    as_printed,
    compared_figures,
    published_figures,
)
from assizes.tasks.recorded.reading import VARIABLE, data_folder
from assizes.tasks.recorded.sets import SETS

FOLDERS = {
    "LLMJudge": "llmjudge_dl23",
    "PandaLM": "pandalm",
    "tau2 airline": "tau2_airline_llm_judges",
    "tau3 truth": "tau3_truth",
    "DevAI": "devai",
    "XSTest": "xstest",
    "ExpertQA": "expertqa",
    "LLMBar": "llmbar",
}
NUMBER = re.compile(r"(?<![\w-])-?(?:\d[\d,]*)?\.?\d+")


@pytest.mark.data
@pytest.mark.parametrize("name", SETS)
def test_ours_equals_the_printed_one(name: str, data: Path):
    figures = list(compared_figures(SETS[name](data)))
    assert figures
    assert [figure for figure in figures if not figure.is_equal] == []


@pytest.mark.data
@pytest.mark.parametrize("name", [name for name in SETS if name != "LLMJudge"])
def test_every_number_in_the_tables_of_a_set_is_held_against_ours(name: str, data: Path):
    # Cells of the tables under the heading of the figures; the first column names the row.
    text = (data / FOLDERS[name] / "SOURCE.md").read_text(encoding="utf-8")
    lines = [line for line in text.partition("## Figures")[2].splitlines() if line.startswith("|")]
    cells = " ".join(" ".join(line.strip("|").split("|")[1:]) for line in lines)
    known = " ".join(v for by in published_figures()[name].values() for v in by.values())
    known += " 1 2"  # the headings of columns name annotators 1 and 2
    assert set(NUMBER.findall(cells)) <= set(NUMBER.findall(known))


@pytest.mark.data
def test_every_comparison_of_llmbar_is_parsed_as_its_authors_did(data: Path):
    figures = llmbar.read(data).figures
    assert figures["comparisons whose winner is parsed as recorded"] == 3756


@pytest.mark.parametrize(
    ("ours", "printed", "text"),
    [
        (0.76319, ".7632", ".7632"),
        (-0.0, ".0000", ".0000"),
        (-0.35714, "-.3571", "-.3571"),
        (4423, "4,423", "4,423"),
        (0.852, "0.85", "0.85"),
        (10.0, "10", "10"),
        ("3/100", "3/100", "3/100"),
    ],
)
def test_ours_is_written_as_the_printed_one(ours, printed, text):
    assert as_printed(ours, printed) == text


def test_another_number_is_not_equal():
    ours = as_printed(0.7633, ".7632")
    figure = PublishedFigure(dataset="d", figure="kappa", by="set", published=".7632", ours=ours)
    assert not figure.is_equal


def test_without_the_data_one_line_says_where_it_would_lie(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "nowhere"))
    with pytest.raises(ConfigurationError, match="set ASSIZES_DATA to the folder"):
        data_folder()
    with pytest.raises(ConfigurationError, match="no folder 'devai'"):
        SETS["DevAI"](tmp_path)
