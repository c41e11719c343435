"""Which of the cases are judged, and in which order: filters, a sample by the case ids, waves."""

from __future__ import annotations

import hashlib
import heapq
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC
from fractions import Fraction
from itertools import accumulate
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from assizes.judge.case import Case
from assizes.judge.config.transcripts import SelectionConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.rows import as_json

ALWAYS: Final = "always"
"""The name of the stratum of the cases that are always judged."""


class Stratum(BaseModel):
    """A group of cases with the same values, and how many of its `cases` were `drawn` at random."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(description="JSON of the values it has in common")
    cases: int
    drawn: int


def facts(case: Case) -> dict[str, Any]:
    """The values that a filter sees of a case: those of `FACTS`, and the `tags`."""
    transcript = case.transcript
    started = transcript.started_at
    own = ("case_id", "repetition", "agent", "agent_version", "status", "cluster")
    return {
        **{name: getattr(case, name) for name in own},
        # Naive UTC: the columns of a filter have no zone (`FACTS`).
        "started_at": None if started is None else started.astimezone(UTC).replace(tzinfo=None),
        "duration_ms": transcript.duration_ms,
        "turn_count": len(transcript.turns),
        "call_count": sum(1 for _ in transcript.calls()),
        "char_count": sum(
            len(turn.text or "") + len(turn.tool_result.content if turn.tool_result else "")
            for turn in transcript.turns
        ),
        "cost_usd": transcript.cost_usd(),
        "tags": case.tags,
    }


def sample_key(case_id: str, seed: int = 0) -> int:
    """The number by which a case is drawn, from 0 to below 2^64: lower numbers are drawn first."""
    # Of the id alone: all repetitions of a case are drawn together, and the same each night.
    text = case_id if seed == 0 else f"{seed}\n{case_id}"
    # Not `hash()`, which differs from process to process: each machine must draw the same cases.
    data = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest())


def stratum_of(case: Case, by: Sequence[str]) -> str:
    """The name of a case's stratum: JSON of its values for the names in `by`, of which may be none."""
    return stratum_name({"agent": case.agent, "agent_version": case.agent_version}, case.tags, by)


def stratum_name(
    fields: Mapping[str, str | None], tags: Mapping[str, str], by: Sequence[str]
) -> str:
    """The name of the stratum of a case with these fields and tags."""
    # A tag named like a field never hides it; cases without the tag are a stratum, too.
    return as_json({name: fields[name] if name in fields else tags.get(name) for name in by})


def draw_sample(
    strata: Mapping[str, str], config: SelectionConfig
) -> tuple[frozenset[str], tuple[Stratum, ...]]:
    """The ids of the cases to judge, and how many were drawn from each stratum, at least one of each.

    `strata` holds the stratum of every case that may be drawn, by case id.

    Raises:
        ConfigurationError: when `number` is smaller than the number of strata.
    """
    always = frozenset(config.always) & strata.keys()
    members: defaultdict[str, list[str]] = defaultdict(list)
    for case_id, name in strata.items():
        if case_id not in always:
            members[name].append(case_id)
    # With a plain share each id decides for itself, whatever other cases there are.
    is_plain_share = config.sample < 1 and not config.stratify_by
    draw = _by_share if is_plain_share else _by_number
    taken = draw(members, config)
    drawn_strata = [
        Stratum(name=name, cases=len(members[name]), drawn=len(taken[name]))
        for name in sorted(members)
    ]
    if always:
        drawn_strata.append(Stratum(name=ALWAYS, cases=len(always), drawn=len(always)))
    return always.union(*taken.values()), tuple(drawn_strata)


def _by_share(members: Mapping[str, list[str]], config: SelectionConfig) -> dict[str, set[str]]:
    bound = config.sample * 2**64  # keys lie in 0..2^64
    return {
        name: {case_id for case_id in ids if sample_key(case_id, config.seed) < bound}
        for name, ids in members.items()
    }


