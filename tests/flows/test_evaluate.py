"""The evaluate flow on a real Prefect server, over real transcripts, into real stores."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterKey
from prefect.client.schemas.objects import State

from assizes.deployments.samples import sample_cases, with_planted_regression
from assizes.deployments.settings import validate_config
from assizes.flows.compare import compare_runs
from assizes.flows.evaluate import evaluate
from assizes.flows.outcome import RunOutcome
from assizes.judge.case import Case
from assizes.judge.config.run import RunConfig, StoreConfig
from assizes.judge.errors import Inconclusive
from assizes.judge.formats import native_line
from assizes.judge.rows import TABLES
from assizes.tasks.store import open_store

pytestmark = pytest.mark.usefixtures("prefect_server")

PER_RUN = ("scores", "asks", "cases", "rejects", "run_metrics")


def written(file: Path, cases: list[Case], after: bytes = b"") -> str:
    file.write_bytes(b"".join(native_line(case) for case in cases) + after)
    return str(file)


def config(folder: Path, uri: str, **tables: Any) -> RunConfig:
    body = {
        "name": "suite",
        "transcripts": {"uri": uri},
        "thresholds": {"metrics_pass_threshold": 0, "cases_pass_threshold": 0},
        "store": {"uri": f"duckdb:///{folder}/rows.duckdb"},
        "cache": {"uri": f"{folder}/replies"},
        "report": {"uri": f"{folder}/reports"},
        "runner": {"shard_size": 7},
    }
    tables["limits"] = {"ledger": f"{folder}/ledger.db", **tables.get("limits", {})}
    return validate_config({**body, **tables}, "test")


async def state_of(wanted: RunConfig, **kwargs: Any) -> State[RunOutcome]:
    return await evaluate(wanted, return_state=True, **kwargs)


async def outcome_of(wanted: RunConfig, **kwargs: Any) -> RunOutcome:
    state = await state_of(wanted, **kwargs)
    found = await state.aresult(raise_on_failure=False)
    if isinstance(found, BaseException):
        raise found
    assert isinstance(found, RunOutcome)
    return found


def tables(store: StoreConfig, run_id: str) -> dict[str, pl.DataFrame]:
    with open_store(store) as opened:
        return {name: opened.table(run_id, name) for name in PER_RUN}


def report_bytes(outcome: RunOutcome) -> dict[str, bytes]:
    return {kind: Path(path).read_bytes() for kind, path in outcome.reports.items()}


@pytest.mark.full
async def test_every_record_of_the_input_is_accounted_for(tmp_path: Path):
    cases = sample_cases()
    broken = b'{"case_id": "cut off\n' + b"[]\n"
    uri = written(tmp_path / "t.jsonl", [*cases, cases[0]], broken)
    outcome = await outcome_of(config(tmp_path, uri))
    counts = outcome.summary.counts
    assert counts["read"] == len(cases) + 3
    assert counts["judged"] == len(cases)
    assert counts["duplicate"] == 1
    assert counts["quarantined"] == 2
    assert counts["read"] == sum(value for name, value in counts.items() if name != "read")
    rows = tables(StoreConfig(uri=f"duckdb:///{tmp_path}/rows.duckdb"), outcome.run_id)
    assert rows["cases"].height == len(cases)
    assert rows["rejects"].height == 2
    assert set(rows["rejects"]["reason"].str.split(":").list.first()) <= {"json", "schema"}


@pytest.mark.full
async def test_the_same_run_again_makes_no_call_and_changes_no_byte(tmp_path: Path):
    wanted = config(tmp_path, written(tmp_path / "t.jsonl", sample_cases()[:9]))
    first = await outcome_of(wanted)
    before = tables(wanted.store, first.run_id), report_bytes(first)
    second = await outcome_of(wanted)
    after = tables(wanted.store, second.run_id), report_bytes(second)
    assert second == first
    assert after[1] == before[1]
    for name in PER_RUN:
        assert after[0][name].equals(before[0][name], null_equal=True), name


@pytest.mark.full
async def test_duckdb_folder_and_s3_hold_equal_tables(tmp_path: Path, s3):
    cases = sample_cases()[:12]
    uri = written(tmp_path / "t.jsonl", cases)
    stores = [
        StoreConfig(uri=f"duckdb:///{tmp_path}/rows.duckdb"),
        StoreConfig(uri=str(tmp_path / "lake")),
        StoreConfig(uri=f"s3://{s3.bucket()}/lake", storage_options=s3.storage_options),
    ]
    found = []
    for store in stores:
        outcome = await outcome_of(config(tmp_path, uri, store=store.model_dump()))
        found.append(tables(store, outcome.run_id))
    for name in PER_RUN:
        assert found[0][name].schema == pl.Schema(TABLES[name])
        assert found[0][name].equals(found[1][name], null_equal=True), name
        assert found[0][name].equals(found[2][name], null_equal=True), name
    assert found[0]["cases"].height == 12


async def test_transcripts_are_read_from_s3(tmp_path: Path, s3):
    bucket = s3.bucket()
    body = b"".join(native_line(case) for case in sample_cases()[:5])
    s3.client.put_object(Bucket=bucket, Key="day=2026-11-20/part-0.jsonl", Body=body)
    transcripts = {
        "uri": f"s3://{bucket}/day={{date:%Y-%m-%d}}/",
        "storage_options": s3.storage_options,
    }
    from datetime import date

    outcome = await outcome_of(config(tmp_path, "", transcripts=transcripts), on=date(2026, 11, 20))
    assert outcome.summary.counts["judged"] == 5


@pytest.mark.row("001-76")
async def test_a_planted_regression_is_a_failed_state_an_event_and_an_artifact(
    tmp_path: Path, prefect_server: str
):
    cases = sample_cases()
    good = config(tmp_path, written(tmp_path / "v1.jsonl", cases))
    await outcome_of(good)
    worse = config(
        tmp_path,
        written(tmp_path / "v2.jsonl", with_planted_regression(cases)),
        comparison={"baseline": "latest"},
    )
    state = await state_of(worse)
    outcome = await state.aresult(raise_on_failure=False)
    assert (state.type.value, state.name) == ("FAILED", "Regression")
    assert outcome.exit_code == 1
    assert outcome.comparison is not None
    assert outcome.comparison.verdict.regression_detected
    assert await _left("assizes-report-suite", "assizes-metrics-suite")
    assert await _event_seen(prefect_server, "assizes.regression.detected", outcome.run_id)


async def _left(*keys: str) -> bool:
    """Whether the server holds artifacts under all of these keys."""
    named = ArtifactFilter(key=ArtifactFilterKey(any_=[*keys]))
    async with get_client() as client:
        found = await client.read_artifacts(artifact_filter=named)
    return {one.key for one in found} == set(keys)


async def _event_seen(api: str, name: str, run_id: str) -> bool:
    """Events arrive a moment after they were sent."""
    import httpx

    query = {"filter": {"event": {"name": [name]}}}
    async with httpx.AsyncClient() as client:
        for _ in range(300):
            answer = await client.post(f"{api}/events/filter", json=query)
            if run_id in answer.text:
                return True
            await asyncio.sleep(0.2)
    return False


@pytest.mark.full
async def test_a_failed_gate_names_itself_and_can_leave_the_flow_completed(tmp_path: Path):
    uri = written(tmp_path / "t.jsonl", sample_cases()[:6])
    strict = {"metrics_pass_threshold": 100, "cases_pass_threshold": 100}
    failed = await state_of(config(tmp_path, uri, thresholds=strict))
    kept = await state_of(
        config(tmp_path, uri, thresholds=strict, runner={"fail_flow": False}), run_id="kept"
    )
    assert (failed.type.value, failed.name) == ("FAILED", "GateFailed")
    assert (kept.type.value, kept.name) == ("COMPLETED", "GateFailed")


async def test_a_run_without_a_case_is_inconclusive(tmp_path: Path):
    (tmp_path / "t.jsonl").write_text("no json\n")
    with pytest.raises(Inconclusive, match="no_data"):
        await outcome_of(config(tmp_path, str(tmp_path / "t.jsonl")))


@pytest.mark.row("000-59", "000-64")
async def test_an_empty_transcript_is_an_error_and_an_unfinished_one_is_skipped(tmp_path: Path):
    whole, empty, running = sample_cases()[:3]
    empty = empty.model_copy(
        update={"transcript": empty.transcript.model_copy(update={"turns": ()})}
    )
    running = running.model_copy(update={"status": "in_progress"})
    outcome = await outcome_of(
        config(tmp_path, written(tmp_path / "t.jsonl", [whole, empty, running]))
    )
    counts = outcome.summary.counts
    assert (counts["judged"], counts["errored"], counts["skipped"]) == (1, 1, 1)
    assert outcome.conclusion == "Inconclusive"  # one of two due cases has a verdict
    rows = tables(StoreConfig(uri=f"duckdb:///{tmp_path}/rows.duckdb"), outcome.run_id)
    by_case = {row["case_id"]: row for row in rows["cases"].iter_rows(named=True)}
    assert "empty_transcript" in by_case[empty.case_id]["error"]
    assert by_case[running.case_id]["passed"] is None
    assert rows["asks"].height == 1


@pytest.mark.row("000-62", "001-50")
async def test_a_model_over_http_is_asked_once_a_case_and_its_tokens_and_price_are_kept(
    tmp_path: Path, openai_server, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    cases = sample_cases()[:10]
    openai_server.reset()
    judge = {"model": "gpt-4o-mini", "provider": "openai", "api_base": openai_server.api_base}
    outcome = await outcome_of(config(tmp_path, written(tmp_path / "t.jsonl", cases), judge=judge))
    asks = tables(StoreConfig(uri=f"duckdb:///{tmp_path}/rows.duckdb"), outcome.run_id)["asks"]
    assert openai_server.stats()["requests"] == asks.height == 10
    assert asks["input_tokens"].min() > 0
    assert asks["output_tokens"].min() > 0
    assert asks["cost_usd"].min() > 0
    assert asks["prompt_hash"].str.len_chars().min() == 32
    assert set(asks["provider"]) == {"openai"}
    assert outcome.summary.total_platform_cost_usd == pytest.approx(asks["cost_usd"].sum())


@pytest.mark.full
async def test_a_reply_that_was_paid_for_is_not_paid_again_by_another_run(
    tmp_path: Path, openai_server, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    uri = written(tmp_path / "t.jsonl", sample_cases()[:4])
    judge = {"model": "openai/gpt-4o-mini", "api_base": openai_server.api_base}
    wanted = config(tmp_path, uri, judge=judge)
    await outcome_of(wanted, run_id="first")
    openai_server.reset()
    await outcome_of(wanted, run_id="second")
    asks = tables(wanted.store, "second")["asks"]
    assert openai_server.stats()["requests"] == 0
    assert asks["cached"].all()
    assert asks["cost_usd"].sum() == 0.0


@pytest.mark.full
async def test_the_compare_flow_tells_by_its_state(tmp_path: Path):
    cases = sample_cases()[:9]
    store = StoreConfig(uri=f"duckdb:///{tmp_path}/rows.duckdb")
    await outcome_of(config(tmp_path, written(tmp_path / "v1.jsonl", cases)), run_id="v1")
    worse = with_planted_regression(cases)
    await outcome_of(config(tmp_path, written(tmp_path / "v2.jsonl", worse)), run_id="v2")
    same = await compare_runs("v1", "v1", store, return_state=True)
    state = await compare_runs("v1", "v2", store, return_state=True)
    assert same.name == "NoRegression"
    assert (state.type.value, state.name) == ("FAILED", "Regression")
    with open_store(store) as opened:
        kept = opened.comparisons()
    assert kept["baseline"].to_list() == ["v1"]
    assert await _left("assizes-comparison-suite", "assizes-changes-suite")
    assert json.loads(kept["verdict"][0])["thresholds_used"]
