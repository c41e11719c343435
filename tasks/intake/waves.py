"""The waves of a run that may stop early: random parts of its cases, fixed when it is planned.

Which case is in which wave is decided in `assizes.judge.selection`; here are the shards of a wave.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from assizes.judge.selection import WaveRules, waves_of
from assizes.tasks.intake import plan as plans
from assizes.tasks.intake.scan import ScannedObject


class Wave(NamedTuple):
    """The shards and the cases of a run up to the end of a wave."""

    shards: int
    cases: int  # different case ids


def waves_in(design: Mapping[str, Any]) -> tuple[Wave, ...]:
    """The waves of a plan's design; empty: the run judges all its cases."""
    return tuple(Wave(*wave) for wave in design.get("waves", ()))


def looks_before_end(waves: Sequence[Wave]) -> tuple[float, ...]:
    """The share, 0..1, of the cases that is judged at each look before the end of a run."""
    return tuple(wave.cases / waves[-1].cases for wave in waves[:-1])


def wave_shards(plan: plans.Plan, number: int) -> tuple[plans.Shard, ...]:
    """The shards of a wave, from 1."""
    waves = waves_in(plan.design)
    begin = waves[number - 2].shards if number > 1 else 0
    return plan.shards[begin : waves[number - 1].shards]


def shard_groups(plan: plans.Plan) -> tuple[tuple[plans.Shard, ...], ...]:
    """The shards that may be judged together: those of each wave, or all where there is no wave."""
    count = len(waves_in(plan.design))
    return tuple(wave_shards(plan, number) for number in range(1, count + 1)) or (plan.shards,)


def wave_cuts(
    objects: Sequence[ScannedObject], rules: WaveRules, seed: int, shard_size: int
) -> tuple[list[ShardCut], list[Wave]]:
    """Where to cut shards, wave by wave, and the waves; no wave where the run is too small for one.

    Duplicates and rejects of an object belong to the first shard of the object in the first wave.
    """
    due = [
        {
            place: scanned.order[place]
            for place, fate in enumerate(scanned.fates)
            if fate == plans.DUE
        }
        for scanned in objects
    ]
    waves = waves_of((case for cases in due for case in cases.values()), rules, seed)
    count = max(waves.values(), default=0) + 1
    if count == 1:
        return [], []
    cuts: list[ShardCut] = []
    ends: list[Wave] = []
    seen: set[str] = set()
    for wave in range(count):
        for number, (scanned, cases) in enumerate(zip(objects, due, strict=True)):
            chosen = [place for place, case in cases.items() if waves[case.unit] == wave]
            seen.update(cases[place].case_id for place in chosen)
            others = wave == 0 and any(fate in _KEPT for fate in scanned.fates)
            starts = range(0, len(chosen), shard_size)
            pieces = [tuple(chosen[start : start + shard_size]) for start in starts]
            cuts += [ShardCut(number, piece, False) for piece in pieces]
            if others and pieces:
                cuts[-len(pieces)] = ShardCut(number, pieces[0], True)
            elif others:
                cuts.append(ShardCut(number, (), True))
        ends.append(Wave(len(cuts), len(seen)))
    return cuts, ends


class ShardCut(NamedTuple):
    """A shard of a wave: the number of its object, and the positions of its due records."""

    object: int
    due: tuple[int, ...]
    takes_others: bool  # whether the duplicates and the rejects of the object are in it


_KEPT: Final = (plans.DUPLICATE, plans.REJECTED)
"""Fates that a shard tells of although nothing is judged."""
