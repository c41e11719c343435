"""Groups of reasons that say the same, by average linkage (Sokal and Michener, 1958).

Two groups are joined while the mean cosine of their reasons is high enough. That takes all pairs of
reasons, so of many reasons a sample is grouped, and each other reason goes to the group to whose
reasons its mean cosine is highest, by the same limit. What fits nowhere is sampled again.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl
from scipy import sparse
from scipy.cluster.hierarchy import fcluster, linkage  # type: ignore[import-untyped]
from scipy.spatial.distance import squareform  # type: ignore[import-untyped]

from assizes.judge.causes.reason_space import ReasonSpace, mean_vectors, plain_reason

LEAST_COSINE: Final = 0.14
"""The mean cosine of the reasons of two groups from which they are one group.

It was chosen with the development modes of `make bench-causes`; other modes measure it.
"""

SAMPLE: Final = 3_000
"""The most reasons that are compared in pairs, which takes 8 bytes a pair."""

_FITTED: Final = 20_000  # reasons that say which words are frequent
_ROUNDS: Final = 3
_BLOCK: Final = 50_000  # reasons that are vectors at a time

ALONE: Final = -1
"""The group of a reason that is in no group."""

Groups = np.ndarray
"""A group number for each reason; `ALONE` for none."""


class GroupedReasons:
    """Distinct reasons, their groups, and what places reasons beside them."""

    def __init__(self, failures: pl.DataFrame, known: pl.DataFrame) -> None:
        """Group the reasons of failures; `known` are failures of causes that earlier runs had.

        Both have the columns of `FAILURES`. The same failures give the same groups, in any order.
        """
        self._rows = failures.select(plain_reason().alias("text"), "code")
        self.distinct = self._rows.group_by("text", "code").len("failures").sort("text", "code")
        old = known.select(plain_reason().alias("text"), "code")
        fitted = pl.concat([_sample(self.distinct, _FITTED).select("text", "code"), old])
        self.space = ReasonSpace(fitted["text"].to_list(), fitted["code"].to_list())
        self.means: sparse.csr_matrix | None = None
        """The mean vector of each group."""
        self._found = self._group()

    @property
    def count(self) -> int:
        """The number of groups."""
        return 0 if self.means is None else self.means.shape[0]

    def vectors(self, reasons: pl.DataFrame) -> sparse.csr_matrix:
        """The vectors of reasons with columns `text` and `code`."""
        return self.space.vectors(reasons["text"].to_list(), reasons["code"].to_list())

    def of_rows(self) -> Groups:
        """The group of each failure, in the order in which the failures were given."""
        found = self.distinct.with_columns(pl.Series("group", self._found, dtype=pl.Int64))
        joined = self._rows.join(
            found, on=["text", "code"], how="left", nulls_equal=True, maintain_order="left"
        )
        return joined["group"].to_numpy()

    def _group(self) -> Groups:
        found = np.full(self.distinct.height, ALONE)
        for number in range(_ROUNDS):
            left = np.flatnonzero(found == ALONE)
            if not left.size:
                break
            chosen = left
            if left.size > SAMPLE:
                draw = np.random.default_rng(number)
                chosen = np.sort(draw.choice(left, SAMPLE, replace=False))
            self._group_sample(chosen, found)
            if left.size <= SAMPLE:
                break
            self._place_others(left, found)
        return found

    def _group_sample(self, chosen: np.ndarray, found: Groups) -> None:
        """Group some reasons with each other, and number the groups after those that are there."""
        vectors = self.vectors(self.distinct[chosen])
        own = linked(vectors)
        # One failure is no group; several with the same reason are one.
        sizes = np.bincount(own, self.distinct["failures"].to_numpy()[chosen])
        names = np.full(sizes.size, ALONE)
        kept = np.flatnonzero(sizes > 1)
        names[kept] = np.arange(kept.size)
        own = names[own]
        added = mean_vectors(vectors, own, kept.size)
        found[chosen] = np.where(own == ALONE, ALONE, own + self.count)
        self.means = added if self.means is None else sparse.vstack([self.means, added]).tocsr()

    def _place_others(self, left: np.ndarray, found: Groups) -> None:
        if not self.count:
            return
        means = self.means.T.tocsc()  # type: ignore[union-attr]  # there are groups
        for first in range(0, left.size, _BLOCK):
            block = left[first : first + _BLOCK]
            block = block[found[block] == ALONE]
            cosines = np.asarray((self.vectors(self.distinct[block]) @ means).todense())
            if not cosines.size:
                continue
            best = cosines.argmax(axis=1)
            near = cosines[np.arange(block.size), best] >= LEAST_COSINE
            found[block[near]] = best[near]


def linked(vectors: sparse.csr_matrix) -> np.ndarray:
    """The group of each vector by average linkage, from 0; a vector may be its only member."""
    if vectors.shape[0] == 1:
        return np.zeros(1, dtype=np.int64)
    distances = 1 - np.asarray((vectors @ vectors.T).todense(), dtype=np.float64)
    np.fill_diagonal(distances, 0)
    tree = linkage(squareform(distances.clip(0, None), checks=False), "average")
    return fcluster(tree, 1 - LEAST_COSINE, "distance") - 1


def _sample(rows: pl.DataFrame, most: int) -> pl.DataFrame:
    return rows if rows.height <= most else rows.sample(most, seed=0)
