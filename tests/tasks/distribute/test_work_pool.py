"""Partitions that cannot be given out, or that nobody watches any more."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from prefect.client.orchestration import get_client

from assizes.tasks.distribute.partitions import Partition, PartitionJob
from assizes.tasks.distribute.work_pool import DEPLOYMENT, work_pool
from tests.doubles.workers import registered
from tests.flows.test_evaluate import config

pytestmark = pytest.mark.usefixtures("prefect_server")
POOL = "without-workers"


def order(folder: Path) -> PartitionJob:
    runner = {"kind": "workers", "work_pool": POOL}
    wanted = config(folder, str(folder / "t.jsonl"), runner=runner)
    return PartitionJob(wanted, "r", Partition(0, ("a",)))


async def test_where_the_deployment_was_deleted_a_partition_ends_in_one_line(tmp_path: Path):
    await registered(POOL)
    wanted = order(tmp_path)
    async with work_pool(wanted.config.runner, "r") as pool, get_client() as client:
        await client.delete_deployment((await client.read_deployment_by_name(DEPLOYMENT)).id)
        ended = await asyncio.wait_for(pool.judge(wanted, 1), 30)
    assert ended.name == "AssizesError"
    assert ended.message.startswith("the Prefect server takes no partition: ")
    assert "\n" not in ended.message


async def test_a_partition_that_nobody_watches_any_more_is_not_waited_for(tmp_path: Path):
    await registered(POOL)
    wanted = order(tmp_path)
    async with work_pool(wanted.config.runner, "r") as pool:
        watching = asyncio.create_task(pool.watch())
        await asyncio.sleep(0)
        watching.cancel()
        await asyncio.wait([watching])
        ended = await asyncio.wait_for(pool.judge(wanted, 1), 30)
    assert (ended.name, ended.lost) == ("AssizesError", False)
    assert ended.message == "the partitions are not watched any more"
