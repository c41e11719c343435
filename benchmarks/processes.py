"""The whole flow with one process and with `[runner] processes = "auto"`: 2 s a call, 512 in flight.

The model server is a process of its own on the same machine: what it takes of the cores, the flow
lacks. The start of the processes counts as judging.
Both sides take turns within a round; the load of the machine stands before each pair.
"""

from __future__ import annotations

import argparse
import os

from benchmarks.engine import Result, running_bench
from benchmarks.figures import Figures
from tests.doubles.fixtures import running_openai_server

LATENCY_S, IN_FLIGHT = 2.0, 512
SIDES = ("1", "auto")


def main() -> None:
    """Measure both sides; the figures are those of the best round of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=2)
    given = parser.parse_args()
    figures = Figures()
    found: dict[str, list[Result]] = {side: [] for side in SIDES}
    with (
        running_bench() as bench,
        running_openai_server("--reasons", "--latency", str(LATENCY_S)) as server,
    ):
        for _ in range(given.rounds):
            figures.add("load_before", os.getloadavg()[0])
            for side in SIDES:
                rest = ("--in-flight", str(IN_FLIGHT), "--processes", side)
                result = bench.run("flow", server, given.cases, *rest)["warm"]
                found[side].append(result)
                share = _share_of_ceiling(result)
                figures.add(f"round_{side}_of_ceiling", share)
    for side, results in found.items():
        best = max(results, key=_share_of_ceiling)
        goal = 0.90 if side == "auto" else None
        figures.add(f"processes_{side}_of_ceiling", _share_of_ceiling(best), least=goal)
        cpu_s = best["cpu_s"] + best["children_s"]
        figures.add(f"processes_{side}_cpu_ms_a_case", 1000 * cpu_s / best["cases"])
        figures.add(f"processes_{side}_parent_cpu_ms_a_case", 1000 * best["cpu_s"] / best["cases"])
    figures.close()


def _share_of_ceiling(result: Result) -> float:
    return float(result["cases"] / result["wall_s"] / (IN_FLIGHT / LATENCY_S))


if __name__ == "__main__":
    main()
