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


def test_a_label_without_a_chance_adds_an_opinion_and_takes_no_chance_away():
    drawn = [label("a", 1.0, probability=0.5), label("b", 1.0, rater="bob", probability=0.25)]
    assert settled_labels(rows(*drawn))["probability"].item() == 0.25
    by_hand = label("c", 0.0, rater="eve", role="adjudicator")
    again = label("d", 1.0, 1, rater="bob", note="again", supersedes="b")
    (settled,) = settled_labels(rows(*drawn, by_hand, again)).to_dicts()
    assert (settled["value"], settled["raters"], settled["probability"]) == (0.0, 2, 0.25)
    assert settled_labels(rows(by_hand))["probability"].item() is None


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


def of_queue(*chances: float) -> pl.DataFrame:
    """A queue of the cases c0, c1, ... in this order."""
    kept = {"queue_id": "q", "run_id": "r", "metric": "verdict", "repetition": 0}
    kept |= {"part": "random", "reason": "", "stratum": "all", "at": BEGAN, "drawn_by": "ann"}
    drawn = [
        kept | {"position": place, "case_id": f"c{place}", "probability": chance}
        for place, chance in enumerate(chances)
    ]
    return pl.DataFrame(drawn, schema=PEOPLE_TABLES["queues"], orient="row")


def chances_of(queue: pl.DataFrame, *labels: dict[str, Any]) -> dict[str, float | None]:
    return dict(settled_labels(rows(*labels), queue).select("case_id", "probability").rows())


def in_queue(case_id: str, chance: float, **changed: Any) -> dict[str, Any]:
    drawn = label(f"q{case_id}", 1.0, case_id=case_id, probability=chance, queue_id="q")
    return drawn | changed


def test_a_drawn_case_keeps_its_chance_whoever_answers_and_wherever():
    queue = of_queue(0.5, 0.25, 0.125)
    drawn = [in_queue("c0", 0.5), in_queue("c1", 0.25), in_queue("c2", 0.125)]
    settled = label("s", 0.0, 5, case_id="c0", rater="cid", role="adjudicator")
    second = label("t", 0.0, 5, case_id="c1", rater="bob")
    again = label("u", 1.0, 5, case_id="c2", supersedes="qc2")
    found = chances_of(queue, *drawn, settled, second, again)
    assert found == pytest.approx({"c0": 0.5, "c1": 0.25, "c2": 0.125})


def test_a_case_labelled_by_hand_before_it_was_drawn_counts_with_its_chance():
    queue = of_queue(0.5, 0.25, 0.125, 0.5)
    by_hand = [label(f"h{n}", 1.0, case_id=f"c{n}") for n in (0, 3)]
    found = chances_of(queue, *by_hand, in_queue("c1", 0.25), label("x", 1.0, case_id="other"))
    # Nobody has come as far as c3 in the queue, so that it would count for being labelled by hand.
    assert found == {"c0": pytest.approx(0.5), "c1": pytest.approx(0.25), "c3": None, "other": None}
    whole = chances_of(queue, *by_hand, in_queue("c1", 0.25), in_queue("c2", 0.125))
    assert whole == pytest.approx({"c0": 0.5, "c1": 0.25, "c2": 0.125, "c3": 0.5})
    everything = [label(f"h{n}", 1.0, case_id=f"c{n}") for n in range(4)]
    assert set(chances_of(queue, *everything).values()) == {None}  # nobody has used the queue


def test_a_skipped_or_withdrawn_answer_counts_for_nothing_but_shows_how_far_people_came():
    queue = of_queue(0.5, 0.25, 0.125)
    skipped = in_queue("c1", 0.25, kind="skip", value=None)
    gone = [
        in_queue("c2", 0.125),
        in_queue("c2", 0.125, label_id="w", kind="withdrawn", value=None),
    ]
    by_hand = [label(f"h{n}", 1.0, case_id=f"c{n}", rater="bob") for n in (0, 1)]
    assert chances_of(queue, *by_hand, skipped, *gone) == pytest.approx({"c0": 0.5, "c1": 0.25})


@pytest.mark.promised
@pytest.mark.parametrize("answered", [60, 30])
def test_labels_by_hand_before_a_queue_and_beside_it_bring_no_bias(answered: int):
    known = {str(n) for n in [*range(20), *range(140, 150)]}  # too many that fail
    by_hand = [label(f"h{n}", TRUTH[int(n)], case_id=n) for n in sorted(known)]
    means = []
    for seed in range(144):
        queue = queue_rows("a", 60, seed, {})
        frame = pl.DataFrame(queue, schema=PEOPLE_TABLES["queues"], orient="row")
        settled = settled_labels(rows(*by_hand, *answers(queue[:answered], known)), frame)
        counted = settled.drop_nulls("probability")
        weights, values = 1 / counted["probability"].to_numpy(), counted["value"].to_numpy()
        means.append(weights @ values / weights.sum())
    assert abs(np.mean(means) - TRUTH.mean()) < 3 * np.std(means) / 12
