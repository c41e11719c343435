"""The calibrate flow on a real Prefect server: judged once, compared with labels, gated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterKey
from prefect.client.schemas.objects import State

from assizes.deployments.samples import sample_cases
from assizes.deployments.settings import validate_config
from assizes.flows.calibrate import calibrate_judge
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import UnknownRun
from assizes.judge.formats import native_line
from assizes.tasks.store import open_store

pytestmark = pytest.mark.usefixtures("prefect_server")


def config(folder: Path, **calibration: Any) -> RunConfig:
    cases = sample_cases()
    (folder / "t.jsonl").write_bytes(b"".join(native_line(case) for case in cases))
    labels = "".join(f"{case.case_id},{place % 2}\n" for place, case in enumerate(cases))
    (folder / "labels.csv").write_text(f"case_id,label\n{labels}", encoding="utf-8")
    body = {
        "name": "people_say",
        "transcripts": {"uri": str(folder / "t.jsonl")},
        "store": {"uri": f"duckdb:///{folder}/rows.duckdb"},
        "cache": {"uri": f"{folder}/replies"},
        "report": {"uri": f"{folder}/reports"},
        "limits": {"ledger": f"{folder}/ledger.db"},
        "runner": {"fail_flow": False},
        "calibration": {"labels": str(folder / "labels.csv"), **calibration},
    }
    return validate_config(body, "test")


async def state_of(wanted: RunConfig, **kwargs: Any) -> State[Any]:
    return await calibrate_judge(wanted, return_state=True, **kwargs)


@pytest.mark.full
async def test_the_transcripts_are_judged_once_and_the_judge_is_calibrated(tmp_path: Path):
    wanted = config(tmp_path)
    state = await state_of(wanted)
    found = await state.aresult()
    (one,) = found.calibrations
    assert state.name == "Calibrated"
    assert one.labelled == len(sample_cases())
    assert one.missing == 0
    again = await (await state_of(wanted, run_id=one.run_id)).aresult()
    assert again.calibrations == found.calibrations
    with open_store(wanted.store) as store:
        assert store.runs().height == 1
        assert store.calibrations().height == 1
    async with get_client() as client:
        key = ArtifactFilterKey(any_=["assizes-calibration-people-say"])
        artifacts = await client.read_artifacts(artifact_filter=ArtifactFilter(key=key))
    assert "## verdict: kappa" in str(artifacts[0].data)


@pytest.mark.full
async def test_a_judge_under_its_floor_falls_short(tmp_path: Path):
    state = await state_of(config(tmp_path, min_kappa=0.99))
    assert state.name == "FallsShort"
    assert "under its floor 0.99" in state.message
    failing = config(tmp_path, min_kappa=0.99).model_copy(
        update={"runner": config(tmp_path).runner.model_copy(update={"fail_flow": True})}
    )
    assert (await state_of(failing)).is_failed()


async def test_an_empty_run_id_names_no_run_and_judges_nothing(tmp_path: Path):
    wanted = config(tmp_path)
    open_store(wanted.store, writing=True).close()
    state = await state_of(wanted, run_id="")
    with pytest.raises(UnknownRun, match="no run ''"):
        await state.aresult()
    with open_store(wanted.store) as store:
        assert store.runs().is_empty()
