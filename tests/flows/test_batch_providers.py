"""Whole runs by the batches of providers other than OpenAI, killed at the steps of a submission."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from assizes.deployments.settings import validate_config
from assizes.judge.formats import native_line
from assizes.tasks.store import open_store
from tests.command import started
from tests.doubles.batch_providers.running import BatchProvider, running_provider
from tests.doubles.batch_providers.vertex_account import new_bucket, objects, sign_in
from tests.doubles.s3 import S3
from tests.flows.batch_runs import JUDGES, PRICE, conversation, own_judges, records
from tests.flows.test_evaluate import outcome_of
from tests.tasks.batch.provider_process import KEYS as PROVIDER_KEYS
from tests.tasks.batch.provider_process import MODELS

pytestmark = pytest.mark.usefixtures("prefect_server")

PROVIDERS = ("anthropic", "gemini", "bedrock", "vertex")
ROLE = "arn:aws:iam::123456789012:role/batches"


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    yield from own_judges(tmp_path, monkeypatch)


@pytest.fixture(params=PROVIDERS)
def provider(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    name = str(request.param)
    if name == "bedrock":
        s3: S3 = request.getfixturevalue("s3")
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3.endpoint_url)
    elif name != "vertex":  # it signs in with a key of its server
        monkeypatch.setenv(PROVIDER_KEYS[name], "key-of-the-tests")
    return name


@pytest.fixture
def server(
    provider: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[BatchProvider]:
    with running_provider(provider) as started:
        if provider == "vertex":
            sign_in(started, tmp_path, monkeypatch)
        started.order(least=1)  # of Bedrock: the fewest records of a job
        yield started


@pytest.fixture
def bucket(request: pytest.FixtureRequest, provider: str, server: BatchProvider) -> str:
    """The URI of a bucket for the batches of Bedrock or Vertex AI."""
    if provider == "vertex":
        return f"gs://{new_bucket(server)}"
    return f"s3://{request.getfixturevalue('s3').bucket()}" if provider == "bedrock" else ""


def tables_of(
    folder: Path, provider: str, server: BatchProvider, cases: int, bucket: str = ""
) -> dict[str, Any]:
    lines = b"".join(native_line(conversation(number)) for number in range(cases))
    (folder / "t.jsonl").write_bytes(lines)
    model = MODELS[provider]
    return {
        "name": "batched",
        "transcripts": {"uri": str(folder / "t.jsonl")},
        "judge": {"model": model, "api_base": server.url, "judges": JUDGES},
        "limits": {"ledger": str(folder / "ledger.db"), "prices": {model: PRICE}},
        "thresholds": {"metrics_pass_threshold": 0, "cases_pass_threshold": 0},
        "store": {"uri": f"duckdb:///{folder}/rows.duckdb"},
        "cache": {"uri": str(folder / "replies")},
        "report": {"uri": str(folder / "reports")},
        "runner": {"batch": True, "batch_poll_s": 0.05, "shard_size": 100, **place_of(bucket)},
    }


def place_of(bucket: str) -> dict[str, Any]:
    if bucket.startswith("gs://"):
        return {"vertex": {"uri": f"{bucket}/batches"}}
    place = {"uri": f"{bucket}/batches", "role_arn": ROLE, "min_records": 1}
    return {"bedrock": place} if bucket else {}


def left_in(bucket: str, server: BatchProvider) -> list[str]:
    """The objects of a bucket."""
    name = bucket.partition("://")[2]
    if bucket.startswith("gs://"):
        return objects(server, name)
    import boto3  # takes half a second

    return list(boto3.client("s3").list_objects_v2(Bucket=name).get("Contents", []))


async def judged(tables: dict[str, Any]) -> pl.DataFrame:
    """The asks of a run that passes."""
    config = validate_config(tables, "test")
    outcome = await outcome_of(config)
    assert (outcome.conclusion, outcome.summary.coverage) == ("Passed", 1.0)
    with open_store(config.store) as store:
        asks = store.table(outcome.run_id, "asks")
    assert outcome.summary.spent_usd == pytest.approx(math.fsum(asks["cost_usd"]), abs=3e-8)
    return asks


@pytest.mark.full
async def test_a_run_takes_as_many_batches_as_the_deepest_judge_has_rounds(
    tmp_path: Path, provider: str, server: BatchProvider, bucket: str
):
    asks = await judged(tables_of(tmp_path, provider, server, 20, bucket))

    wanted = (3, 22 + 2 + 2, 0, 0)
    assert server.counts("batches", "batch_lines", "batch_repeats", "requests") == wanted
    assert asks["flags"].list.contains("batch").all()
    assert asks["cost_source"].unique().to_list() == ["priced"]
    assert {one["state"] for one in records(tmp_path)} == {"collected"}


async def test_entries_that_expired_or_failed_are_asked_by_themselves(
    tmp_path: Path, provider: str, server: BatchProvider, bucket: str
):
    server.order(expire=2, fail=1)
    tables = tables_of(tmp_path, provider, server, 6, bucket)
    tables["judge"]["judges"] = JUDGES[:1]
    asks = await judged(tables)

    assert server.counts("batches", "batch_lines", "batch_repeats", "requests") == (1, 6, 0, 3)
    assert asks["flags"].list.contains("batch").sum() == 3


def write_toml(folder: Path, tables: dict[str, Any]) -> None:
    lines = [f"name = {json.dumps(tables['name'])}"]
    for table, fields in tables.items():
        if table == "name":
            continue
        prices = fields.pop("prices", {})
        places = {name: fields.pop(name) for name in ("bedrock", "vertex") if name in fields}
        lines += [f"[{table}]"]
        lines += [f"{key} = {json.dumps(value)}" for key, value in fields.items()]
        for name, place in places.items():
            lines += [f"[runner.{name}]"]
            lines += [f"{key} = {json.dumps(value)}" for key, value in place.items()]
        for model, price in prices.items():
            lines += [f"[limits.prices.{json.dumps(model)}]"]
            lines += [f"{key} = {value}" for key, value in price.items()]
    (folder / "assizes.toml").write_text("\n".join(lines))


def killed(folder: Path, failpoint: str, provider: str, api_url: str) -> int:
    """Run the command until it dies at a failpoint; returns its exit code."""
    own = {
        "PREFECT_API_URL": api_url,
        PROVIDER_KEYS[provider]: os.environ[PROVIDER_KEYS[provider]],
        "ASSIZES_FAILPOINT": failpoint,
    }
    done = started("run", cwd=folder, env=own).answer(120)
    assert done.code in (0, -9), done
    return done.code


@pytest.mark.full
@pytest.mark.parametrize("delay_s", [0.1, 15.0])
async def test_a_run_that_is_killed_at_each_step_of_a_submission_asks_each_ask_once(
    tmp_path: Path,
    provider: str,
    server: BatchProvider,
    bucket: str,
    prefect_server: str,
    delay_s: float,
):
    """The log of the batches is replaced when the part is begun, is submitted, and is collected."""
    tables = tables_of(tmp_path, provider, server, 6, bucket)
    server.order(delay_s=delay_s)
    write_toml(tmp_path, json.loads(json.dumps(tables)))
    steps = ("before:1", "after:1", "before:2", "after:2", "before:3")
    codes = []
    for step in steps:
        codes.append(killed(tmp_path, f"folder.replace.{step}", provider, prefect_server))
        server.order(delay_s=0.1)
    assert set(codes) <= {-9, 0}
    assert codes.count(-9) >= 3
    await judged(tables)

    assert server.counts("batch_lines", "batch_repeats", "requests") == (7 + 1 + 1, 0, 0)
    if bucket:  # no text of a transcript is left there
        assert left_in(bucket, server) == []


@pytest.mark.full
@pytest.mark.parametrize("provider", ["bedrock"], indirect=True)
async def test_asks_that_are_too_few_for_a_batch_are_asked_by_themselves(
    tmp_path: Path,
    provider: str,
    server: BatchProvider,
    bucket: str,
    caplog: pytest.LogCaptureFixture,
):
    """The deeper rounds of a judge have fewer asks than the first."""
    server.order(least=22)
    tables = tables_of(tmp_path, provider, server, 20, bucket)
    tables["runner"]["bedrock"]["min_records"] = 22
    asks = await judged(tables)

    counted = server.counts("batches", "batch_lines", "batch_repeats", "requests")
    assert counted == (1, 22, 0, 2 + 2)
    assert asks["flags"].list.contains("batch").sum() == 22
    assert "2 asks of bedrock/" in caplog.text
    assert "too few for a batch, which takes 22 or more" in caplog.text
