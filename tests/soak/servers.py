"""Runs without a Prefect server: each is killed, then the temporary server that it started.

Nothing may be left of either (`orphans`). A run whose server died ends by itself with exit code 70, and
the same command goes on.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.doubles.fixtures import running_openai_server
from tests.soak.calls import LATENCY_S, PATIENCE_S, Run
from tests.soak.kills import Tally

AT_ONCE = 3
"""Runs at a time: one whose server died mostly waits."""

SERVER = b"temporary_server"
LEFT_S = 10.0
"""Seconds in which what belongs to a dead process ends: the server takes at most five."""


def servers_killed(work: Path, kills: int, seed: int) -> Tally:
    """Kill so many processes: of each run first itself, then the temporary server of its next try."""
    tally = Tally("temporary servers")
    runs = range(kills // 2)
    with pytest.MonkeyPatch.context() as environment, ThreadPoolExecutor(AT_ONCE) as pool:
        environment.delenv("PREFECT_API_URL", raising=False)
        for one in pool.map(lambda number: _suffered(work, number, seed + number), runs):
            tally.counts.update(one.counts)  # zeros too: they are told
    return tally


def _suffered(work: Path, number: int, seed: int) -> Tally:
    tally, dice = Tally("temporary servers"), random.Random(seed)
    home = work / f"alone-home-{number}"
    own = {"PREFECT_HOME": str(home / "prefect"), "ASSIZES_HOME": str(home / "assizes")}
    with running_openai_server("--latency", str(LATENCY_S)) as model:
        run = Run(work / f"alone-{number}", model, own, writers=1)
        run.prepare()
        killed = sum(_killed(run, victim, dice, tally) for victim in ("run", "server"))
        code = run.started().wait(PATIENCE_S)
        tally.wrong(run.folder.name, [f"exit code {code} in the end"] if code else [])
        tally.counts.update(kills=killed, runs=1)
        run.hold(killed, tally)
    return tally


def _killed(run: Run, victim: str, dice: random.Random, tally: Tally) -> bool:
    """Kill one of the two in the middle of the run, and see how the other ends; false if too late."""
    process = run.started()
    if not run.asks_on([process]):
        process.wait(PATIENCE_S)
        return False
    time.sleep(dice.uniform(0.0, 2.5 * LATENCY_S))
    servers = [pid for pid, command in _living(run).items() if SERVER in command]
    for pid in [process.pid] if victim == "run" else servers:
        os.kill(pid, signal.SIGKILL)
    try:
        code = process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        code = process.wait()
        told = f"the run did not end within {PATIENCE_S:.0f} s after its {victim} died"
        tally.wrong(run.folder.name, [told])
    wanted = -signal.SIGKILL if victim == "run" else 70
    tally.wrong(run.folder.name, [f"{victim} killed: exit code {code}"] if code != wanted else [])
    tally.counts["of them servers"] += victim == "server"
    deadline = time.monotonic() + LEFT_S
    while (left := _living(run)) and time.monotonic() < deadline:
        time.sleep(0.1)
    tally.counts["orphans"] += len(left)
    tally.wrong(run.folder.name, [f"{victim} killed: left behind: {left}"] if left else [])
    return True


def _living(run: Run) -> dict[int, bytes]:
    """The command lines of the processes that use the run's home of Prefect, by their ids."""
    home = f"PREFECT_HOME={run.prefect['PREFECT_HOME']}".encode()
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if home in (folder / "environ").read_bytes().split(b"\0"):
                found[int(folder.name)] = (folder / "cmdline").read_bytes()
        except OSError:  # it has ended
            continue
    return found
