"""What differs between two texts, word by word, and between the tool calls of two turns, by key."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, Literal

from assizes.judge.case import ToolCall
from assizes.judge.summary.headlines import FrozenModel

MAX_CELLS: Final = 60_000
"""The most pairs of words that are compared in two texts: longer texts are marked as a whole."""

MIN_SHARED: Final = 0.25
"""The smallest share of words that two texts must have in common to be marked word by word."""

MAX_VALUE_CHARS: Final = 6_000
"""Characters of the value of an argument that are shown, at most."""

MAX_ARGUMENTS: Final = 60
"""Arguments of a call that are listed, at most."""

# Words, blanks and single other signs: joined again, they are the text.
_WORD: Final = re.compile(r"\w+|\s+|[^\w\s]")

_CHARS_OF_PAIR: Final = 36
"""The most signs of one text, times those of the other, for each pair of words."""

Change = Literal["same", "changed"]


class TextSpan(FrozenModel):
    """A piece of a text, and whether the other text has it too."""

    text: str
    change: Change


Spans = tuple[TextSpan, ...]


def text_spans(baseline: str, candidate: str, most_cells: int = MAX_CELLS) -> tuple[Spans, Spans]:
    """Both texts in pieces; joined, the pieces of a side are its text.

    Texts that share little are marked as a whole. So is what lies between their equal beginnings
    and ends if it has more than `most_cells` pairs of words: the time goes with that number.
    """
    if baseline == candidate:
        return _whole(baseline, "same"), _whole(candidate, "same")
    start = _common_start(baseline, candidate)
    end = _common_end(baseline[start:], candidate[start:])
    before, after = (text[start : len(text) - end] for text in (baseline, candidate))
    pieces = _marked_middles(before, after, most_cells)
    shared = start + end + sum(len(piece) for piece, differs in pieces[0] if not differs)
    if shared < MIN_SHARED * max(len(baseline), len(candidate)):
        return _whole(baseline, "changed"), _whole(candidate, "changed")
    ends = [(baseline[:start], False)], [(baseline[len(baseline) - end :], False)]
    return _spans([*ends[0], *pieces[0], *ends[1]]), _spans([*ends[0], *pieces[1], *ends[1]])


def _marked_middles(
    before: str, after: str, most_cells: int
) -> tuple[list[tuple[str, bool]], list[tuple[str, bool]]]:
    """The words of both texts, each with whether it differs; long texts are one piece."""
    # A word has a sign at least: whatever may be too long is not even cut into words.
    if len(before) * len(after) > most_cells * _CHARS_OF_PAIR:
        return [(before, True)], [(after, True)]
    words = _WORD.findall(before), _WORD.findall(after)
    marks = ([True] * len(words[0]), [True] * len(words[1]))
    if len(words[0]) * len(words[1]) <= most_cells:
        # `autojunk` would drop frequent words from long texts.
        matcher = SequenceMatcher(None, *words, autojunk=False)
        for one, other, size in matcher.get_matching_blocks():
            marks[0][one : one + size] = [False] * size
            marks[1][other : other + size] = [False] * size
    return [*zip(words[0], marks[0], strict=True)], [*zip(words[1], marks[1], strict=True)]


def _common_start(one: str, other: str) -> int:
    """The length of the equal beginning, up to the last whole word."""
    low, high = 0, min(len(one), len(other))
    while low < high:  # by halves: a loop over signs is slow
        half = (low + high + 1) // 2
        low, high = (half, high) if one[:half] == other[:half] else (low, half - 1)
    texts = (one, other)
    while low and any(text[low - 1 : low + 1].isalnum() and len(text) > low for text in texts):
        low -= 1
    return low


def _common_end(one: str, other: str) -> int:
    return _common_start(one[::-1], other[::-1])


def whole_text(text: str) -> Spans:
    """A text that the other run has nothing to compare with."""
    return _whole(text, "changed")


def _whole(text: str, change: Change) -> Spans:
    return (TextSpan(text=text, change=change),) if text else ()


def _spans(pieces: Sequence[tuple[str, bool]]) -> Spans:
    # A blank between two changed words is changed with them: fewer, longer pieces read better.
    filled = [
        (
            differs
            or (
                text.isspace()
                and 0 < place < len(pieces) - 1
                and pieces[place - 1][1]
                and pieces[place + 1][1]
            ),
            text,
        )
        for place, (text, differs) in enumerate(pieces)
        if text
    ]
    return tuple(
        TextSpan(text="".join(text for _, text in group), change="changed" if differs else "same")
        for differs, group in groupby(filled, key=itemgetter(0))
    )


class ArgumentPair(FrozenModel):
    """One argument of a call in both runs; a nested one is named by its path, as in `user.id`."""

    name: str
    baseline: Spans | None  # the value as JSON; None: the call has no such argument
    candidate: Spans | None


class CallPair(FrozenModel):
    """A call of a tool in both runs; `None` stands for a run without it."""

    tool: str
    baseline: bool  # whether the baseline makes it
    candidate: bool
    differs: bool
    arguments: tuple[ArgumentPair, ...]
    more: int  # arguments that are not listed


def call_pairs(
    baseline: Sequence[ToolCall], candidate: Sequence[ToolCall], most_cells: int = MAX_CELLS
) -> tuple[CallPair, ...]:
    """The calls of two turns: those of one tool in order, then what only the candidate calls.

    The values of all calls together have at most `most_cells` pairs of words compared.
    """
    rest = list(candidate)
    each = most_cells // max(1, len(baseline))
    pairs = []
    for call in baseline:
        # The very same call first, so that a call that was put before it does not shift the rest.
        twins = [other for other in rest if other.name == call.name]
        same = [other for other in twins if _arguments(other) == _arguments(call)]
        other = next(iter(same or twins), None)
        if other is not None:
            rest.remove(other)
        pairs.append(_call_pair(call, other, each))
    return (*pairs, *(_call_pair(None, call, each) for call in rest))


def _call_pair(before: ToolCall | None, after: ToolCall | None, most_cells: int) -> CallPair:
    old = {} if before is None else _arguments(before)
    new = {} if after is None else _arguments(after)
    names = list(dict.fromkeys([*old, *new]))
    each = most_cells // max(1, len(names[:MAX_ARGUMENTS]))
    shown = [_argument_pair(name, old, new, each) for name in names[:MAX_ARGUMENTS]]
    known = before or after
    assert known is not None, "one of the runs makes the call"
    return CallPair(
        tool=known.name,
        baseline=before is not None,
        candidate=after is not None,
        differs=before is None or after is None or old != new,
        arguments=tuple(shown),
        more=len(names) - len(shown),
    )


def _argument_pair(
    name: str, old: Mapping[str, str], new: Mapping[str, str], most_cells: int
) -> ArgumentPair:
    before, after = (side.get(name) for side in (old, new))
    if before is not None and after is not None:
        spans = text_spans(before[:MAX_VALUE_CHARS], after[:MAX_VALUE_CHARS], most_cells)
        return ArgumentPair(name=name, baseline=spans[0], candidate=spans[1])
    one, other = (text and whole_text(text[:MAX_VALUE_CHARS]) for text in (before, after))
    return ArgumentPair(name=name, baseline=one or None, candidate=other or None)


def _arguments(call: ToolCall) -> dict[str, str]:
    """The arguments of a call as JSON by name; of nested objects, by their paths."""
    if call.raw is not None:
        return {"(text)": call.raw}
    values = dict(_leaves(call.arguments))
    # Calls inside a call have no turn of their own.
    nested = [inner.model_dump(exclude_none=True) for inner in call.tool_calls]
    return values | ({"(calls inside)": _as_text(nested)} if nested else {})


def _leaves(values: Mapping[str, Any], path: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        place = f"{path}.{name}" if path else name
        if isinstance(value, dict) and value and depth < 3:  # deeper objects are shown as JSON
            yield from _leaves(value, place, depth + 1)
        else:
            yield place, _as_text(value)


def _as_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1, default=str)
