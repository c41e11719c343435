"""Scores go to real servers, each once whatever is killed, and labels made there come back."""

from __future__ import annotations

import json
from pathlib import Path

from tests.command import assizes
from tests.integrations.conftest import StoreServer
from tests.tasks.publishing.sample import RUN_ID, SECRET, TRACES, stored, traced_run
from tests.tasks.publishing.test_kills import KILLS, publish_with_kills

LOG_MLFLOW = """
import json, sys, mlflow
mlflow.set_experiment(sys.argv[1])
@mlflow.trace(span_type="AGENT")
def agent(question):
    mlflow.update_current_trace(metadata={"mlflow.trace.session": sys.argv[3]})
    return question
for number in range(int(sys.argv[2])): agent(f"question {number}")
mlflow.flush_trace_async_logging()
experiment = mlflow.get_experiment_by_name(sys.argv[1])
traces = mlflow.search_traces(
    locations=[experiment.experiment_id], return_type="list", max_results=1000)
print(json.dumps([t.info.trace_id for t in traces]))
"""

LIST_MLFLOW = """
import json, sys, mlflow
found = []
for trace_id in json.loads(sys.argv[1]):
    for each in mlflow.get_trace(trace_id).info.assessments:
        error = each.feedback.error.error_code if each.feedback.error else None
        found.append([trace_id, each.name, each.feedback.value, error, each.metadata or {},
                      each.source.source_type, each.rationale])
print(json.dumps(found))
"""

LABEL_MLFLOW = """
import sys, mlflow
from mlflow.entities import AssessmentSource
mlflow.log_feedback(trace_id=sys.argv[1], name="verdict", value=True, rationale="it was fine",
    source=AssessmentSource(source_type="HUMAN", source_id="ann"))
"""

LOG_PHOENIX = """
import httpx, json, os, sys, time
from phoenix.client import Client
from phoenix.otel import register
provider = register(
    project_name=sys.argv[1], batch=False, verbose=False, protocol="http/protobuf")
tracer = provider.get_tracer("tests")
ids = []
for number in range(int(sys.argv[2])):
    attributes = {"openinference.span.kind": "AGENT"}
    with tracer.start_as_current_span("agent", attributes=attributes) as span:
        context = span.context
        ids.append([format(context.trace_id, "032x"), format(context.span_id, "016x")])
with tracer.start_as_current_span("agent", attributes={"session.id": sys.argv[3]}): pass
provider.force_flush()
client = Client(base_url=os.environ["PHOENIX_COLLECTOR_ENDPOINT"])
for _ in range(200):
    try:
        spans = client.spans.get_spans(project_identifier=sys.argv[1], limit=1000)
    except httpx.HTTPStatusError: spans = []  # the project is made with its first span
    if len(spans) > len(ids): break
    time.sleep(0.1)
print(json.dumps(ids))
"""

LIST_PHOENIX = """
import json, os, sys, httpx
found = []
for level, ids in (("trace", json.loads(sys.argv[2])), ("session", json.loads(sys.argv[3]))):
    for start in range(0, len(ids), 20):
        cursor = None
        while True:
            answer = httpx.get(
                os.environ["PHOENIX_COLLECTOR_ENDPOINT"]
                + f"/v1/projects/{sys.argv[1]}/{level}_annotations",
                params={f"{level}_ids": ids[start:start + 20], "limit": 100,
                        **({"cursor": cursor} if cursor else {})}).json()
            found += [[each[f"{level}_id"], each["name"], each["result"], each["metadata"],
                       each["annotator_kind"]] for each in answer["data"]]
            cursor = answer.get("next_cursor")
            if not cursor: break
print(json.dumps(found))
"""

LABEL_PHOENIX = """
import os, sys
from phoenix.client import Client
Client(base_url=os.environ["PHOENIX_COLLECTOR_ENDPOINT"]).spans.add_span_annotation(
    span_id=sys.argv[1], annotation_name="verdict", annotator_kind="HUMAN", label="pass",
    score=1, explanation="it was fine", identifier="ann", sync=True)
"""

CASES = 300


