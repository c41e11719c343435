"""Aligns the turns of two conversations, so that a reader sees what one of them did otherwise.

Equal turns at the beginning and the end are paired first. Between them, the pairing with the
largest sum of similarities is found in order (the global alignment of Needleman and Wunsch 1970,
where a gap costs nothing). Only turns of one role are paired. Their similarity is made of the tools
that they call or answer, and of the words that they share.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from itertools import zip_longest
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assizes.judge.case import Turn

MAX_CELLS: Final = 250_000
"""The most pairs of turns that are compared, 500 by 500; longer ones are paired by position."""

MAX_WORDS: Final = 60
"""Words of a turn, from its beginning, that its similarity rests on."""

MAX_TEXT_CHARS: Final = 600
"""Characters of a turn, from its beginning, among which its words are looked for."""

_BUCKETS: Final = 512  # different words are counted in this many places
_SAME_ROLE: Final = 200  # the similarity of two turns that share nothing but the role, of 1,000
_SAME_TOOLS: Final = 300  # what the same tools add
_SAME_WORDS: Final = 500  # what the same words add
_WORD: Final = re.compile(r"\w+")

Matrix = NDArray[np.int64]


class TurnPair(NamedTuple):
    """The positions of two turns that belong together; `None` where one run has no such turn."""

    baseline: int | None
    candidate: int | None


def align_turns(baseline: Sequence[Turn], candidate: Sequence[Turn]) -> list[TurnPair]:
    """Pair the turns of two conversations; each turn is in one pair, and both orders are kept."""
    before, after = [*map(_content, baseline)], [*map(_content, candidate)]
    start = _shared(before, after)
    end = _shared(before[start:][::-1], after[start:][::-1])
    last_before, last_after = len(before) - end, len(after) - end
    pairs = [TurnPair(place, place) for place in range(start)]
    middle = _middle(baseline[start:last_before], candidate[start:last_after])
    pairs += [TurnPair(_moved(one, start), _moved(other, start)) for one, other in middle]
    return pairs + [TurnPair(last_before + place, last_after + place) for place in range(end)]


def are_equal(baseline: Turn, candidate: Turn) -> bool:
    """Whether the same agent says and does the same in two turns; ids, times and costs do not count."""
    return _content(baseline) == _content(candidate)


def _content(turn: Turn) -> tuple[object, ...]:
    """What a turn says and does, in a form that compares."""
    result = turn.tool_result
    calls = [(call.name, call.raw, call.arguments, call.tool_calls) for call in turn.tool_calls]
    answer = None if result is None else (result.name, result.is_error)
    return turn.role, turn.agent, turn.all_text(), calls, answer


def _shared(before: Sequence[object], after: Sequence[object]) -> int:
    """The number of equal turns at the beginning."""
    sides = zip(before, after, strict=False)
    return next(
        (n for n, (one, other) in enumerate(sides) if one != other), min(len(before), len(after))
    )


def _moved(place: int | None, by: int) -> int | None:
    return None if place is None else place + by


def _middle(before: Sequence[Turn], after: Sequence[Turn]) -> list[TurnPair]:
    """The pairs of the turns between the equal ones."""
    if not before or not after:
        return _unpaired(range(len(before)), range(len(after)))
    if len(before) * len(after) > MAX_CELLS:
        return _by_position(before, after)
    similarity = _similarities(before, after)
    return _best_path(similarity, _best_sums(similarity))


def _unpaired(before: range, after: range) -> list[TurnPair]:
    alone = [TurnPair(place, None) for place in before]
    return alone + [TurnPair(None, place) for place in after]


def _by_position(before: Sequence[Turn], after: Sequence[Turn]) -> list[TurnPair]:
    """Turns of one role at the same position are paired."""
    pairs = []
    for place, (one, other) in enumerate(zip_longest(before, after)):
        if one is not None and other is not None and one.role == other.role:
            pairs.append(TurnPair(place, place))
            continue
        pairs += [TurnPair(place, None)] if one is not None else []
        pairs += [TurnPair(None, place)] if other is not None else []
    return pairs


def _similarities(before: Sequence[Turn], after: Sequence[Turn]) -> Matrix:
    """The similarity of each turn to each, 0..1000; 0 for two turns that are never paired."""
    # Whole numbers, so that the sums compare exactly.
    roles = np.array([turn.role for turn in before])[:, None] == np.array([t.role for t in after])
    tools = [_tools(turn) for turn in before], [_tools(turn) for turn in after]
    kinds = {names: place for place, names in enumerate(dict.fromkeys([*tools[0], *tools[1]]))}
    one, other = (np.array([kinds[names] for names in side]) for side in tools)
    same_tools = one[:, None] == other
    words = _word_counts(before) @ _word_counts(after).T
    whole = _SAME_ROLE + _SAME_TOOLS * same_tools + np.rint(_SAME_WORDS * words).astype(np.int64)
    similarity: Matrix = np.where(roles, whole, 0)
    return similarity


def _tools(turn: Turn) -> tuple[str, ...]:
    """The names of the tools that a turn calls or answers."""
    answered = turn.tool_result.name if turn.tool_result else None
    return (*(call.name for call in turn.tool_calls), *([answered] if answered else ()))


def _word_counts(turns: Sequence[Turn]) -> NDArray[np.float64]:
    """The roots of the counts of each turn's words, so that the product of two turns is 0..1."""
    words = [_WORD.findall(_said_and_called(turn))[:MAX_WORDS] for turn in turns]
    different = {word for of_turn in words for word in of_turn}
    # Not `hash`, which differs from process to process.
    bucket = {word: zlib.crc32(word.encode("utf-8", "replace")) % _BUCKETS for word in different}
    cells = [row * _BUCKETS + bucket[word] for row, of_turn in enumerate(words) for word in of_turn]
    counted = np.bincount(np.array(cells, dtype=np.int64), minlength=len(turns) * _BUCKETS)
    roots = np.sqrt(counted.astype(np.float64)).reshape(len(turns), _BUCKETS)
    lengths = np.linalg.norm(roots, axis=1, keepdims=True)
    shares: NDArray[np.float64] = roots / np.where(lengths == 0, 1, lengths)
    return shares


