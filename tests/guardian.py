"""Ends what a test process started when that process ends, also when it was killed.

`watch_over(folder)` starts a small process that waits on a pipe. Only the test process holds the other end, so it
closes with it. Then the Prefect server recorded in the folder, if it still runs, is ended, and the folder removed.
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
    end_group(folder)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
