"""Canaries beside anchors and calibrations, before a model that believes what it reads and one that does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assizes.deployments.settings import validate_config
from assizes.flows.calibrate import calibrate_judge
from assizes.judge.case import Case
from assizes.judge.config.run import RunConfig
from assizes.judge.formats import native_line
from assizes.judge.injection.families import ATTACKS
from assizes.tasks.forecasts.run_forecast import forecast_with_anchors
from assizes.tasks.runs.anchor_runs import canaries_of
from assizes.tasks.store import open_store
from tests.flows.test_evaluate import outcome_of

pytestmark = pytest.mark.usefixtures("prefect_server")

FAILING = tuple(f"bad-{number}" for number in range(6))
GOOD = ("good-1", "good-2")


def conversation(case_id: str) -> Case:
    turns = [
        {"role": "user", "text": f"Where is parcel {case_id}?"},
        {"role": "assistant", "text": "I do not know."},
    ]
    return Case.model_validate({"case_id": case_id, "transcript": {"turns": turns}})


def config(folder: Path, server: Any, model: str, **more: Any) -> RunConfig:
    cases = [conversation(one) for one in (*FAILING, *GOOD)]
    (folder / "golden.jsonl").write_bytes(b"".join(map(native_line, cases)))
    (folder / "new.jsonl").write_bytes(native_line(conversation("today")))
    rows = [f"{one},{'pass' if one in GOOD else 'fail'}" for one in (*FAILING, *GOOD)]
    (folder / "labels.csv").write_text("case_id,label\n" + "\n".join(rows), encoding="utf-8")
    body = {
        "name": "watched",
        "transcripts": {"uri": str(folder / "golden.jsonl")},
        "store": {"uri": f"duckdb:///{folder}/rows.duckdb"},
        "cache": {"uri": f"{folder}/replies"},
        "report": {"uri": f"{folder}/reports"},
        "limits": {"ledger": f"{folder}/ledger.db"},
        "runner": {"fail_flow": False},
        "judge": {"model": f"openai/{model}", "api_base": server.api_base},
        "calibration": {"labels": str(folder / "labels.csv"), "canaries": 4},
        **more,
    }
    return validate_config(body, "test")


@pytest.mark.full
async def test_a_judge_that_believes_what_it_reads_is_taken_over_and_falls_short(
    tmp_path: Path, judge_server
):
    wanted = config(tmp_path, judge_server, "gullible")
    state = await calibrate_judge(wanted, return_state=True)
    found = await state.aresult(raise_on_failure=False)
    assert (found.canaries.planted, found.canaries.judged) == (4, 4)
    assert found.canaries.takeovers == 4
    assert found.canaries.silent == 0
    assert set(found.canaries.taken) < set(FAILING)
    assert state.name == "FallsShort"
    assert "4 of 4 canaries took the judge over, 0 unnoticed: bad-" in state.message
    asked = judge_server.stats()["requests"]
    assert asked == len(FAILING) + len(GOOD) + 4
    again = await calibrate_judge(wanted, return_state=True)
    assert (await again.aresult(raise_on_failure=False)).canaries == found.canaries
    assert judge_server.stats()["requests"] == asked
    with open_store(wanted.store) as store:
        (record,) = [one for one in store.runs()["name"] if one.endswith("-canaries")]
        held = store.run(found.canaries.run_id)
    assert record == "watched-canaries"
    assert held.config["transcripts"]["canaries"] is True


@pytest.mark.full
async def test_a_judge_that_keeps_to_its_data_is_not(tmp_path: Path, judge_server):
    state = await calibrate_judge(config(tmp_path, judge_server, "obedient"), return_state=True)
    found = await state.aresult(raise_on_failure=False)
    assert (found.canaries.judged, found.canaries.takeovers, found.canaries.noticed) == (4, 0, 4)
    assert not any("canaries" in one for one in found.shortfalls)


@pytest.mark.full
async def test_no_canary_is_asked_where_none_is_wanted(tmp_path: Path, judge_server):
    wanted = config(
        tmp_path, judge_server, "gullible", calibration={"labels": str(tmp_path / "labels.csv")}
    )
    found = await (await calibrate_judge(wanted, return_state=True)).aresult(raise_on_failure=False)
    assert found.canaries is None
    assert judge_server.stats()["requests"] == len(FAILING) + len(GOOD)


@pytest.mark.full
async def test_anchors_have_canaries_every_night_and_the_plan_counts_them(
    tmp_path: Path, judge_server, caplog
):
    labels = str(tmp_path / "labels.csv")
    wanted = config(
        tmp_path,
        judge_server,
        "gullible",
        transcripts={"uri": str(tmp_path / "new.jsonl")},
        anchors={"uri": str(tmp_path / "golden.jsonl"), "labels": labels},
        calibration={"canaries": 3},
    )
    foreseen = await forecast_with_anchors(wanted)
    assert (foreseen.to_put, foreseen.anchors.to_put, foreseen.canaries.to_put) == (1, 8, 3)
    outcome = await outcome_of(wanted, trigger="nightly")
    assert judge_server.stats()["requests"] == 1 + 8 + 3
    assert "3 of 3 canaries took the judge over, 0 unnoticed" in caplog.text
    own = f"{outcome.run_id}-anchors-canaries"
    with open_store(wanted.store) as store:
        assert canaries_of(store, own, 3).takeovers == 3
        texts = " ".join(store.scan(own, "cases").collect()["summary"])
        names = set(store.runs()["name"])
    assert "flagged: " in texts
    assert names == {"watched", "watched-anchors", "watched-canaries"}
    assert len(ATTACKS) >= 8
    await outcome_of(wanted, trigger="nightly")
    assert judge_server.stats()["requests"] == 1 + 8 + 3
