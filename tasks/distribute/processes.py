"""Several processes of one machine that judge one run: how many, and the share of each."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from assizes.judge.config.judging import LimitsConfig
from assizes.judge.config.run import RunConfig

MIN_CASES: Final = 1000
"""Cases that each process must have to judge under `processes = "auto"`: it takes seconds to start."""

MIN_IN_FLIGHT: Final = 32
"""Calls in flight that each process must have under `processes = "auto"`: fewer wait, not compute."""

SHARDS_EACH: Final = 2
"""Shards that each process has at once, at least: while one ends, the next keeps the slots full."""

_CGROUP_QUOTA: Final = Path("/sys/fs/cgroup/cpu.max")
"""Where Linux says how much processor time a container may take: microseconds, and of how many."""


def process_count(config: RunConfig, cases: int) -> int:
    """The number of processes that judge so many cases of a run; 1: the process of the run alone.

    Each process gets at least one call in flight and one request a minute of the limits.
    """
    runner, limits = config.runner, config.limits
    if runner.kind != "local" or runner.batch:
        return 1
    if runner.processes == "auto":
        wanted = min(usable_cores(), cases // MIN_CASES, limits.max_in_flight // MIN_IN_FLIGHT)
    else:
        wanted = min(runner.processes, cases)
    if limits.shared is None and limits.requests_per_minute is not None:
        wanted = min(wanted, limits.requests_per_minute)
    return max(1, min(wanted, limits.max_in_flight))


def shards_of_process(config: RunConfig, count: int, slots: int) -> int:
    """The number of shards that one of `count` processes has at once when it may make `slots` calls.

    A process has no more of them than its calls need: which one takes the last shards of a run is
    then decided late, and no process is idle while another still has several.
    """
    if not slots:
        return 0
    least = max(SHARDS_EACH, -(-config.runner.shards_in_flight // count))
    if config.runner.shard_size is not None:
        return least
    return max(least, SHARDS_EACH + slots // config.shard_size)


def usable_cores(quota: Path = _CGROUP_QUOTA) -> int:
    """The processor cores that this process may use, by its affinity and the quota of its container."""
    # macOS knows no affinity.
    has_affinity = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    try:
        taken, period = quota.read_text("ascii").split()
        whole = int(taken) // int(period)
    except (OSError, ValueError, ZeroDivisionError):  # no such file, or `max`: no quota
        return cores
    return max(1, min(cores, whole))


def shares(whole: int, count: int) -> list[int]:
    """A whole number as `count` parts that differ by 1 at most and add up to it."""
    return [whole // count + (place < whole % count) for place in range(count)]


def divided_limits(limits: LimitsConfig, count: int) -> list[LimitsConfig]:
    """The limits of each of some processes: calls in flight and rates are divided.

    Budgets stay whole, because all processes count their calls in one ledger. So do rates that runs
    share by name, which the Prefect server divides.
    """
    divided = ["max_in_flight"]
    if limits.shared is None:
        divided += ["requests_per_minute", "tokens_per_minute"]
    parts: list[dict[str, int]] = [{} for _ in range(count)]
    for name in divided:
        if (whole := getattr(limits, name)) is not None:
            for part, share in zip(parts, shares(whole, count), strict=True):
                part[name] = max(1, share)
    return [limits.model_copy(update=part) for part in parts]
