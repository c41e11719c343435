"""The strengths of several runs from their pairs, by the model of Bradley and Terry (1952).

The chance that run i beats run j is 1 / (1 + e^(s_j - s_i)) for strengths s, of which the sum is 0;
a tie is half a win for each side. The estimate is the maximum of the likelihood, as that of Hunter's
algorithm (2004), found by Newton's method. The errors are those of clusters of cases.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Final

import numpy as np
from scipy.special import ndtr  # type: ignore[import-untyped]  # it has no types

from assizes.judge.errors import ConfigurationError
from assizes.judge.families.pairwise.verdict import PairVerdict
from assizes.judge.pairs.win_rate import RateEstimate, WinRate, win_rate
from assizes.judge.statistics.effects import holm, t_p_value
from assizes.judge.statistics.exact import rounded_value
from assizes.judge.statistics.fractional_logit import LogitFit, fit_logit, sigmoid
from assizes.judge.statistics.intervals import CONFIDENCE, Codes, Floats, ValueInterval
from assizes.judge.summary.headlines import FrozenModel

LEAST_RUNS: Final = 2
MOST_RUNS: Final = 12
"""The fewest and the most runs of a ranking: 12 runs are 66 pairs of runs, each asked twice a case."""

_ALPHA: Final = 0.05  # share of false alarms over all pairs of runs, by Holm

Verdicts = Mapping[tuple[str, str], Sequence[PairVerdict]]
"""The verdicts of each pair of runs, by (baseline, candidate)."""


class RankedRun(FrozenModel):
    """One run of a ranking."""

    run: str
    strength: RateEstimate | None = None  # in logits; the strengths of all runs sum to 0
    win_chance: RateEstimate | None = None  # 0..1, against a run of the mean strength
    rank: int | None = None  # 1 is the strongest
    best_rank: int  # 1 + the runs that are shown to be stronger
    worst_rank: int  # the number of runs, minus those that are shown to be weaker
    pairs: int
    points: float  # wins, and half of the ties


class RankedPair(FrozenModel):
    """Two runs of a ranking."""

    baseline: str
    candidate: str
    result: WinRate
    expected_win_rate: float | None = None  # of the candidate, by the strengths, 0..1
    p_adjusted: float | None = None  # of equal strengths, by Holm over all pairs of runs


class Ranking(FrozenModel):
    """Runs by strength, the strongest first; the order as given where there is no estimate."""

    runs: tuple[RankedRun, ...]
    pairs: tuple[RankedPair, ...]
    clusters: int
    misfit_p_value: float | None = (
        None  # that strengths alone explain the pairs; `None`: not tested
    )
    added_ties: int = 0  # one a pair of runs, where a side won all, so that strengths are finite
    why_not: str | None = None  # why there are no strengths


def rank_runs(names: Sequence[str], verdicts: Verdicts) -> Ranking:
    """Rank runs by the verdicts on their pairs.

    Raises:
        ConfigurationError: there are too few or too many runs, or a name stands twice.
    """
    _check(names)
    rows = [
        (names.index(baseline), names.index(candidate), verdict)
        for (baseline, candidate), each in verdicts.items()
        for verdict in each
        if verdict.winner is not None
    ]
    codes = _codes([verdict for _, _, verdict in rows])
    design, points = _design(len(names), rows)
    fit, added = _fit(len(names), design, points, codes)
    apart = {} if fit is None else _equal_chances(len(names), fit)
    runs = [_run_of_ranking(place, names, rows, fit, apart) for place in range(len(names))]
    order = sorted(runs, key=lambda run: -(run.strength.value if run.strength else 0.0))
    if fit is not None:
        order = [run.model_copy(update={"rank": i}) for i, run in enumerate(order, 1)]
    return Ranking(
        runs=tuple(order),
        pairs=tuple(_pair(names, pair, verdicts, fit, apart) for pair in verdicts),
        clusters=len(set(codes.tolist())),
        misfit_p_value=None if fit is None or added else _misfit(fit, design, points, codes),
        added_ties=added,
        why_not=_why_not(rows, codes) if fit is None else None,
    )


def _check(names: Sequence[str]) -> None:
    if not LEAST_RUNS <= len(names) <= MOST_RUNS:
        raise ConfigurationError(f"{len(names)} runs; a ranking takes {LEAST_RUNS} to {MOST_RUNS}")
    if twice := [name for name in names if names.count(name) > 1]:
        raise ConfigurationError(f"run {twice[0]} is named twice; name each run once")


def _codes(verdicts: Sequence[PairVerdict]) -> Codes:
    """The number of each verdict's cluster: a case is one cluster over all pairs of runs."""
    known: dict[tuple[bool, str], int] = {}
    keys = [(bool(each.cluster), each.cluster or each.case_id) for each in verdicts]
    return np.array([known.setdefault(key, len(known)) for key in keys], dtype=np.int64)


def _design(runs: int, rows: Sequence[tuple[int, int, PairVerdict]]) -> tuple[Floats, Floats]:
    """A row for each verdict: 1 for the candidate, -1 for the baseline; and the candidate's points."""
    design = np.zeros((len(rows), runs))
    for place, (baseline, candidate, _) in enumerate(rows):
        design[place, baseline], design[place, candidate] = -1.0, 1.0
    return design, np.array([verdict.points for _, _, verdict in rows])


