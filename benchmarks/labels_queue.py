"""How many labels the queue needs for the interval that random choice gives.

A judge is sure of 90 % of the cases and errs on 1 % of them; on the others it errs on 40 %. The
queue knows the strata from the judge's scores, and the share of errors only by the product's guess,
or as learnt from the 100 labels of a first queue.
"""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np

from assizes.judge.labels.sampling import (
    CLOSE,
    FAILS,
    PASSES,
    Candidate,
    QueuePlan,
    draw_queue,
    labels_needed,
    stratum_errors,
)
from assizes.judge.statistics.intervals import Floats
from assizes.judge.statistics.labelled_cases import LabelledCases
from assizes.judge.statistics.prediction_powered import CorrectedEstimate, corrected_mean
from benchmarks.figures import Figures

Rng = np.random.Generator

CASES = 4000
RANDOM = 300
"""Labels of the random choice."""

COUNTS = (90, 120, 150, 180, 210, 240, 300)
AT = datetime(2026, 1, 1, tzinfo=UTC)


def queue(figures: Figures, rng: Rng, times: int) -> None:
    """Labels of the queue / labels of random choice at the same mean width, both corrected."""
    random = np.mean([_random(rng)[0] for _ in range(times)])
    for name, learnt in (("guessed", False), ("learnt", True)):
        widths, held = [], 0.0
        for count in COUNTS:
            trials = [_queued(rng, count, learnt=learnt) for _ in range(times // 4)]
            widths.append(np.mean([width for width, _ in trials]))
            held += float(np.mean([inside for _, inside in trials])) / len(COUNTS)
        needed = float(np.interp(-random, -np.array(widths), COUNTS))
        figures.add(f"queue_labels_to_random_{name}", needed / RANDOM, most=0.7)
        figures.add(f"queue_coverage_{name}", held, least=0.93)


def _run(rng: Rng) -> tuple[Floats, Floats, list[Candidate]]:
    truth = (rng.random(CASES) < 0.8).astype(float)
    unsure = rng.random(CASES) < 0.1
    judge = np.abs(truth - (rng.random(CASES) < np.where(unsure, 0.4, 0.01)))
    names = np.where(unsure, CLOSE, np.where(judge > 0, PASSES, FAILS))
    return truth, judge, [Candidate(str(n), 0, str(name)) for n, name in enumerate(names)]


def _estimate(truth: Floats, judge: Floats, chances: dict[int, float]) -> tuple[float, bool]:
    span = _corrected(truth, judge, chances)
    return span.high - span.low, span.low <= 0.8 <= span.high


def _corrected(truth: Floats, judge: Floats, chances: dict[int, float]) -> CorrectedEstimate:
    labels, drawn = np.full(CASES, np.nan), np.ones(CASES)
    places = np.array(sorted(chances))
    labels[places] = truth[places]
    drawn[places] = [chances[place] for place in places]
    span = corrected_mean(LabelledCases.of(judge, labels, drawn), share=True)
    assert span is not None
    return span


def _random(rng: Rng) -> tuple[float, bool]:
    truth, judge, _ = _run(rng)
    places = rng.choice(CASES, RANDOM, replace=False)
    return _estimate(truth, judge, dict.fromkeys(places.tolist(), RANDOM / CASES))


def _queued(rng: Rng, count: int, *, learnt: bool) -> tuple[float, bool]:
    truth, judge, candidates = _run(rng)
    seed = str(rng.integers(1 << 60))
    errors: dict[str, tuple[int, int]] = {}
    if learnt:  # labels of an earlier run of the same agent: they count nowhere else
        earlier, said, others = _run(rng)
        rows = draw_queue(QueuePlan("q", "r0", "verdict", 100, seed, "", AT), others)
        errors = stratum_errors(
            (row["stratum"], bool(earlier[int(row["case_id"])] != said[int(row["case_id"])]))
            for row in rows
        )
    plan = QueuePlan("q", "r1", "verdict", count, seed, "", AT, errors=errors)
    rows = draw_queue(plan, candidates)
    return _estimate(truth, judge, {int(row["case_id"]): row["probability"] for row in rows})


def projection(figures: Figures, rng: Rng, times: int) -> None:
    """The width after as many more labels as the product names for half the width / that half."""
    for name, queued in (("random", False), ("queue", True)):
        reached = []
        for _ in range(times):
            truth, judge, candidates = _run(rng)
            seed = str(rng.integers(1 << 60))
            now = _labelled(truth, judge, candidates, (100, seed), queued=queued)
            goal = (now.high - now.low) / 2
            more = labels_needed(now, CASES, goal)
            if more is not None:
                then = _labelled(truth, judge, candidates, (100 + more, seed), queued=queued)
                reached.append((then.high - then.low) / goal)
        figures.add(f"projection_possible_{name}", len(reached) / times)
        ratio = float(np.mean(reached))
        figures.add(f"projection_width_to_promised_{name}", ratio, least=0.9, most=1.1)


def _labelled(
    truth: Floats, judge: Floats, of: list[Candidate], drawn: tuple[int, str], *, queued: bool
) -> CorrectedEstimate:
    plan = QueuePlan("q", "r", "verdict", drawn[0], drawn[1], "", AT)
    of = of if queued else [candidate._replace(stratum=PASSES) for candidate in of]
    rows = draw_queue(plan, of)
    return _corrected(truth, judge, {int(row["case_id"]): row["probability"] for row in rows})
