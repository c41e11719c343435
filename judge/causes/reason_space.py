"""Reasons as vectors: two reasons that say the same in similar words point the same way.

The vectors are TF-IDF weights (Salton and Buckley, 1988) of words and of the first letters of long
words, so that "refunded" is near "refund". What a reason quotes does not count, nor do numbers: both
belong to the case, not to the cause. A failure code counts as a fourth of a reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import polars as pl
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer  # type: ignore[import-untyped]
from sklearn.preprocessing import normalize  # type: ignore[import-untyped]

CODE_WEIGHT: Final = 0.5
"""The length of the part of a vector for the failure code; the part for the words has length 1."""

STEM: Final = 5
"""The letters of a word that also count by themselves, in words that have more."""

_SEEN_TWICE_FROM: Final = 20
"""The number of reasons from which a word must stand in two of them to count."""

_QUOTED: Final = r"[\"“«‘][^\"”»’]{8,}[\"”»’]"
_LEAST_LEFT: Final = 12  # characters outside of quotations; a shorter rest counts with them

# A word of letters, or one character of a script that is written without blanks.
_WORD: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\d_]+(?:['’][^\W\d_]+)?")


def plain_reason(column: str = "reason") -> pl.Expr:
    """The reasons of a column in lower case, with one blank between words and without quotations."""
    unquoted = pl.col(column).str.replace_all(_QUOTED, " ")
    is_enough = unquoted.str.len_chars() >= _LEAST_LEFT
    text = pl.when(is_enough).then(unquoted).otherwise(pl.col(column))
    return text.str.to_lowercase().str.replace_all(r"\d+", " ").str.replace_all(r"\s+", " ")


def words(text: str) -> list[str]:
    """The words of a text, in order; a character of Chinese, Japanese or Korean is a word."""
    return _WORD.findall(text)


def _terms(text: str) -> Iterator[str]:
    before = ""
    for word in _WORD.findall(text):
        yield word
        if len(word) > STEM:
            yield f"{word[:STEM]}*"
        if not word.isascii() and len(before) == len(word) == 1:
            yield before + word  # in these scripts a word has mostly two characters
        before = word


class ReasonSpace:
    """A space of vectors of length 1, made for some reasons; others can be placed in it."""

    def __init__(self, texts: Sequence[str], codes: Sequence[str | None]) -> None:
        """Make the space for texts (`plain_reason`) and their failure codes."""
        self._codes = {code: n for n, code in enumerate(sorted({c for c in codes if c}))}
        self._words: Any = TfidfVectorizer(
            analyzer=_terms,
            sublinear_tf=True,
            min_df=2 if len(texts) >= _SEEN_TWICE_FROM else 1,
            dtype=np.float32,
        )
        try:
            self._words.fit(texts)
        except ValueError:  # no word at all, or none twice
            self._words = None

    def vectors(self, texts: Sequence[str], codes: Sequence[str | None]) -> sparse.csr_matrix:
        """One row for each reason, of length 1; of length 0 where it has no word of the space."""
        parts = []
        if self._words is not None:
            parts.append(self._words.transform(texts))
        known = [(row, self._codes[c]) for row, c in enumerate(codes) if c in self._codes]
        shape = (len(texts), max(1, len(self._codes)))
        rows, columns = zip(*known, strict=True) if known else ((), ())
        weights = np.full(len(known), CODE_WEIGHT, dtype=np.float32)
        parts.append(sparse.csr_matrix((weights, (rows, columns)), shape=shape))
        return normalize(sparse.hstack(parts).tocsr(), copy=False)


def mean_vectors(vectors: sparse.csr_matrix, groups: np.ndarray, count: int) -> sparse.csr_matrix:
    """The mean of the vectors of each group 0 to `count` - 1; a group of -1 counts nowhere."""
    member = np.flatnonzero(groups >= 0)
    own = groups[member]
    sizes = np.bincount(own, minlength=count)
    shares = (1 / np.maximum(sizes, 1))[own].astype(np.float32)
    return sparse.csr_matrix((shares, (own, member)), shape=(count, len(groups))) @ vectors
