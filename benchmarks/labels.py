"""Simulations of numbers corrected by labels, seeded: coverage, width, and what the queue saves.

    python -m benchmarks.labels [--seed 7] [--share 1.0]

`--share 0.1` runs a tenth of the repetitions. A judge of kappa k gives the truth with the chance k,
and else an answer of its own at the same rate; the lenient one passes 30 % of the fails and errs on
no pass, and the rare one passes 3 % of all cases wrongly (of two runs over the same cases, in the
second). Coverage is pooled over rates, numbers of labels (30 and 50 are `few`, 100 and 200 `many`, 400 and
800 `plenty`), and cases with and without clusters; `worst_cell` is the lowest of one such
combination. `limit_` is the highest coverage that is allowed: 97 % with `plenty`, for every judge,
and with fewer labels where they show an error of the judge. Where few show none, a judge that errs
rarely cannot be told from a faultless one, so an interval for both must hold more:
`least_possible` says how much.
A line is short where its coverage is outside 93 % and its limit by a one-sided binomial test at 1 %
(`under_`, `over_`); `lines_outside_before_the_test` counts those outside without regard to chance.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import product
from statistics import mean

import numpy as np

from assizes.judge.calibration.measures import JudgeErrors, ObservedPasses, corrected_rate
from assizes.judge.statistics.intervals import Codes, Floats, ValueInterval
from assizes.judge.statistics.prediction_powered import corrected_mean
from benchmarks import labels_queue, labels_recorded
from benchmarks.figures import Figures
from benchmarks.labels_trials import (
    FEW,
    KAPPAS,
    LENIENT,
    MANY,
    MEANS,
    MOST,
    NAMES,
    PLENTY,
    RARE,
    RATES,
    Cell,
    Rng,
    Trial,
    cells,
    difference_trial,
    drawn,
    judged,
    known,
    labelled,
    least_possible,
    mean_difference_trial,
    mean_trial,
    passes,
    queued_slice_trial,
    rate_trial,
    shared_trial,
    slice_trial,
    unpaired_trial,
)

LEAST = 0.93
"""The lowest coverage."""

SURE = 2.33
"""Standard errors of a simulation by which coverage is surely outside: one-sided, 1 %."""


def main() -> None:
    """Every simulation, each figure with its goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--share", type=float, default=1.0)
    given = parser.parse_args()
    figures = Figures()
    jobs = [(name, given.seed + place, given.share) for place, name in enumerate(JOBS)]
    with ProcessPoolExecutor(2) as pool:
        for done in pool.map(run_job, *zip(*jobs, strict=True)):
            figures.values |= done.values
            figures.short += done.short
    figures.close()


def run_job(name: str, seed: int, share: float) -> Figures:
    """The figures of one simulation; `share` is that of the repetitions, above 0 to 1."""
    figures, rng = Figures(), np.random.default_rng(seed)
    if name in KINDS:
        # A kind with one rate has fewer combinations, so it has more repetitions of each.
        coverage(figures, rng, name, max(10, int((900 if name in MEANS else 400) * share)))
    elif name == "rogan_gladen":
        beside_rogan_gladen(figures, rng, max(10, int(400 * share)))
    elif name == "recorded":
        labels_recorded.recorded(figures, rng, max(10, int(400 * share)))
    elif name == "queue":
        labels_queue.queue(figures, rng, max(20, int(200 * share)))
    else:
        labels_queue.projection(figures, rng, max(10, int(100 * share)))
    return figures


@dataclass
class Tally:
    """What the trials of one combination, or of several, came to."""

    trials: int = 0
    held: int = 0
    width: float = 0.0
    alone: float = 0.0
    faultless: int = 0
    cells: list[float] = field(default_factory=list)  # coverage of each combination
    cells_alone: list[float] = field(default_factory=list)  # the same of labels alone

    def add(self, trials: list[Trial]) -> None:
        """Count the trials of one combination."""
        held = sum(t.corrected.low <= t.true <= t.corrected.high for t in trials)
        self.trials, self.held = self.trials + len(trials), self.held + held
        self.width += sum(t.corrected.high - t.corrected.low for t in trials)
        self.alone += sum(t.alone.high - t.alone.low for t in trials)
        self.faultless += sum(t.faultless for t in trials)
        self.cells.append(held / len(trials))
        alone = sum(t.alone.low <= t.true <= t.alone.high for t in trials)
        self.cells_alone.append(alone / len(trials))


