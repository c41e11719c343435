"""What a result looks like: the same lines and tables as text in a terminal, as HTML in a notebook.

Texts of models and transcripts are escaped, and their invisible characters are shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from assizes.deployments.terminal import printable
from assizes.tasks.reports.formatting import clean_line

CELL_CHARS: Final = 300
"""Characters that are shown of one cell or line, at most."""

_CELL: Final = "padding:2px 10px 2px 0"
_NUMBER: Final = f"{_CELL};text-align:right"


@dataclass(frozen=True, slots=True)
class DisplayBlock:
    """A heading, lines and a table; a column whose name begins with `#` holds numbers."""

    heading: str = ""
    lines: Sequence[str] = ()
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[object]] = ()


def block_text(blocks: Iterable[DisplayBlock]) -> str:
    """The blocks as plain text."""
    texts = (_text(block) for block in blocks)
    return "\n".join(text for text in texts if text)


def block_html(blocks: Iterable[DisplayBlock]) -> str:
    """The blocks as HTML that stands in the output of a cell."""
    return f"<div>{''.join(map(_html, blocks))}</div>"


def cell_text(value: object) -> str:
    """A value as one cell: `-` where there is none, numbers with two decimals."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "pass" if value else "FAIL"
    if isinstance(value, float):
        return f"{value:.2f}"
    return clean_line(printable(str(value)), CELL_CHARS)


def _text(block: DisplayBlock) -> str:
    lines = [line.rstrip() for line in _text_lines(block)]
    if block.rows:
        lines.append("")  # a table ends with a blank line
    return "\n".join(lines)


def _text_lines(block: DisplayBlock) -> Iterable[str]:
    yield from (cell_text(text) for text in (block.heading, *block.lines) if text)
    if not block.rows:
        return
    table = [[name.removeprefix("#") for name in block.columns]]
    table += [[cell_text(value) for value in row] for row in block.rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        yield "  ".join(
            text.rjust(width) if name.startswith("#") else text.ljust(width)
            for name, text, width in zip(block.columns, row, widths, strict=True)
        )


def _html(block: DisplayBlock) -> str:
    parts = [f"<div><b>{_escaped(block.heading)}</b></div>"] if block.heading else []
    parts += [f"<div>{_escaped(line)}</div>" for line in block.lines]
    if block.rows:
        styles = [_NUMBER if name.startswith("#") else _CELL for name in block.columns]
        head = _row_html("th", styles, [name.removeprefix("#") for name in block.columns])
        body = "".join(_row_html("td", styles, row) for row in block.rows)
        parts.append(f"<table><thead>{head}</thead><tbody>{body}</tbody></table>")
    return "".join(parts)


def _row_html(tag: str, styles: Sequence[str], values: Sequence[object]) -> str:
    cells = (
        f'<{tag} style="{style}">{_escaped(value)}</{tag}>'
        for style, value in zip(styles, values, strict=True)
    )
    return f"<tr>{''.join(cells)}</tr>"


def _escaped(value: object) -> str:
    return escape(cell_text(value))
