"""`python -m tests.soak quick|short|full`: harm stores on purpose and count what is wrong then.

Exit code 1 when anything was lost, there twice, torn, or read damaged as if it were whole.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tasks.failpoints import DECLARED
from tests.doubles.s3 import S3, running_s3
from tests.soak.damage import NOT_REBUILT, UNTOLD, outcomes
from tests.soak.failpoint_runs import Scenarios
from tests.soak.kills import Ground, Tally, killed, lossy, work_folder
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
    failpoints: tuple[str, ...]


TIERS = {
    "quick": Tier(24, 4, 12, 20, 0, 0, ()),
    "short": Tier(100, 16, 60, 60, 40, 100, ()),
    "full": Tier(700, 300, 600, 300, 200, 1000, DECLARED),
}


def soak(tier: Tier, work: Path, s3: S3, say: Callable[[str], None]) -> bool:
    """All of a tier; whether nothing was wrong."""
    clean = True
    acts: list[Callable[[], Tally]] = [
        lambda: killed(Ground("folder", work), tier.folder_kills, seed=1),
        lambda: killed(Ground("s3", work, s3), tier.s3_kills, seed=2, count=24),
        lambda: killed(Ground("duckdb", work), tier.duckdb_kills, seed=3),
        lambda: lossy(Ground("s3", work, s3), tier.lossy_shards),
        lambda: _damaged(work, tier.damages),
        lambda: _interleaved(work, tier.interleavings),
        lambda: _failpoints(work, s3, tier.failpoints),
    ]
    for act in acts:
        began = time.monotonic()
        tally = act()
        clean &= tally.is_clean
        if sum(tally.counts.values()):
            say(f"{tally.line()} ({time.monotonic() - began:.0f} s)")
    say("clean" if clean else "NOT CLEAN")
    return clean


def _damaged(work: Path, count: int) -> Tally:
    if not count:
        return Tally("none")
    tally = Tally("duckdb, damaged")
    for (_, outcome), found in outcomes(work / "damaged", count, seed=4).items():
        tally.counts[outcome] += found
    tally.counts["lost"] = tally.counts[UNTOLD] + tally.counts[NOT_REBUILT]
    return tally


def _interleaved(work: Path, count: int) -> Tally:
    wrong = Counter(bool(interleaved(work / f"turns-{seed}", seed)) for seed in range(count))
    return Tally("collectors between writers", Counter(played=count, lost=wrong[True]))


def _failpoints(work: Path, s3: S3, names: tuple[str, ...]) -> Tally:
    scenarios = Scenarios(work / "failpoints", s3)
    wrong = [said for name in names for said in scenarios.suffered(name)]
    for said in wrong:
        sys.stderr.write(f"{said}\n")
    return Tally("failpoints", Counter(hit=len(names), lost=len(wrong)))


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tier", choices=TIERS, nargs="?", default="short")
    tier = TIERS[parser.parse_args().tier]
    os.environ.setdefault("PREFECT_LOGGING_TO_API_ENABLED", "false")
    with work_folder() as work, running_s3() as s3:
        return 0 if soak(tier, work, s3, _say) else 1


if __name__ == "__main__":
    raise SystemExit(main())