def coverage(figures: Figures, rng: Rng, name: str, times: int) -> None:
    """95 % intervals hold the true value in 93 to 97 % of runs, and are no wider than labels alone."""
    rates = (0.5,) if name in MEANS else RATES
    kappas = KAPPAS if name in MEANS else (*KAPPAS, LENIENT, RARE)
    worst, worst_alone, widest, outside = 1.0, 1.0, 0.0, 0
    held_by_all: list[float] = []
    for kappa in kappas:
        judge = NAMES.get(kappa, f"kappa_{kappa:g}")
        for word, counts in (("few", FEW), ("many", MANY), ("plenty", PLENTY)):
            tally, limits = Tally(), []
            for cell in cells(rates, kappa, counts):
                own = Tally()
                trials = [KINDS[name](rng, cell) for _ in range(times)]
                own.add(trials)
                tally.add(trials)
                widest = max(widest, own.width / own.alone)
                faultless = 0.0 if counts == PLENTY else own.faultless / own.trials
                limits.append(MOST + faultless * (least_possible(name, cell) - MOST))
            held, limit = tally.held / tally.trials, sum(limits) / len(limits)
            least, most = (LEAST, MOST) if counts == PLENTY else (None, None)
            figures.add(f"coverage_{name}_{judge}_{word}", held, least=least, most=most)
            held_by_all.append(held)
            under = max(0.0, LEAST - noise(LEAST, tally.trials) - held)
            over = max(0.0, held - limit - noise(limit, tally.trials))
            outside += not LEAST <= held <= limit
            figures.add(f"limit_{name}_{judge}_{word}", limit)
            figures.add(f"under_{name}_{judge}_{word}", under, most=0.0)
            # Labels of a slice count as drawn without strata, so those of a queue hold more.
            most = None if name == "queued_slice" else 0.0
            figures.add(f"over_{name}_{judge}_{word}", over, most=most)
            figures.add(f"width_{name}_{judge}_{word}", tally.width / tally.alone, most=1.02)
            worst = min(worst, *tally.cells)
            worst_alone = min(worst_alone, *tally.cells_alone)
    most = None if name == "queued_slice" else MOST
    figures.add(f"coverage_{name}_all_judges", mean(held_by_all), least=LEAST, most=most)
    figures.add(f"worst_cell_of_labels_alone_{name}", worst_alone)
    figures.add(f"worst_cell_{name}", worst)
    least = min(0.89, worst_alone)
    figures.add(f"worst_under_{name}", max(0.0, least - noise(least, times) - worst), most=0.0)
    figures.add(f"lines_outside_before_the_test_{name}", outside)
    figures.add(f"widest_cell_{name}", widest, most=1.02)


def noise(bound: float, trials: int) -> float:
    """How far the coverage of a simulation may lie from a true coverage at the bound by chance."""
    return SURE * float(np.sqrt(bound * (1 - bound) / trials))


def rogan_gladen(judge: Floats, truth: Floats, places: Codes) -> ValueInterval | None:
    """The interval of `corrected_rate` from the same labels; `None` where it has none."""
    said, right = judge[places] > 0, truth[places] > 0
    errors = JudgeErrors(
        passes=int(right.sum()),
        passes_right=int((said & right).sum()),
        fails=int((~right).sum()),
        fails_right=int((~said & ~right).sum()),
    )
    span = corrected_rate(ObservedPasses(int(judge.sum()), judge.size), errors)
    return None if span.low is None or span.high is None else ValueInterval(span.low, span.high)


def beside_rogan_gladen(figures: Figures, rng: Rng, times: int) -> None:
    """The width beside the interval of Rogan and Gladen from the same labels, 100 of 1,000 cases."""
    for kappa in (*KAPPAS[1:], LENIENT):
        widths = defaultdict[str, float](float)
        for rate, _ in product(RATES, range(times)):
            cell = Cell(100, 1000, 1, rate, kappa)
            truth, codes = passes(rng, cell)
            judge, places = judged(rng, truth, rate, kappa), drawn(rng, cell, codes)
            other = rogan_gladen(judge, truth, places)
            if other is None:
                continue
            estimate = known(corrected_mean(labelled(judge, truth, places, codes), share=True))
            widths["own"] += estimate.high - estimate.low
            widths["other"] += other.high - other.low
        name = f"width_to_rogan_gladen_{NAMES.get(kappa, f'kappa_{kappa:g}')}"
        figures.add(name, widths["own"] / widths["other"], most=1.0)


KINDS: dict[str, Callable[[Rng, Cell], Trial]] = {
    "rate": rate_trial,
    "mean": mean_trial,
    "difference": difference_trial,
    "mean_difference": mean_difference_trial,
    "unpaired": unpaired_trial,
    "shared": shared_trial,
    "slice": slice_trial,
    "queued_slice": queued_slice_trial,
}
JOBS = (
    *("rate", "mean", "difference", "mean_difference", "unpaired", "shared"),
    *("rogan_gladen", "recorded", "queue", "projection", "slice", "queued_slice"),
)

if __name__ == "__main__":
    main()
