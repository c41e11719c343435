"""The division of labels: no cluster in two parts, each kind in proportion, always the same."""

from __future__ import annotations

import pytest

from assizes.judge.alignment.labelled_cases import divide, labels_hash
from assizes.judge.errors import Inconclusive
from tests.judge.alignment.labelled import item

ITEMS = [item(n, people=n % 3 > 0, judge=n % 5 > 0, cluster=f"k{n // 2}") for n in range(120)]


def test_no_cluster_is_in_two_parts_and_no_case_is_lost():
    division = divide(ITEMS, 0.4, 4, "")
    parts = [*division.folds, division.held_out]
    clusters = [{case.cluster for case in part} for part in parts]
    assert sum(map(len, clusters)) == len(set().union(*clusters)) == 60
    assert sum(map(len, parts)) == 120
    assert len(division.held_out) == pytest.approx(48, abs=3)
    assert not {case.cluster for case in division.others(0)} & clusters[0]


def test_each_part_has_passes_in_proportion():
    division = divide(ITEMS, 0.4, 4, "")
    for part in (division.held_out, division.development):
        assert sum(case.people for case in part) / len(part) == pytest.approx(2 / 3, abs=0.1)


def test_the_order_of_the_labels_changes_nothing_and_a_seed_does():
    first, again = divide(ITEMS, 0.4, 4, ""), divide(ITEMS[::-1], 0.4, 4, "")
    assert first == again
    assert divide(ITEMS, 0.4, 4, "other").held_out != first.held_out
    assert labels_hash(first.held_out) == labels_hash(again.held_out[::-1])


def test_too_few_labels_of_one_kind_are_refused():
    few = [item(n, people=n > 5, judge=True) for n in range(80)]
    with pytest.raises(Inconclusive, match="too few labels"):
        divide(few, 0.4, 4, "")
