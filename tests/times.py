"""What each test costs: seconds by the clock and seconds of CPU, those of every process it started included.

`python -m pytest -p tests.times ...` writes a line for each test into a file of each test process, in the folder
that `ASSIZES_TEST_TIMES` names; `python -m tests.times FOLDER` prints the files that cost the most.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

VARIABLE = "ASSIZES_TEST_TIMES"
SHOWN = 60
CHILDLESS_S = 0.1
_TICKS = os.sysconf("SC_CLK_TCK")


def children_cpu_s() -> float:
    """Seconds of CPU of all processes below this one, also of those that have ended and been waited for."""
    parents, ticks = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        parents[int(folder.name)] = int(fields[1])
        ticks[int(folder.name)] = [int(field) for field in fields[11:15]]
    known = {os.getpid(): True, 0: False}

    def is_ours(pid: int) -> bool:
        if pid not in known:
            known[pid] = False
            known[pid] = is_ours(parents.get(pid, 0))
        return known[pid]

    own = sum(ticks[os.getpid()][:2])
    return (sum(sum(spent) for pid, spent in ticks.items() if is_ours(pid)) - own) / _TICKS


class Clock:
    """What has been spent since it was last asked."""

    def __init__(self) -> None:
        self._wall_s, self._own_s, self._children_s = 0.0, 0.0, 0.0

    def spent(self) -> tuple[float, float]:
        """Seconds by the clock and of CPU. Of children only where it was long: looking takes 5 ms."""
        wall_s, own_s = time.monotonic() - self._wall_s, time.process_time() - self._own_s
        children_s = 0.0
        if wall_s > CHILDLESS_S:
            children_s, self._children_s = (now := children_cpu_s()) - self._children_s, now
        self._wall_s, self._own_s = time.monotonic(), time.process_time()
        return wall_s, own_s + children_s


_clock = Clock()
_clock.spent()  # what loading the tests takes falls to the first one


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Measure from the end of the test before to the end of this one, so that no cost is lost."""
    result = yield
    wall_s, cpu_s = _clock.spent()
    line = json.dumps({"test": item.nodeid, "wall_s": round(wall_s, 3), "cpu_s": round(cpu_s, 3)})
    worker = os.environ.get("PYTEST_XDIST_WORKER", "alone")
    with Path(os.environ[VARIABLE], f"{worker}-{os.getpid()}.jsonl").open("a") as file:
        file.write(line + "\n")
    return result


def table(folder: Path) -> str:
    """The files that cost the most, then the tests."""
    rows = [json.loads(line) for file in folder.glob("*.jsonl") for line in file.open()]
    by_file: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
    for row in rows:
        costs = by_file[row["test"].partition("::")[0]]
        for place, cost in enumerate((1, row["cpu_s"], row["wall_s"])):
            costs[place] += cost
    whole = [sum(column) for column in zip(*by_file.values(), strict=True)] or [0, 0, 0]
    dearest = sorted(by_file.items(), key=lambda entry: -entry[1][1])[:SHOWN]
    by_cost = sorted(rows, key=lambda row: -row["cpu_s"])[:SHOWN]
    lines = ["tests   CPU s  wall s"]
    lines += [
        f"{count:5} {cpu:7.1f} {wall:7.1f}  {name}"
        for name, (count, cpu, wall) in [("all", whole), *dearest]
    ]
    lines += ["", "        CPU s  wall s"]
    lines += [f"      {row['cpu_s']:7.1f} {row['wall_s']:7.1f}  {row['test']}" for row in by_cost]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(table(Path(sys.argv[1])) + "\n")
