"""How many cases a run that stops when it is decided would judge: an estimate by simulation.

Nothing of the run is known before it begins. So runs are drawn from the cases of an earlier run,
whole clusters with replacement, as if nothing had changed, and each is judged as far as the looks of
a real run would take it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assizes.judge.comparison.interim import (
    LEAST_MOVE,
    InterimLook,
    LookPlan,
    gates_so_far,
    unpaired_effect,
)
from assizes.judge.config.gates import ComparisonConfig, ThresholdsConfig
from assizes.judge.statistics.intervals import MIN_CLUSTERS, Sample
from assizes.judge.statistics.sequential import (
    PartialEffect,
    StopRules,
    StopWord,
    decided_word,
    final_alpha,
    look_bounds,
    partial_effect,
)

DRAWN_RUNS: Final = 40
"""Runs that are drawn for an estimate."""

MAX_EARLIER_CASES: Final = 20_000
"""The most cases of an earlier run that an estimate goes by, and the most that a run is drawn of."""

_SEED: Final = 24  # any number: the same plan gives the same estimate

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class EarlierCases:
    """The cases of an earlier run, and the changes since the run before it where both hold them."""

    run_id: str
    passes: Floats  # share of the repetitions of each case that passed, 0..1
    scores: Floats  # 0..100
    clusters: NDArray[np.int64]  # number of the cluster, from 0
    # Change of `passes` and `scores` of each case; `None`: the run before it judged other cases.
    changes: tuple[Floats, Floats] | None = None


class DecidedRun(NamedTuple):
    """What the looks of a run depend on."""

    cases: int
    shares: tuple[float, ...]  # of the cases that are judged at each look before the end, 0..1
    certainty: float  # 0..1
    comparison: ComparisonConfig
    thresholds: ThresholdsConfig


class StopEstimate(NamedTuple):
    """The share of its cases that a run would judge, 0..1, over the drawn runs."""

    median: float
    low: float  # a tenth of the runs judge less
    high: float  # a tenth of the runs judge more


def stop_estimate(earlier: EarlierCases, run: DecidedRun) -> StopEstimate:
    """The share of its cases that a run would judge if nothing changed since an earlier run."""
    rng = np.random.default_rng(_SEED)
    order = np.argsort(earlier.clusters, kind="stable")
    members = np.split(order, np.cumsum(np.bincount(earlier.clusters))[:-1])
    shares = [
        _stop_share(earlier, run, _draw_cases(members, run.cases, rng)) for _ in range(DRAWN_RUNS)
    ]
    low, median, high = np.quantile(shares, (0.1, 0.5, 0.9))
    return StopEstimate(float(median), float(low), float(high))


class _DrawnCases(NamedTuple):
    rows: NDArray[np.int64]  # of the earlier run
    codes: NDArray[np.int64]  # clusters in the order in which they are judged
    signs: Floats  # of the change of each cluster: which run came first is a toss of a coin


def _draw_cases(
    members: Sequence[NDArray[np.int64]], cases: int, rng: np.random.Generator
) -> _DrawnCases:
    mean = sum(part.size for part in members) / len(members)
    count = max(1, round(min(cases, MAX_EARLIER_CASES) / mean))
    chosen = rng.integers(0, len(members), count)
    sizes = [members[number].size for number in chosen]
    codes = np.repeat(np.arange(count), sizes)
    signs = np.where(rng.random(count) < 0.5, 1.0, -1.0)[codes]
    return _DrawnCases(np.concatenate([members[number] for number in chosen]), codes, signs)


def _stop_share(earlier: EarlierCases, run: DecidedRun, drawn: _DrawnCases) -> float:
    for number, share in enumerate(run.shares, start=1):
        judged = max(1, round(share * drawn.rows.size))
        part = _DrawnCases(drawn.rows[:judged], drawn.codes[:judged], drawn.signs[:judged])
        plan = LookPlan(run.shares, number, run.certainty)
        if _look(earlier, run, part, plan).stops:
            return share
    return 1.0


def _look(earlier: EarlierCases, run: DecidedRun, part: _DrawnCases, plan: LookPlan) -> InterimLook:
    passes = Sample(earlier.passes[part.rows], part.codes)
    scores = Sample(earlier.scores[part.rows], part.codes)
    # A run of very many cases is drawn smaller, and its looks are looks at that many cases.
    whole = max(passes.size, round(passes.size / plan.share))
    gates = None
    if passes.clusters >= MIN_CLUSTERS:
        gates = gates_so_far(passes, scores, whole, plan, run.thresholds)
    if run.comparison.baseline is None:
        return InterimLook(None, gates, is_compared=False)
    effects = _effects(earlier, part, plan.share)
    return InterimLook(_word(effects, run, plan), gates, is_compared=True)


def _effects(earlier: EarlierCases, part: _DrawnCases, share: float) -> list[PartialEffect]:
    """The change of the pass rate and of the score so far, in points."""
    if earlier.changes is not None:
        passes, scores = (part.signs * change[part.rows] for change in earlier.changes)
        return [
            partial_effect(Sample(100 * passes, part.codes), share, least_move=100.0),
            partial_effect(Sample(scores, part.codes), share, least_move=LEAST_MOVE),
        ]
    before = [Sample(values, earlier.clusters) for values in (earlier.passes, earlier.scores)]
    after = [Sample(each.values[part.rows], part.codes) for each in before]
    return [
        unpaired_effect(old, new, share, scale)
        for old, new, scale in zip(before, after, (100.0, 1.0), strict=True)
    ]


def _word(effects: Sequence[PartialEffect], run: DecidedRun, plan: LookPlan) -> StopWord | None:
    if min(effect.clusters for effect in effects) < MIN_CLUSTERS:
        return None
    alpha = run.comparison.alpha
    bounds = look_bounds(run.shares, alpha, len(effects))[plan.number - 1]
    rules = StopRules(run.comparison.margin, final_alpha(alpha), run.certainty)
    return decided_word([[effect] for effect in effects], rules, bounds)


def equal_looks(cases: int, looks: int, min_cases: int) -> tuple[float, ...]:
    """The share of the cases at each look before the end, where no cluster shifts a look."""
    ends = (number / looks for number in range(1, looks))
    return tuple(math.ceil(end * cases) / cases for end in ends if end * cases >= min_cases)
