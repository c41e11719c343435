"""A run judged by a model over HTTP, by one to three processes that are killed now and then.

The provider counts: what it answered beyond one call an ask is at most what was in flight when
processes died. The finished run is then given once more, and asks nothing.
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from assizes.deployments.samples import sample_cases
from assizes.judge.config.run import StoreConfig
from assizes.judge.formats import native_line
from assizes.tasks.store import open_store
from tests.command import KEYS
from tests.doubles.fixtures import OPENAI_KEY, OpenAIServer, running_openai_server
from tests.outward import PYTHONPATH
from tests.soak.kills import Tally

CASES = 40
IN_FLIGHT = 4
LATENCY_S = 0.2
PATIENCE_S = 240.0

_CONFIG = """
[transcripts]
uri = "t.jsonl"
[judge]
model = "openai/gpt-4o-mini"
api_base = "{api_base}"
[limits]
max_in_flight = {in_flight}
[runner]
shard_size = 8
[store]
uri = "lake"
[report]
uri = "reports"
[thresholds]
metrics_pass_threshold = 0
cases_pass_threshold = 0
"""


def called_again(work: Path, kills: int, seed: int) -> Tally:
    """Kill processes of runs until there were so many kills; hold the provider's count after each."""
    tally, dice, number = Tally("model calls"), random.Random(seed), 0
    if not kills:
        return tally
    with prefect(work) as api_url, running_openai_server("--latency", str(LATENCY_S)) as model:
        while tally.counts["kills"] < kills:
            folder = work / f"calls-{number}"
            left = kills - tally.counts["kills"]
            run = Run(folder, model, {"PREFECT_API_URL": api_url}, writers=1 + number % 3)
            run.harass(dice, min(left, 3), tally)
            number += 1
    return tally


@contextmanager
def prefect(work: Path) -> Iterator[str]:
    """A Prefect server of its own, with its files in the work folder; the address of its API."""
    from assizes.deployments.server import start_server, stop_server

    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PREFECT_HOME", str(work / "prefect"))
        environment.setenv("ASSIZES_HOME", str(work / "assizes"))
        environment.setenv("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
        environment.delenv("PREFECT_API_URL", raising=False)
        try:
            yield start_server().api_url
        finally:
            stop_server()


@dataclass(frozen=True)
class Run:
    """One run in a folder of its own, and the processes that work at it."""

    folder: Path
    model: OpenAIServer
    prefect: Mapping[str, str]
    """Variables by which a process finds its Prefect server, or starts a temporary one."""
    writers: int

    def harass(self, dice: random.Random, kills: int, tally: Tally) -> None:
        """Kill so many of its processes, one after the other; end it calmly; hold the counts."""
        self.prepare()
        self.model.reset()
        alive = [self.started() for _ in range(self.writers)]
        killed = 0
        while killed < kills and self.asks_on(alive):
            time.sleep(dice.uniform(0.0, 2.5 * LATENCY_S))
            slot = dice.randrange(self.writers)
            alive[slot].kill()
            killed += alive[slot].wait() == -signal.SIGKILL
            alive[slot] = self.started()
        codes = {one.wait(PATIENCE_S) for one in alive} | {self.started().wait(PATIENCE_S)}
        tally.counts += Counter(kills=killed, runs=1)
        tally.wrong(self.folder.name, [f"exit codes {sorted(codes)}"] if codes != {0} else [])
        self.hold(killed, tally)

    def hold(self, killed: int, tally: Tally) -> None:
        """Count calls, rows and bytes of the finished run after so many kills."""
        asked = int(self.model.stats()["requests"])
        tally.counts += Counter(asks=CASES, calls=asked)
        tally.counts["repeated calls"] += asked - CASES
        if not CASES <= asked <= CASES + killed * IN_FLIGHT:
            told = f"{asked} calls for {CASES} asks, {killed} kills, {self.writers} writers"
            tally.wrong(self.folder.name, [told])
        with open_store(StoreConfig(uri=str(self.folder / "lake"))) as store:
            rows = {name: store.table("r", name).height for name in ("cases", "asks")}
        tally.counts["lost"] += sum(max(0, CASES - height) for height in rows.values())
        tally.counts["duplicate"] += sum(max(0, height - CASES) for height in rows.values())
        before = self._bytes()
        code = self.started().wait(PATIENCE_S)
        again = int(self.model.stats()["requests"]) - asked
        if code or again or self._bytes() != before:
            told = f"given again when finished: exit code {code}, {again} calls, other bytes or not"
            tally.wrong(self.folder.name, [told])

    def asks_on(self, alive: list[subprocess.Popen[bytes]]) -> bool:
        """Wait until something more is asked; false when there is nothing left to ask."""
        before = int(self.model.stats()["requests"])
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and any(one.poll() is None for one in alive):
            if int(self.model.stats()["requests"]) > before:
                return True
            time.sleep(0.02)
        return False

    def prepare(self) -> None:
        """Write transcripts and configuration."""
        self.folder.mkdir()
        lines = b"".join(native_line(case) for case in sample_cases()[:CASES])
        (self.folder / "t.jsonl").write_bytes(lines)
        text = _CONFIG.format(api_base=self.model.api_base, in_flight=IN_FLIGHT)
        (self.folder / "assizes.toml").write_text(text, "utf-8")

    def started(self) -> subprocess.Popen[bytes]:
        """A process that works at the run."""
        own = {"PYTHONPATH": PYTHONPATH, "OPENAI_API_KEY": OPENAI_KEY}
        inherited = {name: value for name, value in os.environ.items() if name not in KEYS}
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "assizes.deployments.cli", "run", "--run-id", "r"],
                cwd=self.folder,
                env={**inherited, **own, **self.prefect},
                stdout=log,
                stderr=log,
            )

    def _bytes(self) -> dict[str, str]:
        """A hash of every file of the store and of the reports."""
        files = [
            path
            for name in ("lake", "reports")
            for path in sorted((self.folder / name).rglob("*"))
            if path.is_file()
        ]
        return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
