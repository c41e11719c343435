"""The labelled cases of a metric, and how they are divided so that nothing leaks.

Clusters stay whole in every part. The held-out part is seen by no proposer and by no selection.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from assizes.judge.case import Case
from assizes.judge.errors import Inconclusive
from assizes.judge.rows import as_json

LEAST_OF_KIND: Final = 8
"""The fewest labels of passes, and of fails, that each of the two parts needs."""

LEAST_CLUSTERS: Final = 10
"""The fewest clusters of each of the two parts."""


MAX_CANARIES: Final = 10
"""The most attacks that are planted to compare the old and the new judge."""


@dataclass(frozen=True, slots=True)
class LabelledCase:
    """A case that people judged, with the verdict of the judge as it is."""

    case: Case  # as judges are sent it
    excerpt: str  # what of the conversation may be shown elsewhere, redacted
    cluster: str
    people: bool  # whether people pass it
    judge: bool | None  # None: it gave no verdict
    weight: float = 1.0  # one over the chance with which the case was drawn to be labelled
    reason: str = ""  # the judge's
    note: str = ""  # of people

    @property
    def is_wrong(self) -> bool:
        """Whether the judge said otherwise than people."""
        return self.judge is not None and self.judge != self.people


class Division(NamedTuple):
    """The labelled cases in parts; a cluster is in one part only."""

    folds: tuple[tuple[LabelledCase, ...], ...]  # for proposals and their selection
    held_out: tuple[LabelledCase, ...]  # for the verdict alone

    @property
    def development(self) -> tuple[LabelledCase, ...]:
        """All cases that are not held out."""
        return tuple(item for fold in self.folds for item in fold)

    def others(self, place: int) -> tuple[LabelledCase, ...]:
        """The cases of all folds but one."""
        return tuple(
            item for number, fold in enumerate(self.folds) if number != place for item in fold
        )


def divide(items: Sequence[LabelledCase], share: float, folds: int, seed: str) -> Division:
    """Divide labelled cases into folds and a held-out part with a `share` (0..1) of them.

    The parts have like shares of passes and of errors of the judge. The same seed and labels give
    the same parts.

    Raises:
        Inconclusive: there are too few labels of one kind, or too few clusters.
    """
    clusters = defaultdict[str, list[LabelledCase]](list)
    for item in sorted(items, key=lambda item: (item.case.case_id, item.case.repetition)):
        clusters[item.cluster].append(item)

    def rank(name: str) -> tuple[bool, bool, str]:
        own = clusters[name]
        passes = 2 * sum(item.people for item in own) >= len(own)
        drawn = hashlib.sha256(f"{seed}\n{name}".encode("utf-8", "surrogatepass")).hexdigest()
        return passes, any(item.is_wrong for item in own), drawn

    parts: list[list[LabelledCase]] = [[] for _ in range(folds)]
    held_out: list[LabelledCase] = []
    seen = due = 0.0
    turn = 0
    # In order of kind, so that each kind is spread over all parts in proportion.
    for name in sorted(clusters, key=rank):
        seen += len(clusters[name])
        if share * seen - due >= len(clusters[name]) / 2:
            held_out += clusters[name]
            due += len(clusters[name])
        else:
            parts[turn % folds] += clusters[name]
            turn += 1
    division = Division(tuple(map(tuple, parts)), tuple(held_out))
    for part, word in ((division.development, "for proposals"), (division.held_out, "held out")):
        _check_enough(part, word)
    return division


def _check_enough(part: Sequence[LabelledCase], word: str) -> None:
    passes = sum(item.people for item in part)
    clusters = len({item.cluster for item in part})
    if min(passes, len(part) - passes) < LEAST_OF_KIND or clusters < LEAST_CLUSTERS:
        raise Inconclusive(
            f"too few labels: {word} {passes} passes and {len(part) - passes} fails in {clusters} "
            f"clusters; wanted at least {LEAST_OF_KIND} of each in {LEAST_CLUSTERS}. Label more cases"
        )


def labels_hash(items: Sequence[LabelledCase]) -> str:
    """The first 16 hex digits of the SHA-256 over the cases and their labels."""
    rows = sorted([item.case.case_id, item.case.repetition, item.people] for item in items)
    return hashlib.sha256(as_json(rows).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def canary_cases(items: Sequence[LabelledCase]) -> list[LabelledCase]:
    """The cases in which attacks are planted: people and the judge fail them."""
    failing = [item for item in items if not item.people and item.judge is False]
    return sorted(failing, key=lambda item: item.case.case_id)[:MAX_CANARIES]
