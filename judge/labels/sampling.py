"""Which cases people label: a drawn queue in which every case has a known chance, and how many.

The queue is a stratified sample without replacement. A stratum holds the cases of which the judge
is about equally sure, and a case is drawn with the chance n_h / N_h of its stratum. Each stratum
gets its share of the random part, so that no chance is 0; the rest goes where a label tells most,
N_h x S_h (Neyman 1934), where S_h is the deviation of the judge's errors in the stratum.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import floor, sqrt
from typing import Any, Final, NamedTuple

import polars as pl

from assizes.judge.config.gates import VERDICT
from assizes.judge.errors import ConfigurationError
from assizes.judge.statistics.prediction_powered import CorrectedEstimate
from assizes.judge.statistics.unseen_errors import least_variance

MAX_QUEUE: Final = 100_000
"""The most cases of a queue."""

NEAR: Final = 0.1
"""How near to its threshold, on 0..1, a score counts as near."""

FLIP, SPLIT, CLOSE, FAILS, PASSES = "flips", "split_votes", "near_threshold", "fails", "passes"

GUESSED: Final[Mapping[str, float]] = {FLIP: 0.35, SPLIT: 0.4, CLOSE: 0.3, FAILS: 0.1, PASSES: 0.05}
"""The share of the judge's errors in each stratum before there are labels; rough on purpose."""

GUESS_WEIGHT: Final = 4.0
"""How many labels such a guess is worth beside the labels of earlier queues."""

REASONS: Final[Mapping[str, str]] = {
    FLIP: "the verdict differs between two runs",
    SPLIT: "the votes of the judge differ",
    CLOSE: "the score is near its threshold",
    FAILS: "the judge fails it",
    PASSES: "the judge passes it",
}


class Candidate(NamedTuple):
    """One execution of a case that may be labelled, and how sure the judge is of it."""

    case_id: str
    repetition: int
    stratum: str  # `FLIP`, `SPLIT`, `CLOSE`, `FAILS` or `PASSES`


@dataclass(frozen=True, slots=True)
class QueuePlan:
    """What is drawn, for which metric of which run."""

    queue_id: str
    run_id: str
    metric: str  # `verdict`, or as in table `scores`
    size: int  # cases; fewer where the run has fewer
    seed: str  # the same seed and run, the same queue
    drawn_by: str
    at: datetime
    share: float = 0.5  # of the random part, above 0 to 1
    errors: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # stratum: errors, labels


def candidates(
    cases: pl.DataFrame,
    scores: pl.DataFrame,
    metric: str,
    other: pl.DataFrame | None = None,
    threshold: float = 0.6,
) -> list[Candidate]:
    """The judged executions of a run with their strata, from its rows of `cases` and `scores`.

    `other` are the rows of `cases` of a second run, whose verdicts show the flips. `threshold`,
    0..1, is where the value of the metric (for the verdict the overall score) begins to pass.
    """
    before = {} if other is None else {(c, r): p for c, r, p in _verdicts(other)}
    judged, split = _values(cases, scores, metric), _split(scores, metric)
    verdicts = {(c, r): p for c, r, p in _verdicts(cases)}
    rows = []
    for key, (value, passed) in sorted(judged.items()):
        flipped = before.get(key) is not None and before[key] != verdicts.get(key)
        if flipped:
            stratum = FLIP
        elif key in split:
            stratum = SPLIT
        elif value is not None and abs(value - threshold) <= NEAR:
            stratum = CLOSE
        else:
            stratum = PASSES if passed else FAILS
        rows.append(Candidate(*key, stratum))
    return rows


Key = tuple[str, int]


def _verdicts(cases: pl.DataFrame) -> Iterator[tuple[str, int, bool | None]]:
    judged = cases.filter(pl.col("status") == "judged")
    yield from judged.select("case_id", "repetition", "passed").iter_rows()


def _values(
    cases: pl.DataFrame, scores: pl.DataFrame, metric: str
) -> dict[Key, tuple[float | None, bool]]:
    """The number, 0..1, and whether it passes, of each execution that the judge decided."""
    if metric == VERDICT:
        rows = cases.filter((pl.col("status") == "judged") & pl.col("passed").is_not_null())
        columns = rows.select("case_id", "repetition", pl.col("overall_score") / 100, "passed")
        return {(c, r): (v, p) for c, r, v, p in columns.iter_rows()}
    rows = scores.filter(
        (pl.col("metric") == metric) & (pl.col("part") == "") & (pl.col("status") == "scored")
    )
    columns = rows.select("case_id", "repetition", "value", "passed")
    return {
        (c, r): (v, p if p is not None else bool(v is not None and v >= 0.6))
        for c, r, v, p in columns.iter_rows()
    }


