"""Panels, repeats and a senior model through the whole flow, over real HTTP."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from assizes.deployments.samples import sample_cases
from assizes.judge.case import Expected, ExpectedCall
from tests.builders import agent, call, case, result, user
from tests.command import assizes
from tests.doubles.fixtures import OPENAI_KEY, OpenAIServer
from tests.flows.test_evaluate import config, outcome_of, report_bytes, tables, written

pytestmark = pytest.mark.usefixtures("prefect_server")

METRICS = ["tool_routing", "response_delivery"]


def judged_by(folder: Path, server: OpenAIServer, **judge: object):
    uri = written(folder / "t.jsonl", sample_cases()[:4])
    body = {"api_base": server.api_base, "metrics": METRICS, **judge}
    return config(folder, uri, judge=body)


@pytest.mark.full
async def test_a_panel_with_repeats_votes_on_every_case_and_pays_each_vote_once(
    tmp_path: Path, judge_server: OpenAIServer
):
    wanted = judged_by(tmp_path, judge_server, panel=["openai/a", "openai/b"], repeats=2)
    outcome = await outcome_of(wanted)

    assert outcome.judge_model == "openai/a, openai/b"
    assert judge_server.stats()["models"] == {"a": 8, "b": 8}
    asks = tables(wanted.store, outcome.run_id)["asks"]
    assert asks.select("case_id", "repetition", "judge", "round", "index").is_unique().all()
    seats = asks.group_by("model", "sample").len().sort("model", "sample").rows()
    assert seats == [("openai/a", 0, 4), ("openai/a", 1, 4), ("openai/b", 0, 4), ("openai/b", 1, 4)]
    steady = {one.metric: one for one in outcome.summary.stability}
    assert set(METRICS) <= set(steady)
    routing = steady["tool_routing"]
    assert (routing.cases, routing.flip_rate, routing.agreement) == (4, 0.0, 1.0)

    again = await outcome_of(wanted, run_id="again")
    assert judge_server.stats()["requests"] == 16
    assert again.summary.stability == outcome.summary.stability


async def test_votes_are_in_the_report_in_the_numbers_and_on_the_terminal(
    tmp_path: Path, judge_server: OpenAIServer
):
    wanted = judged_by(tmp_path, judge_server, model="openai/a", repeats=2)
    outcome = await outcome_of(wanted)

    numbers = dict(
        tables(wanted.store, outcome.run_id)["run_metrics"].select("name", "value").rows()
    )
    assert numbers["metrics/tool_routing/flip_rate"] == 0.0
    assert "metrics/tool_routing/agreement" not in numbers
    html = report_bytes(outcome)["html"].decode()
    assert "tool_routing (conversation)" in html.replace("<wbr>", "")
    shown = assizes("show", outcome.run_id, "--store", wanted.store.uri, cwd=tmp_path)
    assert shown.code == 0
    assert "votes" in shown.out
    assert "flip rate" in shown.out


async def test_a_senior_model_hears_only_what_the_evidence_contradicts(
    tmp_path: Path, judge_server: OpenAIServer
):
    # The stub gives a 4 to everything; plain rules see that the expected call was never made.
    booking = Expected(tool_calls=(ExpectedCall(name="book", arguments={}),))
    right = case(
        user("Book."),
        agent(calls=[call("book", id="b")]),
        result("ok", call_id="b"),
        agent("Booked."),
        case_id="right",
        expected=booking,
    )
    wrong = case(user("Book."), agent("Booked."), case_id="wrong", expected=booking)
    uri = written(tmp_path / "t.jsonl", [right, wrong])
    judge = {"model": "openai/small", "escalate_to": "openai/big", "metrics": METRICS}
    wanted = config(tmp_path, uri, judge={**judge, "api_base": judge_server.api_base})
    outcome = await outcome_of(wanted)

    scores = tables(wanted.store, outcome.run_id)["scores"]
    headlines = scores.filter(pl.col("metric") == "tool_routing", pl.col("part") == "")
    why = {
        row["case_id"]: json.loads(row["details"]).get("escalated")
        for row in headlines.iter_rows(named=True)
    }
    said = "tool_routing: the transcript's plain evidence says the opposite"
    assert why == {"right": None, "wrong": said}
    assert judge_server.stats()["models"] == {"small": 2, "big": 1}
    assert {one.metric: one.escalated for one in outcome.summary.stability}["tool_routing"] == 1


@pytest.mark.full
async def test_a_panel_judges_without_a_member_that_cannot_be_had_and_says_so(
    tmp_path: Path, judge_server: OpenAIServer
):
    panel = ["openai/a", "openai/b", "openai/gone-status-401"]
    outcome = await outcome_of(judged_by(tmp_path, judge_server, panel=panel))

    assert outcome.summary.counts["judged"] == 4
    assert outcome.conclusion == "Passed"
    assert "silent_model: openai/gone-status-401 answered none of its 4 asks" in (
        outcome.summary.warnings
    )


async def test_a_panel_without_a_quorum_judges_nothing(tmp_path: Path, judge_server: OpenAIServer):
    panel = ["openai/a", "openai/gone-status-401"]
    outcome = await outcome_of(judged_by(tmp_path, judge_server, panel=panel))

    assert (outcome.conclusion, outcome.exit_code) == ("Incomplete", 4)
    assert outcome.summary.counts["not_attempted"] == 4


async def test_doctor_and_plan_speak_of_the_whole_jury(tmp_path: Path, judge_server: OpenAIServer):
    written(tmp_path / "t.jsonl", sample_cases()[:3])
    (tmp_path / "assizes.toml").write_text(
        f'[transcripts]\nuri = "t.jsonl"\n[judge]\npanel = ["openai/a", "openai/b"]\n'
        f'repeats = 2\napi_base = "{judge_server.api_base}"\n'
    )
    env = {"OPENAI_API_KEY": OPENAI_KEY}
    doctor = assizes("doctor", cwd=tmp_path, env=env)
    assert "openai/a + openai/b" in doctor.out
    plan = assizes("plan", "--json", cwd=tmp_path, env=env)
    assert plan.code == 0, plan.err
    assert json.loads(plan.out)["to_put"] == 12
    assert judge_server.stats()["requests"] == 0
