"""Reasons as vectors: two reasons that say the same in similar words point the same way.

The vectors are TF-IDF weights (Salton and Buckley, 1988) of words, of the first letters of long words,
so that "refunded" is near "refund", and of the failure code. What a reason quotes does not count, nor
do numbers: both belong to the case, not to the cause.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import numpy as np
import polars as pl
from scipy import sparse  # type: ignore[import-untyped]  # it has no types

STEM: Final = 5
"""The letters of a word that also count by themselves, in words that have more."""

_SAYING: Final = frozenset({"no", "not", "never", "without", "cannot", "cant", "nothing", "none"})
_FRAME: Final = frozenset({"agent", "assistant", "customer", "user", "case", "turn", "score"})

_SEEN_TWICE_FROM: Final = 20
"""The number of reasons from which a word must stand in two of them to count."""

_QUOTED: Final = r"[\"“«][^\"”»]{8,}[\"”»]"
_LEAST_LEFT: Final = 12  # characters outside of quotations; a shorter rest counts with them

# A word of letters, or one character of a script that is written without blanks.
_WORD: Final = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\d_]+(?:['\u2019][^\W\d_]+)?"
)


_OFFLINE: Final = r"^plain text rule: "  # how reasons of the offline judge begin


def plain_reason(column: str = "reason") -> pl.Expr:
    """The reasons of a column in lower case, with one blank between words and without quotations."""
    unquoted = pl.col(column).str.replace_all(_QUOTED, " ")
    is_enough = unquoted.str.len_chars() >= _LEAST_LEFT
    text = pl.when(is_enough).then(unquoted).otherwise(pl.col(column))
    text = text.str.to_lowercase().str.replace(_OFFLINE, "")
    return text.str.replace_all(r"\d+", " ").str.replace_all(r"\s+", " ")


def reasons(failures: pl.DataFrame) -> pl.DataFrame:
    """The reasons of failures as columns `text` (`plain_reason`) and `code`."""
    return failures.select(plain_reason().alias("text"), "code")


def words(text: str) -> list[str]:
    """The words of a text, in order; a character of Chinese, Japanese or Korean is a word."""
    return _WORD.findall(text)


@cache
def empty_words() -> frozenset[str]:
    """Words of English that say nothing about a cause. Among few reasons their frequency does not show it."""
    # Imported here, because scikit-learn is slow to import.
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    found: frozenset[str] = (ENGLISH_STOP_WORDS - _SAYING) | _FRAME
    return found


def _terms(reason: tuple[str, str | None]) -> Iterator[str]:
    text, code = reason
    before, empty = "", empty_words()
    for word in words(text):
        if word in empty:
            continue
        yield word
        if len(word) > STEM:
            yield f"{word[:STEM]}*"
        if not word.isascii() and len(before) == len(word) == 1:
            yield before + word  # in these scripts a word has mostly two characters
        before = word
    if code:
        yield f"code:{code}"


class ReasonSpace:
    """A space of vectors of length 1, made for some reasons; others can be placed in it."""

    def __init__(self, fitted: pl.DataFrame) -> None:
        """Make the space for `reasons`."""
        # Imported here, because scikit-learn is slow to import.
        from sklearn.feature_extraction.text import TfidfVectorizer

        self._terms: Any = TfidfVectorizer(
            analyzer=_terms,
            sublinear_tf=True,
            min_df=2 if fitted.height >= _SEEN_TWICE_FROM else 1,
            dtype=np.float32,
        )
        try:
            self._terms.fit(fitted.rows())
        except ValueError:  # no word at all, or none twice
            self._terms = None

    def vectors(self, placed: pl.DataFrame) -> sparse.csr_matrix:
        """A row for each of `reasons`, of length 1; of length 0 where it has no word of the space."""
        if self._terms is None:
            return sparse.csr_matrix((placed.height, 1), dtype=np.float32)
        if not placed.height:
            return sparse.csr_matrix((0, len(self._terms.vocabulary_)), dtype=np.float32)
        return self._terms.transform(placed.rows())


def mean_vectors(vectors: sparse.csr_matrix, groups: np.ndarray, count: int) -> sparse.csr_matrix:
    """The mean of the vectors of each group 0 to `count` - 1; a group below 0 counts nowhere."""
    member = np.flatnonzero(groups >= 0)
    own = groups[member]
    shares = (1 / np.maximum(np.bincount(own, minlength=count), 1))[own].astype(np.float32)
    return sparse.csr_matrix((shares, (own, member)), shape=(count, len(groups))) @ vectors
