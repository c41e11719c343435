"""Which edits of causes count, and how failures are shared out between what people split or merged."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest

from assizes.judge.causes.edited_identity import find_edited_causes, with_split
from assizes.judge.causes.edits import CauseEdits, CauseSplit, current_edits, edits_of, is_circle
from assizes.judge.rows import PEOPLE_TABLES
from tests.judge.causes.test_causes import REFUND, TONE, TOTAL, failed, known_as

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def edits(*rows: tuple[Any, ...]) -> pl.DataFrame:
    """Rows of table cause_edits: cause, kind, value, and more columns; their ids are e0, e1, ..."""
    full = [
        dict.fromkeys(PEOPLE_TABLES["cause_edits"], "")
        | {"edit_id": f"e{place}", "run_id": "r", "cause_id": cause, "kind": kind, "value": value}
        | {"at": BEGAN + timedelta(seconds=place), "supersedes": None}
        | (more[0] if more else {})
        for place, (cause, kind, value, *more) in enumerate(rows)
    ]
    return pl.DataFrame(full, schema=PEOPLE_TABLES["cause_edits"], orient="row")


def test_no_edits_change_nothing():
    assert current_edits(edits()) == CauseEdits()
    causes = pl.DataFrame({"cause_id": ["a"], "name": ["automatic"], "sentence": ["It was rude."]})
    row = ("a", "automatic", "It was rude.", None, None, False)
    assert CauseEdits().labelled(causes).row(0) == row


def test_the_newest_sentence_counts_and_an_empty_one_is_none():
    rows = edits(
        ("a", "describe", "First."),
        ("a", "describe", "Second."),
        ("b", "describe", "Undone."),
        ("b", "withdrawn", "Undone.", {"supersedes": "e2"}),
        ("c", "describe", "No longer."),
        ("c", "describe", ""),
    )
    causes = pl.DataFrame({"cause_id": list("abc"), "name": list("xyz"), "sentence": list("pqr")})
    shown = current_edits(rows).labelled(causes).select("sentence", "described_by")
    author = rows["author"][1]
    assert shown.rows() == [("Second.", author), ("q", None), ("r", None)]


def test_the_newest_edit_counts_and_an_undone_one_does_not():
    rows = edits(
        ("a", "rename", "one"),
        ("a", "rename", "two"),
        ("a", "rename", "three"),
        ("a", "withdrawn", "three", {"supersedes": "e2"}),
        ("a", "mute", ""),
        ("b", "mute", ""),
        ("b", "unmute", ""),
        ("a", "assign", "x"),
        ("b", "assign", "y"),
        ("b", "assign", ""),
    )
    counting = current_edits(rows)
    assert (counting.names, counting.owners, counting.muted) == ({"a": "two"}, {"a": "x"}, {"a"})
    history = edits_of(rows, ["a"])
    assert [(row["edit_id"], row["undone"]) for row in history[:3]] == [
        ("e0", False),
        ("e1", False),
        ("e2", True),
    ]


def test_merges_are_followed_and_two_writers_make_no_circle():
    rows = edits(("a", "merge", "b"), ("b", "merge", "c"), ("c", "merge", "a"))
    counting = current_edits(rows)  # the last one was written without a look at the others
    assert {name: counting.current(name) for name in "abcd"} == dict.fromkeys("abc", "c") | {
        "d": "d"
    }
    assert is_circle(counting, "c", "a")
    assert is_circle(counting, "c", "c")
    assert not is_circle(counting, "a", "d")
    moved = current_edits(edits(("a", "merge", "b"), ("b", "merge", "c"), ("b", "merge", "d")))
    assert moved.current("a") == "d"


def test_a_split_has_its_cases_and_an_undone_one_is_a_merge():
    rows = edits(
        ("a", "split", "p", {"edit_id": "s", "case_id": "c1"}),
        ("a", "split", "p", {"edit_id": "s", "case_id": "c2"}),
    )
    assert current_edits(rows).splits == (CauseSplit("a", "p", "r", frozenset({"c1", "c2"})),)
    (entry,) = edits_of(rows, ["p"])
    assert entry["case_ids"] == ["c1", "c2"]
    undone = current_edits(
        pl.concat([rows, edits(("a", "withdrawn", "p", {"edit_id": "w", "supersedes": "s"}))])
    )
    assert (undone.splits, undone.current("p")) == ((), "a")


SPLIT = CauseEdits(splits=(CauseSplit("older", "younger", "r", frozenset({"c00900"})),))


def test_what_a_person_split_is_never_merged_but_goes_to_the_nearer_one():
    parts = (REFUND[0], REFUND[1])  # the program takes these for one cause
    known = pl.concat([known_as(parts[:1] * 3, "older"), known_as(parts[1:] * 3, "younger")])
    rows = failed([parts[0], parts[1], *parts])
    plain = find_edited_causes(rows, known, "run-2", CauseEdits())
    assert (set(plain.failures["cause_id"]), plain.merged) == ({"older"}, {"younger": "older"})
    found = find_edited_causes(rows, known, "run-2", SPLIT)
    assert found.failures["cause_id"].to_list() == ["older", "younger"] * 2
    assert found.merged == {}


def test_what_a_person_merged_is_found_by_both_wordings():
    known = pl.concat([known_as(TONE, "tone"), known_as(TOTAL, "sum")])
    merged = CauseEdits(merges={"sum": "tone"})
    found = find_edited_causes(failed([*TONE, *TOTAL]), known, "run-2", merged).failures
    assert set(found["cause_id"]) == {"tone"}
    assert found["found_as"].to_list() == ["tone"] * 4 + ["sum"] * 4


@pytest.mark.parametrize("run_id", ["r", "other"])
def test_a_split_names_cases_in_its_run_and_goes_by_reasons_in_others(run_id: str):
    named = failed([TONE[0]]).with_columns(run_id=pl.lit("r"), cause_id=pl.lit("p"))
    rest = failed([TOTAL[0]], 1).with_columns(run_id=pl.lit("r"), cause_id=pl.lit("a"))
    rows = failed([TONE[1], TOTAL[1]]).with_columns(run_id=pl.lit(run_id), cause_id=pl.lit("a"))
    split = CauseSplit("a", "p", "r", frozenset({"c00001"}))  # in its run, whatever is said
    after = with_split(rows, split, pl.concat([named, rest]))["cause_id"].to_list()
    assert after == (["a", "p"] if run_id == "r" else ["p", "a"])
