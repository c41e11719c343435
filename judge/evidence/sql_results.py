"""Whether two SQL results are the same, row for row.

A result is a bag of rows, or a list where the expected statement orders. Numbers are equal within
a tolerance whatever their type, texts exactly, NULL equals NULL. Columns stand in the order they
were selected in; `permute_columns` lets one mapping of columns reorder them for all rows.
"""

from __future__ import annotations

import bisect
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from assizes.judge.protocol import SqlTable

Row = tuple[Any, ...]

BOTH_EMPTY = "both empty: weak evidence"
"""Two empty results are equal, but almost any wrong statement could have been as empty."""

_EXACT_INTEGERS = 2**53
"""From here on a float may stand for several integers."""

_WORK = 10_000_000
"""Cells looked at before the search for a column order is given up."""


@dataclass(frozen=True, slots=True)
class ResultMatch:
    """How two results compare.

    `score` is 1.0 where they are equal, else the share of rows found in both: their bag
    intersection / the larger number of rows. The same rows in another order than asked for are
    not `equal` and still score 1.0. `reason` says what decided.
    """

    equal: bool
    score: float
    reason: str


def compare_results(
    expected: SqlTable,
    actual: SqlTable,
    *,
    permute_columns: bool = False,
    float_tolerance: float = 1e-6,
) -> ResultMatch:
    """Compare a result with the expected one.

    Args:
        expected: its `ordered` decides whether the order of rows counts.
        actual: the result in question.
        permute_columns: the same columns in another order are equal too.
        float_tolerance: relative to the larger number, absolute below 1.
    """
    if (reason := _incomparable(expected, actual)) is not None:
        return ResultMatch(equal=False, score=0.0, reason=reason)
    if not expected.rows and not actual.rows:
        return ResultMatch(equal=True, score=1.0, reason=BOTH_EMPTY)
    shared = _shared_rows(expected.rows, actual.rows, float_tolerance)
    larger = max(len(expected.rows), len(actual.rows))
    score = round(shared / larger, 9)
    cut = _cut_note(expected, actual)
    if len(expected.rows) == len(actual.rows):
        columns = _ColumnMatcher(expected, actual, float_tolerance)
        if columns.has_same_rows(range(len(expected.columns))):
            return ResultMatch(equal=True, score=1.0, reason=f"{larger} equal rows{cut}")
        if permute_columns and (order := columns.order()) is not None:
            names = ", ".join(actual.columns[column] for column in order)
            reason = f"{larger} equal rows with the columns as {names}{cut}"
            return ResultMatch(equal=True, score=1.0, reason=reason)
    return ResultMatch(equal=False, score=score, reason=_difference(expected, actual, shared) + cut)


def result_text(table: SqlTable, max_rows: int = 20) -> str:
    """A result as text: its columns, up to so many rows, and how many rows there are."""
    if table.error is not None:
        return f"error: {table.error}"
    count = f"more than {table.row_count}" if table.truncated else str(table.row_count)
    lines = [" | ".join(table.columns)]
    lines += [" | ".join(_cell(value) for value in row) for row in table.rows[:max_rows]]
    left_out = table.truncated or table.row_count > max_rows
    tail = f", the first {min(max_rows, len(table.rows))} shown" if left_out else ""
    return "\n".join([*lines, f"({count} row{'' if count == '1' else 's'}{tail})"])


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    return str(value).replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")


def _incomparable(expected: SqlTable, actual: SqlTable) -> str | None:
    if expected.error is not None:
        return f"the expected statement failed: {expected.error}"
    if actual.error is not None:
        return f"the statement failed: {actual.error}"
    if len(expected.columns) != len(actual.columns):
        return f"{len(expected.columns)} columns expected, {len(actual.columns)} found"
    return None


def _cut_note(expected: SqlTable, actual: SqlTable) -> str:
    if expected.truncated or actual.truncated:
        return "; only the first rows could be compared"
    return ""


def _difference(expected: SqlTable, actual: SqlTable, shared: int) -> str:
    rows, actual_rows = len(expected.rows), len(actual.rows)
    if shared == rows == actual_rows:
        return f"the {rows} expected rows in another order"
    return f"{shared} of {rows} expected rows among {actual_rows} found"


