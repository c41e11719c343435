"""What the tables say of their own columns: which of them can quote a transcript."""

from __future__ import annotations

import polars as pl
import pytest

from assizes.judge.rows import KEYS, QUOTES_NOTHING, QUOTES_TRANSCRIPT, TABLES

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
