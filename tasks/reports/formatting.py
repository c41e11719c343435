"""Formats numbers and foreign text for people, the same way in every format of the report.

Foreign text (of transcripts, models and users) can be very long and can hold invisible characters
that mislead a reader. In Markdown it is escaped, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

UNKNOWN: Final = "unknown"  # stands where an amount was not measured; 0 would be a claim
DASH: Final = "\u2013"  # stands where there is no number or no text
NAME_CHARS: Final = 120  # characters that are shown of a name, at most
LINE_CHARS: Final = 300  # characters that are shown of a sentence in a list, at most
ID_CHARS: Final = 512  # characters of the id of a case, and of a value that filters take, at most

# C0 without tab and line feed, DEL, C1, lone surrogates and noncharacters: XML holds none.
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
# An attack: direction overrides and invisible signs make a line read differently from its bytes.
_INVISIBLE: Final = re.compile(
    "[\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]"
)
TEXT_CHARS: Final = 280  # characters that are shown of a text, unless the caller says otherwise

# An underscore inside a word is no emphasis; left alone, names stay readable in the source.
_SPECIAL: Final = re.compile(r"[\\`*{}\[\]#~$^=+]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
# At the start of a line these begin a list or a rule.
_BLOCK: Final = re.compile(r"^(\d{0,9})([-.)])(?=[\s-]|$)")  # (number, sign)
_ENTITIES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "&#124;"}  # | would end a cell
# Renderers turn these into links without any syntax; a word joiner (U+2060) prevents that.
_AUTOLINKS: Final = re.compile(
    r"(?i)(?<=:)(?=//)|(?<=www)(?=\.)|(?<=@)|(?<=mailto)(?=:)|(?<=xmpp)(?=:)"
)
_JOINER: Final = "\u2060"
_CODE_SAFE: Final = re.compile(r"[^`|\\<>&\s]+(?: [^`|\\<>&\s]+)*")  # no sign that ends a span


def clean(text: str, limit: int) -> str:
    """Foreign text for display, cut after `limit` characters; an ellipsis marks the cut.

    An invisible character becomes its code point in angle brackets.
    """
    text = text[: limit + 1].replace("\r\n", "\n").replace("\r", "\n")  # bounds the work below
    text = _INVISIBLE.sub(lambda match: f"\u27e8U+{ord(match[0]):04X}\u27e9", text)
    text = _CONTROLS.sub("\ufffd", text)
    return text if len(text) <= limit else text[:limit].rstrip() + "\u2026"


def one_line(text: str) -> str:
    """The text on one line: every sequence of white space becomes one blank."""
    return " ".join(text.split())


def clean_line(text: str, limit: int) -> str:
    """Foreign text for display on one line, cut after `limit` characters."""
    return clean(" ".join(text.split()), limit)


def name_of(text: str) -> str:
    """A name for display: one line of at most `NAME_CHARS` characters."""
    return clean_line(text, NAME_CHARS)


def id_of(text: str) -> str:
    """The id of a case for display; links and data hold the id itself, as others may look alike."""
    return clean_line(text, ID_CHARS)


def filter_value(text: str) -> str:
    """A value that links filter by: the text itself, as far as a filter takes it."""
    return text[:ID_CHARS]


def writer_of(author: str | None) -> str | None:
    """Who wrote a sentence, for display; `None` where `author` is, as nobody wrote it then."""
    return None if author is None else name_of(author) or "somebody"


def line_of(text: str) -> str:
    """A sentence for display in a list: one line of at most `LINE_CHARS` characters."""
    return clean_line(text, LINE_CHARS)


def number(value: float | None, digits: int = 2) -> str:
    """A number with `digits` decimals, grouped by thousands; a dash for `None`."""
    return DASH if value is None else f"{value:,.{digits}f}"


def count(value: int | None) -> str:
    """A whole number grouped by thousands; `unknown` for `None`."""
    return UNKNOWN if value is None else f"{value:,}"


def share(fraction: float | None) -> str:
    """A fraction (0..1) as percent with one decimal, never rounded up to 100; a dash for `None`."""
    if fraction is None:
        return DASH
    shown = round(fraction * 100, 1)  # 99.96 % rounds to 100.0, which would say that all passed
    return f"{99.9 if shown >= 100 and fraction < 1 else shown:.1f} %"


def signed_number(value: float | None, digits: int = 2) -> str:
    """A difference with its sign and `digits` decimals; a dash for `None`."""
    if value is None:
        return DASH
    shown = round(value, digits)
    # Rounded first: -0.001 is shown as 0.00, without a sign. U+2212 is the minus sign.
    return f"{shown:+,.{digits}f}".replace("-", "\u2212") if shown else f"{0:.{digits}f}"


def points(fraction: float | None) -> str:
    """A change of a share (-1..1) in percentage points, with enough decimals not to read as 0."""
    if fraction is None:
        return DASH
    moved = round(fraction * 100, 7)  # a difference of two floats; 1e-17 is no move
    digits = 1 if not moved or abs(moved) >= 0.1 else 4  # 0.04 points with one decimal read as 0.0
    return f"{signed_number(moved, digits)} points"


def money(dollars: float | None) -> str:
    """An amount of US dollars; `unknown` for `None`, because an unknown price is not 0."""
    if dollars is None:
        return UNKNOWN
    # One question often costs less than a cent.
    return f"${dollars:,.4f}" if 0 < abs(dollars) < 1 else f"${dollars:,.2f}"


def duration(milliseconds: float | None) -> str:
    """A duration in milliseconds, or in seconds from 1,000 ms on; `unknown` for `None`."""
    if milliseconds is None:
        return UNKNOWN
    seconds = milliseconds / 1000
    return f"{milliseconds:,.0f} ms" if abs(milliseconds) < 1000 else f"{seconds:,.2f} s"


def plural(amount: int, singular: str, plural_noun: str = "") -> str:
    """An amount with its noun: `1 case`, `2 cases`."""
    return f"{amount:,} {singular if amount == 1 else plural_noun or singular + 's'}"


def mark(passed: bool | None) -> str:
    """A sign with its word for a verdict; a sign or a colour alone would exclude some readers."""
    return {True: "\u2713 passed", False: "\u2717 failed", None: f"{DASH} not decided"}[passed]


def gate_mark(passed: bool | None) -> str:
    """A sign with its word for a gate."""
    return {True: "\u2713 reached", False: "\u2717 missed", None: f"{DASH} not decided"}[passed]


def labels(distribution: list[Mapping[str, object]]) -> str:
    """A distribution of labels as text, such as `excellent 12, good 3`."""
    return ", ".join(f"{entry['label']} {entry['count']}" for entry in distribution) or DASH


def plain(text: str, limit: int = TEXT_CHARS) -> str:
    """Foreign text as Markdown that renders as exactly that text, on one line."""
    line = _AUTOLINKS.sub(_JOINER, clean_line(text, limit))
    line = _BLOCK.sub(r"\1\\\2", _SPECIAL.sub(r"\\\g<0>", line))
    # Entities come last: `_SPECIAL` would escape the # of an entity.
    return "".join(_ENTITIES.get(sign, sign) for sign in line)


def code(text: str, limit: int = TEXT_CHARS) -> str:
    """Foreign text as a code span, or as plain text where it could break out of a code span."""
    line = clean_line(text, limit)
    return f"`{line}`" if _CODE_SAFE.fullmatch(line) else plain(line, limit)


def table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: int = 0) -> str:
    """A Markdown table; its last `numbers` columns are aligned to the right."""
    left = len(head) - numbers
    rule = ["---" if place < left else "---:" for place in range(len(head))]  # `---:` aligns right
    lines = (head, rule, *rows)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def bullets(lines: Iterable[str]) -> str:
    """A Markdown list with one entry for each line."""
    return "\n".join(f"- {line}" for line in lines)
