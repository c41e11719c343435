"""Causes: planted failure modes found again, kept over nights, and a million reasons grouped.

    python -m benchmarks.causes [--seeds 20] [--nights 30] [--reasons 1000000] [--space sentences]

The modes and their wordings are in `causes_modes.toml`; those that chose the constants of
`judge/causes` are not among those that are measured. What the reasons quote is from real
conversations. `--space sentences` needs the extra `assizes[sentences]`; it also measures nights of
which the first half is grouped by words and the second half by sentences.
"""

from __future__ import annotations

import argparse
import random
import resource
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeAlias

import numpy as np
import polars as pl
from sklearn.metrics import adjusted_rand_score

from assizes.judge.causes.failures import FAILURES
from assizes.judge.causes.identity import REMEMBERED, FoundCauses, find_causes
from assizes.judge.causes.incidents import SURE
from assizes.judge.causes.presence import CauseChange, JudgedCases, cause_changes
from assizes.tasks.embedding.sentence_encoder import encoder_of_run
from benchmarks.causes_texts import Mode, modes, planted
from benchmarks.figures import Figures

FIRST_SEED = 2000
KNOWN = {**FAILURES, "cause_id": pl.String}
NO_CAUSES = pl.DataFrame(schema=KNOWN)
SPACES: Final = ("words", "sentences")

Finder: TypeAlias = Callable[[pl.DataFrame, pl.DataFrame, str], FoundCauses]
"""`find_causes` by words, or by sentences too."""


def finder(space: str) -> Finder:
    """The finder of a space."""
    return partial(find_causes, encoder=encoder_of_run({"causes": {"space": space}}))


