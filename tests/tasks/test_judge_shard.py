"""A shard judged without an orchestrator: rows in a real store, judges of one's own among them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from botocore.exceptions import EndpointConnectionError
from prefect.states import Failed

from assizes.deployments.commands.show import show_rejects
from assizes.judge.case import Case
from assizes.judge.config.judging import LimitsConfig
from assizes.judge.config.run import RunConfig
from assizes.judge.config.runner import RunnerConfig
from assizes.judge.engine.call_gates import BudgetGate
from assizes.judge.errors import (
    ConfigurationError,
    DataError,
    Halted,
    Inconclusive,
    OverBudget,
    StoreError,
)
from assizes.judge.formats import native_line
from assizes.judge.injection.families import Flag, flags
from assizes.judge.verdicts import case_rows
from assizes.tasks.context.run_context import open_run_context
from assizes.tasks.judge_shard import judge_shard
from assizes.tasks.plan import RunRequest, plan_run
from assizes.tasks.store import open_store
from assizes.tasks.summarise import summarise_run
from tests.builders import agent, case, user

MODULE = '''
from assizes.judge.score import Score

def careless(case):
    """Divides by the number of words of the second turn."""
    value = 1 / len(case.transcript.turns[1].text.split())
    return [Score("careless", value=value, raw=value, passed=True)]

def steady(case):
    return [Score("steady", value=1.0, raw=1.0, passed=True)]
'''

CASES = [
    case(user("Hi"), agent("Hello there"), case_id="fine", labels={"reward": 1.0}),
    case(user("Hi"), case_id="short", labels={"reward": 0.0}),
]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "own_judging.py").write_text(MODULE, "utf-8")
    (tmp_path / "cases.jsonl").write_bytes(b"".join(native_line(one) for one in CASES))
    sys.path.append(str(tmp_path))
    yield tmp_path
    sys.path.remove(str(tmp_path))
    sys.modules.pop("own_judging", None)


def config(folder: Path, **judge: Any) -> RunConfig:
    return RunConfig.model_validate(
        {
            "transcripts": {"uri": f"{folder}/cases.jsonl"},
            "judge": judge,
            "store": {"uri": f"duckdb:///{folder}/rows.duckdb"},
            "cache": {"uri": f"{folder}/replies"},
            "limits": {"ledger": f"{folder}/ledger.db"},
        }
    )


async def judged(wanted: RunConfig) -> dict[str, pl.DataFrame]:
    async with open_run_context(wanted) as context:
        run = await plan_run.fn(context, RunRequest())
        for shard in run.intake.shards:
            await judge_shard.fn(context, run.run_id, shard)
    with open_store(wanted.store) as store:
        return {name: store.table(run.run_id, name) for name in ("scores", "asks", "cases")}


@pytest.mark.row("004-76", "002-61")
async def test_a_judge_that_raises_costs_its_own_scores_only(folder: Path):
    judges = ("own_judging:careless", "own_judging:steady", "recorded", "safety")
    tables = await judged(config(folder, judges=judges))

    scores = tables["scores"].filter(pl.col("part") == "").sort("case_id", "judge")
    assert scores.select("case_id", "judge", "status").rows() == [
        ("fine", "careless", "scored"),
        ("fine", "recorded", "scored"),
        ("fine", "safety", "scored"),
        ("fine", "steady", "scored"),
        ("short", "careless", "failed"),
        ("short", "recorded", "scored"),
        ("short", "safety", "skipped"),
        ("short", "steady", "scored"),
    ]
    broken = scores.filter(pl.col("status") == "failed").row(0, named=True)
    assert broken["reason"] == "IndexError: tuple index out of range"
    assert json.loads(broken["details"]) == {"error": "judge_bug"}
    assert (broken["value"], broken["passed"]) == (None, None)


DEFECT = "KeyError, a defect of Assizes; the log says where"


async def test_a_defect_of_ours_with_one_case_reaches_no_other_case(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    def defective(case: Case) -> tuple[Flag, ...]:
        if len(case.transcript.turns) == 1:
            raise KeyError(case.transcript.turns[0].text)
        return flags(case)

    monkeypatch.setattr(case_rows, "case_flags", defective)
    wanted = config(folder, judges=("own_judging:steady", "recorded"))
    tables = await judged(wanted)

    assert tables["cases"].sort("case_id").select("case_id", "status", "error").rows() == [
        ("fine", "judged", None),
        ("short", "errored", f"internal_error: steady, recorded_reward ({DEFECT})"),
    ]
    scores = tables["scores"].filter(pl.col("part") == "").sort("case_id", "judge")
    assert scores.select("case_id", "judge", "status", "value").rows() == [
        ("fine", "recorded", "scored", 1.0),
        ("fine", "steady", "scored", 1.0),
        ("short", "recorded", "failed", None),
        ("short", "steady", "failed", None),
    ]

    monkeypatch.undo()  # the defect is mended: `assizes resume RUN --errors`
    async with open_run_context(wanted) as context:
        run = await plan_run.fn(context, RunRequest())
        run_id = (await summarise_run.fn(context, run, has_lost_shards=False)).run.run_id
    again = {"transcripts": {**wanted.transcripts.model_dump(), "again": {"run": run_id}}}
    again["transcripts"]["again"]["only"] = "errored"
    tables = await judged(RunConfig.model_validate(wanted.model_dump() | again))
    assert tables["cases"].select("case_id", "status").rows() == [("short", "judged")]


async def test_an_error_of_the_ledger_is_committed_as_no_result(
    folder: Path, judge_server, monkeypatch: pytest.MonkeyPatch
):
    async def broken(_gate: BudgetGate, _key: str, _ask: str) -> bool:
        raise StoreError("the ledger is damaged")

    monkeypatch.setattr(BudgetGate, "claim", broken)
    wanted = config(
        folder, judges=("safety",), model="openai/strict", api_base=judge_server.api_base
    )
    await refused(wanted, StoreError, "the ledger is damaged")


@pytest.mark.parametrize("shards", [1, 2])
async def test_rejects_of_an_object_beyond_a_thousand_of_one_kind_are_counted_and_not_listed(
    folder: Path, capsys: pytest.CaptureFixture[str], shards: int
):
    lines = [b"{oops", *(b"[%d" % number for number in range(1499)), b'{"format": "\xff"}']
    cases = (folder / "cases.jsonl").read_bytes().splitlines()
    lines = [cases[0], *lines[:700], cases[1], *lines[700:]]
    (folder / "cases.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    wanted = config(folder, judges=("recorded",))
    wanted = wanted.model_copy(update={"runner": RunnerConfig(shard_size=2 // shards)})
    async with open_run_context(wanted) as context:
        run = await plan_run.fn(context, RunRequest())
        assert len(run.intake.shards) == shards
        judged = [await judge_shard.fn(context, run.run_id, shard) for shard in run.intake.shards]
    with open_store(wanted.store) as store:
        rejects = store.table(run.run_id, "rejects")["reason"].value_counts()

    assert sum(counts["quarantined"] for counts in judged) == run.intake.rejected == 1501
    assert run.intake.reasons == {"json": 1500, "encoding": 1}
    assert dict(rejects.iter_rows()) == {"json": 1000, "encoding": 1}
    show_rejects(run.run_id, None, wanted.store.uri, as_json=False)
    assert "more are counted and not listed: json 500\n" in capsys.readouterr().out


@pytest.mark.row("002-04")
async def test_the_rows_of_the_asks_name_the_model_of_each_judge(folder: Path, judge_server):
    wanted = config(
        folder,
        judges=("safety", "relevance_to_query"),
        api_base=judge_server.api_base,
        options={"safety": {"model": "openai/strict", "temperature": 0.0}},
    )
    tables = await judged(wanted)

    asks = tables["asks"].filter(pl.col("case_id") == "fine").sort("judge")
    assert asks.select("judge", "model", "provider").rows() == [
        ("relevance_to_query", "offline/lexical", "offline"),
        ("safety", "openai/strict", "openai"),
    ]
    (request,) = judge_server.requests()
    assert (request["model"], request["temperature"]) == ("strict", 0.0)


async def refused(wanted: RunConfig, kind: type[Exception], match: str, stop: str = "") -> None:
    """The first shard is not judged, for this reason, and nothing of it is stored."""
    async with open_run_context(wanted) as context:
        run = await plan_run.fn(context, RunRequest())
        if stop:
            context.engine_for(run.run_id).stop(stop, "said so")
        (folder,) = {Path(shard.uri).parent for shard in run.intake.shards}
        if kind is DataError:
            (folder / "cases.jsonl").write_bytes(native_line(CASES[1]))
        with pytest.raises(kind, match=match):
            await judge_shard.fn(context, run.run_id, run.intake.shards[0])
    with open_store(wanted.store) as store:
        assert store.shard_counts(run.run_id) == {}
        assert store.table(run.run_id, "rejects").is_empty()


async def test_a_shard_of_cases_that_cannot_be_read_any_more_is_not_committed(folder: Path):
    await refused(config(folder), DataError, r"changed: '.*/cases\.jsonl' is no longer as it was")


@pytest.mark.parametrize(
    ("model", "match"),
    [
        ("status-503", "openai/status-503: transient_exhausted: .*stub answers 503"),
        ("status-429", "openai/status-429: rate_limited: "),
        ("status-401", "openai/status-401: authentication: "),
        ("status-404", "openai/status-404: not_found: "),
        ("quota", "openai/quota: quota: "),
        ("slow-3", "openai/slow-3: deadline: no answer within 0.3 s"),
    ],
)
async def test_a_shard_whose_provider_could_not_be_had_is_not_committed(
    folder: Path, judge_server, model, match
):
    judge = {"model": f"openai/{model}", "api_base": judge_server.api_base}
    wanted = config(folder, judges=("relevance_to_query",), **judge)
    wanted = wanted.model_copy(
        update={"limits": LimitsConfig(timeout_s=0.3, ledger=f"{folder}/ledger.db")}
    )
    await refused(wanted, Inconclusive, match)


@pytest.mark.parametrize("model", ["status-400", "refuse", "invalid"])
async def test_what_the_model_says_about_the_case_itself_is_committed(
    folder: Path, judge_server, model
):
    judge = {"model": f"openai/{model}", "api_base": judge_server.api_base}
    tables = await judged(config(folder, judges=("relevance_to_query",), **judge))
    assert tables["asks"]["error"].null_count() == 0
    assert "errored" in set(tables["cases"]["status"])


def caused(error: Exception, cause: BaseException) -> Exception:
    """As `raise error from cause` leaves it."""
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (OSError(5, "input/output error"), True),
        (caused(StoreError("cannot write"), OSError(28, "no space left")), True),
        (caused(StoreError("x"), caused(RuntimeError("y"), ConnectionResetError())), True),
        (caused(StoreError("x"), EndpointConnectionError(endpoint_url="http://h")), True),
        (caused(StoreError("x"), duckdb.IOException("disk")), True),
        (caused(StoreError("x"), duckdb.ConstraintException("null")), False),
        (StoreError("another run's rows"), False),
        (caused(DataError("vanished", "it is gone"), FileNotFoundError()), False),
        (Inconclusive("the model could not be had"), False),
        (ValueError("a bug"), False),
    ],
)
async def test_only_a_fault_of_storage_is_worth_repeating(error, again):
    repeats = judge_shard.retry_condition_fn
    assert await repeats(judge_shard, None, Failed(data=error)) is again


async def test_the_model_of_each_judge_is_seen_to_before_the_run(folder: Path, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    own = {"safety": {"model": "openai/strict"}}
    with pytest.raises(ConfigurationError, match="'openai/strict': set OPENAI_API_KEY"):
        await judged(config(folder, judges=("recorded", "safety"), options=own))
    assert not (folder / "rows.duckdb").exists()


def many(folder: Path, judge_server, model: str, **limits: Any) -> RunConfig:
    """Forty cases of one question each, put to such a model."""
    cases = [case(user(f"Hi {n}"), agent("Hello"), case_id=f"c{n}") for n in range(40)]
    (folder / "cases.jsonl").write_bytes(b"".join(native_line(one) for one in cases))
    judge = {"model": f"openai/{model}", "api_base": judge_server.api_base}
    wanted = config(folder, judges=("relevance_to_query",), **judge)
    limits = {"max_in_flight": 1, "ledger": str(folder / "ledger.db")} | limits
    return wanted.model_copy(update={"limits": LimitsConfig(**limits)})


async def test_faults_of_a_provider_that_answers_others_are_committed(folder: Path, judge_server):
    limits = {"max_in_flight": 8, "max_attempts": 1}
    tables = await judged(many(folder, judge_server, "storm-transient", **limits))

    failed = tables["asks"].filter(pl.col("error").is_not_null())
    codes = set(failed["error"].str.split(":").list.first())
    assert 0 < failed.height < 40
    assert codes & {"transient_exhausted", "rate_limited"}
    assert tables["cases"].height == 40
    errored = tables["cases"].filter(pl.col("status") == "errored")
    assert set(errored["case_id"]) == set(failed["case_id"])


async def test_a_shard_of_asks_that_were_not_put_is_not_committed(folder: Path, judge_server):
    wanted = many(folder, judge_server, "quota")
    await refused(wanted, Inconclusive, "openai/quota: circuit_open: 3 calls in a row .* quota: ")
    assert judge_server.stats()["requests"] == 3


async def test_a_shard_that_could_not_be_paid_for_is_not_committed(folder: Path, judge_server):
    await refused(many(folder, judge_server, "stub", max_asks=5), OverBudget, "budget: ")
    assert judge_server.stats()["requests"] == 5


@pytest.mark.parametrize(("code", "kind"), [("halted", Halted), ("closing", Inconclusive)])
async def test_a_shard_that_was_stopped_is_not_committed(folder: Path, judge_server, code, kind):
    wanted = many(folder, judge_server, "stub")
    await refused(wanted, kind, f"openai/stub: {code}: said so", stop=code)
    assert judge_server.stats()["requests"] == 0
