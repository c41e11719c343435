"""The command as a person runs it: a process, its two streams, its exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.outward import PYTHONPATH

ROOT = Path(__file__).resolve().parents[1]
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_BASE", "OPENAI_BASE_URL")


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str


def assizes(*args: str, cwd: Path, env: Mapping[str, str] | None = None) -> Answer:
    """Run `assizes ARGS` in a folder; no provider key is in its environment unless given."""
    inherited = {name: value for name, value in os.environ.items() if name not in KEYS}
    done = subprocess.run(
        [sys.executable, "-m", "assizes.deployments.cli", *args],
        cwd=cwd,
        env={**inherited, "PYTHONPATH": PYTHONPATH, "COLUMNS": "160", **(env or {})},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    return Answer(done.returncode, done.stdout, done.stderr)
