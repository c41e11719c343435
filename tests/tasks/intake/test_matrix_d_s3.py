"""Data faults on S3 (rows D14 to D17 of `test_matrix_d`), with a bad day in front of the server."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator

import pytest

from assizes.judge.config.transcripts import TranscriptsConfig
from assizes.judge.errors import ConfigurationError
from assizes.tasks.intake.shards import plan_intake, read_shard
from assizes.tasks.sources.spool import Spool
from tests.doubles.s3 import S3
from tests.doubles.s3_faults import FaultyS3, faulty_s3
from tests.tasks.intake.intake_files import counts, ids, line
from tests.tasks.intake.matrix_d import faults, intake

CONTENT = b"".join(line(f"a{number}", said="x" * 200) + b"\n" for number in range(500))


@pytest.fixture(scope="module")
def endpoint(s3: S3) -> Iterator[FaultyS3]:
    with faulty_s3(s3.endpoint_url) as faulty:
        yield faulty


@pytest.fixture
def faulty(endpoint: FaultyS3) -> FaultyS3:
    """Nothing wrong yet, and nobody asked."""
    endpoint.faults, endpoint.about, endpoint.requests = deque(), "", 0
    return endpoint


@pytest.fixture
def bucket(s3: S3) -> str:
    name = s3.bucket()
    s3.client.put_object(Bucket=name, Key="in/a.jsonl", Body=CONTENT)
    return name


def wanted(bucket: str, faulty: FaultyS3) -> TranscriptsConfig:
    return TranscriptsConfig(uri=f"s3://{bucket}/in", storage_options=faulty.storage_options)


@pytest.mark.parametrize(
    "day",
    [
        ["slow_down", "slow_down"],
        ["unavailable", "internal"],
        ["hang"],
        ["cut"],
        ["internal", "cut", "slow_down"],
    ],
    ids=" then ".join,
)
@pytest.mark.parametrize("about", ["list-type", "in/a.jsonl"])
def test_d16_what_passes_is_waited_for_and_costs_no_record(bucket, faulty, about, day):
    faulty.about, faulty.faults = about, deque(day)

    plan, read = intake(wanted(bucket, faulty))

    assert not faulty.faults
    assert counts(plan) == (500, 500, 0, 0, 0)
    assert len(ids(read)) == 500


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("denied", "access denied; AWS_ACCESS_KEY_ID must be allowed to list and read it"),
        ("internal", "cannot be reached ("),
        ("hang", "cannot be reached ("),
    ],
)
@pytest.mark.parametrize("about", ["list-type", "in/a.jsonl"])
def test_d16_what_does_not_pass_ends_in_time_with_a_plain_line(bucket, faulty, about, fault, said):
    faulty.about, faulty.faults = about, deque([fault] * 1000)
    begun = time.monotonic()

    with pytest.raises(ConfigurationError) as raised:
        intake(wanted(bucket, faulty))

    assert time.monotonic() - begun < 20
    assert str(raised.value).startswith(f"bucket {bucket!r} at 127.0.0.1:")
    assert said in str(raised.value)
    assert faulty.requests <= (2 if fault == "denied" else 10)


@pytest.mark.parametrize("fault", ["denied", "unavailable"])
def test_d16_a_shard_that_cannot_be_fetched_is_no_reject(bucket, faulty, fault):
    chosen = wanted(bucket, faulty)
    with Spool.of(chosen) as spool:
        plan = plan_intake(chosen, 100, spool)
    faulty.about, faulty.faults = "in/a.jsonl", deque([fault] * 1000)

    with Spool.of(chosen) as spool, pytest.raises(ConfigurationError):
        list(read_shard(plan.shards[0], chosen, spool))


def test_d14_d15_what_went_or_changed_between_listing_and_reading(s3: S3, bucket: str):
    """The first object is long enough that its reading tells of progress, which does the harm."""
    for key in ("in/b.jsonl", "in/c.jsonl", "in/d.jsonl"):
        s3.client.put_object(Bucket=bucket, Key=key, Body=line(key) + b"\n")
    chosen = TranscriptsConfig(uri=f"s3://{bucket}/in", storage_options=s3.storage_options)
    done: list[int] = []

    def harm(read: int) -> None:
        if not done:
            s3.client.delete_object(Bucket=bucket, Key="in/b.jsonl")
            s3.client.put_object(Bucket=bucket, Key="in/c.jsonl", Body=line("new") + b"\n{\n")
        done.append(read)

    plan, read = intake(chosen, on_progress=harm)

    assert ids(read)[500:] == ["new", "in/d.jsonl"]
    assert faults(read) == [(0, "vanished"), (1, "json")]
    assert plan.objects == {"listed": 4, "read": 3, "empty": 0, "rejected": 1, "reread": 1}
    etag = s3.client.head_object(Bucket=bucket, Key="in/c.jsonl")["ETag"].strip('"')
    assert {shard.etag for shard in plan.shards if shard.uri.endswith("c.jsonl")} == {etag}


def test_d17_what_a_second_client_wrote_is_in_the_next_plan(s3: S3, bucket: str):
    chosen = TranscriptsConfig(uri=f"s3://{bucket}/in", storage_options=s3.storage_options)
    before, _ = intake(chosen)

    s3.client.put_object(Bucket=bucket, Key="in/b.jsonl", Body=line("b"))
    after, read = intake(chosen)

    assert (before.read, after.read, ids(read)[-1]) == (500, 501, "b")
