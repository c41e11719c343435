"""`python -m tests.soak quick|short|full [--only NAME ...]`: harm on purpose, then count.

Each act says which goals of the requirements it counts for (G2: counts reconcile; G3: crashes; G12:
lost acknowledgements; G15: the DuckDB file; G16: data faults; G20: ended and killed processes; G21:
collectors). Exit code 1 when anything was lost, there twice, torn, paid for twice, or read damaged
as if it were whole.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from assizes.tasks.runtime.failpoints import DECLARED
from tests.doubles.s3 import S3, running_s3
from tests.soak.calls import called_again
from tests.soak.checked import ENDED_RUNS, FAULTY_DATA, checked
from tests.soak.corpora import held
from tests.soak.damage import NOT_REBUILT, UNTOLD, outcomes
from tests.soak.failpoint_runs import Scenarios
from tests.soak.kills import Ground, Tally, killed, lossy, work_folder
from tests.soak.servers import servers_killed
from tests.soak.turns import interleaved


@dataclass(frozen=True)
class Tier:
    """How much of each."""

    folder_kills: int
    s3_kills: int
    duckdb_kills: int
    lossy_shards: int
    damages: int
    interleavings: int
    corpora: int
    failpoints: tuple[str, ...]
    call_kills: int
    server_kills: int
    checks: bool


TIERS = {
    "quick": Tier(24, 4, 12, 20, 0, 0, 0, (), 0, 0, checks=False),
    "short": Tier(60, 10, 36, 40, 24, 60, 60, (), 0, 0, checks=False),
    "full": Tier(840, 150, 600, 300, 200, 1000, 500, DECLARED, 12, 10, checks=True),
}

Acts = Mapping[str, tuple[str, Callable[[], Tally | None]]]


def acts_of(tier: Tier, work: Path, s3: S3) -> Acts:
    """What a tier does, by name, with the goals it counts for; null: not in this tier."""
    folder, bucket, file = (Ground(kind, work, s3) for kind in ("folder", "s3", "duckdb"))
    return {
        "folder": ("G3", lambda: killed(folder, tier.folder_kills, seed=1)),
        "s3": ("G3", lambda: killed(bucket, tier.s3_kills, seed=2, count=24)),
        "duckdb": ("G3 G15", lambda: killed(file, tier.duckdb_kills, seed=3)),
        "lossy": ("G12", lambda: lossy(bucket, tier.lossy_shards)),
        "damage": ("G15", lambda: _damaged(work, tier.damages)),
        "collectors": ("G21", lambda: _interleaved(work, tier.interleavings)),
        "corpora": ("G2", lambda: _corpora(work, tier.corpora)),
        "failpoints": ("G2 G3", lambda: _failpoints(work, s3, tier.failpoints)),
        "calls": ("G3", lambda: called_again(work, tier.call_kills, seed=5)),
        "servers": ("G3 G20", lambda: servers_killed(work, tier.server_kills, seed=6)),
        "faults": ("G2 G16", lambda: _checks("data faults", FAULTY_DATA, work, tier)),
        "endings": ("G3 G20", lambda: _checks("ended and killed runs", ENDED_RUNS, work, tier)),
    }


def soak(
    tier: Tier, work: Path, s3: S3, say: Callable[[str], None], only: Collection[str] = ()
) -> bool:
    """All of a tier, or some of its acts; whether nothing was wrong."""
    clean = True
    for name, (goals, act) in acts_of(tier, work, s3).items():
        if only and name not in only:
            continue
        began = time.monotonic()
        tally = act()
        if tally is None or not tally.counts.total():
            continue
        clean &= tally.is_clean
        say(f"{tally.line()} ({goals}; {time.monotonic() - began:.0f} s)")
    say("clean" if clean else "NOT CLEAN")
    return clean


def _damaged(work: Path, count: int) -> Tally | None:
    if not count:
        return None
    tally = Tally("duckdb, damaged")
    for (_, outcome), found in outcomes(work / "damaged", count, seed=4).items():
        tally.counts[outcome] += found
    tally.counts["lost"] = tally.counts[UNTOLD] + tally.counts[NOT_REBUILT]
    return tally


def _interleaved(work: Path, count: int) -> Tally:
    tally = Tally("collectors between writers", Counter(played=count))
    for seed in range(count):
        tally.wrong(f"seed {seed}", interleaved(work / f"turns-{seed}", seed))
    return tally


def _corpora(work: Path, count: int) -> Tally:
    tally = Tally("random corpora", Counter(read=count))
    (work / "corpora").mkdir(exist_ok=True)
    for seed in range(count):
        found = held(work / "corpora" / str(seed), seed)
        tally.counts += Counter(judged=found.judged, quarantined=found.quarantined)
        tally.wrong(f"seed {seed}", found.wrong)
    return tally


def _failpoints(work: Path, s3: S3, names: tuple[str, ...]) -> Tally:
    tally = Tally("failpoints", Counter(hit=len(names)))
    if names:
        scenarios = Scenarios(work / "failpoints", s3)
        for name in names:
            tally.wrong(name, scenarios.suffered(name))
    return tally


def _checks(kind: str, files: tuple[str, ...], work: Path, tier: Tier) -> Tally | None:
    return checked(kind, files, work) if tier.checks else None


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tier", choices=TIERS, nargs="?", default="short")
    parser.add_argument("--only", nargs="+", default=(), metavar="NAME", help="some of the acts")
    given = parser.parse_args()
    os.environ.setdefault("PREFECT_LOGGING_TO_API_ENABLED", "false")
    with work_folder() as work, running_s3() as s3:
        tier = TIERS[given.tier]
        known = acts_of(tier, work, s3)
        if unknown := set(given.only) - known.keys():
            parser.error(f"unknown {', '.join(sorted(unknown))}; known: {', '.join(known)}")
        return 0 if soak(tier, work, s3, _say, given.only) else 1


if __name__ == "__main__":
    raise SystemExit(main())
