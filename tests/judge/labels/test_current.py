"""Which labels count, and on which value people settled."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
import pytest

from assizes.judge.labels.current import current_labels, settled_labels
from assizes.judge.labels.sampling import Candidate, QueuePlan, draw_queue, stratum_errors
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


STRATA = np.array(["passes"] * 150 + ["fails"] * 50)
TRUTH = np.concatenate([np.ones(140), np.zeros(10), np.ones(25), np.zeros(25)])


def queue_rows(name: str, size: int, seed: int, errors: dict[str, tuple[int, int]]):
    of = [Candidate(str(n), 0, str(stratum)) for n, stratum in enumerate(STRATA)]
    plan = QueuePlan(name, "r", "verdict", size, f"{name}{seed}", "ann", BEGAN, errors=errors)
    return draw_queue(plan, of)


def answers(queue, known=()):
    """A label of each case of a queue that nobody has answered yet."""
    keys = ("case_id", "probability", "queue_id")
    return [
        label(
            f"{row['queue_id']}-{row['case_id']}",
            TRUTH[int(row["case_id"])],
            **{key: row[key] for key in keys},
        )
        for row in queue
        if row["case_id"] not in known
    ]


def two_rounds(seed: int, answered: int = 60):
    """The settled labels of a queue, and of a second one that learnt from the labels of the first."""
    first = queue_rows("a", 40, seed, {})
    said = np.where(STRATA == "passes", 1.0, 0.0)
    erred = [
        (row["stratum"], said[int(row["case_id"])] != TRUTH[int(row["case_id"])]) for row in first
    ]
    second = queue_rows("b", 60, seed, stratum_errors(erred))
    known = {row["case_id"] for row in first}
    labels = answers(first) + answers(second[:answered], known)
    queues = pl.DataFrame(first + second, schema=PEOPLE_TABLES["queues"], orient="row")
    return settled_labels(rows(*labels), queues)


@pytest.mark.promised
@pytest.mark.parametrize("answered", [60, 30])
def test_two_queues_together_give_the_mean_without_bias(answered: int):
    means, sizes, naive = [], [], []
    for seed in range(144):
        settled = two_rounds(seed, answered)
        weights, values = 1 / settled["probability"].to_numpy(), settled["value"].to_numpy()
        sizes.append(weights.sum())
        means.append(weights @ values / weights.sum())
        naive.append(values.mean())
    assert abs(np.mean(means) - TRUTH.mean()) < 3 * np.std(means) / 12
    if answered == 60:  # each label stands for 1 / probability of the 200 cases
        assert np.mean(sizes) == pytest.approx(200, rel=0.02)
    assert abs(np.mean(naive) - TRUTH.mean()) > 0.03  # the labels themselves are not the cases


def test_labels_of_one_queue_keep_its_chances():
    queue = queue_rows("a", 40, 1, {})
    frame = pl.DataFrame(queue, schema=PEOPLE_TABLES["queues"], orient="row")
    table = rows(*answers(queue), label("x", 1.0, case_id="by hand"))
    settled = dict(settled_labels(table, frame).select("case_id", "probability").rows())
    assert settled.pop("by hand") is None
    assert settled == pytest.approx({row["case_id"]: row["probability"] for row in queue})
