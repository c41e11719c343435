"""Numbers and foreign text as a reader sees them; the same words in every format of the report."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

UNKNOWN: Final = "unknown"
NONE: Final = "\u2013"
"""A dash stands where there is no number or no text."""

NAME_CHARS: Final = 120
LINE_CHARS: Final = 300
"""The most that is shown of a name, and of a sentence in a list."""

_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
# Direction overrides and invisible signs make a line read otherwise than it is stored.
_INVISIBLE: Final = re.compile(
    "[\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]"
)
_SPACE: Final = re.compile(r"\s+")


def clean(text: str, limit: int) -> str:
    """Foreign text made fit to show: nothing invisible, at most `limit` characters and a mark."""
    text = text[: limit + 1].replace("\r\n", "\n").replace("\r", "\n")
    visible = _INVISIBLE.sub(lambda match: f"\u27e8U+{ord(match[0]):04X}\u27e9", text)
    visible = _CONTROLS.sub("\ufffd", visible)
    return visible if len(visible) <= limit else visible[:limit].rstrip() + "\u2026"


def one_line(text: str) -> str:
    """The text with every run of white space as one blank."""
    return _SPACE.sub(" ", text).strip()


def clean_line(text: str, limit: int) -> str:
    """Foreign text on one line, made fit to show."""
    return clean(one_line(text), limit)


def name_of(text: str) -> str:
    """A name as it is shown: one line, cut where it is longer than any honest name."""
    return clean_line(text, NAME_CHARS)


def line_of(text: str) -> str:
    """A sentence as it is shown in a list."""
    return clean_line(text, LINE_CHARS)


def number(value: float | None, digits: int = 2) -> str:
    """A number with a fixed count of decimals, grouped by thousands; a dash where there is none."""
    return NONE if value is None else f"{value:,.{digits}f}"


def count(value: int | None) -> str:
    """A whole number grouped by thousands; `unknown` where there is none."""
    return UNKNOWN if value is None else f"{value:,}"


def share(fraction: float | None) -> str:
    """A fraction 0..1 as percent with one decimal; never rounded up to 100."""
    if fraction is None:
        return NONE
    shown = round(fraction * 100, 1)
    return f"{99.9 if shown >= 100 and fraction < 1 else shown:.1f} %"


def signed_number(value: float | None, digits: int = 2) -> str:
    """A difference with its sign; a dash where there is none."""
    if value is None:
        return NONE
    shown = round(value, digits)
    return f"{shown:+,.{digits}f}".replace("-", "\u2212") if shown else f"{0:.{digits}f}"


def points(fraction: float | None) -> str:
    """A change of a share in points, with as many decimals as it takes not to read 0."""
    if fraction is None:
        return NONE
    moved = round(fraction * 100, 7)
    digits = 1 if not moved or abs(moved) >= 0.1 else 4
    return f"{signed_number(moved, digits)} points"


def money(dollars: float | None) -> str:
    """US dollars; `unknown` where no price is known, never 0 for that."""
    if dollars is None:
        return UNKNOWN
    return f"${dollars:,.4f}" if 0 < abs(dollars) < 1 else f"${dollars:,.2f}"


def duration(milliseconds: float | None) -> str:
    """Milliseconds, or seconds from one second on; `unknown` where not measured."""
    if milliseconds is None:
        return UNKNOWN
    if abs(milliseconds) < 1000:
        return f"{milliseconds:,.0f} ms"
    return f"{milliseconds / 1000:,.2f} s"


def turns(indices: list[int]) -> str:
    """Turn numbers as text, the first turn being 0."""
    return ", ".join(str(index) for index in indices) or NONE


def plural(amount: int, singular: str, plural_noun: str = "") -> str:
    """An amount with its noun: `1 case`, `2 cases`."""
    return f"{amount:,} {singular if amount == 1 else plural_noun or singular + 's'}"


def mark(passed: bool | None) -> str:
    """A sign and its word: nothing is said by a sign or a colour alone."""
    return {True: "\u2713 passed", False: "\u2717 failed", None: "\u2013 not decided"}[passed]


def gate_mark(passed: bool | None) -> str:
    """The same for a gate."""
    return {True: "\u2713 reached", False: "\u2717 missed", None: f"{NONE} not decided"}[passed]


def outcome_mark(passed: bool | None) -> str:
    """The sign before an expected outcome."""
    return "\u2713" if passed is True else "\u2717"


def labels(distribution: list[Mapping[str, object]]) -> str:
    """A distribution as text: `excellent 12, good 3`."""
    return ", ".join(f"{entry['label']} {entry['count']}" for entry in distribution) or NONE
