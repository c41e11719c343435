"""A score about one turn is shown at its span by real servers, once, and is deleted there; `doctor`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import polars as pl

from tests.command import assizes
from tests.integrations.conftest import StoreServer
from tests.integrations.test_publishing import LOG_PHOENIX, forget, publish
from tests.tasks.publishing.sample import stored, traced_run
from tests.tasks.reports.sample import Run

METRIC = "tool_routing"

LOG_MLFLOW = """
import json, sys, mlflow
mlflow.set_experiment(sys.argv[1])
with mlflow.start_span(name="agent") as span: pass
mlflow.flush_trace_async_logging()
print(json.dumps([span.trace_id, span.span_id]))
"""

LIST_MLFLOW = """
import json, sys, mlflow
found = [[a.name, a.span_id] for a in mlflow.get_trace(sys.argv[1]).info.assessments]
print(json.dumps(found))
"""

LIST_PHOENIX = """
import json, os, sys, httpx
found = []
for level, wanted in (("span", sys.argv[3]), ("trace", sys.argv[2])):
    answer = httpx.get(
        os.environ["PHOENIX_COLLECTOR_ENDPOINT"] + f"/v1/projects/{sys.argv[1]}/{level}_annotations",
        params={f"{level}_ids": wanted, "limit": 100}).json()
    found += [[each["name"], each.get("span_id")] for each in answer["data"]]
print(json.dumps(found))
"""


def about_a_turn(trace: str, span: str) -> Run:
    """A run over one trace, whose first turn has this span and one score."""
    made = traced_run((trace, "other"))
    spans = pl.lit([f"{trace}/{span}"], dtype=pl.List(pl.String))
    cases = made.frames["cases"].with_columns(
        turn_spans=pl.when(pl.col("case_id") == trace).then(spans).otherwise(None)
    )
    is_about = (pl.col("case_id") == trace) & (pl.col("metric") == METRIC)
    turns = pl.when(is_about).then(pl.lit([0], dtype=pl.List(pl.Int32))).otherwise("turns")
    scores = made.frames["scores"].with_columns(turns=turns)
    return replace(made, frames={**made.frames, "cases": cases, "scores": scores})


def finding(folder: Path, server: StoreServer, to: str) -> tuple[str, str]:
    """What `doctor` says of the place."""
    (folder / "in.jsonl").write_text("{}\n")
    tables = f'[transcripts]\nuri = "in.jsonl"\n[publish]\nto = "{to}"\n'
    (folder / "doctor.toml").write_text(tables)
    words = ("doctor", "-c", "doctor.toml", "--json")
    listed = json.loads(assizes(*words, cwd=folder, env=server.env).out)
    (check,) = [each for each in listed if each["name"] == "publishing"]
    return check["state"], check["finding"]


def test_mlflow(mlflow_server: StoreServer, tmp_path: Path):
    logged = mlflow_server.run_client(LOG_MLFLOW, "spans")
    trace, span = json.loads(logged.splitlines()[-1])
    state, said = finding(tmp_path, mlflow_server, "mlflow://spans")
    assert state == "ok"
    assert "is seen when scores are sent" in said
    assert finding(tmp_path, mlflow_server, "mlflow://nowhere")[0] == "fault"
    stored(tmp_path, about_a_turn(trace, span))
    for _ in range(2):
        publish(tmp_path, mlflow_server, "mlflow://spans")
    seen = json.loads(mlflow_server.run_client(LIST_MLFLOW, trace).splitlines()[-1])
    assert len(seen) == 4
    assert [name for name, at in seen if at == span] == [METRIC]
    assert forget(tmp_path, mlflow_server, trace) == {"deleted": 4, "by_hand": []}
    assert json.loads(mlflow_server.run_client(LIST_MLFLOW, trace).splitlines()[-1]) == []


def test_phoenix(phoenix_server: StoreServer, tmp_path: Path):
    logged = phoenix_server.run_client(LOG_PHOENIX, "spans", "1", "conv-1")
    ((trace, span),) = json.loads(logged.splitlines()[-1])
    state, said = finding(tmp_path, phoenix_server, "phoenix://spans")
    assert state == "ok"
    assert "its key may write" in said
    assert finding(tmp_path, phoenix_server, "phoenix://nowhere")[0] == "fault"
    stored(tmp_path, about_a_turn(trace, span))
    for _ in range(2):
        publish(tmp_path, phoenix_server, "phoenix://spans")
    arguments = ("spans", trace, span)
    seen = json.loads(phoenix_server.run_client(LIST_PHOENIX, *arguments).splitlines()[-1])
    assert len(seen) == 4
    assert [name for name, at in seen if at == span] == [METRIC]
    assert forget(tmp_path, phoenix_server, trace) == {"deleted": 4, "by_hand": []}
    assert json.loads(phoenix_server.run_client(LIST_PHOENIX, *arguments).splitlines()[-1]) == []