def publish(folder: Path, server: StoreServer, to: str, *more: str) -> dict:
    answer = assizes("publish", RUN_ID, "--to", to, "--json", *more, cwd=folder, env=server.env)
    assert answer.code in (0, 4), answer.err
    return json.loads(answer.out)


def pulled(folder: Path, server: StoreServer, source: str) -> dict:
    words = ("labels", "pull", RUN_ID, "--from", source, "--json")
    answer = assizes(*words, cwd=folder, env=server.env)
    assert answer.code == 0, answer.err
    return json.loads(answer.out)


def forget(folder: Path, server: StoreServer, case_id: str) -> dict:
    words = ("store", "forget", case_id, "--yes", "--json")
    answer = assizes(*words, cwd=folder, env=server.env)
    assert answer.code == 0, answer.err
    return json.loads(answer.out)["elsewhere"]


def assert_one_label(folder: Path) -> None:
    listed = json.loads(assizes("labels", "list", RUN_ID, "--json", cwd=folder).out)
    assert [(row["metric"], row["value"], row["note"]) for row in listed] == [
        ("verdict", 1.0, "it was fine")
    ]


def test_scores_are_seen_by_the_client_of_mlflow_and_a_label_comes_back(
    mlflow_server: StoreServer, tmp_path: Path
):
    to = "mlflow://desk"
    logged = mlflow_server.run_client(LOG_MLFLOW, "desk", "3", "conv-7")
    traces = json.loads(logged.splitlines()[-1])
    cases = (traces[1], "conv-7", traces[2])  # the session means its last trace, traces[0]
    stored(tmp_path, traced_run(cases))
    report = publish(tmp_path, mlflow_server, to)
    assert report["sent"] == {"score": 9, "verdict": 3}
    seen = json.loads(mlflow_server.run_client(LIST_MLFLOW, json.dumps(traces)).splitlines()[-1])
    assert len(seen) == 12
    assert SECRET not in json.dumps(seen)
    by_name = {(trace, name): rest for trace, name, *rest in seen}
    assert {trace for trace, _ in by_name} == set(traces)
    value, error, metadata, *_ = by_name[(traces[0], "tool_routing")]
    assert (value, error) == (1.0, None)
    assert metadata["assizes.rubric_hash"] == "0123456789abcdef"
    assert by_name[(traces[0], "verdict")][0] is True
    assert by_name[(traces[2], "tool_routing")][:2] == [None, "timeout"]
    # What changes is changed in place.
    again = publish(tmp_path, mlflow_server, to, "--include", "scores", "--include", "reasons")
    assert again["sent"]["score"] >= 8
    seen = json.loads(mlflow_server.run_client(LIST_MLFLOW, json.dumps(traces)).splitlines()[-1])
    assert len(seen) == 12
    assert any(each[-1] == SECRET for each in seen)
    mlflow_server.run_client(LABEL_MLFLOW, traces[1])
    assert pulled(tmp_path, mlflow_server, to)["new"] == 1
    assert pulled(tmp_path, mlflow_server, to)["new"] == 0
    assert_one_label(tmp_path)
    # The label of a person there is not ours to delete.
    forgotten = forget(tmp_path, mlflow_server, traces[1])
    assert forgotten == {"deleted": 4, "by_hand": []}
    seen = json.loads(mlflow_server.run_client(LIST_MLFLOW, json.dumps(traces)).splitlines()[-1])
    assert [each[5] for each in seen if each[0] == traces[1]] == ["HUMAN"]
    assert len(seen) == 9


