"""`[publish] after_run`: scores leave once the report is written, and a failure changes no outcome."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assizes.deployments.samples import sample_cases
from assizes.judge.formats import native_line
from tests.command import assizes
from tests.doubles.json_server import json_server
from tests.doubles.langfuse_scores import KEYS, LangfuseScores

pytestmark = [pytest.mark.xdist_group("server"), pytest.mark.data]

CASES = 3


def configure(folder: Path, publish: str) -> None:
    (folder / "in.jsonl").write_bytes(b"".join(native_line(c) for c in sample_cases()[:CASES]))
    tables = (
        '[transcripts]\nuri = "in.jsonl"\n\n'
        "[thresholds]\nmetrics_pass_threshold = 0\ncases_pass_threshold = 0\n\n"
    )
    (folder / "assizes.toml").write_text(tables + publish)


def test_a_run_publishes_and_the_command_finds_nothing_left(tmp_path: Path, prefect_server: str):
    configure(tmp_path, '[publish]\nto = "langfuse://desk"\nafter_run = true\n')
    double = LangfuseScores("lists")
    with json_server(double.answer) as server:
        env = {**KEYS, "LANGFUSE_BASE_URL": server.url, "PREFECT_API_URL": prefect_server}
        ran = assizes("run", "--json", cwd=tmp_path, env=env)
        assert ran.code == 0, ran.err
        run_id = json.loads(ran.out)["run_id"]
        verdicts = [s for s in double.scores.values() if s["name"] == "verdict"]
        assert len(verdicts) == CASES
        assert {s["metadata"]["assizes.run_id"] for s in verdicts} == {run_id}
        again = json.loads(assizes("publish", run_id, "--json", cwd=tmp_path, env=env).out)
        assert (again["sent"], again["unchanged"]) == ({}, len(double.scores))


@pytest.mark.full
def test_a_place_that_refuses_changes_no_outcome_and_the_command_goes_on(
    tmp_path: Path, prefect_server: str
):
    configure(tmp_path, '[publish]\nto = "langfuse://desk"\nafter_run = true\n')
    double = LangfuseScores("lists")
    with json_server(double.answer) as server:
        env = {"LANGFUSE_BASE_URL": server.url, "PREFECT_API_URL": prefect_server}
        ran = assizes("run", "--json", cwd=tmp_path, env=env)  # without keys
        assert ran.code == 0, ran.err
        outcome = json.loads(ran.out)
        assert outcome["conclusion"] == "Passed"
        assert outcome["reports"]
        assert "the scores could not be published: langfuse at" in ran.err
        assert f"`assizes publish {outcome['run_id']}` goes on" in ran.err
        assert double.scores == {}
        words = ("publish", outcome["run_id"], "--json")
        sent = json.loads(assizes(*words, cwd=tmp_path, env={**env, **KEYS}).out)["sent"]
        assert sent["verdict"] == CASES


@pytest.mark.full
def test_the_table_is_no_part_of_what_identifies_a_run(tmp_path: Path, prefect_server: str):
    env = {"PREFECT_API_URL": prefect_server}
    configure(tmp_path, "")
    first = json.loads(assizes("run", "--json", cwd=tmp_path, env=env).out)["run_id"]
    configure(tmp_path, '[publish]\nto = "otlp"\ninclude = ["scores"]\n')
    assert json.loads(assizes("run", "--json", cwd=tmp_path, env=env).out)["run_id"] == first