def _said_and_called(turn: Turn) -> str:
    """The beginning of a turn's text, and of the arguments of its calls."""
    calls = [f"{call.raw or call.arguments}" for call in turn.tool_calls]
    return " ".join(text[:MAX_TEXT_CHARS] for text in (turn.all_text()[:MAX_TEXT_CHARS], *calls))


def _best_sums(similarity: Matrix) -> Matrix:
    """The largest sum of similarities over the first turns of both, for each pair of lengths."""
    rows, columns = similarity.shape
    sums = np.zeros((rows + 1, columns + 1), dtype=np.int64)
    for row in range(rows):
        paired = sums[row, :-1] + similarity[row]
        sums[row + 1, 1:] = np.maximum.accumulate(np.maximum(sums[row, 1:], paired))
    return sums


def _best_path(similarity: Matrix, sums: Matrix) -> list[TurnPair]:
    """The pairs whose similarities make the largest sum, read from its end."""
    row, column = similarity.shape
    pairs: list[TurnPair] = []
    while row or column:
        same = similarity[row - 1, column - 1] if row and column else 0
        if same and sums[row, column] == sums[row - 1, column - 1] + same:
            row, column = row - 1, column - 1
            pairs.append(TurnPair(row, column))
        # What the baseline alone has is shown before what the candidate alone has.
        elif column and sums[row, column] == sums[row, column - 1]:
            column -= 1
            pairs.append(TurnPair(None, column))
        else:
            row -= 1
            pairs.append(TurnPair(row, None))
    return pairs[::-1]
