"""What the tables say of their own columns: which of them can quote a transcript."""

from __future__ import annotations

import json

import polars as pl
import pytest

from assizes.judge.rows import KEYS, QUOTES_NOTHING, QUOTES_TRANSCRIPT, TABLES, as_json, frame

TEXTS = (pl.String, pl.List(pl.String))
IDS = {"run_id", "case_id"}  # of every table
PSEUDONYMS = {"cluster"}


@pytest.mark.parametrize("table", ["scores", "asks", "cases"])
def test_every_text_column_of_a_case_s_rows_says_whether_it_can_quote_the_transcript(table):
    texts = {name for name, dtype in TABLES[table].items() if dtype in TEXTS}
    quoting, plain = set(QUOTES_TRANSCRIPT[table]), set(QUOTES_NOTHING[table])
    assert not quoting & plain
    assert quoting | plain == texts - IDS - PSEUDONYMS
    assert not quoting & set(KEYS[table])  # a redacted key could be that of another row


KEY = {"run_id": "r", "case_id": "c", "repetition": 0}


@pytest.mark.parametrize(
    ("turns", "stored"), [([1, 2], [1, 2]), ((3,), [3]), ([], []), (None, None)]
)
def test_a_column_of_lists_holds_what_each_row_lists(turns, stored):
    rows = [{**KEY, "metric": "a", "turns": turns}, {**KEY, "metric": "b", "turns": [7]}]
    assert frame("scores", rows)["turns"].to_list() == [stored, [7]]
    assert frame("scores", rows[:1]).schema == frame("scores", []).schema


@pytest.mark.parametrize("turns", [[1.5], ["1"], [2**40], [1, "2"]])
def test_a_column_of_lists_takes_no_members_of_another_type(turns):
    with pytest.raises(TypeError, match="Int32"):
        frame("scores", [{**KEY, "turns": turns}, {**KEY, "turns": [7]}])


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"why": 'ü\u2028 "so" \\ / \x00\x1f\x7f\b\f\n\t', "b": ""},
        {"é": "1", "z": "2", "中": "", "\U0001f600": "x", "\uffff": "y"},
        {"lone": "\ud800"},
        {"pair": "\ud83d\ude00"},
        {2: "a number as a key"},
        {"b": 1e16, "a": [1.5, None, True, "x"]},
        ["a", {"b": "c"}],
        "text",
    ],
)
def test_json_columns_hold_the_same_bytes_whatever_writes_them(value):
    plain = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert as_json(value) == plain
