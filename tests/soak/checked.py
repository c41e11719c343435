"""Tests that show a goal by themselves, run as a person would and counted."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

from tests.soak.kills import Tally

ROOT = Path(__file__).resolve().parents[2]

FAULTY_DATA = (
    "tests/tasks/intake/test_matrix_d.py",
    "tests/tasks/intake/test_matrix_d_records.py",
    "tests/tasks/intake/test_matrix_d_s3.py",
    "tests/tasks/intake/test_counts.py",
)
ENDED_RUNS = (
    "tests/flows/test_interrupt.py",
    "tests/flows/test_resume.py",
    "tests/flows/test_kills.py",
)


def checked(kind: str, files: Sequence[str], work: Path) -> Tally:
    """Run test files in a process of their own; failed tests are `wrong`, in words on stderr."""
    told = work / f"{Path(files[0]).stem}.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:randomly"]
    done = subprocess.run(
        [*command, f"--junitxml={told}", *files],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    found = ET.parse(told).getroot().iter("testcase") if told.exists() else ()  # ours
    counts: Counter[str] = Counter()
    for one in found:
        kinds = {child.tag for child in one}
        wrong = bool(kinds & {"failure", "error"})
        counts["wrong" if wrong else "skipped" if "skipped" in kinds else "held"] += 1
    if done.returncode:
        counts["wrong"] = max(1, counts["wrong"])
        sys.stderr.write(done.stdout[-4000:])
    return Tally(kind, counts)
