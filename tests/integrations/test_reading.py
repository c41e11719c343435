"""Traces that the vendors' own clients logged are read, judged, shown and read again from copies."""

from __future__ import annotations

import json

import pytest

from tests.command import assizes

QUESTIONS = ("Where is order 0?", "Where is order 1?", "Can I return it?")

LOG_MLFLOW = """
import json, sys, mlflow
mlflow.set_experiment("support desk")
@mlflow.trace(span_type="TOOL")
def lookup(order): return {"status": "shipped"}
@mlflow.trace(span_type="CHAT_MODEL")
def chat(messages): return {"role": "assistant", "content": "Answer to: " + messages[-1]["content"]}
@mlflow.trace(span_type="AGENT")
def agent(question, session):
    mlflow.update_current_trace(
        tags={"channel": "web" if session == "s0" else "mail"},
        metadata={"mlflow.trace.session": session, "mlflow.trace.user": "u1"})
    lookup("A1")
    return chat([{"role": "user", "content": question}])
for number, question in enumerate(json.loads(sys.argv[1])): agent(question, f"s{number % 2}")
mlflow.flush_trace_async_logging()
experiment = mlflow.get_experiment_by_name("support desk")
traces = mlflow.search_traces(locations=[experiment.experiment_id], return_type="list")
mlflow.log_feedback(trace_id=traces[0].info.trace_id, name="quality", value=0.25)
print(json.dumps([t.info.trace_id for t in traces]))
"""

LOG_PHOENIX = """
import json, sys
from phoenix.otel import register
from phoenix.client import Client
provider = register(project_name="support", batch=False, verbose=False, protocol="http/protobuf")
tracer = provider.get_tracer("tests")
ids = []
for number, question in enumerate(json.loads(sys.argv[1])):
    session = {"session.id": f"s{number % 2}", "user.id": "u1"}
    with tracer.start_as_current_span("agent", attributes={
        "openinference.span.kind": "AGENT", **session,
        "tag.tags": ["web" if number % 2 == 0 else "mail"]}) as span:
        with tracer.start_as_current_span("lookup", attributes={
            "openinference.span.kind": "TOOL", "tool.name": "lookup", "output.value": "shipped",
            "tool.parameters": '{"order": "A1"}', **session}): pass
        with tracer.start_as_current_span("llm", attributes={
            "openinference.span.kind": "LLM", **session,
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.content": question,
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": "Answer to: " + question}): pass
        ids.append((format(span.context.trace_id, "032x"), format(span.context.span_id, "016x")))
provider.force_flush()
import time, os
client = Client(base_url=os.environ["PHOENIX_COLLECTOR_ENDPOINT"])
for _ in range(100):
    try:
        if len(client.spans.get_spans(project_identifier="support")) >= 3 * len(ids): break
    except Exception: pass  # the project is made with its first span
    time.sleep(0.1)
client.spans.add_span_annotation(span_id=ids[-1][1], annotation_name="quality",
    annotator_kind="LLM", score=0.25, sync=True)
print(json.dumps([trace for trace, _ in ids]))
"""


@pytest.fixture(scope="module")
def mlflow_traces(mlflow_server):
    mlflow_server.run_client(LOG_MLFLOW, json.dumps(QUESTIONS))
    return mlflow_server


@pytest.fixture(scope="module")
def phoenix_traces(phoenix_server):
    phoenix_server.run_client(LOG_PHOENIX, json.dumps(QUESTIONS))
    return phoenix_server


@pytest.fixture(params=["mlflow", "phoenix"])
def store(request):
    """The server, the URI of the place, and the tag that only the conversation s1 has."""
    server = request.getfixturevalue(f"{request.param}_traces")
    if request.param == "mlflow":
        return server, "mlflow://support%20desk", "channel=mail"
    return server, "phoenix://support", "mail"


def configure(folder, uri, more=""):
    text = f'name = "t"\n[transcripts]\nuri = "{uri}"\n{more}\n[judge]\nmodel = "offline/lexical"\n'
    (folder / "assizes.toml").write_text(text)


def judged(folder, env):
    answer = assizes("run", "-c", "assizes.toml", "--json", cwd=folder, env=env)
    assert answer.code in (0, 1), answer.err
    run = json.loads(answer.out)
    cases = json.loads(assizes("sql", "latest", "SELECT * FROM cases", "--json", cwd=folder).out)
    return run, cases


def test_traces_are_read_judged_and_read_again_from_the_copies(store, tmp_path):
    server, uri, _ = store
    configure(tmp_path, uri)
    doctor = assizes("doctor", "-c", "assizes.toml", cwd=tmp_path, env=server.env)
    assert server.url in doctor.out + doctor.err
    run, cases = judged(tmp_path, server.env)
    assert {case["case_id"] for case in rows(cases)} == {"s0", "s1"}
    shown = assizes("case", run["run_id"], "s0", cwd=tmp_path)  # no server in its environment
    texts = " ".join(shown.out.split())
    for question in QUESTIONS[::2]:
        assert f"Answer to: {question}" in texts
    assert QUESTIONS[1] not in texts
    (spans,) = [case["turn_spans"] for case in rows(cases) if case["case_id"] == "s0"]
    assert len(spans) >= 4
    assert all(span.partition("/")[0] for span in spans)
    assert sum(bool(span.partition("/")[2]) for span in spans) >= 4  # of the agent and the tool
    again, _ = judged(tmp_path, server.env)
    assert again["run_id"] == run["run_id"]
    configure(tmp_path, uri, '[transcripts.traces]\nuse = "copies"')
    away, _ = judged(tmp_path, {})
    assert away["run_id"] == run["run_id"]


@pytest.mark.parametrize("by", ["tag", "score", "time"])
def test_filters(store, tmp_path, by):
    server, uri, tag = store
    setting = {
        "tag": f'tags = ["{tag}"]',
        "score": 'scores = { quality = "< 0.5" }',
        "time": "until = 2020-01-01T00:00:00Z",
    }[by]
    configure(tmp_path, uri, f"[transcripts.traces]\n{setting}")
    answer = assizes("run", "-c", "assizes.toml", "--json", cwd=tmp_path, env=server.env)
    if by == "time":
        assert answer.code == 4
        assert "no traces in" in answer.err
        return
    cases = json.loads(assizes("sql", "latest", "SELECT * FROM cases", "--json", cwd=tmp_path).out)
    # The score stands at the trace logged last, which is of s0.
    assert {case["case_id"] for case in rows(cases)} == ({"s1"} if by == "tag" else {"s0"})


def test_an_unknown_project_is_named(store, tmp_path):
    server, uri, _ = store
    configure(tmp_path, f"{uri}-unknown")
    answer = assizes("run", "-c", "assizes.toml", cwd=tmp_path, env=server.env)
    assert answer.code == 2
    assert "has no" in answer.err
    assert "Traceback" not in answer.err


def rows(answer):
    return answer["rows"] if isinstance(answer, dict) else answer