def _split(scores: pl.DataFrame, metric: str) -> set[Key]:
    """The executions with votes that differ, on the metric or for the verdict on any metric."""
    voted = scores.filter(
        (pl.col("part") == "") & pl.col("details").str.contains_any(['"votes":', '"first_votes":'])
    )
    if metric != VERDICT:
        voted = voted.filter(pl.col("metric") == metric)
    return {
        (case_id, repetition)
        for case_id, repetition, details in voted.select(
            "case_id", "repetition", "details"
        ).iter_rows()
        if _differ(json.loads(details))
    }


def _differ(details: Mapping[str, Any]) -> bool:
    votes = [*details.get("first_votes", ()), *details.get("votes", ())]
    scored = [vote for vote in votes if vote.get("status") == "scored"]
    return len({(vote.get("passed"), vote.get("label"), vote.get("value")) for vote in scored}) > 1


def draw_queue(plan: QueuePlan, of: Sequence[Candidate]) -> list[dict[str, Any]]:
    """Draw the rows of table `queues`, in the order in which people see them.

    The order is random, so that the labels of the first cases are a sample of the same design.

    Raises:
        ConfigurationError: for a size outside 1..`MAX_QUEUE`, or a share outside 0..1.
    """
    if not 1 <= plan.size <= MAX_QUEUE:
        raise ConfigurationError(f"a queue has 1 to {MAX_QUEUE} cases, not {plan.size}")
    if not 0 < plan.share <= 1:
        raise ConfigurationError(f"the random share is above 0 to 1, not {plan.share}")
    strata: dict[str, list[Candidate]] = {}
    for candidate in sorted(of, key=lambda c: _digest(plan, "draw", c)):
        strata.setdefault(candidate.stratum, []).append(candidate)
    sizes = {name: len(strata[name]) for name in sorted(strata)}
    taken = allocation(sizes, deviations(plan.errors), plan.size, plan.share)
    if not taken:  # too few labels for every stratum: one sample of all cases
        strata = {"all": sorted(of, key=lambda c: _digest(plan, "draw", c))}
        sizes, taken = {"all": len(of)}, {"all": min(plan.size, len(of))}
    drawn = []
    for name, count in taken.items():
        even = floor(plan.share * min(plan.size, len(of)) * sizes[name] / max(1, len(of)) + 0.5)
        for place, candidate in enumerate(strata[name][:count]):
            part = "random" if place < even or name == "all" else "informative"
            part = "flip" if part == "informative" and name == FLIP else part
            drawn.append((candidate, part, name, count / sizes[name]))
    drawn.sort(key=lambda row: _digest(plan, "order", row[0]))
    return [_queue_row(plan, position, *row) for position, row in enumerate(drawn)]


def _queue_row(
    plan: QueuePlan, position: int, candidate: Candidate, part: str, stratum: str, chance: float
) -> dict[str, Any]:
    return {
        "queue_id": plan.queue_id,
        "position": position,
        "run_id": plan.run_id,
        "metric": plan.metric,
        "case_id": candidate.case_id,
        "repetition": candidate.repetition,
        "part": part,
        "reason": "drawn at random" if part == "random" else REASONS[stratum],
        "stratum": stratum,
        "probability": chance,
        "at": plan.at,
        "drawn_by": plan.drawn_by,
    }


def _digest(plan: QueuePlan, use: str, candidate: Candidate) -> bytes:
    key = [plan.seed, plan.run_id, plan.metric, use, candidate.case_id, candidate.repetition]
    return hashlib.sha256(json.dumps(key).encode()).digest()


def deviations(errors: Mapping[str, tuple[int, int]]) -> dict[str, float]:
    """The deviation sqrt(e (1 - e)) of the judge's errors by stratum; e is guessed, then learnt.

    `errors` holds the errors among the labels of each stratum, and the number of those labels.
    """
    shares = {}
    for name, guess in GUESSED.items():
        wrong, labels = errors.get(name, (0, 0))
        share = (wrong + GUESS_WEIGHT * guess) / (labels + GUESS_WEIGHT)
        shares[name] = sqrt(share * (1 - share))
    return shares


