"""What intake owes whatever the files: counts that reconcile, and the files of other benchmarks."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assizes.judge.errors import Inconclusive
from assizes.tasks.intake.shards import ShardRecord
from tests.tasks.intake.intake_files import (
    config,
    counts,
    ids,
    line,
    planned,
    records,
    rejects,
    written,
)

GOOD = st.tuples(st.sampled_from("abcde"), st.sampled_from(["One.", "Two."]))
BAD = st.sampled_from([b"{", b"\xff\xfe", b"null", b'{"case_id": "a"}', b"[]", b"\x00"])
BLANK = st.sampled_from([b"", b"  ", b"\t\r"])
FILES = st.lists(st.lists(st.one_of(GOOD, GOOD, BAD, BLANK), max_size=12), min_size=1, max_size=3)


def lawful_counts(files: Sequence[Sequence[Any]]) -> tuple[int, int, int, int, int]:
    """The counts as the rules say them, without a selection."""
    lines = [entry for file in files for entry in file]
    good = [entry for entry in lines if isinstance(entry, tuple)]
    bad = sum(isinstance(entry, bytes) and bool(entry.strip()) for entry in lines)
    variants = Counter(case_id for case_id, _ in set(good))
    due = sum(number == 1 for number in variants.values())
    conflicts = sum(number for number in variants.values() if number > 1)
    duplicates = len(good) - len(set(good))
    return len(good) + bad, due, duplicates, bad + conflicts, 0


@settings(deadline=None, max_examples=150)
@given(files=FILES, shard_size=st.integers(1, 4))
def test_counts_reconcile_and_a_bad_line_never_costs_a_good_one(files, shard_size):
    with tempfile.TemporaryDirectory() as folder:
        for number, file in enumerate(files):
            lines = [line(*entry) if isinstance(entry, tuple) else entry for entry in file]
            written(Path(folder, f"{number}.jsonl"), *lines)
        chosen = config(folder, format="native")
        lawful = lawful_counts(files)
        if not lawful[1]:
            with pytest.raises(Inconclusive):
                planned(chosen)
            return

        plan = planned(chosen, shard_size)
        read = records(plan, chosen)

    assert counts(plan) == lawful
    assert len(ids(read)) == len(set(ids(read))) == plan.due
    assert len(rejects(read)) == plan.rejected
    assert max(len(shard.due_positions()) for shard in plan.shards) <= shard_size
    assert len({shard.shard_id for shard in plan.shards}) == len(plan.shards)


@settings(deadline=None, max_examples=100)
@given(
    files=FILES,
    shard_size=st.integers(1, 4),
    sample=st.floats(0.2, 1),
    limit=st.none() | st.integers(1, 4),
    where=st.sampled_from([{}, {"said": "One."}]),
)
def test_a_selection_moves_records_only_from_due_to_unselected(
    files, shard_size, sample, limit, where
):
    with tempfile.TemporaryDirectory() as folder:
        for number, file in enumerate(files):
            lines = [
                line(*entry, tags={"said": entry[1]}) if isinstance(entry, tuple) else entry
                for entry in file
            ]
            written(Path(folder, f"{number}.jsonl"), *lines)
        chosen = config(folder, format="native", sample=sample, limit=limit, where=where)
        everything = lawful_counts(files)
        try:
            plan = planned(chosen, shard_size)
        except Inconclusive:
            return
        read = records(plan, chosen)

    assert plan.read == everything[0] == sum(counts(plan)[1:])
    if not where:
        assert (plan.duplicates, plan.rejected) == everything[2:4]
        assert plan.due + plan.unselected == everything[1]
    assert plan.due <= (limit or plan.read)
    assert (len(ids(read)), len(rejects(read))) == (plan.due, plan.rejected)


def test_intake_from_s3_is_intake_from_a_folder(s3, tmp_path):
    bucket = s3.bucket()
    for name in ("a.jsonl", "b.jsonl.gz"):
        path = written(tmp_path / name, line(name), b"{", line(name), line(f"{name}-2"))
        s3.client.upload_file(str(path), bucket, f"in/{name}")
    local, remote = (
        config(tmp_path),
        config(f"s3://{bucket}/in", storage_options=s3.storage_options),
    )

    here, there = planned(local, shard_size=1), planned(remote, shard_size=1)

    assert counts(here) == counts(there) == (8, 4, 2, 2, 0)
    assert [shard.uri for shard in there.shards] == [
        f"s3://{bucket}/in/{Path(shard.uri).name}" for shard in here.shards
    ]
    assert ids(records(there, remote)) == ids(records(here, local))
    assert rejects(records(there, remote)) == rejects(records(here, local))


@pytest.mark.parametrize("fault", ["changed", "vanished"])
def test_an_object_on_s3_that_went_away_after_the_plan_is_rejected(s3, fault):
    bucket = s3.bucket()
    s3.client.put_object(Bucket=bucket, Key="x.jsonl", Body=line("a") + b"\n" + line("b"))
    remote = config(f"s3://{bucket}/x.jsonl", storage_options=s3.storage_options)
    plan = planned(remote)
    s3.client.delete_object(Bucket=bucket, Key="x.jsonl")
    if fault == "changed":
        s3.client.put_object(Bucket=bucket, Key="x.jsonl", Body=line("other"))

    assert rejects(records(plan, remote)) == [(0, fault), (1, fault)]


@pytest.mark.data
def test_a_tau_bench_file_gives_its_200_cases(data):
    whole = config(data / "tau_bench_airline" / "gpt-4o-airline.json.gz")
    one_trial = whole.model_copy(update={"where": {"trial": "0"}})

    plan, part = planned(whole, shard_size=64), planned(one_trial, shard_size=64)

    assert counts(plan) == (200, 200, 0, 0, 0)
    assert [len(shard.due_positions()) for shard in plan.shards] == [64, 64, 64, 8]
    assert len(set(identities(records(plan, whole)))) == 200
    assert counts(part) == (200, 50, 0, 0, 150)
    assert len(ids(records(part, one_trial))) == 50


@pytest.mark.data
def test_the_tau2_files_give_their_240_cases(data):
    cases = {}
    for path in sorted((data / "tau2_airline").glob("*.json.gz")):
        plan = planned(config(path), shard_size=64)
        assert counts(plan) == (plan.read, plan.read, 0, 0, 0)
        cases[path.name] = len(set(identities(records(plan, config(path)))))

    assert cases == {
        "claude-sonnet-4.5.json.gz": 50,
        "gpt-4.1-finetuned.json.gz": 20,
        "gpt-4.1.json.gz": 20,
        "gpt-4o.json.gz": 50,
        "gpt-oss-120b.json.gz": 50,
        "qwen2.5-7b.json.gz": 50,
    }


@pytest.mark.data
def test_six_agents_on_the_same_tasks_cannot_be_one_run(data):
    folder = data / "tau2_airline"

    with pytest.raises(Inconclusive) as raised:
        planned(config(folder))

    assert str(raised.value).startswith(
        f"no_data: nothing to judge in {str(folder)!r}: "
        "240 records read, 240 rejected (id_conflict 240), 0 not selected; "
    )
    assert str(raised.value).count(": id_conflict: ") == 1


@pytest.mark.data
def test_one_of_six_agents_in_a_folder_can_be_meant(data):
    plan = planned(config(data / "tau2_airline", where={"agent": "claude-sonnet-4-5"}))

    assert (plan.read, plan.due, plan.unselected) == (240, 50, 190)


def identities(read: Iterable[ShardRecord]) -> list[tuple[str, int]]:
    return [(r.case.case_id, r.case.repetition) for r in read if r.case is not None]