def _by_number(members: Mapping[str, list[str]], config: SelectionConfig) -> dict[str, set[str]]:
    sizes = {name: len(ids) for name, ids in members.items()}
    if config.per_stratum is not None:
        wanted = {name: min(size, config.per_stratum) for name, size in sizes.items()}
    elif config.number is None:  # rounded up: at least one of each stratum
        # As floats 7 % of 100 are a little more than 7, as decimals 5/6 of 6 are more than 5.
        shares = (config.sample, Fraction(str(config.sample)))
        wanted = {n: min(math.ceil(size * share) for share in shares) for n, size in sizes.items()}
    else:
        wanted = _share_out(min(config.number, sum(sizes.values())), sizes)
    drawn = {}
    for name, ids in members.items():
        keyed = ((sample_key(case_id, config.seed), case_id) for case_id in ids)
        drawn[name] = {case_id for _, case_id in heapq.nsmallest(wanted[name], keyed)}
    return drawn


def _share_out(number: int, sizes: Mapping[str, int]) -> dict[str, int]:
    """Divide a number of cases among strata in proportion to their sizes, at least one for each."""
    if len(sizes) > number:
        raise ConfigurationError(
            f"[transcripts] number: {number} cases cannot be drawn from {len(sizes)} strata, of each "
            "at least one; raise it, or stratify by less"
        )
    # Hamilton's method of largest remainders, in integers; small strata get their one case first.
    whole: dict[str, int] = {}
    left, total = number, sum(sizes.values())
    ordered = sorted(sizes, key=lambda name: (sizes[name], name))
    for name in ordered:
        if left * sizes[name] >= total:
            break
        whole[name] = 1  # its proportional share is below one
        left, total = left - 1, total - sizes[name]
    rest = ordered[len(whole) :]
    by_loss = sorted(rest, key=lambda name: (-(left * sizes[name] % total), name))
    whole |= {name: left * sizes[name] // total for name in rest}
    for name in by_loss[: number - sum(whole.values())]:
        whole[name] += 1
    return whole


class OrderedCase(NamedTuple):
    """What the order of a case depends on."""

    case_id: str
    unit: str  # what is judged together: the cluster, or the case itself
    stratum: str


class WaveRules(NamedTuple):
    """How a run is cut into waves."""

    looks: int  # waves of equal size
    min_cases: int  # cases in the first wave, at least
    first: frozenset[str]  # ids of cases that are judged in the first wave


def ordered_case(case: Case, stratify_by: Sequence[str]) -> OrderedCase:
    """What the order of a case depends on."""
    # The prefix keeps a cluster apart from a case that has the name of the cluster.
    unit = f"case\n{case.case_id}" if case.cluster is None else f"cluster\n{case.cluster}"
    return OrderedCase(case.case_id, unit, stratum_of(case, stratify_by))


def waves_of(cases: Iterable[OrderedCase], rules: WaveRules, seed: int) -> dict[str, int]:
    """The wave of each unit, from 0; a single wave where a run is too small for a look.

    The order is a hash, as that of a sample: every process, a resumed run and another night over
    the same cases put them in the same order. Each stratum is spread evenly over the waves.
    """
    members: defaultdict[str, set[str]] = defaultdict(set)  # unit -> ids of its cases
    strata: dict[str, str] = {}  # unit -> stratum, that of its first case
    for case in cases:
        members[case.unit].add(case.case_id)
        strata.setdefault(case.unit, case.stratum)
    total = sum(map(len, members.values()))
    parts = [number / rules.looks for number in range(1, rules.looks)]
    ends = [part for part in parts if part * total >= rules.min_cases]
    units_of: defaultdict[str, list[str]] = defaultdict(list)
    for unit, stratum in strata.items():
        units_of[stratum].append(unit)
    waves: dict[str, int] = {}
    for stratum, units in units_of.items():
        # Where in its place a case stands is drawn too: else all strata of one case were one wave.
        within = sample_key(f"stratum\n{stratum}", seed) / 2**64
        ordered = sorted(units, key=lambda unit: (sample_key(unit, seed), unit))
        sizes = [len(members[unit]) for unit in ordered]
        upto = [0, *accumulate(sizes)]
        for unit, before, size in zip(ordered, upto, sizes, strict=False):
            place = (before + within * size) / upto[-1]
            is_first = not rules.first.isdisjoint(members[unit])
            waves[unit] = 0 if is_first else sum(end <= place for end in ends)
    # A large cluster can leave a wave empty, and no look follows where nothing was judged.
    numbers = {wave: number for number, wave in enumerate(sorted(set(waves.values())))}
    return {unit: numbers[wave] for unit, wave in waves.items()}
