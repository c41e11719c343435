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
    stratum_errors,
)
from assizes.judge.statistics.intervals import Floats
from assizes.judge.statistics.prediction_powered import LabelledCases, corrected_mean
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
    labels, drawn = np.full(CASES, np.nan), np.ones(CASES)
    places = np.array(sorted(chances))
    labels[places] = truth[places]
    drawn[places] = [chances[place] for place in places]
    span = corrected_mean(LabelledCases.of(judge, labels, drawn), share=True)
    assert span is not None
    return span.high - span.low, span.low <= 0.8 <= span.high


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
