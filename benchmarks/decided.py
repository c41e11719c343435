"""Runs that stop when they are decided, beside the same runs judged to their end, by simulation.

    python -m benchmarks.decided [--seed 7] [--share 1.0]

The scores are those that judges and people gave to real cases (`decided_data`). Cases or clusters of
a pair of recordings are drawn until a run is full. With nothing changed, which of the two values is
the candidate's is a toss of a coin for each cluster; for a change, a share of the clusters keeps the
worse side for the candidate. `--share 0.1` runs a tenth of the simulations.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from assizes.judge.statistics.effects import Word, decide, holm, paired_effect, plain_effect
from assizes.judge.statistics.intervals import Sample, minimum_detectable
from assizes.judge.statistics.sequential import (
    Bounds,
    PartialEffect,
    StopRules,
    decided_word,
    final_alpha,
    look_bounds,
    partial_effect,
)
from benchmarks.decided_data import Recording, recordings
from benchmarks.figures import Figures

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
    members = recording.members
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


class LookAt(NamedTuple):
    """What a rule for stopping sees at a look: the measures in points, and where the run is."""

    seen: list[PartialEffect]
    margin: float
    number: int  # of the look, from 1


Rule = Callable[[LookAt], str | None]
"""Whether a run stops at a look, and how it ends then."""

SHARES = tuple(number / 10 for number in range(1, 10))
"""The shares of the cases at the looks before the end: the default of [sampling] looks."""

FLOOR = 50
"""Cases before which no run stops."""


def ours(at: LookAt) -> str | None:
    """The design of the product: a group-sequential test, and the same word in all likelihood."""
    bounds = look_bounds(SHARES, ALPHA, len(at.seen))[at.number - 1]
    rules = StopRules(at.margin, final_alpha(ALPHA), CERTAINTY)
    return decided_word([[each] for each in at.seen], rules, bounds)


def curtailment(at: LookAt) -> str | None:
    """Only the likely word of the whole run, without a test that spends alpha."""
    rules = StopRules(at.margin, final_alpha(ALPHA), CERTAINTY)
    return decided_word([[each] for each in at.seen], rules, Bounds(-9.0, -9.0))


def group_sequential(at: LookAt) -> str | None:
    """Only the test, with boundaries after O'Brien and Fleming: no word about the cases left."""
    bound = 2.1 / SHARES[at.number - 1] ** 0.5
    return _by_bound(at, bound, bound)


def anytime_valid(at: LookAt) -> str | None:
    """Asymptotic confidence sequences, normal mixture (Waudby-Smith and others, arXiv 2103.06476)."""
    clusters = at.seen[0].clusters
    alpha = ALPHA / len(at.seen)
    whole = clusters / at.seen[0].share
    rho = (-2 * np.log(alpha) + np.log(1 - 2 * np.log(alpha))) / (whole / 3)  # tightest at a third
    grown = clusters * rho + 1
    bound = float(np.sqrt(2 * grown / (clusters * rho) * np.log(np.sqrt(grown) / alpha)))
    return _by_bound(at, bound, bound)


def _by_bound(at: LookAt, worse: float, fine: float) -> str | None:
    if any(e.delta < -worse * e.error and e.delta <= -at.margin for e in at.seen):
        return "regressed"
    return "fine" if all(e.delta - fine * e.error > -at.margin for e in at.seen) else None


RULES: dict[str, Rule] = {
    "ours": ours,
    "curtailment": curtailment,
    "group_sequential": group_sequential,
    "anytime_valid": anytime_valid,
}


def looks_of(run: Drawn, margin: float) -> list[LookAt]:
    """What each look sees: whole clusters, up to the one in which the share is reached."""
    total, looks = run.passes.size, []
    for number, share in enumerate(SHARES, start=1):
        upto = int(np.searchsorted(run.codes, run.codes[int(share * total)], "left"))
        if upto < FLOOR:
            continue
        codes, judged = run.codes[:upto], upto / total
        passes = partial_effect(Sample(100 * run.passes[:upto], codes), judged, least_move=100.0)
        scores = partial_effect(Sample(run.scores[:upto], codes), judged, least_move=10.0)
        looks.append(LookAt([passes, scores], margin, number))
    return looks


@dataclass
class Tally:
    """What became of the simulated runs of one kind."""

    same: list[bool] = field(default_factory=list)  # the end is that of the whole run
    judged: list[float] = field(default_factory=list)  # share of the cases
    alarms: list[bool] = field(default_factory=list)

    def add(self, ending: str, whole: str, judged: float) -> None:
        """Count a run."""
        self.same.append(ending == whole)
        self.judged.append(judged)
        self.alarms.append(ending == "regressed")


SETTINGS = ((500, 2.0), (1000, 5.0), (2000, 5.0), (4000, 5.0))
"""Cases of a run, and the margin in points."""

KEPT = (0.0, 0.25, 0.5, 1.0)
"""Shares of the clusters that got worse; at 0 an agent is compared with itself."""


