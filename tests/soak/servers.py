"""A run without a Prefect server: the run is killed, then the temporary server that it started.

Nothing may be left of either (`orphans`), and the same command goes on. A run whose server died ends
by itself with exit code 70.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.doubles.fixtures import running_openai_server
from tests.soak.calls import LATENCY_S, PATIENCE_S, Run
from tests.soak.kills import Tally

SERVER = b"temporary_server"
LEFT_S = 10.0
"""Seconds in which what belongs to a dead process ends: the server takes at most five."""


def servers_killed(work: Path, kills: int, seed: int) -> Tally:
    """Kill runs and their temporary servers in turn until there were so many kills."""
    tally, dice, number = Tally("temporary servers"), random.Random(seed), 0
    if not kills:
        return tally
    home = work / "prefect-alone"
    own = {"PREFECT_HOME": str(home), "ASSIZES_HOME": str(work / "assizes-alone")}
    with (
        pytest.MonkeyPatch.context() as environment,
        running_openai_server("--latency", str(LATENCY_S)) as model,
    ):
        environment.delenv("PREFECT_API_URL", raising=False)
        while tally.counts["kills"] < kills:
            model.reset()
            run = Run(work / f"alone-{number}", model, own, writers=1)
            run.prepare()
            killed = sum(_killed(run, home, victim, dice, tally) for victim in ("run", "server"))
            code = run.started().wait(PATIENCE_S)
            tally.wrong(run.folder.name, [f"exit code {code} in the end"] if code else [])
            tally.counts += Counter(kills=killed, runs=1)
            run.hold(killed, tally)
            number += 1
    return tally


def _killed(run: Run, home: Path, victim: str, dice: random.Random, tally: Tally) -> bool:
    """Kill one of the two in the middle of the run; look at how the other ends."""
    process = run.started()
    if not run.asks_on([process]):
        process.wait(PATIENCE_S)
        return False
    time.sleep(dice.uniform(0.0, 2.5 * LATENCY_S))
    servers = [pid for pid, command in _living(home).items() if SERVER in command]
    for pid in [process.pid] if victim == "run" else servers:
        os.kill(pid, signal.SIGKILL)
    try:
        code = process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        code = process.wait()
        tally.wrong(
            run.folder.name, [f"did not end within {PATIENCE_S:.0f} s after its {victim} died"]
        )
    wanted = -signal.SIGKILL if victim == "run" else 70
    tally.wrong(run.folder.name, [f"{victim} killed: exit code {code}"] if code != wanted else [])
    tally.counts["of them servers"] += victim == "server"
    deadline = time.monotonic() + LEFT_S
    while (left := _living(home)) and time.monotonic() < deadline:
        time.sleep(0.1)
    tally.counts["orphans"] += len(left)
    tally.wrong(run.folder.name, [f"{victim} killed: left behind: {left}"] if left else [])
    return True


def _living(home: Path) -> dict[int, bytes]:
    """The command lines of processes that use this home of Prefect."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"PREFECT_HOME={home}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found[int(folder.name)] = (folder / "cmdline").read_bytes()
        except OSError:  # it has ended
            continue
    return found
