"""Which labels count, and on which value people settled."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl

from assizes.judge.labels.current import current_labels, settled_labels
from assizes.judge.rows import PEOPLE_TABLES

BEGAN = datetime(2026, 11, 24, tzinfo=UTC)


def label(label_id: str, value: float | None, minute: int = 0, **changed: Any) -> dict[str, Any]:
    kept = {
        "label_id": label_id,
        "run_id": "r",
        "case_id": "c",
        "repetition": 0,
        "metric": "verdict",
        "rater": "ann",
        "role": "rater",
        "kind": "label",
        "value": value,
        "note": "",
        "at": BEGAN + timedelta(minutes=minute),
        "seconds": None,
        "blind": True,
        "shown": "{}",
        "probability": None,
        "queue_id": "",
        "supersedes": None,
    }
    return kept | changed


def rows(*labels: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame(labels, schema=PEOPLE_TABLES["labels"], orient="row")


def test_the_newest_label_of_a_person_counts():
    table = rows(label("b", 0.0, 1), label("a", 1.0), label("x", 1.0, rater="bob"))
    assert sorted(current_labels(table)["label_id"]) == ["b", "x"]


def test_what_is_withdrawn_does_not_bring_an_older_label_back():
    withdrawn = label("c", None, 2, kind="withdrawn", supersedes="b")
    table = rows(label("a", 1.0), label("b", 0.0, 1, supersedes="a"), withdrawn)
    assert current_labels(table).is_empty()
    assert current_labels(rows(*table.to_dicts(), label("d", 1.0, 3)))["label_id"].item() == "d"


def test_a_correction_with_an_earlier_clock_replaces_all_the_same():
    table = rows(label("a", 1.0, 5), label("b", 0.0, 1, rater="bob", supersedes="a"))
    assert current_labels(table)["label_id"].to_list() == ["b"]


def test_raters_settle_where_all_agree_and_an_adjudicator_wins():
    table = rows(
        label("a", 1.0),
        label("b", 1.0, rater="bob"),
        label("c", 1.0, case_id="d"),
        label("d", 0.0, case_id="d", rater="bob"),
        label("e", 1.0, case_id="e"),
        label("f", 0.0, case_id="e", rater="bob"),
        label("g", 0.0, case_id="e", rater="eve", role="adjudicator"),
        label("h", None, case_id="f", kind="skip"),
    )
    settled = {row["case_id"]: row for row in settled_labels(table).to_dicts()}
    assert settled.keys() == {"c", "d", "e"}  # a skip is no label
    assert (settled["c"]["value"], settled["c"]["raters"]) == (1.0, 2)
    assert settled["d"]["value"] is None  # divided
    assert settled["e"]["value"] == 0.0


def test_a_case_chosen_by_hand_has_no_probability():
    drawn = [label("a", 1.0, probability=0.5), label("b", 1.0, rater="bob", probability=0.25)]
    assert settled_labels(rows(*drawn))["probability"].item() == 0.25
    by_hand = label("c", 1.0, rater="eve")
    assert settled_labels(rows(*drawn, by_hand))["probability"].item() is None
