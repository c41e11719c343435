"""Items that a judge and people grade differently, and the agreement in groups of cases."""

from __future__ import annotations

import pytest

from assizes.judge.calibration.disagreements import (
    MAX_LISTED,
    ItemFacts,
    disagreements,
    level_word,
)
from assizes.judge.calibration.labelled import RatedItem


def rated(case_id: str, people: float, judged: float | None, **more) -> RatedItem:
    return RatedItem(case_id, case_id, {"ann": people}, judged, repetition=0, **more)


def test_the_furthest_apart_come_first_with_both_reasons():
    items = [rated("a", 3, 4), rated("b", 0, 5, notes={"ann": "it lied"}), rated("c", 2, 2)]
    facts = {("b", 0): ItemFacts("polite and clear", "wrong_answer")}
    apart = disagreements("tone", items, facts, ordered=True)
    assert [item.case_id for item in apart.listed] == ["b", "a"]
    first = apart.listed[0]
    assert (first.people, first.judge, first.reason) == (0.0, 5.0, "polite and clear")
    assert (first.failure_code, first.notes) == ("wrong_answer", {"ann": "it lied"})
    assert apart.listed[1].reason == ""  # the run says nothing of that case


def test_divided_people_and_missing_grades_count_nowhere():
    divided = RatedItem("a", "a", {"ann": 1.0, "bob": 0.0}, 1.0)
    apart = disagreements("verdict", [divided, rated("b", 1, None)], {}, ordered=True)
    assert (apart.total, apart.listed, apart.groups) == (0, (), ())


def test_more_than_can_be_listed_are_counted():
    items = [rated(f"c{number:05}", 1, 0) for number in range(MAX_LISTED + 7)]
    apart = disagreements("verdict", items, {}, ordered=True)
    assert (apart.total, len(apart.listed)) == (MAX_LISTED + 7, MAX_LISTED)


def test_agreement_by_group_is_that_of_its_cases_alone():
    items, facts = [], {}
    for number in range(40):
        is_new = number % 2 == 1
        judged = 1.0 if is_new and number % 4 == 1 else 0.0  # wrong on half of the new version
        items.append(rated(f"c{number}", 0.0, judged))
        facts[f"c{number}", 0] = ItemFacts(groups={"agent_version": "2" if is_new else "1"})
    groups = disagreements("verdict", items, facts, ordered=True).groups
    assert [(group.value, group.items, group.accuracy) for group in groups] == [
        ("2", 20, 0.5),
        ("1", 20, 1.0),
    ]
    low, high = groups[0].low, groups[0].high
    assert low == pytest.approx(0.2993, abs=1e-4)  # Wilson's interval of 10 of 20
    assert high == pytest.approx(0.7007, abs=1e-4)
    assert groups[1].kappa is None  # all of one grade


def test_small_groups_and_the_group_of_all_are_left_out():
    items = [rated(f"c{number}", 1, 0) for number in range(8)]
    facts = {
        (f"c{number}", 0): ItemFacts(groups={"agent": "x", "tags.lang": "de" if number < 4 else ""})
        for number in range(8)
    }
    assert disagreements("verdict", items, facts, ordered=True).groups == ()


@pytest.mark.parametrize(
    ("level", "levels", "word"),
    [
        (1.0, (0.0, 1.0), "pass"),
        (0.0, (0.0,), "fail"),
        (2.0, (0.0, 2.0, 5.0), "2 poor"),
        (1.5, (1.0, 1.5), "1.5"),
        (7.0, (1.0, 7.0), "7"),
    ],
)
def test_a_grade_in_words(level: float, levels: tuple[float, ...], word: str):
    assert level_word(level, levels) == word
