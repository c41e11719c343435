"""The trial of docs/operations.md: what a page promises an operator, seen on real servers and workers.

    python -m benchmarks.operations

Each point names the tests that try it, on Prefect servers, workers, Dask processes and webhooks that
are started as an operator starts them. What a test measured (`told_after_s`: seconds from what
happened to the message about it) stands beside it. The last line is one JSON document; `short` names
the points that did not hold. Seven to nine minutes on two cores.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_SERVER = "tests/server/test_unattended.py"
_COMMANDS = "tests/deployments/test_server.py"

POINTS: Final = {
    "a night starts by itself, finds a regression": (_SERVER, "starts_by_itself"),
    "a nightly regression is told within a minute": (_SERVER, "regression_is_told"),
    "an inconclusive night and a missed one are told within a minute": (
        "tests/server/test_told.py",
        "are_told_within_a_minute",
    ),
    "a first night that never came is told within a minute": (
        "tests/server/test_told.py",
        "never_came",
    ),
    "a night that crashes is told within a minute, and no action fails": (
        "tests/server/test_crashed_night.py",
        "crashes_is_told",
    ),
    "an event starts the evaluation of a version": (_SERVER, "event_of_a_model"),
    "an event that is posted late finds the earlier days": (
        "tests/flows/test_after_deployment.py",
        "posted_late",
    ),
    "a backfill whose worker died is closed, then finishes beside another": (
        _SERVER,
        "backfill_whose_worker_died",
    ),
    "a backfill that was killed goes on, and what is finished costs nothing": (
        "tests/flows/test_backfill.py",
        "killed_in_the_middle",
    ),
    "deploying again changes nothing": (_SERVER, "deploying_again"),
    "a dry run says what it would do": ("tests/deployments/test_deploy_command.py", "dry_run"),
    "a worker killed in Pending: complete within lost_after_s and a minute": (
        "tests/flows/test_workers.py",
        "before_its_process_begins",
    ),
    "a worker killed in Running: complete within lost_after_s and a minute": (
        "tests/flows/test_workers.py",
        "machine_that_is_gone",
    ),
    "a Dask scheduler with two workers writes the rows of one process": (
        "tests/flows/test_dask.py",
        "there_already",
    ),
    "folders flows/ and tasks/ of the user's harm no worker": (_COMMANDS, "same_names"),
    "the command that deploy prints starts a worker": (_COMMANDS, "deploy_prints"),
    "a server that died keeps its port": (_COMMANDS, "keeps_its_port"),
    "a server that dies in mid-run: one line, exit 70, resumable": (
        "tests/flows/test_server_dies.py",
        "server_that_dies",
    ),
    "an outage of the server is one line": ("tests/tasks/runtime/test_outage_log.py", "one_line"),
    "the report that a message names can be opened": (
        "tests/tasks/test_publish_report.py",
        "can_open_the_report",
    ),
}
"""What docs/operations.md promises, each with a file and a word in the names of its tests."""

_HOW: Final = (
    *("-n", "3", "--dist", "loadfile", "-p", "no:randomly", "--tb=short"),
    *("-o", "junit_family=xunit1"),  # the kind that holds what a test measured
)


@dataclass
class Seen:
    """What the tests of one point came to: `measured` by name, in seconds."""

    passed: int = 0
    failed: int = 0
    seconds: float = 0.0
    measured: dict[str, float] | None = None

    @property
    def held(self) -> bool:
        """Whether every test of the point passed, and there was one."""
        return self.passed > 0 and self.failed == 0


def run(report: Path) -> None:
    """The tests of every point, three at a time; those of one file run in one process."""
    files = sorted({file for file, _ in POINTS.values()})
    wanted = " or ".join(sorted({word for _, word in POINTS.values()}))
    command = [sys.executable, "-m", "pytest", *_HOW]
    subprocess.run(
        [*command, f"--junitxml={report}", "-k", wanted, *files],
        check=False,
        env={**os.environ, "ASSIZES_SERVER_TESTS": "1"},
    )


def found(report: Path) -> dict[str, Seen]:
    """What was seen of each point."""
    table = {point: Seen() for point in POINTS}
    if not report.exists():  # the tests could not begin
        return table
    for case in ET.parse(report).getroot().iter("testcase"):
        file = case.attrib["classname"].replace(".", "/") + ".py"
        for point, (wanted, word) in POINTS.items():
            if file == wanted and word in case.attrib["name"]:
                _count(table[point], case)
    return table


def _count(seen: Seen, case: ET.Element) -> None:
    if case.find("skipped") is not None:
        return
    fell = case.find("failure") is not None or case.find("error") is not None
    seen.failed += fell
    seen.passed += not fell
    seen.seconds = round(seen.seconds + float(case.attrib["time"]), 1)
    measured = {one.attrib["name"]: float(one.attrib["value"]) for one in case.iter("property")}
    seen.measured = {**(seen.measured or {}), **measured} or None


def main() -> int:
    """Try every point; returns 1 where one did not hold, else 0."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        run(report)
        table = found(report)
    for point, seen in table.items():
        beside = ", ".join(f"{name} {value:g}" for name, value in (seen.measured or {}).items())
        print(f"{'held' if seen.held else 'FELL':5} {seen.seconds:6.1f} s  {point}  {beside}")
    short = [point for point, seen in table.items() if not seen.held]
    rows = {point: {**vars(seen), "held": seen.held} for point, seen in table.items()}
    print(json.dumps({"points": rows, "short": short}))
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
