"""Batches of Amazon Bedrock over real HTTP and a real bucket: each ask submitted and paid for once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assizes.judge.config.bedrock import BedrockConfig
from assizes.judge.errors import Inconclusive, ModelError
from assizes.judge.models.batch_lines import Submission
from assizes.judge.models.model import Completion
from assizes.tasks.runtime.failpoints import arm
from tests.doubles.batch_providers.running import BatchProvider, running_provider
from tests.doubles.s3 import S3
from tests.doubles.s3_faults import faulty_s3
from tests.tasks.batch.provider_process import MODELS, PRICE, ProviderProcess, ask_of, key_of

ROLE = "arn:aws:iam::123456789012:role/batches"
CLAUDE = MODELS["bedrock"]
OLD_CLAUDE = "bedrock/invoke/anthropic.claude-3-haiku-20240307-v1:0"
LLAMA = "bedrock/meta.llama3-1-70b-instruct-v1:0"


@pytest.fixture
def server(s3: S3, monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchProvider]:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3.endpoint_url)
    with running_provider("bedrock") as provider:
        provider.order(least=1)
        yield provider


@pytest.fixture
def bucket(s3: S3) -> str:
    return s3.bucket()


@pytest.fixture
def disarmed() -> Iterator[None]:
    yield
    arm(None)


def process_of(
    folder: Path, server: BatchProvider, bucket: str, model: str = CLAUDE, **judge: Any
) -> ProviderProcess:
    config = BedrockConfig(uri=f"s3://{bucket}/batches/", role_arn=ROLE, min_records=1)
    return ProviderProcess(folder, model, server, config, **judge)


def objects(s3: S3, bucket: str) -> list[str]:
    listed = s3.client.list_objects_v2(Bucket=bucket).get("Contents", [])
    return [str(entry["Key"]).rpartition("/")[2] for entry in listed]


async def test_each_ask_is_submitted_once_and_the_money_is_that_of_the_provider(
    tmp_path: Path, server: BatchProvider, s3: S3, bucket: str
):
    process = process_of(tmp_path, server, bucket)
    await process.submit(range(4))
    assert process.states == ["submitted", "submitted"]
    assert objects(s3, bucket).count("asks.jsonl") == 2
    await process.client.collect()

    assert await process.taken(range(4)) == [True] * 4
    await process.client.close_round()
    assert process.states == ["collected", "collected"]
    assert server.counts("batches", "batch_lines", "batch_repeats", "requests") == (2, 4, 0, 0)
    account = process.ledger.run_account()
    sent, written = server.counts("input_tokens", "output_tokens")
    assert account.usd == pytest.approx(PRICE.cost_usd(sent, written, batch=True), abs=4e-9)
    assert (account.calls, account.open_calls) == (4, 0)


async def test_the_texts_stay_in_the_bucket_only_until_the_replies_are_stored(
    tmp_path: Path, server: BatchProvider, s3: S3, bucket: str
):
    s3.client.put_object(Bucket=bucket, Key="batches/of-somebody-else", Body=b"1")
    process = process_of(tmp_path, server, bucket)
    await process.submit(range(2))
    await process.client.collect()
    wanted = {"asks.jsonl", "asks.jsonl.out", "manifest.json.out", "of-somebody-else"}
    assert set(objects(s3, bucket)) == wanted
    await process.client.close_round()

    assert objects(s3, bucket) == ["of-somebody-else"]


async def test_what_a_killed_process_did_not_delete_the_next_one_deletes(
    tmp_path: Path, server: BatchProvider, s3: S3, bucket: str
):
    first = process_of(tmp_path, server, bucket)
    await first.submit(range(2))
    await first.client.collect()
    (record,) = first.log.records()
    first.log.save(replace(record, state="collected"))
    await process_of(tmp_path, server, bucket).client.reopen()

    assert objects(s3, bucket) == []


@pytest.mark.parametrize(
    ("model", "judge"),
    [
        ("bedrock/invoke/anthropic.claude-sonnet-4-5-20250929-v1:0", {}),
        (OLD_CLAUDE, {}),
        (OLD_CLAUDE, {"reply_format": "json_schema"}),
        (LLAMA, {}),
    ],
)
async def test_a_record_holds_the_very_body_of_a_live_call(
    tmp_path: Path, server: BatchProvider, bucket: str, model: str, judge: dict[str, Any]
):
    process = process_of(tmp_path, server, bucket, model, **judge)
    live = await process.model.complete(ask_of(1))
    await process.submit([1])
    await process.client.collect()
    reply = await process.client.take(key_of(1))

    first, second = server.requests()
    assert first == second
    assert isinstance(reply, Completion)
    assert (reply.text, reply.input_tokens) == (live.text, live.input_tokens)
    assert reply.output_tokens == live.output_tokens
    assert reply.cost_usd == pytest.approx((live.cost_usd or 0) / 2)
    assert reply.flags == ("batch",)


async def test_a_claude_model_that_is_called_by_converse_is_read_alike(
    tmp_path: Path, server: BatchProvider, bucket: str
):
    process = process_of(tmp_path, server, bucket)
    live = await process.model.complete(ask_of(1))
    await process.submit([1])
    await process.client.collect()
    reply = await process.client.take(key_of(1))

    assert isinstance(reply, Completion)
    assert (reply.text, reply.answered_by) == (live.text, live.answered_by)
    assert server.counts("requests") == (1,)


@pytest.mark.full
@pytest.mark.parametrize("hide", [False, True])
async def test_a_job_whose_arn_was_never_noted_is_found_again(
    tmp_path: Path, server: BatchProvider, bucket: str, hide: bool
):
    """By its name; where the list does not show it yet, by its token."""
    server.order(hide=hide, delay_s=0.5)
    first = process_of(tmp_path, server, bucket)
    await first.submit(range(2))
    (record,) = first.log.records()
    first.log.save(replace(record, state="prepared", batch_id=None))
    other = tmp_path / "other"
    other.mkdir()
    await process_of(other, server, bucket).submit(range(7, 9))
    later = process_of(tmp_path, server, bucket)
    await later.client.reopen()

    assert later.log.records() == [record]
    await later.client.collect()
    assert await later.taken(range(2)) == [True, True]
    assert server.counts("batches", "batch_repeats") == (2, 0)


@pytest.mark.full
@pytest.mark.parametrize(
    ("failpoint", "state"),
    [
        ("folder.replace.before:1:raise", "dropped"),  # the token is not noted
        ("folder.replace.after:1:raise", "dropped"),  # the token is noted, nothing was sent
        ("folder.replace.before:2:raise", "submitted"),  # the job runs, its ARN is not noted
    ],
)
async def test_a_process_that_dies_at_a_step_of_a_submission_is_followed_by_one_that_knows(
    tmp_path: Path,
    server: BatchProvider,
    bucket: str,
    disarmed: None,
    failpoint: str,
    state: str,
):
    arm(failpoint)
    with pytest.raises(Exception, match="failpoint"):
        await process_of(tmp_path, server, bucket).submit(range(2))
    arm(None)
    later = process_of(tmp_path, server, bucket)
    await later.client.reopen()

    assert later.states == [state]
    if state == "dropped":
        await later.submit(range(2))
    await later.client.collect()
    assert await later.taken(range(2)) == [True, True]
    assert server.counts("batches", "batch_repeats") == (1, 0)


async def test_requests_in_the_bucket_without_a_job_are_submitted_once(
    tmp_path: Path, server: BatchProvider, bucket: str
):
    """The process died between the two requests of a submission."""
    server.order(refuse=[503] * 5)
    process = process_of(tmp_path, server, bucket)
    with pytest.raises(Inconclusive, match=r"no batch for bedrock/.*Not now"):
        await process.submit(range(2))
    assert process.states == ["prepared"]
    later = process_of(tmp_path, server, bucket)
    await later.client.reopen()

    assert later.states == ["submitted"]
    await later.client.collect()
    assert await later.taken(range(2)) == [True, True]
    assert server.counts("batches", "batch_repeats") == (1, 0)


async def test_a_submission_whose_answer_broke_off_is_not_repeated(
    tmp_path: Path, server: BatchProvider, bucket: str
):
    server.order(cut=1, refuse=[429])
    process = process_of(tmp_path, server, bucket)
    await process.submit(range(2))
    await process.client.collect()

    assert await process.taken(range(2)) == [True, True]
    assert server.counts("batches", "batch_repeats") == (1, 0)


@pytest.mark.full
async def test_records_that_failed_or_were_not_reached_cost_nothing_and_are_free(
    tmp_path: Path, server: BatchProvider, bucket: str, caplog: pytest.LogCaptureFixture
):
    server.order(fail=1, expire=1)
    process = process_of(tmp_path, server, bucket)
    await process.submit(range(3))
    await process.client.collect()

    assert await process.taken(range(3)) == [True, False, False]
    assert "PartiallyCompleted (1 failed): 2 of its 3 asks are sent one by one" in caplog.text
    account = process.ledger.run_account()
    sent, written = server.counts("input_tokens", "output_tokens")
    assert account.usd == pytest.approx(PRICE.cost_usd(sent, written, batch=True), abs=4e-9)
    assert account.open_calls == 0


@pytest.mark.parametrize("status", ["Expired", "Failed", "Stopped"])
async def test_a_job_that_left_no_results_leaves_all_its_asks_free(
    tmp_path: Path,
    server: BatchProvider,
    bucket: str,
    status: str,
    caplog: pytest.LogCaptureFixture,
):
    server.order(status=status)
    process = process_of(tmp_path, server, bucket)
    await process.submit(range(2))
    await process.client.collect()

    assert await process.taken(range(2)) == [False, False]
    assert f"is {status} (The job timed out.): 2 of its 2 asks are sent one by one" in caplog.text
    account = process.ledger.run_account()
    assert (account.usd, account.open_calls) == (0.0, 0)


@pytest.mark.parametrize("fault", ["cut", "unavailable"])
async def test_results_that_broke_off_are_read_again_and_paid_for_once(
    tmp_path: Path,
    server: BatchProvider,
    s3: S3,
    bucket: str,
    fault: str,
    monkeypatch: pytest.MonkeyPatch,
):
    process = process_of(tmp_path, server, bucket)
    await process.submit(range(3))
    with faulty_s3(s3.endpoint_url) as faulty:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", faulty.endpoint_url)
        faulty.about = "asks.jsonl.out"
        faulty.faults.append(fault)
        await process.client.collect()
        assert not faulty.faults

    assert await process.taken(range(3)) == [True] * 3
    account = process.ledger.run_account()
    sent, written = server.counts("input_tokens", "output_tokens")
    assert account.usd == pytest.approx(PRICE.cost_usd(sent, written, batch=True), abs=4e-9)
    assert (account.calls, account.open_calls) == (3, 0)


async def test_a_job_that_is_refused_leaves_nothing_in_the_bucket(
    tmp_path: Path, server: BatchProvider, s3: S3, bucket: str
):
    server.order(refuse=[400])
    process = process_of(tmp_path, server, bucket)
    with pytest.raises(Inconclusive, match=r"no batch for bedrock/.*ValidationException: Not now"):
        await process.submit(range(2))

    assert process.states == ["dropped"]
    assert objects(s3, bucket) == []
    assert process.ledger.run_account().open_calls == 0


@pytest.mark.full
async def test_a_bucket_that_is_not_there_is_named(
    tmp_path: Path, server: BatchProvider, bucket: str
):
    process = process_of(tmp_path, server, f"{bucket}-gone")
    with pytest.raises(Inconclusive, match=r"no batch for bedrock/.*NoSuchBucket"):
        await process.submit(range(1))
    assert server.counts("batches") == (0,)


async def test_a_job_that_is_not_ours_is_not_read(
    tmp_path: Path, server: BatchProvider, bucket: str
):
    process = process_of(tmp_path, server, bucket)
    with pytest.raises(ModelError, match="is no id of a batch"):
        await process.endpoint.status("../../x")
    with pytest.raises(ModelError, match="ResourceNotFoundException"):
        await process.endpoint.status("arn:aws:bedrock:us-east-1:1:model-invocation-job/x")
    assert await process.endpoint.find(Submission({})) is None