class _ColumnMatcher:
    """Finds an order of the actual columns under which as many rows are the same."""

    def __init__(self, expected: SqlTable, actual: SqlTable, tolerance: float) -> None:
        self._expected = expected
        self._actual = actual
        self._tolerance = tolerance
        self._work = _WORK

    def has_same_rows(self, order: Sequence[int]) -> bool:
        """Compare the first columns of the expected rows with these of the actual ones."""
        self._work -= len(order) * len(self._expected.rows)
        left = [row[: len(order)] for row in self._expected.rows]
        right = [tuple(row[column] for column in order) for row in self._actual.rows]
        if not self._expected.ordered:
            return _shared_rows(left, right, self._tolerance) == len(left)
        return all(_is_alike(*pair, self._tolerance) for pair in zip(left, right, strict=True))

    def order(self) -> tuple[int, ...] | None:
        """The actual columns in the order of the expected ones, by depth-first search.

        A column is only tried where its own values fit, and an order is only extended while its
        rows agree so far. Null where there is none, or none was found in time.
        """
        width = len(self._expected.columns)
        fitting: list[list[int]] = []
        pending: list[tuple[int, ...]] = [()]
        while pending and self._work > 0:
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
            if self.has_same_rows((*order, column)):
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
    """How many rows two bags share: first those exactly equal, then those within tolerance."""
    here, there = Counter(left), Counter(right)
    exact = here & there
    return exact.total() + _near(here - exact, there - exact, tolerance)


def _near(left: Counter[Row], right: Counter[Row], tolerance: float) -> int:
    """Pairs of rows within tolerance; only rows with the same texts can pair."""
    groups: defaultdict[Row, tuple[Counter[Row], Counter[Row]]]
    groups = defaultdict(lambda: (Counter(), Counter()))
    for side, rows in enumerate((left, right)):
        for row, count in rows.items():
            numbers = tuple(cell for cell in row if _is_number(cell))
            groups[_texts(row)][side][numbers] += count
    return sum(
        _pair_rows(here, there, tolerance) for here, there in groups.values() if here and there
    )


def _pair_rows(left: Counter[Row], right: Counter[Row], tolerance: float) -> int:
    """Each row takes the free ones it is close to, both in the order of their leading column: the
    one with the most different numbers. There is one: without numbers rows are equal, or not alike.
    """
    lead = max(range(len(next(iter(left)))), key=lambda column: len({row[column] for row in left}))
    free = sorted(right, key=lambda row: row[lead])
    pairs = 0
    for row in sorted(left, key=lambda row: row[lead]):
        reach = _search_radius(row[lead], tolerance)
        at = bisect.bisect_left(free, row[lead] - reach, key=lambda other: other[lead])
        while at < len(free) and free[at][lead] <= row[lead] + reach and left[row]:
            if right[free[at]] and _is_alike(row, free[at], tolerance):
                taken = min(left[row], right[free[at]])
                left[row] -= taken
                right[free[at]] -= taken
                pairs += taken
            at += 1
    return pairs


def _search_radius(number: float, tolerance: float) -> float:
    """A little more than the tolerance: the larger of two numbers decides it."""
    return 2 * tolerance * max(1.0, abs(number))


def _texts(row: Row) -> Row:
    """The row with a mark where its numbers stand."""
    return tuple(("number",) if _is_number(cell) else cell for cell in row)


def _is_number(cell: Any) -> bool:
    return isinstance(cell, int) or (isinstance(cell, float) and math.isfinite(cell))


def _is_alike(left: Row, right: Row, tolerance: float) -> bool:
    return all(
        left_cell == right_cell
        or (
            _is_number(left_cell)
            and _is_number(right_cell)
            and _is_close(left_cell, right_cell, tolerance)
        )
        for left_cell, right_cell in zip(left, right, strict=True)
    )


def _is_close(number: float, other: float, tolerance: float) -> bool:
    """Within tolerance; two whole numbers that a float holds exactly are equal or they are not."""
    larger = max(abs(number), abs(other))
    if larger < _EXACT_INTEGERS and number == int(number) and other == int(other):
        return number == other
    return abs(number - other) <= tolerance * max(1.0, larger)
