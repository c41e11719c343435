"""Attacks on Assizes from outside; the last line is one JSON document with the falls of each class.

    python -m benchmarks.torture

Each class runs as a process of its own and within a time of its own, together under 15 minutes. A
class falls for each attack that got through. `short` names the classes with falls, and the classes
that did not end in time.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from typing import Any, Final

CLASSES: Final = {
    "sql": "tests/tasks/store/test_query_limits.py",
    "numbers": "tests/judge/models/test_numbers.py",
    "ledger": "tests/tasks/spending/test_ledger.py",
    "rot": "tests/tasks/store/test_bit_rot.py",
    "rot of money": "tests/tasks/spending/test_rot.py",
    "signals": "tests/tasks/runtime/test_temporary_server.py",
    "bombs": "tests/tasks/sources/test_parquet_bombs.py",
    "files": "tests/tasks/sources/test_odd_files.py",
}
"""The classes of attacks, each with the module that holds them."""

TIME_S: Final = 150.0
"""Seconds that one class may take, so that all of them take less than 15 minutes as a rule."""

_MORE: Final = {"ASSIZES_ROT_FLIPS": "12"}
"""Settings that make the larger form of an attack."""

_COUNTS: Final = re.compile(r"(\d+) (passed|failed|error)")


def run_class(module: str) -> dict[str, Any]:
    """The attacks of one class: how many were made, how many fell, and the seconds they took."""
    began = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-n", "0", "-rN", "--tb=no", module]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=TIME_S,
            check=False,
            env={**os.environ, **_MORE},
        )
    except subprocess.TimeoutExpired:
        return {"attacks": None, "falls": None, "seconds": TIME_S}
    counts = {word: int(number) for number, word in _COUNTS.findall(done.stdout[-500:])}
    if not counts and done.returncode == 0:  # a quiet run prints a dot for each test
        counts = {"passed": done.stdout.count(".")}
    falls = counts.get("failed", 0) + counts.get("error", 0)
    if done.returncode and not falls:  # the attacks could not be made at all
        return {"attacks": None, "falls": None, "seconds": round(time.monotonic() - began, 1)}
    attacks = falls + counts.get("passed", 0)
    return {"attacks": attacks, "falls": falls, "seconds": round(time.monotonic() - began, 1)}


def main() -> int:
    """Run every class; returns 1 where one has falls or did not end, else 0."""
    table = {}
    for name, module in CLASSES.items():
        table[name] = run_class(module)
        print(f"{name:10} {table[name]}", flush=True)
    short = [name for name, row in table.items() if row["falls"] != 0]
    print(json.dumps({"classes": table, "short": short}))
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
