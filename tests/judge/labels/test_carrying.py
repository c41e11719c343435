"""Which labels count for a run, and which do not."""

from __future__ import annotations

from datetime import date

from assizes.judge.labels import carrying
from assizes.judge.labels.carrying import LabelledConversations, LabelOrigin, choose_source

HELD = {(f"c{n}", 0): f"h{n}" for n in range(40)}


def source(
    run_id: str, count: int = 20, *, same_scale: bool = True, held=HELD
) -> LabelledConversations:
    labels = {key: held[key] for key in list(held)[:count]}
    return LabelledConversations(run_id, labels, same_scale, held)


def test_labels_of_the_same_conversations_count_after_another_judge():
    chosen = choose_source("new", HELD, [source("old")])
    assert (chosen.run_id, len(chosen.labels), len(chosen.cases)) == ("old", 20, 40)
    assert chosen.left_out == {}


def test_labels_of_other_conversations_of_the_same_cases_do_not_count():
    other = {key: f"other {digest}" for key, digest in HELD.items()}
    chosen = choose_source("new", HELD, [source("old", held=other)])
    assert (chosen.run_id, chosen.labels) == (None, frozenset())
    assert chosen.left_out == {carrying.OTHER_CONVERSATION: 20}


def test_labels_of_another_scale_do_not_count():
    chosen = choose_source("new", HELD, [source("old", same_scale=False)])
    assert (chosen.run_id, chosen.left_out) == (None, {carrying.OTHER_SCALE: 20})


def test_a_queue_over_a_part_of_the_cases_says_nothing_of_the_rest():
    few = dict(list(HELD.items())[:30])
    chosen = choose_source("new", HELD, [source("old", held=few)])
    assert (chosen.run_id, chosen.left_out) == (None, {carrying.OTHER_CASES: 20})


def test_own_labels_come_first_and_two_samples_are_not_joined():
    chosen = choose_source("new", HELD, [source("old", 30), source("new", 12)])
    assert (chosen.run_id, len(chosen.labels)) == ("new", 12)
    assert chosen.left_out == {carrying.OTHER_SAMPLE: 30}
    chosen = choose_source("new", HELD, [source("old", 30), source("new", 3)])
    assert (chosen.run_id, chosen.left_out) == ("old", {carrying.OTHER_SAMPLE: 3})


def test_an_origin_says_whose_labels_and_how_old_they_are():
    origin = LabelOrigin(
        "old", False, 20, date(2026, 3, 4), date(2026, 3, 5), date(2026, 3, 1), False, ("1.0",)
    )
    assert origin.sentence() == (
        "20 labels of run old, given 2026-03-04 to 2026-03-05, 4 days after the day of the data; the "
        "same conversations were judged there by another judge; agent version 1.0"
    )
