"""The settings that a run needs before other processes may judge parts of it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from prefect.client.orchestration import get_client
from prefect.exceptions import ObjectNotFound

from assizes.judge.errors import ConfigurationError
from assizes.tasks.context.run_context import open_run_context
from assizes.tasks.context.shared_state import create_shared_state_check, verify_shared_state
from assizes.tasks.distribute.partitions import (
    Partition,
    check_distributable,
    partition_config,
    partitions,
)
from assizes.tasks.intake.plan import Shard
from tests.flows.test_evaluate import config


def spread(folder: Path, **tables):
    body = {"store": {"uri": str(folder / "lake")}, "runner": {"kind": "workers"}, **tables}
    return config(folder, str(folder / "t.jsonl"), **body)


def shards(*names: str) -> list[Shard]:
    rest = ("u", "e", 1, "native", 0, 1, None, None, None, (), 0)
    return [Shard(name, *rest) for name in names]


def test_a_partition_is_the_same_piece_of_the_plan_however_far_the_run_is():
    plan = shards("a", "b", "c", "d", "e")
    whole = list(partitions([plan], 2, done=(), in_progress=()))
    later = list(partitions([plan], 2, done=("a", "c", "d"), in_progress=()))
    assert [one.shard_ids for one in whole] == [("a", "b"), ("c", "d"), ("e",)]
    assert later == [whole[0], whole[2]]


def test_no_partition_reaches_into_another_wave_and_a_later_wave_keeps_its_numbers():
    waves = [shards("a", "b", "c"), shards("d"), shards("e", "f")]
    whole = list(partitions(waves, 2, done=(), in_progress=()))
    assert [one.shard_ids for one in whole] == [("a", "b"), ("c",), ("d",), ("e", "f")]
    assert [one.number for one in whole] == [0, 1, 2, 3]
    second = list(partitions(waves, 2, done=("a", "b", "c", "e", "f"), in_progress=()))
    assert second == [whole[2]]


def test_what_somebody_is_at_work_on_is_not_given_out_twice():
    found = list(partitions([shards("a", "b", "c", "d")], 2, done=(), in_progress=("b", "c", "d")))
    assert found == [Partition(0, ("a",))]


def test_the_key_of_a_partition_names_its_run_its_shards_and_the_attempt():
    piece = Partition(0, ("a", "b"))
    assert piece.key("r", 1) == Partition(7, ("a", "b")).key("r", 1)
    others = {piece.key("r", 2), piece.key("s", 1), Partition(0, ("a",)).key("r", 1)}
    assert piece.key("r", 1) not in others
    assert len(others) == 3


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"limits": {"requests_per_minute": 60}}, r"\[limits\] shared"),
        ({"limits": {"tokens_per_minute": 60}}, r"\[limits\] shared"),
        ({"runner": {"kind": "workers", "batch": True}}, r"batch is for kind"),
        ({"transcripts": {"uri": "t.jsonl"}}, r"\[transcripts\] uri 't.jsonl' .* absolute"),
        (
            {"transcripts": {"uri": "s3://b/t"}, "judge": {"rubrics": ["mine"]}},
            r"\[judge\] rubrics 'mine'",
        ),
        ({"ground_truth": {"uri": "truth.csv"}}, r"\[ground_truth\] uri 'truth.csv' .* absolute"),
        (
            {"transcripts": {"uri": "s3://b/t", "databases": "dbs"}},
            r"\[transcripts\] databases 'dbs' .* absolute",
        ),
        ({"anchors": {"uri": "golden.jsonl"}}, r"\[anchors\] uri 'golden.jsonl' .* absolute"),
    ],
)
def test_what_holds_for_one_process_only_is_refused(tmp_path: Path, tables, said):
    with pytest.raises(ConfigurationError, match=said):
        check_distributable(spread(tmp_path, **tables))


def test_a_partition_is_judged_where_the_files_of_the_run_are(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = spread(tmp_path, cache={"uri": "kept"}, limits={"ledger": "own.db"}, store={"uri": "l"})
    told = partition_config(given)
    assert told.cache.uri == str(tmp_path / "kept")
    assert told.limits.ledger == str(tmp_path / "own.db")
    assert told.store.uri == str(tmp_path / "l")
    assert (told.runner.kind, told.shard_size) == ("local", given.shard_size)
    assert told.shards_at_once == 3, "of the size that the plan was cut in, not of a smaller one"
    assert told.config_hash() == given.config_hash()


PAID = {"model": "openai/gpt-4o-mini"}


@pytest.mark.parametrize(
    ("elsewhere", "said"),
    [({"cache": "other"}, r"\[cache\] uri"), ({"ledger": "other.db"}, r"\[limits\] ledger")],
)
async def test_a_worker_that_finds_other_replies_or_another_ledger_asks_nothing(
    tmp_path: Path, monkeypatch, elsewhere, said
):
    monkeypatch.setenv("OPENAI_API_KEY", "any")

    def here(cache: str = "kept", ledger: str = "ledger.db"):
        limits = {"budget_usd": 1.0, "ledger": str(tmp_path / ledger)}
        runner = {"kind": "local"}
        kept = {"uri": str(tmp_path / cache)}
        return spread(tmp_path, judge=PAID, limits=limits, runner=runner, cache=kept)

    async with open_run_context(here()) as parent, open_run_context(here(**elsewhere)) as worker:
        seal = create_shared_state_check(parent, "r")
        assert seal == create_shared_state_check(parent, "r")
        verify_shared_state(parent, "r", seal)
        worker.ledger_for("r")
        with pytest.raises(ConfigurationError, match=said):
            verify_shared_state(worker, "r", seal)


async def test_a_run_without_a_paid_model_needs_no_seal(tmp_path: Path):
    async with open_run_context(spread(tmp_path, runner={"kind": "local"})) as room:
        assert create_shared_state_check(room, "r") is None
        verify_shared_state(room, "r", None)


async def test_a_store_with_one_writer_is_refused_before_anything_is_read(
    tmp_path: Path, monkeypatch
):
    runner = {"kind": "dask"}
    wanted = spread(tmp_path, runner=runner, store={"uri": f"duckdb:///{tmp_path}/a.duckdb"})
    with pytest.raises(ConfigurationError, match="several processes cannot write to"):
        async with open_run_context(wanted):
            pass


async def test_workers_need_a_server_that_they_reach(tmp_path: Path, monkeypatch):
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with (
        temporary_settings(restore_defaults={PREFECT_API_URL}),
        pytest.raises(ConfigurationError, match="assizes up"),
    ):
        async with open_run_context(spread(tmp_path)):
            pass


async def test_a_deployment_that_is_not_there_is_named(tmp_path: Path, prefect_server: str):
    async with get_client() as client:  # other tests of this server may have registered it
        with suppress(ObjectNotFound):
            there = await client.read_deployment_by_name("judge-partition/assizes")
            await client.delete_deployment(there.id)
    with pytest.raises(ConfigurationError, match="judge-partition/assizes.*assizes deploy"):
        async with open_run_context(spread(tmp_path)):
            pass
