"""Anchors of a run of the real flow: judged without cached replies, stored, apart from the agent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assizes.deployments.samples import sample_cases, with_planted_regression
from assizes.flows.evaluate import evaluate
from assizes.flows.outcome import RunOutcome, to_state
from assizes.flows.shards import ShardFailures
from assizes.judge.case import Expected
from assizes.judge.config.run import RunConfig
from assizes.judge.history.anchors import Attribution, Change
from assizes.tasks.runs.calibrations import citations
from assizes.tasks.store import open_store
from assizes.tasks.summarise import BaselineResult
from tests.flows.test_evaluate import config, outcome_of, written


def anchored(folder: Path, cases: Any, name: str = "t.jsonl") -> RunConfig:
    golden = written(folder / "golden.jsonl", sample_cases()[:20])
    return config(
        folder,
        written(folder / name, cases),
        anchors={"uri": golden},
        comparison={"baseline": "latest"},
        runner={"fail_flow": False},
    )


@pytest.mark.full
@pytest.mark.usefixtures("prefect_server")
async def test_anchors_are_judged_with_every_nightly_and_clear_the_judge(tmp_path: Path):
    first = await outcome_of(anchored(tmp_path, sample_cases()), trigger="nightly")
    assert first.attribution.cause == "unknown"
    worse = anchored(tmp_path, with_planted_regression(sample_cases()), "v2.jsonl")
    second = await outcome_of(worse, trigger="nightly")
    assert second.conclusion == "Regression"
    assert second.attribution.anchors.mean == 0.0
    assert not second.attribution.judge_moved
    again = await outcome_of(worse, trigger="nightly")
    assert again == second
    with open_store(worse.store) as store:
        names = sorted(store.runs()["run_id"])
    ids = (first.run_id, second.run_id)
    assert names == sorted([*ids, *(f"{one}-anchors" for one in ids)])


@pytest.mark.full
@pytest.mark.usefixtures("prefect_server")
async def test_a_model_that_changed_behind_its_name_is_found_by_asking_anew(
    tmp_path: Path, judge_server
):
    """`flaky-lower-1` finds everything a level worse the first time a prompt comes."""
    cases = [case.model_copy(update={"expected": Expected()}) for case in sample_cases()[:24]]
    golden = written(tmp_path / "golden.jsonl", cases[:12])
    (tmp_path / "labels.csv").write_text(
        "case_id,label\n" + "".join(f"{case.case_id},pass\n" for case in cases[:12]),
        encoding="utf-8",
    )
    anchors = {"uri": golden, "labels": str(tmp_path / "labels.csv")}
    judge = {"model": "openai/flaky-lower-1", "api_base": judge_server.api_base}
    rest = {"anchors": anchors, "judge": judge, "runner": {"fail_flow": False}}
    uris = [written(tmp_path / f"{n}.jsonl", cases[12 + 6 * n :][:6]) for n in range(2)]
    first, second = [
        await outcome_of(config(tmp_path, uri, **rest), trigger="nightly") for uri in uris
    ]
    assert first.attribution.cause == "unknown"
    assert second.attribution.cause == "judge"
    assert second.attribution.anchors.mean == pytest.approx(20.0)
    assert "JUDGE CHANGED" in second.reasons[0]
    assert judge_server.stats()["requests"] == 6 + 12 + 6 + 12
    wanted = config(tmp_path, uris[1], **rest)
    with open_store(wanted.store) as store:
        cited = citations(store, store.run(second.run_id))[0]
    assert cited.calibration.run_id == f"{second.run_id}-anchors"
    assert cited.calibration.labelled == 12
    again = await outcome_of(wanted, trigger="nightly")
    assert again == second
    assert judge_server.stats()["requests"] == 36


@pytest.mark.full
@pytest.mark.usefixtures("prefect_server")
async def test_anchors_that_are_not_there_leave_the_run_as_it_is(tmp_path: Path):
    wanted = anchored(tmp_path, sample_cases())
    gone = wanted.anchors.model_copy(update={"uri": str(tmp_path / "gone")})
    state = await evaluate(
        wanted.model_copy(update={"anchors": gone}), "nightly", return_state=True
    )
    outcome = await state.aresult(raise_on_failure=False)
    assert isinstance(outcome, RunOutcome)
    assert outcome.attribution is None
    assert outcome.summary.counts["judged"] == len(sample_cases())


@pytest.mark.full
@pytest.mark.usefixtures("prefect_server")
async def test_a_regression_while_the_judge_moves_is_inconclusive(tmp_path: Path):
    plain = config(
        tmp_path,
        written(tmp_path / "t.jsonl", sample_cases()),
        comparison={"baseline": "latest"},
        runner={"fail_flow": False},
    )
    await outcome_of(plain)
    worse = written(tmp_path / "v2.jsonl", with_planted_regression(sample_cases()))
    transcripts = plain.transcripts.model_copy(update={"uri": worse})
    fallen = await outcome_of(plain.model_copy(update={"transcripts": transcripts}))
    assert fallen.conclusion == "Regression"
    with open_store(plain.store) as store:
        record = store.run(fallen.run_id)
    change = Change(mean=-6.0, se=1.0, p=0.0001, cases=20, paired=True)
    for cause, conclusion in (
        ("judge", "Inconclusive"),
        ("both", "Inconclusive"),
        ("agent", "Regression"),
    ):
        moved = Attribution(cause=cause, anchors=change, data=change, against="x")
        against = BaselineResult(fallen.comparison, attribution=moved)
        state = to_state(record, fallen.summary, against, ShardFailures(), {}, fail=False)
        found = await state.aresult()
        assert (found.conclusion, state.name) == (conclusion, conclusion)
        assert ("JUDGE CHANGED" in found.reasons[0]) is (cause != "agent")
