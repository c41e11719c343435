"""What a tool answers: few sentences of ours, then data between marks, within a bound.

Everything that can quote a transcript, a model or a person stands between `<data: ...>` and
`</data N>`; the number N is drawn from the answer, so that no text can close the section itself.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

from assizes.judge.privacy.secret_masking import mask
from assizes.judge.prompts.prompt_texts import neutralise

MAX_CHARS: Final = 6000
"""Characters of an answer, at most."""

TEXT_CHARS: Final = 600
"""Characters of one text within an answer, at most, unless its tool says otherwise."""

_ID_DIGITS: Final = 12
_ROOM: Final = 200  # characters kept free for the marks and the sentence about what is left


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """What a tool has to say; `rendered` makes one text of it."""

    head: Sequence[str]  # sentences of this program; none quotes foreign text
    items: Sequence[Mapping[str, Any]] = ()  # from position `start` on
    heading: str = "rows"
    start: int = 0
    total: int | None = None  # items of the whole list; None: `items` end it
    links: Sequence[str] = ()

    def rendered(self) -> str:
        """The answer as text of at most `MAX_CHARS` characters; what is left out is counted."""
        outside = [*self.head, *self.links]
        room = MAX_CHARS - _ROOM - sum(len(line) + 1 for line in outside)
        lines = _fitting_lines(self.items, room)
        total = self.start + len(self.items) if self.total is None else self.total
        left = total - self.start - len(lines)
        parts = list(self.head)
        if lines:
            parts.append(_section(self.heading, lines))
        if left > 0:
            cursor = self.start + len(lines)
            parts.append(f'{left} more: the same call with cursor="{cursor}"')
        return "\n".join([*parts, *self.links])[:MAX_CHARS]


def page_of(items: Sequence[Mapping[str, Any]], cursor: str) -> tuple[int, Sequence[Any]]:
    """The position that a cursor names, and the items from there on."""
    start = int(cursor or 0)
    return start, items[start:]


def shortened(text: str, most: int = TEXT_CHARS) -> str:
    """A text of at most so many characters; the number of the others stands at its end."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most:,} more characters)"


def _fitting_lines(items: Sequence[Mapping[str, Any]], room: int) -> list[str]:
    """As many items as have room, a line of JSON each; the first one always."""
    lines: list[str] = []
    for item in items:
        line = neutralise(json.dumps(_plain(item), ensure_ascii=False, separators=(",", ":")))
        if lines and len(line) + 1 > room:
            break
        lines.append(shortened(line, max(room - 40, 200)))
        room -= len(lines[-1]) + 1
    return lines


def _section(heading: str, lines: Sequence[str]) -> str:
    body = neutralise("\n".join(lines))  # as a whole: two harmless pieces can form a mark
    number = hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()[:_ID_DIGITS]
    return f"<data: {heading}>\n{body}\n</data {number}>"


def _plain(value: Any) -> Any:
    """A value for JSON: without fields that hold nothing, secrets masked, numbers rounded."""
    if isinstance(value, str):
        return mask(shortened(value, MAX_CHARS))
    if isinstance(value, float):
        return round(value, 3) if math.isfinite(value) else None
    if isinstance(value, date):  # a datetime is one
        return value.isoformat()
    if isinstance(value, Mapping):
        fields = {str(name): _plain(part) for name, part in value.items()}
        return {name: part for name, part in fields.items() if part not in (None, "", [], {})}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value
