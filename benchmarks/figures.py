"""Figures, the goals they are held against, and the one line of JSON every benchmark ends with."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("ASSIZES_DATA", ROOT.parent / "shared" / "data"))
ASSIZES = str(Path(sys.executable).parent / "assizes")


@dataclass
class Figures:
    """Measured numbers by name; a goal is an upper or a lower bound on one of them."""

    values: dict[str, float] = field(default_factory=dict)
    short: list[str] = field(default_factory=list)

    def add(
        self, name: str, value: float, *, most: float | None = None, least: float | None = None
    ) -> None:
        """Keep a figure, print it, and note it where it misses its goal."""
        self.values[name] = round(value, 4)
        missed = (most is not None and value > most) or (least is not None and value < least)
        if missed:
            self.short.append(name)
        goal = (
            f"  (goal <= {most})" if most is not None else f"  (goal >= {least})" if least else ""
        )
        print(f"{name:<34} {value:>10.3f}{goal}{'  SHORT' if missed else ''}", flush=True)

    def missing(self, *names: str) -> None:
        """Goals that could not be measured here are missed too."""
        self.short += names

    def close(self) -> None:
        """The last line: figures, and the names of the goals they miss."""
        print(json.dumps({"figures": self.values, "short": self.short}))


def seconds(
    command: list[str],
    cwd: Path,
    env: Mapping[str, str] | None = None,
    *,
    code: int = 0,
) -> float:
    """Wall clock of a command that must end with this exit code."""
    begun = time.perf_counter()
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    taken = time.perf_counter() - begun
    if done.returncode != code:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return taken


def p95(measured: Sequence[float]) -> float:
    """The 95th percentile, between two neighbours; of 20 measurements it is not just the highest."""
    return statistics.quantiles(measured, n=20, method="inclusive")[-1]


def median(of: Callable[[], float], times: int = 5) -> float:
    """Median of several measurements."""
    return statistics.median(of() for _ in range(times))
