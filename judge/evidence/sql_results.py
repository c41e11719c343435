"""Compares two SQL results row for row (docs/decisions.md, decision 19).

A result is a bag of rows, or a list where the expected statement has an ORDER BY. Numbers are equal
within a tolerance whatever their type, texts must be the same, NULL equals NULL.
"""

from __future__ import annotations

import bisect
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from assizes.judge.protocol import SqlTable

Row = tuple[Any, ...]

BOTH_EMPTY = "both empty: weak evidence"
"""Two empty results are equal, but many wrong statements return nothing either."""

_EXACT_INTEGERS = 2**53
"""From this number on, a float may stand for several integers."""


@dataclass(frozen=True, slots=True)
class ResultMatch:
    """The outcome of comparing two results."""

    equal: bool | None
    """False also for the expected rows in a wrong order, whose score is 1.0; None: not known."""
    score: float  # 0..1: the rows that both bags share / the larger number of rows
    reason: str  # what decided, in words


def compare_results(
    expected: SqlTable,
    actual: SqlTable,
    *,
    permute_columns: bool = False,  # whether the same columns in another order are equal too
    float_tolerance: float = 1e-6,  # a fraction of the larger number; absolute below 1
) -> ResultMatch:
    """Compare a result with the expected one, whose `ordered` says if the order of rows counts."""
    if (reason := _incomparable(expected, actual)) is not None:
        return ResultMatch(equal=False, score=0.0, reason=reason)
    if not expected.rows and not actual.rows:
        return ResultMatch(equal=True, score=1.0, reason=BOTH_EMPTY)
    shared = _shared_rows(expected.rows, actual.rows, float_tolerance)
    match = _compare_rows(expected, actual, shared, permute_columns, float_tolerance)
    is_cut = expected.truncated
    if is_cut is not actual.truncated:
        # The caps do not depend on the order of rows: equal bags are both cut, or neither.
        return replace(match, equal=False, reason=f"one result has more rows; {match.reason}")
    return _compare_hashes(expected, actual, match, permute_columns) if is_cut else match


def _compare_hashes(
    expected: SqlTable, actual: SqlTable, match: ResultMatch, permute_columns: bool
) -> ResultMatch:
    """Compare two results that were cut by the hashes of all rows; `match` is of the first rows."""
    if not (expected.digests and actual.digests):
        # Other rows of the same bags may have come first.
        return match if match.equal or expected.ordered else replace(match, equal=None)
    is_same_bag = expected.digests[0] == actual.digests[0]
    if not is_same_bag and not (permute_columns and expected.digests[1] == actual.digests[1]):
        reason = f"the hashes of all rows differ; of the first rows, {match.reason}"
        return replace(match, equal=False, reason=reason)
    if expected.ordered and not match.equal:
        return ResultMatch(equal=False, score=1.0, reason="the expected rows in another order")
    count = expected.digests[0].partition(":")[0]
    return ResultMatch(equal=True, score=1.0, reason=f"{count} equal rows, by a hash of all")


def _compare_rows(
    expected: SqlTable, actual: SqlTable, shared: int, permute_columns: bool, float_tolerance: float
) -> ResultMatch:
    """Compare the rows that are there; the bags of rows have `shared` rows in common."""
    rows, actual_rows = len(expected.rows), len(actual.rows)
    larger = max(rows, actual_rows)
    is_cut = expected.truncated or actual.truncated  # at the row limit of the sandbox
    cut = "; only the first rows could be compared" if is_cut else ""
    if rows == actual_rows:  # only then can the results be equal
        columns = _ColumnMatcher(expected, actual, float_tolerance)
        if columns.has_same_rows(range(len(expected.columns))):
            return ResultMatch(equal=True, score=1.0, reason=f"{larger} equal rows{cut}")
        if permute_columns and (order := columns.order()) is not None:
            names = ", ".join(actual.columns[column] for column in order)
            reason = f"{larger} equal rows with the columns as {names}{cut}"
            return ResultMatch(equal=True, score=1.0, reason=reason)
    reason = f"{shared} of {rows} expected rows among {actual_rows} found{cut}"
    if shared == rows == actual_rows:  # equal bags, but the expected statement orders its rows
        reason = f"the {rows} expected rows in another order{cut}"
    return ResultMatch(equal=False, score=round(shared / larger, 9), reason=reason)


def result_text(table: SqlTable, max_rows: int = 20) -> str:
    """A result as text: its columns, its first `max_rows` rows, and the number of its rows."""
    if table.error is not None:
        return f"error: {table.error}"
    count = f"more than {table.row_count}" if table.truncated else str(table.row_count)
    lines = [" | ".join(table.columns)]
    lines += [" | ".join(_cell(value) for value in row) for row in table.rows[:max_rows]]
    left_out = table.truncated or table.row_count > max_rows
    tail = f", the first {min(max_rows, len(table.rows))} shown" if left_out else ""
    return "\n".join([*lines, f"({count} row{'' if count == '1' else 's'}{tail})"])


def _cell(value: Any) -> str:
    text = "NULL" if value is None else str(value)
    # One line for each row: a line break in a value would look like the next row.
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")


def _incomparable(expected: SqlTable, actual: SqlTable) -> str | None:
    if expected.error is not None:
        return f"the expected statement failed: {expected.error}"
    if actual.error is not None:
        return f"the statement failed: {actual.error}"
    if len(expected.columns) != len(actual.columns):
        return f"{len(expected.columns)} columns expected, {len(actual.columns)} found"
    return None


