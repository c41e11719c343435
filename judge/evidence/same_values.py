"""Whether a value that an agent gave means the one that was expected, however it is written."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, time
from functools import lru_cache
from typing import Any, Final

from assizes.judge.evidence.told_numbers import number_text, trimmed_number

_NUMBER = re.compile(r"[+-]?(?:0|[1-9]\d*)(?:\.\d+)?")  # no leading 0: an id such as 007 is a text
_DEEPEST = 32  # levels of nesting in arguments; beyond, an attack on the stack
_MOST_PAIRED: Final = 200
"""Items of the longest lists that are paired item by item; of longer ones all members count."""
_MOMENT_CHARS: Final = 40  # of the longest date that is read
_BETWEEN = re.compile(r"(?<=\d)(?:st|nd|rd|th)\b|[\s,./-]+")  # the parts of a date
_DATES: Final = ("%Y %m %d", "%d %m %Y", "%m %d %Y", "%B %d %Y", "%b %d %Y", "%d %B %Y", "%d %b %Y")


def canonical_text(value: Any) -> str:
    """An argument value as a text that is the same for values with the same meaning.

    Numbers and numeric strings are numbers (5, 5.0, "5"), strings are trimmed and without case,
    lists have no order, `None` members of objects and values below 32 levels do not count.
    """
    return json.dumps(_plain(value), ensure_ascii=False)


def is_same_value(expected: Any, actual: Any, *, exact: bool = False, depth: int = 0) -> bool:
    """Whether a value means the expected one.

    Members of objects that the expectation does not name are ignored at every depth, unless
    `exact`. Lists have no order. A number may be written with separators or a currency, a date or
    time in any unambiguous form.
    """
    if depth > _DEEPEST or _is_equal_scalar(expected, actual):
        return True
    if isinstance(expected, Mapping):
        return isinstance(actual, Mapping) and not any(
            differing_members(expected, actual, exact=exact, depth=depth + 1)
        )
    if isinstance(expected, list | tuple):
        return isinstance(actual, list | tuple) and _is_same_list(
            expected, actual, exact=exact, depth=depth + 1
        )
    if expected is None or isinstance(actual, Mapping | list | tuple):
        return expected is actual
    return _is_same_scalar(expected, actual)


def differing_members(
    expected: Mapping[str, Any], actual: Mapping[str, Any], *, exact: bool, depth: int = 0
) -> tuple[list[str], list[str], list[str]]:
    """The names of members that are missing, that are unexpected, and that have another value.

    A member that is `None` is absent; one that is expected to be `None` must be absent.
    """
    due, had = ({k: v for k, v in side.items() if v is not None} for side in (expected, actual))
    unexpected = had.keys() - due.keys() if exact else had.keys() & (expected.keys() - due)
    different = [
        name
        for name in due.keys() & had.keys()
        if not is_same_value(due[name], had[name], exact=exact, depth=depth)
    ]
    return sorted(due.keys() - had.keys()), sorted(unexpected), sorted(different)


def assigned_places(choices: Sequence[Sequence[int]]) -> dict[int, int]:
    """Give items places of their own among those that each may take: as many items as possible.

    A maximum matching by augmenting paths, breadth first (Berge 1957).
    """
    holders: dict[int, int] = {}  # place -> its item
    places: dict[int, int] = {}  # item -> its place
    for item in range(len(choices)):
        wanted_by: dict[int, int] = {}  # place -> the item that would take it
        queue = [item]
        for asker in queue:
            for place in choices[asker]:
                if place not in wanted_by:
                    wanted_by[place] = asker
                    queue += [holders[place]] if place in holders else []
        free: int | None = next((place for place in wanted_by if place not in holders), None)
        while free is not None:  # each item of the path moves on, which frees its place
            asker = wanted_by[free]
            holders[free], freed = asker, places.get(asker)
            places[asker], free = free, freed
    return places


def _is_same_list(
    expected: Sequence[Any], actual: Sequence[Any], *, exact: bool, depth: int
) -> bool:
    if len(expected) != len(actual):
        return False
    due, had = (sorted(map(canonical_text, side)) for side in (expected, actual))
    if due == had or len(due) > _MOST_PAIRED:
        return due == had
    choices = [
        [
            place
            for place, item in enumerate(actual)
            if is_same_value(wanted, item, exact=exact, depth=depth)
        ]
        for wanted in expected
    ]
    return len(assigned_places(choices)) == len(expected)


def _is_equal_scalar(expected: Any, actual: Any) -> bool:
    """Whether two values are written alike, as most are; quicker than to read what they mean."""
    kind = type(expected)
    return kind is type(actual) and kind in (str, int, float, bool) and bool(expected == actual)


def _is_same_scalar(expected: Any, actual: Any) -> bool:
    due, had = _plain(expected), _plain(actual)
    if due == had or isinstance(expected, bool) or not isinstance(actual, str):
        return bool(due == had)
    if _NUMBER.fullmatch(str(due)):
        return number_text(actual) == str(due)
    if not isinstance(expected, str) or max(len(expected), len(actual)) > _MOMENT_CHARS:
        return False
    moment = _moment(expected)
    return moment is not None and moment == _moment(actual)


@lru_cache(maxsize=1024)  # an item of a list is compared with all others
def _moment(text: str) -> datetime | time | None:
    """The moment that a text states, in UTC; a day is its midnight; `None` for any other text."""
    text = text.strip()
    if not any(map(str.isdigit, text)):
        return None
    try:
        if ":" in text and len(text) <= len("10:30:00"):
            return time.fromisoformat(text)
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        days = {_day(_BETWEEN.sub(" ", text).strip(), form) for form in _DATES} - {None}
    return days.pop() if len(days) == 1 else None  # 5/6/2024 could be two days


def _day(text: str, form: str) -> datetime | None:
    try:
        return datetime.strptime(" ".join(text.split()), form).replace(tzinfo=UTC)
    except ValueError:
        return None


def _plain(value: Any, depth: int = 0) -> Any:
    if value is None or depth > _DEEPEST:
        return None
    if isinstance(value, Mapping):
        members = {str(k): _plain(v, depth + 1) for k, v in value.items() if v is not None}
        return dict(sorted(members.items()))  # keys have no order
    if isinstance(value, list | tuple):
        return sorted((_plain(item, depth + 1) for item in value), key=json.dumps)
    if isinstance(value, float) and math.isfinite(value):
        return trimmed_number(f"{value:.9f}")  # 9 digits: 0.1 + 0.2 is 0.3
    text = str(value).strip().casefold()
    return trimmed_number(text.removeprefix("+")) if _NUMBER.fullmatch(text) else text