def test_scores_are_seen_in_phoenix_and_a_label_comes_back(
    phoenix_server: StoreServer, tmp_path: Path
):
    to = "phoenix://desk"
    logged = phoenix_server.run_client(LOG_PHOENIX, "desk", "2", "conv-8")
    ids = json.loads(logged.splitlines()[-1])
    traces = [trace for trace, _ in ids]
    stored(tmp_path, traced_run((traces[0], "conv-8", traces[1], TRACES[0])))
    report = publish(tmp_path, phoenix_server, to)
    assert report["sent"] == {"score": 9, "verdict": 3}
    assert report["refused"] == 4  # no such trace there
    arguments = ("desk", json.dumps(traces), json.dumps(["conv-8"]))
    seen = json.loads(phoenix_server.run_client(LIST_PHOENIX, *arguments).splitlines()[-1])
    assert len(seen) == 12
    assert SECRET not in json.dumps(seen)
    results = {(target, name): result for target, name, result, *_ in seen}
    assert results[("conv-8", "verdict")]["score"] == 1.0
    again = publish(tmp_path, phoenix_server, to, "--include", "scores", "--include", "reasons")
    assert again["sent"]["score"] >= 8
    seen = json.loads(phoenix_server.run_client(LIST_PHOENIX, *arguments).splitlines()[-1])
    assert len(seen) == 12
    phoenix_server.run_client(LABEL_PHOENIX, ids[0][1])
    assert pulled(tmp_path, phoenix_server, to)["new"] == 1
    assert pulled(tmp_path, phoenix_server, to)["new"] == 0
    assert_one_label(tmp_path)
    forgotten = forget(tmp_path, phoenix_server, "conv-8")
    assert forgotten == {"deleted": 4, "by_hand": []}
    seen = json.loads(phoenix_server.run_client(LIST_PHOENIX, *arguments).splitlines()[-1])
    assert {target for target, *_ in seen} == set(traces)
    assert len(seen) == 8


def test_twenty_kills_leave_every_score_once_in_mlflow(mlflow_server: StoreServer, tmp_path: Path):
    logged = mlflow_server.run_client(LOG_MLFLOW, "kills", str(CASES), "s")
    traces = tuple(json.loads(logged.splitlines()[-1]))
    assert len(traces) == CASES
    env = dict(mlflow_server.env)
    killed = publish_with_kills(tmp_path, "mlflow://kills", env, cases=traces)
    assert killed.total() == KILLS
    seen = json.loads(mlflow_server.run_client(LIST_MLFLOW, json.dumps(traces)).splitlines()[-1])
    assert len(seen) == 4 * CASES
    assert len({(trace, name) for trace, name, *_ in seen}) == 4 * CASES


def test_twenty_kills_leave_every_score_once_in_phoenix(
    phoenix_server: StoreServer, tmp_path: Path
):
    logged = phoenix_server.run_client(LOG_PHOENIX, "kills", str(CASES), "s")
    traces = tuple(trace for trace, _ in json.loads(logged.splitlines()[-1]))
    env = dict(phoenix_server.env)
    killed = publish_with_kills(tmp_path, "phoenix://kills", env, cases=traces)
    assert killed.total() == KILLS
    arguments = ("kills", json.dumps(traces), "[]")
    seen = json.loads(phoenix_server.run_client(LIST_PHOENIX, *arguments).splitlines()[-1])
    assert len(seen) == 4 * CASES
    assert len({(trace, name) for trace, name, *_ in seen}) == 4 * CASES


def test_a_run_over_traces_is_published_to_where_they_came_from(
    mlflow_server: StoreServer, tmp_path: Path
):
    logged = mlflow_server.run_client(LOG_MLFLOW, "default", "3", "conv-9")
    traces = json.loads(logged.splitlines()[-1])
    body = '[transcripts]\nuri = "mlflow://default"\n[judge]\nmodel = "offline/lexical"\n'
    (tmp_path / "assizes.toml").write_text(body)
    ran = assizes("run", "--json", cwd=tmp_path, env=mlflow_server.env)
    assert ran.code in (0, 1), ran.err
    answer = assizes("publish", "latest", "--json", cwd=tmp_path, env=mlflow_server.env)
    assert answer.code == 0, answer.err
    assert json.loads(answer.out)["sent"]["verdict"] == 1
    seen = json.loads(mlflow_server.run_client(LIST_MLFLOW, json.dumps(traces)).splitlines()[-1])
    # The conversation is three traces; the newest of them, which is listed first, bears the verdict.
    assert [trace for trace, name, *_ in seen if name == "verdict"] == [traces[0]]
    # What was published does not change what is read: the run is the same.
    again = assizes("run", "--json", cwd=tmp_path, env=mlflow_server.env)
    assert json.loads(again.out)["run_id"] == json.loads(ran.out)["run_id"]
