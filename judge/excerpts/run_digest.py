"""A run in few tokens: one line a step, and the spans of it that a reader asked for.

Both have a bound in tokens that does not grow with the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final

from assizes.judge.case import Transcript
from assizes.judge.config.judging import estimated_tokens
from assizes.judge.prompts.prompt_texts import rendered_turns

_SHORTEST_LINE: Final = 48
"""Characters of the shortest line that still says what a step was."""
_LONGEST_LINE: Final = 400
_SHORTEST_TURN: Final = 200
"""Characters of the shortest excerpt of a turn that was asked for."""
_LONGEST_TURN: Final = 20_000
_GAP: Final = " ... "


def shorten_middle(text: str, limit: int) -> str:
    """The text with at most `limit` characters: its beginning and its end, where it is longer."""
    if len(text) <= limit:
        return text
    tail = (limit - len(_GAP)) // 3
    return f"{text[: limit - len(_GAP) - tail]}{_GAP}{text[len(text) - tail :]}"


def digest_text(transcript: Transcript, most_tokens: int) -> str:
    """The run with one line a step, in at most `most_tokens` (estimated).

    Lines become shorter as the run gets longer. In a run too long even for the shortest lines,
    neighbouring steps in its middle share a line that counts them by speaker.
    """
    lines = [" ".join(block.split()) for block in rendered_turns(transcript)]
    limit = _LONGEST_LINE
    while limit >= _SHORTEST_LINE:
        shown = "\n".join(shorten_middle(line, limit) for line in lines)
        if estimated_tokens(shown) <= most_tokens:
            return shown
        limit = limit * 3 // 4
    shown, size = "", 2
    while size < len(lines):
        shown = "\n".join(_folded_lines(lines, size))
        if estimated_tokens(shown) <= most_tokens:
            return shown
        size *= 2
    return shorten_middle(shown, most_tokens)  # a character has at most one token, or nearly


def _folded_lines(lines: Sequence[str], size: int) -> list[str]:
    """The first and the last tenth of the steps a line each; the others `size` a line."""
    edge = len(lines) // 10 // size + 1
    head, middle, tail = lines[:edge], lines[edge : len(lines) - edge], lines[len(lines) - edge :]
    folded = []
    for start in range(0, len(middle), size):
        group = middle[start : start + size]
        speakers = [line.partition("] ")[2].partition(":")[0][:24] for line in group]
        counts = ", ".join(f"{name} x{len(list(same))}" for name, same in groupby(sorted(speakers)))
        first = edge + start
        folded.append(f"[{first}-{first + len(group) - 1}] {shorten_middle(counts, 60)}")
    edges = [[shorten_middle(line, _SHORTEST_LINE) for line in part] for part in (head, tail)]
    return [*edges[0], *folded, *edges[1]]


def spans_text(transcript: Transcript, turns: Iterable[int], most_tokens: int) -> str:
    """The turns in full, or so much of each that all have at most `most_tokens` (estimated)."""
    wanted = set(turns)
    rendered = rendered_turns(transcript)
    blocks = [block for index, block in enumerate(rendered) if index in wanted]
    limit = _LONGEST_TURN
    while blocks:
        shown = "\n".join(shorten_middle(block, limit) for block in blocks)
        if estimated_tokens(shown) <= most_tokens:
            return shown
        if limit > _SHORTEST_TURN:
            limit = limit * 3 // 4
        else:
            blocks.pop()  # the last turns of too long a span are left out
    return ""
