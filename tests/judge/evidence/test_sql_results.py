"""When two SQL results are the same."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assizes.judge.evidence.sql_results import BOTH_EMPTY, ResultMatch, compare_results, result_text
from assizes.judge.protocol import SqlTable


def table(*rows: Sequence[Any], columns: str | None = None, **rest: Any) -> SqlTable:
    names = tuple(columns or "abcdefgh"[: len(rows[0]) if rows else 1])
    return SqlTable("SELECT", names, tuple(tuple(row) for row in rows), len(rows), **rest)


@pytest.mark.row("002-26")
@pytest.mark.parametrize(
    ("expected", "actual", "equal", "score"),
    [
        ([(1, "x"), (2, "y")], [(2, "y"), (1, "x")], True, 1.0),
        ([(1,), (1,), (2,)], [(1,), (2,), (2,)], False, 2 / 3),
        ([(1,), (1,)], [(1,)], False, 0.5),
        ([(1,)], [(1,), (2,), (3,), (4,)], False, 0.25),
        ([(1,)], [], False, 0.0),
        ([], [(1,)], False, 0.0),
        ([(1,)], [(1.0,)], True, 1.0),
        ([(1.0,)], [(True,)], True, 1.0),
        ([(0.3,)], [(0.1 + 0.2,)], True, 1.0),
        ([(100.0,)], [(100.00005,)], True, 1.0),
        ([(100.0,)], [(100.5,)], False, 0.0),
        ([(0.0,)], [(1e-7,)], True, 1.0),
        ([(2_000_000,)], [(2_000_001,)], False, 0.0),
        ([(2_000_000,)], [(2_000_001.0,)], False, 0.0),
        ([(2**60,)], [(float(2**60),)], True, 1.0),
        ([(None,)], [(None,)], True, 1.0),
        ([(None,)], [(0,)], False, 0.0),
        ([("",)], [(None,)], False, 0.0),
        ([("1",)], [(1,)], False, 0.0),
        ([("a",)], [("A",)], False, 0.0),
        ([("NaN",)], [("NaN",)], True, 1.0),
        ([(1.5, "b"), (1.5000001, "a")], [(1.5, "a"), (1.5000001, "b")], True, 1.0),
        ([(1.5, 7), (1.5000001, 8)], [(1.5, 8), (1.5000001, 7)], True, 1.0),
    ],
)
def test_results_are_bags_of_rows_with_tolerant_numbers(expected, actual, equal, score):
    match = compare_results(
        table(*expected, columns="a" * len((*expected, *actual)[0])),
        table(*actual, columns="a" * len((*expected, *actual)[0])),
    )
    assert (match.equal, match.score) == (equal, pytest.approx(score))


def test_the_order_of_rows_counts_where_the_expected_statement_orders():
    up, down = [(1,), (2,), (3,)], [(3,), (2,), (1,)]
    assert compare_results(table(*up, ordered=True), table(*up, ordered=True)).equal
    assert compare_results(table(*up), table(*down, ordered=True)).equal
    assert compare_results(table(*up, ordered=True), table(*down)) == ResultMatch(
        equal=False, score=1.0, reason="the 3 expected rows in another order"
    )


def test_both_empty_is_equal_and_flagged_as_weak_evidence():
    assert compare_results(table(columns="ab"), table(columns="ab")) == ResultMatch(
        equal=True, score=1.0, reason=BOTH_EMPTY
    )


@pytest.mark.row("002-27")
def test_a_failed_statement_on_either_side_is_not_equal_and_says_why():
    bad = SqlTable("SELEC", error="syntax error")
    assert compare_results(bad, table((1,))) == ResultMatch(
        equal=False, score=0.0, reason="the expected statement failed: syntax error"
    )
    assert compare_results(table((1,)), bad) == ResultMatch(
        equal=False, score=0.0, reason="the statement failed: syntax error"
    )
    assert not compare_results(bad, bad).equal


@pytest.mark.parametrize("permute", [False, True])
def test_another_number_of_columns_is_never_equal(permute):
    match = compare_results(table((1, 2)), table((1,)), permute_columns=permute)
    assert match == ResultMatch(equal=False, score=0.0, reason="2 columns expected, 1 found")
    assert not compare_results(table(columns="ab"), table(columns="a")).equal


def test_columns_in_another_order_are_equal_only_where_that_is_asked_for():
    expected, actual = table(("Ada", 1), ("Ben", 2)), table((2, "Ben"), (1, "Ada"), columns="nm")
    assert compare_results(expected, actual) == ResultMatch(
        equal=False, score=0.0, reason="0 of 2 expected rows among 2 found"
    )
    assert compare_results(expected, actual, permute_columns=True) == ResultMatch(
        equal=True, score=1.0, reason="2 equal rows with the columns as m, n"
    )


def test_one_mapping_of_columns_must_hold_for_all_rows():
    # Each column has the same values on both sides, but no single order gives the same rows.
    expected = table((1, 2), (2, 1), (1, 1))
    actual = table((1, 2), (1, 1), (2, 2))
    assert not compare_results(expected, actual, permute_columns=True).equal
    crossed = table((2, 1), (1, 2), (1, 1))
    assert compare_results(expected, crossed, permute_columns=True).equal
    assert not compare_results(
        table((1, 2), (3, 4)), table((2, 1), (3, 4)), permute_columns=True
    ).equal


def test_the_order_of_rows_counts_under_a_mapping_too():
    expected = table((1, "x"), (2, "y"), ordered=True)
    assert compare_results(expected, table(("x", 1), ("y", 2)), permute_columns=True).equal
    assert not compare_results(expected, table(("y", 2), ("x", 1)), permute_columns=True).equal


def test_the_search_for_a_mapping_backtracks():
    # The first column fits both b and c of the other; only c leads to the same rows.
    expected = table((1, 1, "p"), (2, 2, "q"), (1, 2, "r"), (2, 1, "s"))
    actual = table(("p", 1, 1), ("q", 2, 2), ("r", 2, 1), ("s", 1, 2))
    assert compare_results(expected, actual, permute_columns=True).reason == (
        "4 equal rows with the columns as c, b, a"
    )


def test_tolerance_is_configurable():
    expected, actual = table((10.25,)), table((10.26,))
    assert not compare_results(expected, actual).equal
    assert compare_results(expected, actual, float_tolerance=0.01).equal
    assert not compare_results(table((0.3,)), table((0.1 + 0.2,)), float_tolerance=0.0).equal


def test_a_cut_result_says_so():
    whole, cut = table((1,), (2,)), table((1,), (2,), truncated=True)
    reason = "2 equal rows; only the first rows could be compared"
    assert compare_results(cut, cut).reason == reason
    for expected, actual in ((whole, cut), (cut, whole)):
        match = compare_results(expected, actual)
        assert (match.equal, match.reason) == (False, f"one result has more rows; {reason}")


@pytest.mark.row("005-11")
@pytest.mark.parametrize(
    ("due", "done", "ordered", "equal"),
    [
        (("9:a", "9:b"), ("9:a", "9:b"), False, True),
        (("9:a", "9:b"), ("9:c", "9:b"), False, True),
        (("9:a", "9:b"), ("9:c", "9:d"), False, False),
        (("9:a", "9:b"), ("9:a", "9:b"), True, False),
    ],
)
def test_results_beyond_the_cap_are_compared_by_the_hash_of_all_rows(due, done, ordered, equal):
    expected = table((1,), (2,), truncated=True, digests=due, ordered=ordered)
    actual = table((8,), (9,), truncated=True, digests=done)
    match = compare_results(expected, actual, permute_columns=True)
    assert match.equal is equal
    if equal:
        assert match == ResultMatch(True, 1.0, "9 equal rows, by a hash of all")
        as_selected = compare_results(expected, actual)
        assert as_selected.equal is (due[0] == done[0])


def test_of_bags_beyond_the_cap_without_a_hash_nothing_is_known_unless_the_first_rows_agree():
    expected, actual = table((1,), truncated=True), table((2,), truncated=True)
    assert compare_results(expected, actual).equal is None
    assert compare_results(expected, expected).equal is True
    assert compare_results(replace(expected, ordered=True), actual).equal is False


def test_large_results_are_compared_quickly():
    expected = [(number, number / 7, f"name {number % 50}") for number in range(10_000)]
    actual = [(name, value * (1 + 1e-9), number) for number, value, name in reversed(expected)]
    begun = time.process_time()
    assert compare_results(table(*expected), table(*actual), permute_columns=True).equal
    assert time.process_time() - begun < 10


@pytest.mark.promised
def test_a_search_without_end_is_given_up():
    # 12 columns of the same values, crossed so that only the last one shows that none fits.
    rows = [tuple((row >> bit) & 1 for bit in range(12)) for row in range(256)]
    wrong = [(*row[:-1], 1 - row[-1]) if sum(row) % 2 else row for row in rows]
    begun = time.process_time()
    assert not compare_results(_wide(rows), _wide(wrong), permute_columns=True).equal
    assert time.process_time() - begun < 120  # all 12! orders would take days


def _wide(rows):
    names = tuple(f"c{number}" for number in range(len(rows[0])))
    return SqlTable("SELECT", names, tuple(rows), len(rows))


cells = st.one_of(
    st.none(),
    st.integers(-3, 3),
    st.floats(-1e6, 1e6).map(lambda number: round(number, 3)),
    st.sampled_from(["", "a", "b"]),
)
results = st.integers(1, 4).flatmap(
    lambda width: st.lists(st.tuples(*[cells] * width), min_size=1, max_size=12)
)


@pytest.mark.promised
@given(rows=results, shuffle=st.randoms())
def test_a_shuffled_result_is_equal_and_a_shuffled_column_order_is_found(rows, shuffle):
    order = list(range(len(rows[0])))
    shuffle.shuffle(order)
    others = [tuple(row[column] for column in order) for row in rows]
    shuffle.shuffle(others)
    same = shuffle.sample(rows, len(rows))
    assert compare_results(table(*rows), table(*same)) == ResultMatch(
        equal=True, score=1.0, reason=f"{len(rows)} equal rows"
    )
    assert compare_results(table(*rows), table(*others), permute_columns=True).equal


@given(left=results, right=results)
def test_comparing_is_symmetric_and_its_score_is_a_share(left, right):
    there = compare_results(table(*left), table(*right))
    back = compare_results(table(*right), table(*left))
    assert (there.equal, there.score) == (back.equal, back.score)
    assert 0.0 <= there.score <= 1.0
    assert there.equal == (there.score == 1.0)


@given(rows=results)
def test_a_missing_row_is_never_equal(rows):
    match = compare_results(table(*rows), table(*rows[1:], columns="abcdefgh"[: len(rows[0])]))
    assert (match.equal, match.score) == (False, round((len(rows) - 1) / len(rows), 9))


@pytest.mark.row("002-26")
def test_a_result_is_shown_up_to_a_number_of_rows_with_its_count():
    rows = [(number, None, "two\nlines") for number in range(137)]
    text = result_text(table(*rows, columns="nxt"))
    assert text.splitlines()[:2] == ["n | x | t", "0 | NULL | two\\nlines"]
    assert text.splitlines()[-1] == "(137 rows, the first 20 shown)"
    assert len(text.splitlines()) == 22
    assert result_text(table((1,)), max_rows=5) == "a\n1\n(1 row)"
    assert result_text(table(columns="a")) == "a\n(0 rows)"
    cut = table((1,), (2,), truncated=True)
    assert result_text(cut, max_rows=1) == "a\n1\n(more than 2 rows, the first 1 shown)"
    assert result_text(SqlTable("SELEC", error="syntax error")) == "error: syntax error"
