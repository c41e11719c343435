"""Pairs of causes that a model is asked about: how many equal ones are found, how many others asked.

    python -m benchmarks.causes_pairs [--seeds 40]

Each development mode is told in two ways: half of its wordings are one way, half the other. Where
the program makes two causes or more of a mode, each pair of them is equal; pairs of different modes
are not. A run has 12 modes, and 10 or 30 reasons for each way.
"""

from __future__ import annotations

import argparse
import random
from dataclasses import replace
from itertools import combinations

import polars as pl

from assizes.judge.causes.grouping import NEAR_PAIRS, near_pairs
from assizes.judge.causes.identity import REMEMBERED, find_causes
from benchmarks.causes import NO_CAUSES
from benchmarks.causes_texts import modes, planted

FIRST_SEED = 7000
LIMITS = (0.0, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.09, 0.1, 0.12)


def main() -> None:
    """Print, for each limit, the share of equal pairs and the number of wrong ones a run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=40, help="runs of each size")
    seeds = range(FIRST_SEED, FIRST_SEED + parser.parse_args().seeds)
    print("reasons  limit  equal pairs  asked about  nearest 20  wrong pairs a run  nearest 20")
    for each in (10, 30):
        runs = [_run(seed, each) for seed in seeds]
        equal = sum(len(pairs) for _, pairs in runs)
        for limit in LIMITS:
            cells = []
            for most in (10_000, NEAR_PAIRS):
                asked = [set(near_pairs(known, most, limit)) for known, _ in runs]
                right = sum(len(own & pairs) for own, (_, pairs) in zip(asked, runs, strict=True))
                cells.append((right / max(1, equal), (sum(map(len, asked)) - right) / len(runs)))
            (share, wrong), (first, first_wrong) = cells
            print(
                f"{each:7}  {limit:5.2f}  {equal:11}  {share:11.2f}  {first:10.2f}"
                f"  {wrong:17.1f}  {first_wrong:10.1f}"
            )


def _run(seed: int, each: int) -> tuple[pl.DataFrame, set[tuple[str, str]]]:
    """The failures by which the causes of a run are known, and the pairs of causes that are equal."""
    draw = random.Random(seed)
    ways = []
    for mode in modes("development"):
        wordings = draw.sample(mode.wordings, len(mode.wordings))
        half = len(wordings) // 2
        ways += [replace(mode, wordings=tuple(wordings[:half]))] * each
        ways += [replace(mode, wordings=tuple(wordings[half:]))] * each
    draw.shuffle(ways)
    found = find_causes(planted(draw, ways), NO_CAUSES, "run").failures
    told = found.with_columns(pl.Series("mode", [mode.name for mode in ways]))
    known = told.drop_nulls("cause_id").group_by("cause_id", maintain_order=True).tail(REMEMBERED)
    names = known.group_by("cause_id", maintain_order=True).agg(
        pl.col("mode").mode().sort().first()
    )
    equal = {
        (first, second)
        for (first, own), (second, other) in combinations(names.iter_rows(), 2)
        if own == other
    }
    return known.drop("mode"), equal


if __name__ == "__main__":
    main()
