"""Runs a server, and ends it with everything it started once the tests end, also when they are killed.

`python keeper.py COMMAND ...`: the standard input is a pipe that only the tests hold open.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress


def main() -> None:
    server = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, start_new_session=True)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the end of the pipe alone ends it
    sys.stdin.buffer.read()
    for number, wait_s in ((signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0)):
        with suppress(ProcessLookupError):
            os.killpg(server.pid, number)
        with suppress(subprocess.TimeoutExpired):
            server.wait(wait_s)


if __name__ == "__main__":
    main()
