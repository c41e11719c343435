"""Prefect workers as an operator starts them: processes of their own, on a work pool."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.deployments.runner import EntrypointType

from tests.doubles.fixtures import OPENAI_KEY
from tests.outward import PYTHONPATH


async def registered(pool: str) -> None:
    """A process work pool, and the deployment of partitions on it."""
    from assizes.flows.partition import judge_partition

    async with get_client() as client:
        await client.create_work_pool(WorkPoolCreate(name=pool, type="process"), overwrite=True)
    deployment = await judge_partition.ato_deployment(
        "assizes", work_pool_name=pool, entrypoint_type=EntrypointType.MODULE_PATH
    )
    await deployment.aapply()


async def online(pool: str, *names: str) -> None:
    """Wait until workers of these names have told the server that they are there."""
    deadline = time.monotonic() + 120
    async with get_client() as client:
        while time.monotonic() < deadline:
            known = await client.read_workers_for_work_pool(pool)
            if {one.name for one in known} >= set(names):
                return
            await asyncio.sleep(0.2)
    raise AssertionError(f"no worker came of {', '.join(names)}")


@contextmanager
def running_workers(pool: str, folder: Path, api_url: str, *names: str) -> Iterator[list[int]]:
    """Workers that take one flow run at a time; yields their process ids, and ends them all."""
    started = [_started(pool, name, folder, api_url) for name in names]
    try:
        yield [process.pid for process in started]
    finally:
        for process in started:
            kill_host(process.pid)
            process.wait()


def _started(pool: str, name: str, folder: Path, api_url: str) -> subprocess.Popen[bytes]:
    own = {
        "PREFECT_API_URL": api_url,
        "PREFECT_WORKER_QUERY_SECONDS": "1",
        "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "WARNING",
        "PYTHONPATH": PYTHONPATH,
        "OPENAI_API_KEY": OPENAI_KEY,
        "DO_NOT_TRACK": "1",
    }
    start = ("-m", "prefect", "worker", "start", "--pool", pool, "--name", name, "--limit", "1")
    with (folder / f"{name}.log").open("ab") as sink:
        return subprocess.Popen(
            [sys.executable, *start],
            cwd=folder,
            env={**os.environ, **own},
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            start_new_session=True,
        )


def family(pid: int) -> list[int]:
    """A process and all that come from it."""
    listed = subprocess.run(
        ["ps", "-e", "-o", "pid=,ppid="], capture_output=True, text=True, check=True
    )
    parents = [tuple(map(int, line.split())) for line in listed.stdout.splitlines()]
    found = [pid]
    for one in found:
        found += [child for child, parent in parents if parent == one]
    return found


def kill_host(pid: int) -> None:
    """End a worker and what it runs at once, as a machine that loses its power does."""
    doomed = family(pid)
    for one in doomed:
        with suppress(ProcessLookupError):
            os.kill(one, signal.SIGSTOP)  # nobody is left to report the others
    for one in {*doomed, *family(pid)}:
        with suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)


def until(what: str, found: object, timeout_s: float = 90.0) -> None:
    """Wait until a callable is true."""
    deadline = time.monotonic() + timeout_s
    while not found():  # type: ignore[operator]
        assert time.monotonic() < deadline, what
        time.sleep(0.05)
