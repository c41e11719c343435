"""Ids of cases in CSV files, and which case of a run each of them is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assizes.judge.labels.cell_text import case_reader, cell_text, text_of_cell

HELD = ("-5", "plain", " lead", "x 1", "x  1", "zero\u200bwidth", "one\u200bin", "one\u200cin")


@pytest.mark.parametrize(
    ("cell", "case_id"),
    [
        ("'-5", "-5"),
        ("-5", "-5"),
        (" plain ", "plain"),
        (" lead", " lead"),
        ("x  1", "x  1"),
        ("zero width", "zero\u200bwidth"),
        ("one in", "one in"),  # two cases are written so
        ("'-6", "'-6"),  # the run has no such case
        ("'plain", "'plain"),  # nothing that a spreadsheet would calculate
    ],
)
def test_a_cell_is_the_case_that_is_written_so(cell: str, case_id: str):
    assert case_reader(HELD)(cell) == case_id


def test_an_exact_id_wins_over_one_that_is_written_the_same():
    assert case_reader(("-5", "'-5"))("'-5") == "'-5"


def test_without_a_run_only_blanks_are_dropped():
    assert case_reader(())(" '-5 ") == "'-5"


@given(st.text(min_size=1))
def test_every_case_is_found_by_what_is_written_of_it(case_id: str):
    assert case_reader((case_id,))(cell_text(case_id)) == case_id


@pytest.mark.parametrize("text", ["-5", "=1", "plain", "it's", "", "  @x"])
def test_a_text_comes_back_without_the_apostrophe_it_was_given(text: str):
    assert text_of_cell(cell_text(text)) == text
