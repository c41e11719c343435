"""Names of causes without a model: words that their reasons share, and the reason that says it best."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Final

import polars as pl

from assizes.judge.causes.reason_space import empty_words, plain_reason, words

_READ: Final = 200  # reasons of a cause that are read for its name
_LONGEST: Final = 5  # words of a name
_EMPTY_CODES: Final = frozenset({"unspecified_failure", "other"})  # codes that say nothing
_OPEN_ENDS: Final = frozenset(
    {"no", "not", "never", "without"}
)  # words that begin a name but end none
_PER_WORD: Final = 0.12  # what a word of a name must add, as a share of the reasons


def typical_failures(members: pl.DataFrame) -> pl.DataFrame:
    """The first 200 failures of a cause, ordered by how much their reasons share with the others."""
    sample = members.head(_READ)
    texts = [set(words(text)) for text in sample.select(plain_reason())["reason"].to_list()]
    shared = Counter(word for text in texts for word in text)
    # Divided by the root of the length: a long reason holds more words than it says.
    marks = [
        sum(math.log(shared[word]) for word in text) / math.sqrt(len(text) or 1) for text in texts
    ]
    order = sample.with_columns(pl.Series("_mark", marks, dtype=pl.Float64))
    by_mark = order.sort("_mark", "case_id", "metric", descending=[True, False, False])
    return by_mark.drop("_mark")


def cause_name(members: Sequence[str], others: Sequence[str], taken: Collection[str] = ()) -> str:
    """A name of up to five words for a cause, which none of `taken` is.

    It is a run of words of a reason. Its words stand in more reasons of the cause than in those of
    other causes; both are texts of `plain_reason`. A cause whose reasons have no words is `unnamed`.
    """
    own, foreign, empty = _shares(members), _shares(others), empty_words()
    worth = {
        word: share * share / (share + foreign.get(word, 0.0))
        for word, share in own.items()
        if word not in empty
    }

    def value(phrase: tuple[str, ...]) -> float:
        return sum(worth.get(word, 0.0) for word in set(phrase)) - _PER_WORD * len(phrase)

    phrases = {phrase for text in members[:_READ] for phrase in _phrases(text)}
    for phrase in sorted(phrases, key=lambda phrase: (-value(phrase), phrase)):
        if (name := " ".join(phrase)) not in taken:
            return name
    return _numbered("unnamed", taken)


def name_of_code(members: pl.Series, others: pl.Series, taken: Collection[str]) -> str | None:
    """The words of the failure code that names a cause; None where no code does.

    A code names a cause if at least half of the cause's failures have it, and at least half of the
    failures that have it are in the cause. `members` and `others` are the codes of the failures of
    the cause and of all other failures.
    """
    codes = members.drop_nulls().value_counts().sort("count", "code", descending=[True, False])
    if not codes.height:
        return None
    code, count = codes.row(0)
    is_shared = (others == code).sum() > count
    name = code.replace("_", " ").strip()
    is_clear = 2 * count >= members.len() and not is_shared and code not in _EMPTY_CODES
    return name if is_clear and name and name not in taken else None


def _shares(texts: Sequence[str]) -> dict[str, float]:
    """The share of some texts, 0..1, in which each word stands."""
    read = texts[:_READ]
    counts = Counter(word for text in read for word in set(words(text)))
    return {word: count / len(read) for word, count in counts.items()}


def _phrases(text: str) -> Iterator[tuple[str, ...]]:
    empty = empty_words()
    for sentence in re.split(r"[.:;!?]", text):
        found = words(sentence)
        for first in range(len(found)):
            for last in range(first, min(first + _LONGEST, len(found))):
                begin, end = found[first], found[last]
                if begin not in empty and end not in empty and end not in _OPEN_ENDS:
                    yield tuple(found[first : last + 1])


def _numbered(name: str, taken: Collection[str]) -> str:
    number = 1
    while (numbered := name if number == 1 else f"{name} {number}") in taken:
        number += 1
    return numbered
