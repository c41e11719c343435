"""One run by one worker of a work pool, and by two: how much faster the second makes it.

    python -m benchmarks.workers [--cases 1536] [--partitions 4]

A model of one second a call, a real Prefect server, workers that take one partition at a time, no
shared limit. What counts is the ratio of wall clocks of the whole flow; the start of a process for
each partition is part of both.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from assizes.judge.config.run import RunConfig
from assizes.judge.config.transcripts import TranscriptsConfig
from benchmarks.engine import Bench
from benchmarks.figures import Figures
from benchmarks.server import own_homes, prefect_server

POOL = "bench"
IN_FLIGHT = 16
LATENCY_S = 1.0


def main() -> None:
    """Print the figures; the last line is JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1536)
    parser.add_argument("--partitions", type=int, default=4)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        env = {**own_homes(folder), "PREFECT_LOGGING_LEVEL": "ERROR", "OPENAI_API_KEY": "none"}
        with prefect_server(folder, env) as api_url:
            os.environ |= {**env, "PREFECT_API_URL": api_url}
            asyncio.run(_measure(folder, given.cases, given.partitions))


async def _measure(folder: Path, cases: int, partitions: int) -> None:
    from tests.doubles.fixtures import running_openai_server
    from tests.doubles.workers import registered, running_workers

    await registered(POOL)
    transcripts = Bench(folder, {}).cases(cases)
    api_url = os.environ["PREFECT_API_URL"]
    figures, wall_s = Figures(), {}
    with running_openai_server("--latency", str(LATENCY_S)) as model:
        warm = _config(folder / "warm", transcripts, model.api_base)
        await _seconds(warm.model_copy(update={"transcripts": _one_of(transcripts)}))
        for names in (("one",), ("one", "two")):
            config = _config(folder / str(len(names)), transcripts, model.api_base)
            shards = -(-cases // config.shard_size)
            config = _spread(config, -(-shards // partitions))
            with running_workers(POOL, folder, api_url, *names):
                await _online(len(names))
                wall_s[len(names)] = await _seconds(config)
            figures.add(f"wall_{len(names)}_s", wall_s[len(names)])
    ideal_s = cases * LATENCY_S / IN_FLIGHT
    figures.add("one_worker_of_ceiling", ideal_s / wall_s[1])
    figures.add("two_workers_x", wall_s[1] / wall_s[2], least=1.8)
    figures.close()


def _config(folder: Path, transcripts: Path, api_base: str) -> RunConfig:
    body = {
        "name": "bench",
        "transcripts": {"uri": str(transcripts)},
        "judge": {"model": "openai/gpt-4o-mini", "api_base": api_base},
        "limits": {"max_in_flight": IN_FLIGHT, "ledger": str(folder / "ledger.db")},
        "store": {"uri": str(folder / "lake")},
        "cache": {"uri": str(folder / "replies")},
        "report": {"uri": str(folder / "reports")},
        "runner": {"shard_size": 2 * IN_FLIGHT, "fail_flow": False},
    }
    return RunConfig.model_validate(body)


def _one_of(transcripts: Path) -> TranscriptsConfig:
    return TranscriptsConfig(uri=str(transcripts), limit=1)


def _spread(config: RunConfig, partition_shards: int) -> RunConfig:
    given = {"kind": "workers", "work_pool": POOL, "partition_shards": partition_shards}
    return config.model_copy(update={"runner": config.runner.model_copy(update=given)})


async def _seconds(config: RunConfig) -> float:
    """Wall clock of a run, which must judge every case."""
    from assizes.flows.evaluate import evaluate

    begun = time.perf_counter()
    # Prefect types an async flow called with return_state as if it had been awaited already.
    work: Any = evaluate(config, return_state=True)
    outcome = await (await work).aresult(raise_on_failure=False)
    if isinstance(outcome, BaseException):
        raise outcome
    if outcome.summary.counts["not_attempted"]:
        raise SystemExit("; ".join(outcome.reasons))
    return time.perf_counter() - begun


async def _online(count: int) -> None:
    """Wait until so many workers ask for work."""
    from prefect.client.orchestration import get_client

    async with get_client() as client:
        while True:
            found = await client.read_workers_for_work_pool(POOL)
            if sum(one.status == "ONLINE" for one in found) >= count:
                return
            await asyncio.sleep(0.5)


if __name__ == "__main__":
    main()
