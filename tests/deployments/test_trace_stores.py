"""Commands over transcripts in a trace store, here a server that speaks the protocol of Langfuse."""

from __future__ import annotations

import json

import pytest

from tests.command import assizes
from tests.doubles.json_server import json_server
from tests.doubles.langfuse_traces import KEYS, LangfuseTraces

pytestmark = [pytest.mark.data, pytest.mark.promised]


@pytest.fixture
def double():
    return LangfuseTraces()


@pytest.fixture
def env(double):
    with json_server(double.answer) as server:
        yield {**KEYS, "LANGFUSE_HOST": server.url}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "assizes.toml").write_text(
        'name = "t"\n[transcripts]\nuri = "langfuse://support"\n[judge]\nmodel = "offline/lexical"\n'
    )
    return tmp_path


def cases_of(folder, run="latest"):
    answer = assizes("sql", run, "SELECT case_id, turn_spans FROM cases", "--json", cwd=folder)
    body = json.loads(answer.out)
    return body["rows"] if isinstance(body, dict) else body


@pytest.mark.full
def test_a_run_of_a_day_and_the_days_of_a_backfill(folder, env, double):
    days = sorted({trace["timestamp"][:10] for trace in double.traces})
    day = days[0]
    of_day = {trace["id"] for trace in double.traces if trace["timestamp"].startswith(day)}
    assert len(of_day) < len(double.traces)
    run = assizes("run", "--date", day, "--json", cwd=folder, env=env)
    assert run.code in (0, 1), run.err
    rows = cases_of(folder)
    named = {span.partition("/")[0] for row in rows for span in row["turn_spans"]}
    assert named <= of_day
    assert named
    filled = assizes("backfill", "--from", day, "--to", day, "--json", cwd=folder, env=env)
    assert filled.code in (0, 1), filled.err
    runs = json.loads(assizes("runs", "--json", cwd=folder).out)
    ids = {row["run_id"] for row in (runs["runs"] if isinstance(runs, dict) else runs)}
    assert ids == {json.loads(run.out)["run_id"]}  # the same day, so the same run


@pytest.mark.full
def test_plan_doctor_and_import(folder, env, double):
    plan = assizes("plan", "--json", cwd=folder, env=env)
    assert plan.code == 0, plan.err
    doctor = assizes("doctor", cwd=folder, env=env)
    assert f"langfuse://support: at {env['LANGFUSE_HOST']}" in " ".join(doctor.out.split())
    imported = assizes("import", "auto", "langfuse://support", "out.jsonl", cwd=folder, env=env)
    assert imported.code == 0, imported.err
    lines = (folder / "out.jsonl").read_text().splitlines()
    assert all(json.loads(line)["transcript"]["turns"] for line in lines)
    away = assizes("plan", cwd=folder, env=dict.fromkeys(env, ""))
    assert away.code == 2
    assert "set LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY" in away.err


@pytest.mark.full
def test_secrets_of_traces_and_of_the_environment_are_hidden(folder, env, double):
    secret = "sk-proj-" + "Zx81" * 10
    told = f"my key is {secret}"
    for trace in double.traces:
        for row in trace["observations"]:
            if row["type"] == "GENERATION":
                row["input"] = [{"role": "user", "content": told}]
    assert assizes("run", cwd=folder, env=env).code in (0, 1)
    for row in cases_of(folder):
        shown = assizes("case", "latest", row["case_id"], cwd=folder)
        assert secret not in shown.out
    assert secret not in "".join(
        path.read_text(errors="replace") for path in (folder / "reports").rglob("*.*")
    )


@pytest.mark.full
def test_forgetting_a_case_takes_it_out_of_the_copies(folder, env):
    assert assizes("run", cwd=folder, env=env).code in (0, 1)
    case_id = cases_of(folder)[0]["case_id"]
    copies = folder / ".assizes" / "traces"

    def holds(text):
        return [path for path in copies.rglob("*.jsonl") if text in path.read_text()]

    assert holds(case_id)
    forgotten = assizes("store", "forget", case_id, "--yes", cwd=folder)
    assert forgotten.code == 0, forgotten.err
    assert not holds(case_id)