def allocation(
    sizes: Mapping[str, int], spread: Mapping[str, float], size: int, share: float
) -> dict[str, int]:
    """How many cases of each stratum are drawn; empty where two of each are more than `size`.

    Each stratum has at least `share` of what it would have at random, and two cases where it has
    two. They add up to `size`, or to all cases where these are fewer.
    """
    whole = sum(sizes.values())
    size = min(size, whole)
    least = {
        name: min(count, max(2, floor(share * size * count / whole)))
        for name, count in sizes.items()
    }
    if sum(least.values()) > size:
        return {}
    wish = {name: sizes[name] * spread[name] for name in sizes}
    low, high = 0.0, float(max(sizes.values(), default=0)) / min([*wish.values(), 1.0])
    for _ in range(100):  # the factor at which the wishes, within their bounds, add up to the size
        middle = (low + high) / 2
        asked = sum(_within(middle * wish[n], least[n], sizes[n]) for n in sizes)
        low, high = (middle, high) if asked < size else (low, middle)
    parts = {name: _within(high * wish[name], least[name], sizes[name]) for name in sizes}
    return _rounded(parts, sizes, size)


def _within(value: float, least: float, most: float) -> float:
    return min(max(value, least), most)


def _rounded(parts: Mapping[str, float], most: Mapping[str, int], size: int) -> dict[str, int]:
    """Whole numbers with the sum `size`; the largest remainders are rounded up."""
    counts = {name: floor(value + 1e-9) for name, value in parts.items()}
    order = sorted(parts, key=lambda name: (counts[name] - parts[name], name))
    while sum(counts.values()) < size:
        name = next(n for n in order if counts[n] < most[n])
        counts[name] += 1
        order.append(order.pop(order.index(name)))
    return counts


def stratum_errors(pairs: Iterable[tuple[str, bool]]) -> dict[str, tuple[int, int]]:
    """The errors and labels of each stratum, from (stratum, whether the judge erred)."""
    counts: dict[str, tuple[int, int]] = {}
    for name, erred in pairs:
        wrong, labels = counts.get(name, (0, 0))
        counts[name] = (wrong + erred, labels + 1)
    return counts


def labels_needed(now: CorrectedEstimate, cases: int, width: float) -> int | None:
    """How many more labels narrow the interval to `width`; `None` where no number of them does.

    With m labels of N cases the variance is expected to be s^2 (1/N + (1/m - 1/N) q), where q is
    the share of the variance of a label that the judge leaves, and s^2 / n is the variance of the
    n labels alone. q counts errors that no label shows at their expected number, or an estimate by
    labels that happen to show none would promise too much. The interval of m labels is as wide as
    `least_variance` asks for that variance and for the step n/m of a label now, and no wider than
    that of m labels alone, s^2 / m. So it narrows with every label. `width` is above 0, in the unit
    of the estimate.
    """
    if width >= now.high - now.low:
        return 0
    if now.high <= now.low or width <= 0 or now.labels >= cases:
        return None
    goal = (width / (now.high - now.low)) ** 2
    if _variance_ratio(now, cases, cases) > goal:
        return None
    low, high = now.labels, cases
    while high - low > 1:  # with `high` labels the interval is narrow enough, with `low` it is not
        middle = (low + high) // 2
        is_enough = _variance_ratio(now, cases, middle) <= goal
        low, high = (low, middle) if is_enough else (middle, high)
    return high - now.labels


def _variance_ratio(now: CorrectedEstimate, cases: int, labels: int) -> float:
    """The expected variance with so many labels / the variance now; it falls with every label."""
    reached = now.labels / now.effective  # variance now / variance of the labels alone
    if now.error <= 0:
        return now.labels / labels / reached
    alone = max(now.error**2 / reached, now.expected)
    part = now.labels / cases
    left = max(0.0, (now.expected / alone - part) / (1 - part))
    variance = alone * (part + (now.labels / labels - part) * left)
    asked = least_variance(variance, now.step * now.labels / labels)
    return min(asked, alone * now.labels / labels) / now.error**2