CLEAR = 1.5
"""How many times the smallest detectable change a drop, or a margin without one, is for a clear case."""


def kind_of(drop: float, detectable: float, margin: float) -> str:
    """How clear a change is beside the change that the whole run can detect (MDE), in points."""
    if drop == 0:
        return "none" if margin >= CLEAR * detectable else "none_small_run"
    return "large" if drop >= CLEAR * max(detectable, margin) else "near"


def simulate(rng: np.random.Generator, times: int) -> dict[tuple[str, str, str], Tally]:
    """The runs by rule, kind and setting."""
    tallies: dict[tuple[str, str, str], Tally] = defaultdict(Tally)
    pairs = [(recording, drop_of(recording)) for recording in recordings()]
    cells = [
        (cases, margin, kept, recording, drop)
        for cases, margin in SETTINGS
        for kept in KEPT
        for recording, drop in pairs
        if not (kept and recording.is_same)
    ]
    for cases, margin, kept, recording, drop in cells:
        for _ in range(times):
            run = draw(recording, cases, kept, rng)
            whole = ending_of_all(run, margin, ALPHA)
            errors = [
                Sample(100 * run.passes, run.codes).error,
                Sample(run.scores, run.codes).error,
            ]
            # For a change what the pass rate can show, for none what the coarser measure can.
            error = errors[0] if kept else max(errors)
            kind = kind_of(kept * drop, minimum_detectable(error), margin)
            looks = looks_of(run, margin)
            for name, rule in RULES.items():
                ends = ((at, word) for at in looks if (word := rule(at)) is not None)
                at, word = next(ends, (None, None))
                ending = word or ending_of_all(run, margin, final_alpha(ALPHA))
                judged = 1.0 if at is None else at.seen[0].share
                tallies[name, kind, f"{cases}_{margin:g}"].add(ending, whole, judged)
            tallies["whole", kind, f"{cases}_{margin:g}"].add(whole, whole, 1.0)
    return tallies


def drop_of(recording: Recording) -> float:
    """The drop of the pass rate in points where every cluster keeps the worse side."""
    passed = [side >= recording.passes_from for side in (recording.before, recording.after)]
    return abs(float(passed[1].mean() - passed[0].mean())) * 100


def merged_tally(tallies: dict[tuple[str, str, str], Tally], *wanted: str) -> Tally:
    """All runs whose rule, kind or setting are among those wanted; the rule comes first."""
    rule, kinds = wanted[0], set(wanted[1:])
    result = Tally()
    for (name, kind, setting), tally in tallies.items():
        if name == rule and (not kinds or kind in kinds or setting in kinds):
            result.same += tally.same
            result.judged += tally.judged
            result.alarms += tally.alarms
    return result


def report(figures: Figures, tallies: dict[tuple[str, str, str], Tally]) -> None:
    """The figures of every rule; only the product's own has goals."""
    null = ("none", "none_small_run")
    for cases, margin in SETTINGS:
        setting = f"{cases}_{margin:g}"
        same, alarms = Tally(), Tally()
        for (name, kind, of), tally in tallies.items():
            if name == "ours" and of == setting:
                same.same += tally.same
                alarms.alarms += tally.alarms if kind in null else []
        figures.add(f"same_decision_{setting}", share(same.same), least=0.95)
        figures.add(f"false_alarms_{setting}", share(alarms.alarms), most=0.05)
    for name in ("ours", "whole", "curtailment", "group_sequential", "anytime_valid"):
        goal = name == "ours"
        figures.add(
            f"{name}_same_decision", share(merged_tally(tallies, name).same), **least(0.95, goal)
        )
        alarms_of = merged_tally(tallies, name, *null).alarms
        figures.add(f"{name}_false_alarms", share(alarms_of), **most(0.05, goal))
        for kind in ("large", "none", "near", "none_small_run"):
            tally = merged_tally(tallies, name, kind)
            clear = goal and kind in ("large", "none")
            median = float(np.median(tally.judged))
            figures.add(f"{name}_median_calls_{kind}", median, **most(0.35, clear))
            figures.add(f"{name}_same_decision_{kind}", share(tally.same), **least(0.95, clear))
            figures.add(f"{name}_runs_{kind}", len(tally.same))


def share(flags: list[bool]) -> float:
    """The share of flags that are true."""
    return sum(flags) / len(flags) if flags else float("nan")


def least(value: float, is_goal: bool) -> dict[str, float]:
    """A lower goal, where there is one."""
    return {"least": value} if is_goal else {}


def most(value: float, is_goal: bool) -> dict[str, float]:
    """An upper goal, where there is one."""
    return {"most": value} if is_goal else {}


def main() -> None:
    """Simulate, and print every figure with its goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--share", type=float, default=1.0)
    given = parser.parse_args()
    figures = Figures()
    tallies = simulate(np.random.default_rng(given.seed), max(1, round(10 * given.share)))
    report(figures, tallies)
    figures.close()


if __name__ == "__main__":
    main()
