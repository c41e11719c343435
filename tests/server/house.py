"""What an operator has: a folder with transcripts and configurations, workers, and somebody to tell."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from assizes.deployments.samples import sample_cases, with_planted_regression
from assizes.judge.case import Case
from assizes.judge.formats import native_line
from tests.guardian import record
from tests.outward import PYTHONPATH

TODAY = datetime.now(UTC).date()
YESTERDAY = TODAY - timedelta(days=1)
"""In UTC, by which the configurations below go."""

FIRST = TODAY - timedelta(days=60)
DAYS = tuple(FIRST + timedelta(days=number) for number in range(30))
EMPTY = (DAYS[7], DAYS[19])
BROKEN = DAYS[12]

COMMON = """
[thresholds]
metrics_pass_threshold = 0
cases_pass_threshold = 0
[store]
uri = "lake"
[nightly]
cron = ""
"""

NIGHTS = """
name = "nights"
[transcripts]
uri = "logs/{date}/"
[comparison]
baseline = "latest"
[after_deployment]
min_transcripts = 50
deadline_minutes = 5
poll_s = 0.5
[notify]
block = "webhook/tests"
"""

HISTORY = """
name = "history"
[transcripts]
uri = "old/{date}/"
agent = "somebody-else"
"""


def furnish(folder: Path) -> None:
    """Two configurations, and transcripts for all that is to happen."""
    (folder / "nights.toml").write_text(NIGHTS + COMMON)
    (folder / "history.toml").write_text(HISTORY + COMMON)
    cases = sample_cases()
    lay(folder / "logs", YESTERDAY - timedelta(days=1), cases)
    lay(folder / "logs", YESTERDAY, with_planted_regression(cases))
    second = [one.model_copy(update={"agent_version": "2"}) for one in cases[:4]]
    lay(folder / "logs", TODAY, second)
    for number, day in enumerate(DAYS):
        if day == BROKEN:
            lay(folder / "old", day, [], b'{"not a case\n\x00\xff\n')
        elif day not in EMPTY:
            one = cases[number % len(cases)]
            lay(folder / "old", day, [one.model_copy(update={"case_id": f"old-{day}"})])


def lay(folder: Path, day: date, cases: Sequence[Case], after: bytes = b"") -> None:
    """Put the transcripts of a day where a job that exports them would."""
    file = folder / day.isoformat() / "part-0.jsonl"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"".join(map(native_line, cases)) + after)


def environment(server: str) -> dict[str, str]:
    """Of every process that an operator would start."""
    return {
        **os.environ,
        "PREFECT_API_URL": server,
        "PREFECT_WORKER_QUERY_SECONDS": "2",
        "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "INFO",
        "PYTHONPATH": PYTHONPATH,
    }


class Worker:
    """A Prefect worker of a pool, and the flow runs that are its children."""

    def __init__(self, server: str, log: Path, pool: str = "assizes") -> None:
        """Start it."""
        command = [sys.executable, "-m", "prefect", "worker", "start", "--pool", pool]
        with log.open("ab") as sink:
            self._process = subprocess.Popen(
                command, env=environment(server), stdout=sink, stderr=sink
            )
        record(self._process.pid)

    @property
    def pid(self) -> int:
        """The id of its process."""
        return self._process.pid

    def die(self) -> int:
        """As if its machine had lost power; how many processes that were."""
        doomed = [self._process.pid, *descendants(self._process.pid)]
        for pid in doomed:
            os.kill(pid, signal.SIGKILL)
        self._process.wait(30)
        return len(doomed)

    def end(self) -> None:
        """Gently, then not."""
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self.die()


def descendants(pid: int) -> list[int]:
    """The children of a process and theirs."""
    found: list[int] = []
    for tasks in Path("/proc", str(pid), "task").glob("*/children"):
        for child in map(int, tasks.read_text().split()):
            found += [child, *descendants(child)]
    return found


class Told:
    """What a webhook was sent."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.bodies: list[Any] = []
        self.times: list[datetime] = []  # of each body
        self.url = ""


@contextmanager
def webhook() -> Iterator[Told]:
    """A place on loopback that takes whatever is posted to it."""
    told = Told()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # their name
            body = self.rfile.read(int(self.headers["Content-Length"]))
            told.times.append(datetime.now(UTC))
            told.bodies.append(json.loads(body))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        told.url = f"http://127.0.0.1:{server.server_port}/told"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield told
        server.shutdown()
