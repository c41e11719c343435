"""Groups of reasons that say the same, by average linkage (Sokal and Michener, 1958).

Two groups are joined while the mean cosine of their reasons is high enough. Reasons of a cause that
earlier runs had are one group from the start. Linkage takes all pairs of reasons. Of many reasons a
sample is linked, and each other reason goes to the group to whose reasons its mean cosine is highest,
by the same limit. What fits nowhere is sampled again.

With a sentence encoder, cosines of words and of meanings are linked together. An encoder is slow, so
it sees only what is linked; what is placed in groups is placed by its words.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl
from scipy import sparse  # type: ignore[import-untyped]  # it has no types

from assizes.judge.causes.meanings import Meanings, SentenceEncoder, joint_cosines
from assizes.judge.causes.reason_space import ReasonSpace, mean_vectors, reasons

LEAST_COSINE: Final = 0.14
"""The mean cosine of the reasons of two groups from which they are one group.

It was chosen with the development modes of `make bench-causes`; other modes measure it.
"""

NEAR_COSINE: Final = 0.05
"""The mean cosine of two causes from which they are so alike that a model is asked about them.

It was chosen with the development modes (`python -m benchmarks.causes_pairs`).
"""

NEAR_PAIRS: Final = 20
"""The most pairs of causes about which a model is asked."""

SAMPLE: Final = 3_000
"""The most reasons of a run, and of known causes, that are linked: 8 bytes for each pair."""

ALONE: Final = -1
"""The group of a reason that is in no group."""

_KEY: Final = pl.struct("text", "code").hash().alias("key")
"""64 bits that stand for a reason; two different ones of a million share them once in 10^7 runs."""

_FITTED: Final = 20_000  # reasons that say which words are frequent
_ROUNDS: Final = 3
_BLOCK: Final = 50_000  # reasons that are vectors at a time


class Groups:
    """The distinct reasons of failures, and their groups."""

    def __init__(
        self,
        failures: pl.DataFrame,
        known: pl.DataFrame,
        encoder: SentenceEncoder | None = None,
    ) -> None:
        """Group failures with the columns `FAILURES`, by words or, with an encoder, by meaning too.

        `known` also has the column `cause_id`; the causes that are known longest come first. The
        same failures give the same groups, in any order.
        """
        keyed = reasons(failures).with_columns(_KEY)
        self._keys = keyed.select("key")  # the texts of a million failures are kept once
        firsts = keyed.group_by("key").agg(pl.first("text", "code"), pl.len().alias("failures"))
        self._distinct = firsts.sort("text", "code")
        self.causes: list[str | None] = []
        """The known cause that each group is, or None."""
        self.merged: dict[str, str] = {}
        """The known causes that turn out to be another one: an older one, in their place."""
        self._known = _fewer_known(known)
        self._old_reasons = old = reasons(self._known)
        self._space = ReasonSpace(pl.concat([_sample(self._distinct.select(old.columns)), old]))
        self._meanings = None if encoder is None else Meanings(encoder)
        self._old = self._space.vectors(old)
        self._means = self._space.vectors(old.head(0))
        self._found = np.full(self._distinct.height, ALONE)
        self._group()

    def of_failures(self) -> np.ndarray:
        """The group of each failure, or `ALONE`, in the order in which the failures were given."""
        found = self._distinct.select("key", pl.Series("group", self._found, dtype=pl.Int64))
        return self._keys.join(found, on="key", how="left", maintain_order="left")[
            "group"
        ].to_numpy()

    def _group(self) -> None:
        known = self._known["cause_id"].to_list()
        for number in range(_ROUNDS):
            left = np.flatnonzero(self._found == ALONE)
            chosen = left
            if left.size > SAMPLE:
                chosen = np.random.default_rng(number).choice(left, SAMPLE, replace=False)
            if left.size:
                self._link(np.sort(chosen), known if number == 0 else [])
            if left.size <= SAMPLE:
                return
            self._place(np.flatnonzero(self._found == ALONE))

    def _link(self, chosen: np.ndarray, known: list[str]) -> None:
        """Link some reasons and known causes, and number their groups after those there are."""
        vectors = self._vectors(chosen)
        if known:
            vectors = sparse.vstack([vectors, self._old]).tocsr()
        own = self._linked(vectors, chosen, known)
        causes: dict[int, str] = {}
        for group, cause in zip(own[chosen.size :].tolist(), known, strict=True):
            older = causes.setdefault(group, cause)  # the first is known longest
            if older != cause:
                self.merged[cause] = older
        # One failure is no group; several with the same reason are one.
        says = self._says_something(vectors[: chosen.size], chosen)
        failures = self._distinct["failures"].to_numpy()[chosen] * says
        sizes = np.bincount(own[: chosen.size], failures, minlength=int(own.max()) + 1)
        kept = [group for group in range(sizes.size) if sizes[group] > 1 or group in causes]
        names = np.full(sizes.size, ALONE)
        names[kept] = np.arange(len(kept))
        own = names[own]
        first = len(self.causes)
        self._found[chosen] = np.where(own == ALONE, ALONE, own + first)[: chosen.size]
        self.causes += [causes.get(group) for group in kept]
        means = mean_vectors(vectors, own, len(kept))
        self._means = sparse.vstack([self._means, means]).tocsr()

    def _says_something(self, vectors: sparse.csr_matrix, chosen: np.ndarray) -> np.ndarray:
        """Whether each reason has words of the space; a meaning needs no more than a letter."""
        has_words: np.ndarray = vectors.getnnz(axis=1) > 0
        if self._meanings is None:
            return has_words
        has_letters: np.ndarray = self._distinct["text"][chosen].str.contains(r"\p{L}").to_numpy()
        says: np.ndarray = has_words | has_letters
        return says

    def _linked(
        self, vectors: sparse.csr_matrix, chosen: np.ndarray, known: list[str]
    ) -> np.ndarray:
        """The group of each vector: of some reasons, then of the known causes."""
        cosines = np.asarray((vectors @ vectors.T).todense(), dtype=np.float64)
        if self._meanings is None:
            return linked(cosines, known)
        texts = self._distinct["text"][chosen].to_list()
        means = self._meanings.vectors([*texts, *(self._old_reasons["text"] if known else ())])
        return linked(joint_cosines(cosines, means @ means.T), known)

    def _place(self, left: np.ndarray) -> None:
        """Place reasons that were not linked in the groups that there are, if one is near enough."""
        means = self._means.T.tocsc()
        for first in range(0, left.size if self.causes else 0, _BLOCK):
            block = left[first : first + _BLOCK]
            cosines = np.asarray((self._vectors(block) @ means).todense())
            best = cosines.argmax(axis=1)
            is_near = cosines[np.arange(block.size), best] >= LEAST_COSINE
            self._found[block[is_near]] = best[is_near]

    def _vectors(self, places: np.ndarray) -> sparse.csr_matrix:
        return self._space.vectors(self._distinct[places].select("text", "code"))


def linked(cosines: np.ndarray, known: list[str]) -> np.ndarray:
    """The group of each reason by average linkage, from 0; a reason may be alone in its group.

    `cosines` are those of each reason with each other. `known` names the causes of the last reasons;
    those of one cause stay together.
    """
    # Imported here, because they are slow to import.
    from scipy.cluster.hierarchy import fcluster, linkage  # type: ignore[import-untyped]
    from scipy.spatial.distance import squareform  # type: ignore[import-untyped]

    if cosines.shape[0] == 1:
        return np.zeros(1, dtype=np.int64)
    distances = 1 - cosines
    if known:
        names = np.unique(known, return_inverse=True)[1]
        distances[-len(known) :, -len(known) :][names[:, None] == names] = 0
    np.fill_diagonal(distances, 0)
    tree = linkage(squareform(distances.clip(0, None), checks=False), "average")
    return np.asarray(fcluster(tree, 1 - LEAST_COSINE, "distance"), dtype=np.int64) - 1


def _fewer_known(known: pl.DataFrame) -> pl.DataFrame:
    """The last failures of each known cause, so many of each that there are at most `SAMPLE`."""
    each = max(1, SAMPLE // max(1, known["cause_id"].n_unique()))
    return known.group_by("cause_id", maintain_order=True).tail(each)


def _sample(rows: pl.DataFrame) -> pl.DataFrame:
    return rows if rows.height <= _FITTED else rows.sample(_FITTED, seed=0)


def near_pairs(
    known: pl.DataFrame,
    most: int = NEAR_PAIRS,
    least: float = NEAR_COSINE,
    encoder: SentenceEncoder | None = None,
) -> list[tuple[str, str]]:
    """Pairs of causes whose mean cosine is at least `least` and under that of one group.

    At most so many pairs come back, the nearest first.

    `known` are failures with `cause_id` and the columns `FAILURES`, those of the cause that is known
    longest first; so is the order of a pair.
    """
    if not known.height:
        return []
    texts, names = reasons(known), known["cause_id"].unique(maintain_order=True).to_list()
    places = known["cause_id"].replace_strict({name: n for n, name in enumerate(names)})
    own = places.to_numpy()
    means = mean_vectors(ReasonSpace(texts).vectors(texts), own, len(names))
    cosines = np.asarray((means @ means.T).todense())  # of two groups: the mean over all pairs
    if encoder is not None:
        meant = Meanings(encoder).vectors(texts["text"].to_list())
        meant = mean_vectors(sparse.csr_matrix(meant), own, len(names)).toarray()
        cosines = joint_cosines(cosines, meant @ meant.T)
    first, second = np.triu_indices(len(names), 1)
    near = cosines[first, second]
    is_near = (near >= least) & (near < LEAST_COSINE)
    order = np.flatnonzero(is_near)[np.argsort(-near[is_near], kind="stable")][:most]
    return [(names[first[at]], names[second[at]]) for at in order]
