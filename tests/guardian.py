"""Ends what a test process started when that process ends, also when it was killed.

`watch_over(folder)` starts a small process that waits on a pipe. Only the test process holds the other end, so it
closes with it. Then the servers recorded in the folder that still run are ended, and the folder is removed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

VARIABLE = "ASSIZES_TESTS_FOLDER"
"""Names the folder of the test process in its environment, and in that of what it starts."""

GRACE_S = 10.0
"""Seconds between SIGTERM and SIGKILL."""


def watch_over(folder: Path) -> subprocess.Popen[bytes]:
    """Start the process; whoever closes its `stdin` ends what the folder records."""
    return subprocess.Popen(
        [sys.executable, "-S", "-E", __file__, str(folder)],
        stdin=subprocess.PIPE,  # inherited by nobody: Python's descriptors are closed in children
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for the tests
    )


def record(pid: int) -> None:
    """Have a server, not in the group of the tests or not ended by its end, killed with the test process."""
    if (folder := os.environ.get(VARIABLE)) and (started := _start_time(pid)):
        place = Path(folder, "processes")
        place.mkdir(exist_ok=True)
        (place / str(pid)).write_text(started)


def kill_recorded(folder: Path) -> None:
    """Kill the recorded processes, but not a later one to which the system gave the same id."""
    for file in sorted(folder.glob("processes/*")):
        if _start_time(int(file.name)) == file.read_text():
            with suppress(ProcessLookupError):
                os.kill(int(file.name), signal.SIGKILL)


def _start_time(pid: int) -> str | None:
    """When a process started, in ticks since the machine did; `None`: there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return None


def recorded_group(folder: Path) -> int | None:
    """The process group of the Prefect server that `assizes up` recorded, if it is still that server."""
    try:
        pid = int(json.loads((folder / "assizes" / "server.json").read_text())["pid"])
        command = Path("/proc", str(pid), "cmdline").read_bytes()
    except (OSError, ValueError, KeyError):
        return None
    return pid if b"assizes.deployments.prefect_server" in command else None


def end_group(folder: Path) -> None:
    """End the recorded server: SIGTERM, and SIGKILL after `GRACE_S`."""
    deadline = time.monotonic() + GRACE_S
    while (group := recorded_group(folder)) is not None:
        late = time.monotonic() > deadline
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL if late else signal.SIGTERM)
        time.sleep(0.2)


def main(folder: Path) -> None:
    """Wait until nobody holds the other end of the pipe, then leave nothing of the folder."""
    sys.stdin.buffer.read()
    kill_recorded(folder)
    end_group(folder)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
