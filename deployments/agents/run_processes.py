"""Runs that an assistant started: each is the command `assizes run` in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import IO, Any, Final

WAIT_S: Final = 20.0
"""Seconds that a call waits for a run to end; clients give up after about a minute."""

_MOST_BYTES: Final = 16 << 20  # of the document that a run prints


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How the process of a run ended."""

    code: int  # exit code of `assizes run`
    outcome: dict[str, Any] | None  # what it printed; None: it did not come so far
    fault: str  # the last line of its log


@dataclass(frozen=True, slots=True)
class _Started:
    process: subprocess.Popen[bytes]
    out: IO[bytes]
    log: IO[bytes]


@dataclass(slots=True)
class RunProcesses:
    """The processes of one server, by run id; a run goes on when the server ends."""

    _started: dict[str, _Started] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self, run_id: str, arguments: Sequence[str]) -> None:
        """Start `assizes run` with these arguments, unless a process of this run is at work."""
        with self._lock:
            earlier = self._started.get(run_id)
            if earlier is not None and earlier.process.poll() is None:
                return
            # Files, not pipes: a run that nobody listens to any more must not stand still.
            out, log = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115  # kept
            process = subprocess.Popen(
                [sys.executable, "-m", "assizes.deployments.cli", "run", "--json", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=log,
                start_new_session=True,  # Ctrl-C for the server is none for the run
            )
            self._started[run_id] = _Started(process, out, log)

    def wait(self, run_id: str, seconds: float = WAIT_S) -> RunEnd | None:
        """Wait for a run that was started here; None where it is still at work."""
        started = self._started[run_id]
        try:
            code = started.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        lines = _text(started.log).strip().splitlines() or [""]
        printed = _text(started.out)
        outcome = json.loads(printed) if printed.startswith("{") else None
        return RunEnd(code, outcome, lines[-1].removeprefix("assizes: "))


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(_MOST_BYTES).decode("utf-8", "replace")
