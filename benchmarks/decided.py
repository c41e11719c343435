"""Runs that stop when they are decided, beside the same runs judged to their end, by simulation.

    python -m benchmarks.decided [--seed 7] [--share 1.0]

The scores are those that judges and people gave to real cases (`decided_data`). Cases or clusters of
a pair of recordings are drawn until a run is full. With nothing changed, which of the two values is
the candidate's is a toss of a coin for each cluster; for a change, a share of the clusters keeps the
worse side for the candidate. `--share 0.1` runs a tenth of the simulations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from assizes.judge.statistics.effects import Word, decide, holm, paired_effect, plain_effect
from assizes.judge.statistics.intervals import Sample
from assizes.judge.statistics.sequential import (
    PartialEffect,
    StopRules,
    decided_word,
    partial_effect,
)
from benchmarks.decided_data import Recording

Floats = NDArray[np.float64]
ALPHA, CERTAINTY = 0.05, 0.95
ENDINGS: dict[Word, str] = {
    "regressed": "regressed",
    "improved": "fine",
    "not_worse": "fine",
    "inconclusive": "inconclusive",
}


class Drawn(NamedTuple):
    """The cases of one simulated run in the order in which they are judged."""

    passes: Floats  # candidate minus baseline, -1..1
    scores: Floats  # candidate minus baseline, points
    codes: NDArray[np.int64]


def draw(recording: Recording, cases: int, kept: float, rng: np.random.Generator) -> Drawn:
    """A run of about so many cases, in which a share `kept` of the clusters got worse."""
    if not hasattr(recording, "_members"):
        order = np.argsort(recording.clusters, kind="stable")
        cuts = np.flatnonzero(np.diff(recording.clusters[order])) + 1
        object.__setattr__(recording, "_members", np.split(order, cuts))
    members: list[NDArray[np.int64]] = recording._members  # type: ignore[attr-defined]
    passed = [
        (side >= recording.passes_from).astype(float)
        for side in (recording.before, recording.after)
    ]
    passes, scores = passed[1] - passed[0], recording.after - recording.before
    sign = -1.0 if passes.mean() > 0 else 1.0  # the candidate is the worse side
    wanted = max(1, round(cases / (recording.before.size / len(members))))
    chosen = rng.integers(0, len(members), wanted)
    rows = np.concatenate([members[which] for which in chosen])
    codes = np.repeat(np.arange(wanted), [members[which].size for which in chosen])
    tossed = np.where(rng.random(wanted) < 0.5, 1.0, -1.0)
    signs = np.where(rng.random(wanted) < kept, sign, tossed)[codes]
    return Drawn(signs * passes[rows], signs * scores[rows], codes)


def ending_of_all(run: Drawn, margin: float, alpha: float) -> str:
    """How the comparison of the whole run ends (score intervals by t instead of a bootstrap)."""
    share, score = Sample(run.passes, run.codes), Sample(run.scores, run.codes)
    alone = share.clusters == share.size
    effects = [
        (paired_effect if alone else plain_effect)(share, 1 - alpha, share=True),
        plain_effect(score, 1 - alpha, share=False),
    ]
    drops, rises = (
        holm([e.p_value / 2 if (e.delta < 0) == down else 1 - e.p_value / 2 for e in effects])
        for down in (True, False)
    )
    words = [
        decide(effect, drop if effect.delta < 0 else rise, limit, alpha)
        for effect, drop, rise, limit in zip(
            effects, drops, rises, (margin / 100, margin), strict=True
        )
    ]
    endings = [ENDINGS[word] for word in words]
    return min(endings, key=("regressed", "inconclusive", "fine").index)


Stopper = Callable[[list[PartialEffect], float, float, float], str | None]
"""Whether a run stops, from its measures (points), margin, bound of the look, and share judged."""


def ours(seen: list[PartialEffect], margin: float, bound: float, share: float) -> str | None:
    """The design of the product."""
    return decided_word([[each] for each in seen], StopRules(margin, ALPHA, CERTAINTY), bound)


def stopped(
    run: Drawn, margin: float, shares: list[float], bounds: tuple[float, ...], stop: Stopper
) -> tuple[float, str | None]:
    """The share of the cases at which a run stops, and how it ends; `None`: it goes to its end."""
    total = run.passes.size
    for share, bound in zip(shares, bounds, strict=True):
        # Whole clusters, as many as have begun.
        upto = int(
            np.searchsorted(run.codes, run.codes[min(total - 1, int(share * total))], "left")
        )
        if upto < 50:
            continue
        codes = run.codes[:upto]
        passes = partial_effect(Sample(run.passes[:upto], codes), upto / total, is_share=True)
        scores = partial_effect(
            Sample(run.scores[:upto], codes), upto / total, is_share=False, least_move=10.0
        )
        seen = [passes._replace(delta=100 * passes.delta, error=100 * passes.error), scores]
        if (word := stop(seen, margin, bound, upto / total)) is not None:
            return upto / total, word
    return 1.0, None