def main() -> None:
    """Measure, print, and end with one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="repetitions with other draws")
    parser.add_argument("--nights", type=int, default=30, help="nights over which identity is kept")
    parser.add_argument("--reasons", type=int, default=1_000_000, help="reasons grouped at once")
    parser.add_argument("--space", choices=SPACES, default="words", help="what makes reasons alike")
    parser.add_argument("--only-reasons", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    find = finder(options.space)
    if options.only_reasons:
        _group_many(find, options.reasons)
        return
    figures = Figures()
    _measure_groups(figures, find, options)
    if options.space == "sentences":
        _measure_change_of_space(figures, find, options)
    _measure_many(figures, options.space, options.reasons)
    figures.close()


def _measure_groups(figures: Figures, find: Finder, options: argparse.Namespace) -> None:
    seeds = range(FIRST_SEED, FIRST_SEED + options.seeds)
    for each, least in ((5, None), (10, None), (30, 0.8), (100, 0.8)):
        found = [_agreement(find, seed, each) for seed in seeds]
        name = f"{each} reasons of a mode"
        figures.add(f"ARI, {name}", statistics.mean(found), least=least)
        figures.add(f"ARI, {name}, lowest", min(found))
    kept = [_nights([find], seed, options.nights) for seed in seeds]
    figures.add("nights: false splits", statistics.mean(split for split, _, _ in kept), most=0.05)
    figures.add("nights: false merges", statistics.mean(merge for _, merge, _ in kept), most=0.05)
    figures.add("nights: in no cause", statistics.mean(alone for _, _, alone in kept))
    again = [_again(find, seed) for seed in range(FIRST_SEED, FIRST_SEED + 10 * options.seeds)]
    figures.add("same agent: opens a cause", statistics.mean(new for new, _ in again), most=0.05)
    incidents = 365 * statistics.mean(opened for _, opened in again)
    figures.add("same agent: incidents of causes in a year", incidents, most=12.0)
    shown = [_change(find, seed) for seed in seeds]
    figures.add("planted cause is new", statistics.mean(new for new, _ in shown), least=0.9)
    figures.add("mended cause is gone", statistics.mean(gone for _, gone in shown), least=0.9)


def _measure_change_of_space(figures: Figures, find: Finder, options: argparse.Namespace) -> None:
    """Identity of causes that were found by words until somebody changed the setting."""
    seeds = range(FIRST_SEED, FIRST_SEED + options.seeds)
    kept = [_nights([finder("words"), find], seed, options.nights) for seed in seeds]
    for place, name in enumerate(("false splits", "false merges")):
        share = statistics.mean(shares[place] for shares in kept)
        figures.add(f"nights, from words to sentences: {name}", share, most=0.05)


def _agreement(find: Finder, seed: int, each: int) -> float:
    """The adjusted Rand index of causes and planted modes; half to double `each` reasons a mode."""
    draw, planted_modes = random.Random(seed), modes("planted")
    sizes = [max(2, int(each * draw.choice((0.5, 1, 2)))) for _ in planted_modes]
    failing = [mode for mode, size in zip(planted_modes, sizes, strict=True) for _ in range(size)]
    draw.shuffle(failing)
    causes = find(planted(draw, failing), NO_CAUSES, "run").failures["cause_id"]
    return float(adjusted_rand_score([mode.name for mode in failing], causes.fill_null("-")))


def _nights(finders: Sequence[Finder], seed: int, nights: int) -> tuple[float, float, float]:
    """The shares of failures in a wrong cause: split from their mode, merged with others, in none.

    The wording drifts: each night has four of the eight wordings of a mode. Some modes begin later,
    some end earlier. Each finder has as many nights as the others, one after the other.
    """
    draw, planted_modes = random.Random(seed), modes("planted")
    chances = np.random.default_rng(seed)
    rates = [draw.choice((2, 5, 10, 20)) for _ in planted_modes]
    begins = [draw.choice((0, 0, 0, 5, 12, 20)) for _ in planted_modes]
    ends = [draw.choice((nights, nights, nights, 15, 25)) for _ in planted_modes]
    known, pairs, alone = NO_CAUSES, Counter[tuple[str, str]](), 0
    for night in range(nights):
        failing = [
            _drifted(mode, night / nights)
            for mode, rate, begin, end in zip(planted_modes, rates, begins, ends, strict=True)
            if begin <= night < end
            for _ in range(chances.poisson(rate))
        ]
        draw.shuffle(failing)
        find = finders[night * len(finders) // nights]
        found = find(planted(draw, failing), known, f"night-{night}").failures
        alone += found["cause_id"].null_count()
        names = zip(failing, found["cause_id"], strict=True)
        pairs.update((mode.name, cause) for mode, cause in names if cause is not None)
        known = _remembered(known, found)
    grouped = pairs.total()
    return (
        1 - _kept(pairs, 0) / grouped,
        1 - _kept(pairs, 1) / grouped,
        alone / (grouped + alone),
    )


def _drifted(mode: Mode, progress: float) -> Mode:
    count = len(mode.wordings)
    first = int(progress * count)
    return replace(mode, wordings=tuple(mode.wordings[(first + n) % count] for n in range(4)))


def _remembered(known: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
    both = pl.concat([known, found.drop_nulls("cause_id")])
    return both.group_by("cause_id", maintain_order=True).tail(REMEMBERED).select(list(KNOWN))


def _kept(pairs: Counter[tuple[str, str]], side: int) -> int:
    """Failures of each mode (side 0) in its most frequent cause; of each cause (side 1) likewise."""
    most: dict[str, int] = {}
    for names, count in pairs.items():
        most[names[side]] = max(most.get(names[side], 0), count)
    return sum(most.values())


def _again(find: Finder, seed: int) -> tuple[bool, int]:
    """Whether a second run of the same agent has a new cause, and how many incidents it opens."""
    draw = random.Random(seed)
    rates = {mode: draw.choice((0.0, 0.003, 0.01, 0.03)) for mode in modes("planted")}
    changes = _changes(find, draw, rates, rates).values()
    opened = [
        each for each in changes if each.state in ("new", "worse") and (each.p_value or 0) <= SURE
    ]
    return any(each.state == "new" for each in changes), len(opened)


def _change(find: Finder, seed: int) -> tuple[bool, bool]:
    """Whether a mode that only the second run has is new, and one that only the first has is gone."""
    draw = random.Random(seed)
    every = modes("planted")
    draw.shuffle(every)
    begun, ended, *others = every
    rates = {mode: draw.choice((0.0, 0.003, 0.01, 0.03)) for mode in others}
    changes = _changes(find, draw, {**rates, ended: 0.03}, {**rates, begun: 0.03})
    came, went = changes.get(begun.name), changes.get(ended.name)
    return came is not None and came.state == "new", went is not None and went.state == "gone"


def _changes(
    find: Finder,
    draw: random.Random,
    before: dict[Mode, float],
    after: dict[Mode, float],
    cases: int = 1000,
) -> dict[str, CauseChange]:
    """What became of the cause with most failures of each mode; runs over the same cases."""
    ids = [f"case-{number:07d}" for number in range(cases)]
    judged = JudgedCases(
        pl.DataFrame({"case_id": ids, "repetition": 0, "cluster": None}, strict=False)
    )
    runs: list[tuple[pl.DataFrame, list[str]]] = []
    known = NO_CAUSES
    for rates in (before, after):
        failing = _drawn(draw, rates, ids)
        rows = planted(draw, [mode for _, mode in failing]).with_columns(
            pl.Series("case_id", [case for case, _ in failing], dtype=pl.String)
        )
        result = find(rows, known, f"run-{len(runs)}")
        known = _remembered(known, result.failures)
        # A cause that turned out to be an older one is that one in the run before as well.
        same = pl.col("cause_id").replace(dict(result.merged))
        runs = [(failures.with_columns(same), names) for failures, names in runs]
        runs.append((result.failures, [mode.name for _, mode in failing]))
    causes = sorted({cause for found, _ in runs for cause in found["cause_id"].drop_nulls()})
    first, second = (
        {cause: judged.presence(found.filter(pl.col("cause_id") == cause)) for cause in causes}
        for found, _ in runs
    )
    changes = cause_changes(second, first, (ids, ids), alpha=0.05)
    main_mode = {
        cause: Counter(
            name
            for found, names in runs
            for name, own in zip(names, found["cause_id"], strict=True)
            if own == cause
        ).most_common(1)[0]
        for cause in causes
    }
    order = sorted(
        causes, key=lambda cause: main_mode[cause][1]
    )  # the largest comes last, and stays
    return {main_mode[cause][0]: changes[cause] for cause in order}


def _drawn(
    draw: random.Random, rates: dict[Mode, float], ids: Sequence[str]
) -> list[tuple[str, Mode]]:
    return [(case, mode) for mode, rate in rates.items() for case in ids if draw.random() < rate]


def _measure_many(figures: Figures, space: str, reasons: int) -> None:
    """Seconds and memory of a fresh process that groups many reasons, no two of them equal."""
    command = [sys.executable, "-m", "benchmarks.causes", "--only-reasons", "--space", space]
    run = subprocess.run(
        [*command, "--reasons", str(reasons)], check=True, capture_output=True, text=True
    )
    seconds, megabytes, agreement = map(float, run.stdout.split())
    figures.add(f"{reasons:,} reasons, s", seconds, most=120)
    figures.add(f"{reasons:,} reasons, MB", megabytes, most=1000)
    figures.add(f"{reasons:,} reasons, ARI", agreement, least=0.8)


def _group_many(find: Finder, reasons: int) -> None:
    draw, planted_modes = random.Random(FIRST_SEED), modes("planted")
    frames, names = [], []
    for first in range(0, reasons, 50_000):
        failing = draw.choices(planted_modes, k=min(50_000, reasons - first))
        names += [mode.name for mode in failing]
        frames.append(planted(draw, failing, first))
    rows = pl.concat(frames)
    del frames
    began = time.perf_counter()
    causes = find(rows, NO_CAUSES, "run").failures["cause_id"]
    took = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(took, peak, adjusted_rand_score(names, causes.fill_null("-").to_list()))


if __name__ == "__main__":
    main()
