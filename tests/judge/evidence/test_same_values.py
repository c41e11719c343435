"""Whether arguments mean the expected ones, as invented agents write them."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assizes.judge.evidence.same_values import assigned_places, canonical_text, is_same_value

SAME = [
    ({"id": "A1"}, {"id": "A1", "price": 105}),
    ({}, {"anything": 1}),
    ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}, "d": 3}),
    ({"a": {"b": {"c": 1}}}, {"a": {"b": {"c": 1, "d": {"e": 2}}}}),
    ([{"n": "X1", "day": "2024-05-24"}], [{"n": "X1", "day": "2024-05-24", "price": 105}]),
    ([{"n": 1}, {"n": 2}], [{"n": 2, "from": "Oslo"}, {"n": 1, "from": "Rome"}]),
    ([{"n": 1}, {"n": 1, "m": 2}], [{"n": 1, "m": 2}, {"n": 1, "m": 3}]),
    ([{"a": 1}, {"b": 1}, {}], [{"c": 0}, {"a": 1, "b": 1}, {"a": 1}]),
    ({"a": None}, {}),
    ({"a": None}, {"a": None, "b": 1}),
    ([1, 2, 3], [3, 1, 2]),
    (["a", "a", "b"], ["b", "A", "a"]),
    ([[1, 2], [3]], [[3], [2, 1]]),
    ([], []),
    ([1, 2], (2, 1)),
    ([1, "2024-05-20"], ["May 20, 2024", "1.0"]),
    (5, 5.0),
    (5, "5"),
    (5, " 5.00 "),
    ("5", 5),
    (5.5, "5.50"),
    (0.1 + 0.2, 0.3),
    (1327.5, "1,327.50"),
    (1327.5, "$1,327.50"),
    (1327.5, "1327.50 USD"),
    (1327.5, "1.327,50"),
    ("1327", "1,327"),
    (2, "two"),
    (100, "one hundred"),
    (12, "12 EUR"),
    (-5, "-5"),
    (0, "0.0"),
    (1000000, "1,000,000"),
    (True, True),
    (True, "true"),
    (False, "False"),
    ("Oslo", " oslo "),
    ("ab12", "AB12"),
    ("CREDIT_CARD_1", "credit_card_1"),
    ("2024-05-20", "2024-05-20"),
    ("2024-05-20", "2024/05/20"),
    ("2024-05-20", "20240520"),
    ("2024-05-20", "2024-05-20T00:00:00"),
    ("2024-05-20", "2024-05-20T00:00:00Z"),
    ("2024-05-20", "May 20, 2024"),
    ("2024-05-20", "May 20th, 2024"),
    ("2024-05-20", "20 May 2024"),
    ("2024-05-02", "2 May 2024"),
    ("2024-09-20", "Sep 20, 2024"),
    ("2024-12-01", "1 December 2024"),
    ("2024-05-20", "05/20/2024"),
    ("2024-05-20", "20.05.2024"),
    ("2024-05-05", "5/5/2024"),
    ("May 20, 2024", "2024-05-20"),
    ("2024-05-20T10:00:00Z", "2024-05-20T12:00:00+02:00"),
    ("2024-05-20T10:00", "2024-05-20 10:00:00"),
    ("2024-05-20T10:00:00Z", "2024-05-20T10:00:00.000Z"),
    ("10:30", "10:30:00"),
    (None, None),
    ("", ""),
    ("free text, as it is", "Free text, as it is"),
    ({"sum": 10, "on": "2024-05-20"}, {"sum": "10.0", "on": "20 May 2024", "note": "x"}),
]

DIFFERENT = [
    ({"id": "A1"}, {"id": "A2", "price": 105}),
    ({"id": "A1"}, {"price": 105}),
    ({"id": "A1"}, {"id": None}),
    ({"id": "A1"}, {"ID2": "A1"}),
    ({"a": {"b": 1}}, {"a": {"c": 1}}),
    ({"a": {"b": {"c": 1}}}, {"a": {"b": {"c": 2, "d": 1}}}),
    ({"a": {"b": 1}}, {"a": 1}),
    ({"a": {"b": 1}}, {"b": 1}),
    ({"a": None}, {"a": 5}),
    ({"a": 1}, ["a", 1]),
    ({"a": 1}, "a"),
    ({"a": [1]}, {"a": "[1"}),
    ([{"n": 1}], [{"n": 1}, {"n": 2}]),
    ([{"n": 1}, {"n": 2}], [{"n": 1}]),
    ([{"n": 1}, {"n": 2}], [{"n": 1, "m": 2}, {"n": 3}]),
    ([{"n": 1}, {"n": 1}], [{"n": 1}, {"m": 1}]),
    ([{"n": 1, "m": 2}, {"n": 1, "m": 3}], [{"n": 1, "m": 2}, {"n": 1}]),
    ([1], [1, 1]),
    ([1, 1, 2], [1, 2, 2]),
    ([1], 1),
    (1, [1]),
    ([], None),
    ([], [None]),
    ([], {}),
    ([1, 2], ["[1]", 2]),
    (["a"], "a"),
    (5, 6),
    (5, "5.5"),
    (5, "50"),
    (5, "5 6"),
    (5, "5 bags"),
    (5, "-5"),
    (5, "5%"),
    (5, ""),
    (5, None),
    (1481, "1.481"),
    (1.481, "1,481"),
    (1327.5, "1,327"),
    (20, "twenty-two"),
    (2, "two hundred"),
    ("007", "7"),
    ("007", 7),
    ("7", "007"),
    (12345678901234567890, 12345678901234567891),
    ("12345678901234567890", "12345678901234567891"),
    (True, False),
    (True, 1),
    (1, True),
    (False, None),
    ("Oslo", "Rome"),
    ("Oslo", "Oslo Airport"),
    ("AB12", "AB-12"),
    ("AB12", "AB123"),
    ("", None),
    ("2024-05-20", "2024-05-21"),
    ("2024-05-20", "2023-05-20"),
    ("2024-05-06", "5/6/2024"),
    ("2024-06-05", "5/6/2024"),
    ("2024-05-20", "May 20"),
    ("2024-05-20", "2024-05-20T10:00:00"),
    ("2024-05-20", "tomorrow"),
    ("2024-05-20T10:00:00Z", "2024-05-20T10:00:00+02:00"),
    ("10:30", "10:31"),
    ("10:30", "22:30"),
    ("Ten Bells", "10 Bells"),
    (float("nan"), 0),
    (float("inf"), 1e308),
]


@pytest.mark.parametrize(("expected", "actual"), SAME)
def test_what_means_the_same_is_the_same(expected, actual):
    assert is_same_value(expected, actual)


@pytest.mark.parametrize(("expected", "actual"), DIFFERENT)
def test_what_means_something_else_differs(expected, actual):
    assert not is_same_value(expected, actual)


def test_each_table_has_sixty_pairs():
    assert len(SAME) >= 60
    assert len(DIFFERENT) >= 60


@pytest.mark.parametrize(
    ("expected", "actual", "is_same"),
    [
        ({"a": 1}, {"a": 1}, True),
        ({"a": 1}, {"a": "1.0", "b": None}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, False),
        ([{"n": 1}], [{"n": 1, "price": 5}], False),
        ({}, {"a": 1}, False),
    ],
)
def test_a_case_may_want_the_named_members_and_no_others(expected, actual, is_same):
    assert is_same_value(expected, actual, exact=True) is is_same


def test_as_many_items_as_possible_find_a_place():
    assert assigned_places([[0, 1], [0], [1, 2]]) == {0: 1, 1: 0, 2: 2}
    assert assigned_places([[0], [0], []]) == {0: 0}
    assert assigned_places([]) == {}


def test_hostile_values_take_no_more_than_linear_time():
    deep, other = ["x"], ["y"]
    for _ in range(500):
        deep, other = [deep], [other]
    begun = time.process_time()
    assert is_same_value(deep, other)  # what is nested too deep is not looked at
    assert not is_same_value([{"a": i} for i in range(5000)], [{"b": i} for i in range(5000)])
    assert not is_same_value("2024-05-20", "1" * 100_000)
    assert time.process_time() - begun < 5


@pytest.mark.parametrize(
    ("value", "other"),
    [
        (5, 5.0),
        (5, "5"),
        ("5.50", 5.5),
        ("+3", 3),
        (-0.0, 0),
        (0.1 + 0.2, 0.3),
        (" Oslo ", "oslo"),
        ([1, 2], [2, 1]),
        ([{"a": 1}, {"a": 2}], [{"a": 2.0}, {"a": "1"}]),
        ({"a": None, "b": 1}, {"b": 1}),
        ({"a": {"b": None}}, {"a": {}}),
        (True, "true"),
        (None, None),
    ],
)
def test_values_that_mean_the_same_are_equal(value, other):
    assert canonical_text(value) == canonical_text(other)


@pytest.mark.parametrize(
    ("value", "other"),
    [
        (5, 6),
        ("007", "7"),
        (12345678901234567890, 12345678901234567891),
        ("12345678901234567890", "12345678901234567891"),
        (True, 1),
        ([1], [1, 1]),
        ([1], 1),
        ([1, 2], ["[1]", 2]),
        ({"a": 1}, {"b": 1}),
        ({"a": 1}, ["a", 1]),
        ("", None),
        ([], None),
        (float("nan"), 0),
        (float("inf"), 1e308),
    ],
)
def test_values_that_mean_something_else_differ(value, other):
    assert canonical_text(value) != canonical_text(other)


def test_what_is_nested_too_deep_is_not_looked_at():
    deep, other = ["x"], ["y"]
    for _ in range(2000):
        deep, other = [deep], [other]
    assert canonical_text(deep) == canonical_text(other)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(_JSON, max_size=5), st.randoms())
def test_the_order_of_a_list_never_matters(items, random):
    shuffled = list(items)
    random.shuffle(shuffled)
    assert canonical_text(items) == canonical_text(shuffled)
