"""How long the commands take to start, and the demo from installed to finished: seconds.

    python -m benchmarks.starts [--rounds 7] [--demos 1]

The commands take turns, each after a bare `python -c pass`, so that all meet the same load. The goals
are held against the CPU seconds, which are the seconds on a machine with nothing else to do; the clock
is printed beside them.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.figures import ASSIZES, Figures, seconds

STARTS = {
    "assizes --help": ([ASSIZES, "--help"], 0.25),
    "assizes run --help": ([ASSIZES, "run", "--help"], 0.25),
    "import assizes": ([sys.executable, "-c", "import assizes"], 0.3),
    "assizes.evaluate": ([sys.executable, "-c", "import assizes; assizes.evaluate"], None),
    "assizes runs, no store": ([ASSIZES, "runs", "--store", "none.duckdb"], None),
    "bare python": ([sys.executable, "-c", "pass"], None),
}
"""A command, and the most CPU seconds it may take."""
DEMO_GOAL_S = 20
"""Seconds of the whole demo without the start of Prefect's own server."""


class Took(NamedTuple):
    """What one process took."""

    cpu_s: float
    clock_s: float


def main() -> None:
    """Measure, print, and end with one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--demos", type=int, default=1)
    wanted = parser.parse_args()
    figures = Figures()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory(prefix="assizes-starts-") as folder:
        place = Path(folder)
        took: dict[str, list[Took]] = {name: [] for name in STARTS}
        for _ in range(wanted.rounds):
            for name, (command, _goal) in STARTS.items():
                took[name].append(measure(command, place))
        for name, (_command, goal) in STARTS.items():
            cpu = statistics.median(each.cpu_s for each in took[name])
            figures.add(f"{name}, CPU s", cpu, most=goal)
            clock = statistics.median(each.clock_s for each in took[name])
            figures.add(f"{name}, clock s", clock)
        for _ in range(wanted.demos):
            _measure_demo(figures, place)
    figures.close()


def measure(command: list[str], folder: Path) -> Took:
    """CPU and clock of one process, whatever it ends with."""
    began = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, _, usage = os.wait4(process.pid, 0)
    return Took(usage.ru_utime + usage.ru_stime, time.perf_counter() - began)


def _measure_demo(figures: Figures, folder: Path) -> None:
    """The demo in a new folder with no server running, and Prefect's own start by `assizes up`."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        env = {**os.environ, "ASSIZES_HOME": place, "PREFECT_HOME": f"{place}/prefect"}
        demo = seconds([ASSIZES, "demo"], Path(place), env)
        server = seconds([ASSIZES, "up"], Path(place), env)
        seconds([ASSIZES, "down"], Path(place), env)
    figures.add("demo, clock s", demo)
    figures.add("start of Prefect's server, clock s", server)
    figures.add("demo without that, clock s", demo - server, most=DEMO_GOAL_S)


if __name__ == "__main__":
    main()
