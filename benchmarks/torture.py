"""Attacks on Assizes from outside; the last line is one JSON document with the falls of each class.

    python -m benchmarks.torture

Each class runs as a process of its own and within a time of its own, together under 15 minutes. A
class falls for each attack that got through. `short` names the classes with falls, and the classes
that did not end in time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

CLASSES: Final = {
    "kills": (
        "tests/flows/test_kills.py",
        "tests/flows/test_killed_calls.py",
        "tests/tasks/publishing/test_kills.py",
    ),
    "signals": ("tests/tasks/runtime/test_temporary_server.py", "tests/flows/test_interrupt.py"),
    "dead servers": ("tests/flows/test_server_dies.py",),
    "bombs": ("tests/tasks/sources/test_parquet_bombs.py", "tests/tasks/sources/test_zstd.py"),
    "flips": ("tests/tasks/store/test_bit_rot.py", "tests/tasks/spending/test_rot.py"),
    "faults": (
        "tests/judge/engine/test_matrix_l_transport.py",
        "tests/judge/engine/test_matrix_l_replies.py",
        "tests/judge/models/test_provider_errors.py",
    ),
    "numbers": ("tests/judge/models/test_numbers.py",),
    "money": ("tests/tasks/spending/test_ledger.py", "tests/tasks/spending/test_ledger_busy.py"),
    "hostile files": (
        "tests/tasks/sources/test_odd_files.py",
        "tests/tasks/sources/test_hostile_bytes.py",
    ),
    "sql": ("tests/tasks/store/test_query_limits.py",),
    "sandbox": ("tests/tasks/sandbox/test_attacks.py", "tests/tasks/sandbox/test_bombs.py"),
    "pages": (
        "tests/deployments/web/test_hostile_pages.py",
        "tests/deployments/web/test_hostile_requests.py",
    ),
    "floods": ("tests/deployments/web/test_connections.py",),
    "forgetting": (
        "tests/tasks/store/test_forget_beside_run.py",
        "tests/flows/test_forgotten.py",
    ),
    "pauses": ("tests/judge/engine/test_awake_clock.py",),
}
"""The classes of attacks, each with the modules that hold them."""

TIME_S: Final = 240.0
"""Seconds that one class may take; together they take less than 15 minutes as a rule."""

_MORE: Final = {"ASSIZES_ROT_FLIPS": "12"}
"""Settings that make the larger form of an attack."""


def run_class(modules: tuple[str, ...]) -> dict[str, Any]:
    """The attacks of one class: how many were made, how many fell, and the seconds they took.

    `attacks` and `falls` are `None` where the attacks did not end in time or could not be made.
    """
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        command = [sys.executable, "-m", "pytest", "-n", "2", "-p", "no:randomly"]
        with suppress(subprocess.TimeoutExpired):
            subprocess.run(
                [*command, "--tb=no", f"--junitxml={report}", *modules],
                stdout=subprocess.DEVNULL,
                timeout=TIME_S,
                check=False,
                env={**os.environ, **_MORE},
            )
        counts = _counts(report)
    return {**counts, "seconds": round(time.monotonic() - began, 1)}


def _counts(report: Path) -> dict[str, int | None]:
    if not report.exists():
        return {"attacks": None, "falls": None}
    (suite,) = ET.parse(report).getroot().iter("testsuite")
    made, skipped = int(suite.attrib["tests"]), int(suite.attrib["skipped"])
    if made == skipped:
        return {"attacks": None, "falls": None}
    falls = int(suite.attrib["failures"]) + int(suite.attrib["errors"])
    return {"attacks": made - skipped, "falls": falls}


def main() -> int:
    """Run every class; returns 1 where one has falls or did not end, else 0."""
    table = {}
    for name, modules in CLASSES.items():
        table[name] = run_class(modules)
        print(f"{name:14} {table[name]}", flush=True)
    short = [name for name, row in table.items() if row["falls"] != 0]
    print(json.dumps({"classes": table, "short": short}))
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