def _fit(runs: int, design: Floats, points: Floats, codes: Codes) -> tuple[LogitFit | None, int]:
    """The strengths without those of the first run, which is 0; and the number of added ties."""
    if not points.size:
        return None, 0
    fit = fit_logit(design[:, 1:], points, codes)
    if fit is not None or not _is_connected(runs, design):
        return fit, 0
    # A run that won or lost everything has no finite strength: one tie for each pair of runs that
    # met, each a cluster of its own, bounds it.
    met = np.unique(design, axis=0)
    more = np.arange(met.shape[0]) + codes.max() + 1
    fit = fit_logit(
        np.vstack([design, met])[:, 1:],
        np.append(points, np.full(met.shape[0], 0.5)),
        np.append(codes, more),
    )
    return fit, met.shape[0]


def _is_connected(runs: int, design: Floats) -> bool:
    """Whether pairs lead from each run to every other; else their strengths share no scale."""
    group = list(range(runs))
    for row in np.unique(np.abs(design), axis=0):
        first, second = np.flatnonzero(row).tolist()
        old, new = group[second], group[first]
        group = [new if each == old else each for each in group]
    return len(set(group)) == 1


def _contrast(runs: int, place: int, other: int | None = None) -> Floats:
    """The weights of a run's strength against another's, or against the mean; without the first."""
    weights = np.zeros(runs)
    weights[place] = 1.0
    if other is None:
        weights -= 1 / runs
    else:
        weights[other] -= 1.0
    return weights[1:]


def _equal_chances(runs: int, fit: LogitFit) -> dict[tuple[int, int], float]:
    """Holm's p-value of equal strengths for each two runs, the first number the smaller one."""
    couples = list(combinations(range(runs), 2))
    weights = [_contrast(runs, *couple) for couple in couples]
    p_values = [
        t_p_value(fit.estimate(each), fit.error(each), fit.clusters - 1) for each in weights
    ]
    return dict(zip(couples, holm(p_values), strict=True))


def _run_of_ranking(
    place: int,
    names: Sequence[str],
    rows: Sequence[tuple[int, int, PairVerdict]],
    fit: LogitFit | None,
    apart: Mapping[tuple[int, int], float],
) -> RankedRun:
    own = [(row[1] == place, row[2]) for row in rows if place in row[:2]]
    count = len(names)
    counted = {
        "run": names[place],
        "pairs": len(own),
        "points": sum(each.points if won else 1 - each.points for won, each in own),
    }
    if fit is None:
        return RankedRun(**counted, best_rank=1, worst_rank=count)
    sides: dict[bool, int] = defaultdict(int)
    for (first, second), p_value in apart.items():
        if place in (first, second) and p_value <= _ALPHA:
            other = second if place == first else first
            sides[fit.estimate(_contrast(count, place, other)) > 0] += 1
    weights = _contrast(count, place)
    span = fit.interval(weights, CONFIDENCE)
    chances = sigmoid(np.array([fit.estimate(weights), span.low, span.high])).tolist()
    return RankedRun(
        **counted,
        strength=RateEstimate.of(fit.estimate(weights), span),
        win_chance=RateEstimate.of(chances[0], ValueInterval(chances[1], chances[2])),
        best_rank=1 + sides[False],
        worst_rank=count - sides[True],
    )


def _pair(
    names: Sequence[str],
    pair: tuple[str, str],
    verdicts: Verdicts,
    fit: LogitFit | None,
    apart: Mapping[tuple[int, int], float],
) -> RankedPair:
    baseline, candidate = map(names.index, pair)
    expected = p_value = None
    if fit is not None:
        logit = fit.estimate(_contrast(len(names), candidate, baseline))
        expected = rounded_value(float(sigmoid(np.array(logit))))
        p_value = rounded_value(apart[min(baseline, candidate), max(baseline, candidate)])
    return RankedPair(
        baseline=pair[0],
        candidate=pair[1],
        result=win_rate(verdicts[pair]),
        expected_win_rate=expected,
        p_adjusted=p_value,
    )


def _misfit(fit: LogitFit, design: Floats, points: Floats, codes: Codes) -> float | None:
    """The smallest p-value, by Holm, that a pair of runs did as the strengths say.

    A run that beats a stronger one again and again shows here: one scale does not explain it.
    `None` for two runs, which a single strength always explains.
    """
    if design.shape[1] < 3:
        return None
    residuals = points - sigmoid(design[:, 1:] @ fit.coefficients)
    chances = []
    for row in np.unique(design, axis=0):
        own = (design == row).all(axis=1)
        sums = np.bincount(codes[own], weights=residuals[own])
        spread = float(np.sqrt(np.square(sums).sum()))
        if spread > 0:
            chances.append(float(2 * ndtr(-abs(sums.sum()) / spread)))
    return rounded_value(min(holm(chances))) if chances else None


def _why_not(rows: Sequence[tuple[int, int, PairVerdict]], codes: Codes) -> str:
    if not rows:
        return "no pair has a verdict"
    if len(set(codes.tolist())) < 2:
        return "all pairs are in one cluster"
    return "no pairs lead from some runs to the others, so that their strengths share no scale"
