"""Texts as cells of a CSV file, and back: which case of a run a file of labels names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from typing import Final

FORMULA: Final = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""First characters of a formula, full-width forms included; spreadsheets skip white space before."""

_QUOTE: Final = "'"


def cell_text(text: str) -> str:
    """A text as a cell: printable, and with a leading `'` where it would be a formula."""
    shown = "".join(sign if sign.isprintable() or sign in "\n\t" else " " for sign in text)
    return f"{_QUOTE}{shown}" if _is_dangerous(shown) else shown


def text_of_cell(cell: str) -> str:
    """The text of a cell that `cell_text` wrote; what it made blanks of stays blanks."""
    rest = cell.removeprefix(_QUOTE)
    return rest if _is_dangerous(rest) else cell


def _is_dangerous(text: str) -> bool:
    return text.lstrip().startswith(FORMULA) or text.startswith(("\n", "\t"))


def case_reader(held: Collection[str]) -> Callable[[str], str]:
    """A function from the id of a case in a file to the id of that case in `held`.

    An id that is there wins. Next comes the only one that a CSV file writes like this, then what
    either of them gives without the blanks around it. Any other id just loses these blanks.
    """
    known = frozenset(held)
    written = defaultdict[str, list[str]](list)
    for case_id in known:
        written[cell_text(case_id)].append(case_id)

    def read(text: str) -> str:
        for form in (text, text.strip()):
            if form in known:
                return form
            if len(ids := written.get(form, [])) == 1:
                return ids[0]
        return text.strip()

    return read