@dataclass(slots=True)
class _ColumnMatcher:
    """Finds an order of the actual columns in which all rows equal the expected ones."""

    _expected: SqlTable
    _actual: SqlTable
    _tolerance: float
    _work: int = 10_000_000
    """The cells that may still be compared before the search is given up."""

    def has_same_rows(self, order: Sequence[int]) -> bool:
        """Whether the first columns of the expected rows equal the actual columns in this order."""
        self._work -= len(order) * len(self._expected.rows)
        left = [row[: len(order)] for row in self._expected.rows]
        right = [tuple(row[column] for column in order) for row in self._actual.rows]
        if not self._expected.ordered:
            return _shared_rows(left, right, self._tolerance) == len(left)
        return all(_is_alike(*pair, self._tolerance) for pair in zip(left, right, strict=True))

    def order(self) -> tuple[int, ...] | None:
        """The actual columns in the order of the expected; `None`: none fits, or it took long."""
        width = len(self._expected.columns)
        fitting: list[list[int]] = []  # expected column -> actual columns with the same values
        pending: list[tuple[int, ...]] = [()]  # a stack: the search goes depth first
        while pending and self._work > 0:  # n columns have n! orders: the work has a bound
            order = pending.pop()
            if len(order) == width:
                return order
            if len(order) == len(fitting):
                fitting.append(self._fitting(len(order)))
            pending += reversed(list(self._longer(order, fitting[len(order)])))
        return None

    def _longer(self, order: tuple[int, ...], fitting: list[int]) -> Iterator[tuple[int, ...]]:
        tried: set[Row] = set()
        for column in fitting:
            values = tuple(row[column] for row in self._actual.rows)
            # Twin columns lead to the same orders.
            if column in order or values in tried or self._work <= 0:
                continue
            tried.add(values)
            if self.has_same_rows((*order, column)):  # else no longer order can fit
                yield (*order, column)

    def _fitting(self, column: int) -> list[int]:
        width, rows = len(self._actual.columns), self._actual.rows
        self._work -= width * len(rows)
        left = Counter((row[column],) for row in self._expected.rows)
        return [
            other
            for other in range(width)
            if _shared_rows(left, ((row[other],) for row in rows), self._tolerance) == len(rows)
        ]


def _shared_rows(left: Iterable[Row], right: Iterable[Row], tolerance: float) -> int:
    """The number of rows that two bags share: exactly equal rows, then rows within tolerance."""
    here, there = Counter(left), Counter(right)
    exact = here & there  # mostly nearly all rows, so that few are left to the slower search
    return exact.total() + _close_pairs(here - exact, there - exact, tolerance)


def _close_pairs(left: Counter[Row], right: Counter[Row], tolerance: float) -> int:
    """The number of pairs of rows within tolerance; only rows with the same texts can pair."""
    groups: defaultdict[Row, tuple[Counter[Row], Counter[Row]]]  # texts -> numbers of each side
    groups = defaultdict(lambda: (Counter(), Counter()))
    for side, rows in enumerate((left, right)):
        for row, count in rows.items():
            numbers = tuple(cell for cell in row if _is_number(cell))
            texts = tuple(("number",) if _is_number(cell) else cell for cell in row)
            groups[texts][side][numbers] += count
    return sum(
        _pair_rows(here, there, tolerance) for here, there in groups.values() if here and there
    )


def _pair_rows(left: Counter[Row], right: Counter[Row], tolerance: float) -> int:
    """The number of pairs, found greedily along the column with the most different numbers."""
    # Each row has a number: rows of texts alone are equal and paired already, or in two groups.
    lead = max(range(len(next(iter(left)))), key=lambda column: len({row[column] for row in left}))
    free = sorted(right, key=lambda row: row[lead])
    pairs = 0
    for row in sorted(left, key=lambda row: row[lead]):
        # A little more than the tolerance, which the larger of two numbers decides.
        reach = 2 * tolerance * max(1.0, abs(row[lead]))
        at = bisect.bisect_left(free, row[lead] - reach, key=lambda other: other[lead])
        while at < len(free) and free[at][lead] <= row[lead] + reach and left[row]:
            if right[free[at]] and _is_alike(row, free[at], tolerance):
                taken = min(left[row], right[free[at]])
                left[row] -= taken
                right[free[at]] -= taken
                pairs += taken
            at += 1
    return pairs


def _is_number(cell: Any) -> bool:
    # A truth value is an int as well, and SQLite returns 0 and 1 for it. NaN and infinities
    # are no numbers here: nothing is close to them.
    return isinstance(cell, int) or (isinstance(cell, float) and math.isfinite(cell))


def _is_alike(left: Row, right: Row, tolerance: float) -> bool:
    return all(
        a == b or (_is_number(a) and _is_number(b) and _is_close(a, b, tolerance))
        for a, b in zip(left, right, strict=True)
    )


def _is_close(number: float, other: float, tolerance: float) -> bool:
    """Whether two numbers are within tolerance; whole numbers that a float holds must be equal."""
    larger = max(abs(number), abs(other))
    if larger < _EXACT_INTEGERS and number == int(number) and other == int(other):
        return number == other  # with the tolerance, 1000001 would equal 1000000
    return abs(number - other) <= tolerance * max(1.0, larger)
