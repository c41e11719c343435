"""The HTTP API over the demo's store, asked over HTTP."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance

from tests.command import assizes
from tests.deployments.web.conftest import STORE, Served, ask, serving
from tests.drawn import examples
from tests.tasks.reports.sample import DESCRIBED


@pytest.mark.row("000-48", "000-49", "000-50", "000-51")
def test_the_metrics_are_listed_as_the_first_document_says(served: Served):
    listing = served.get("/config/available-metrics").json
    assert listing["count"] == len(listing["data"]) == 9
    first = listing["data"][0]
    assert (first["name"], first["display_name"], first["tier"]) == (
        "tool_routing",
        "Tool Routing",
        "execution",
    )
    assert (first["default_weight"], first["score_type"]) == (0.15, "scored")
    assert first["include_in_defaults"] is True
    opt_in = next(metric for metric in listing["data"] if metric["name"] == "task_completion")
    assert (opt_in["include_in_defaults"], opt_in["score_type"]) == (False, "binary")


def test_runs_come_newest_first_with_what_their_comparison_said(served: Served):
    listing = served.get("/runs").json
    assert [run["run_id"] for run in listing["data"]] == [served.candidate, served.baseline]
    candidate, baseline = listing["data"]
    assert candidate["baseline"] == served.baseline
    assert (candidate["ending"], candidate["regression_detected"]) == ("regressed", True)
    assert (baseline["ending"], baseline["regression_detected"]) == (None, None)


def test_a_list_comes_in_parts_that_make_up_the_whole(served: Served):
    path = f"/runs/{served.candidate}/cases?sort=case_id"
    whole = served.get(f"{path}&limit=1000").json
    parts = [served.get(f"{path}&limit=15&offset={offset}").json for offset in (0, 15, 30)]
    assert whole["count"] == 40
    assert [case for part in parts for case in part["data"]] == whole["data"]


def test_cases_can_be_filtered_by_what_went_wrong(served: Served):
    path = f"/runs/{served.candidate}/cases"
    failed = served.get(f"{path}?passed=false").json
    assert failed["count"] == 10
    assert {case["passed"] for case in failed["data"]} == {False}
    coded = served.get(f"{path}?failure_code=wrong_state_change").json
    assert 0 < coded["count"] < 40
    case_id = coded["data"][0]["case_id"]
    scores = served.get(f"{path}/{case_id}").json["data"][0]["scores"]
    assert "wrong_state_change" in {score["failure_code"] for score in scores}


@pytest.mark.row("005-06")
def test_a_case_comes_with_its_scores_and_asks_as_they_are_stored(served: Served):
    detail = served.get(f"/runs/{served.candidate}/cases/7").json
    (execution,) = detail["data"]
    assert execution["case"]["tags"]["domain"] == "airline"
    assert list(execution["case"]["tier_scores"]) == TIERS
    assert {score["case_id"] for score in execution["scores"]} == {"7"}
    assert {type(score["details"]) for score in execution["scores"]} == {dict}
    assert len(execution["asks"]) == 1


@pytest.mark.row("001-62")
def test_thresholds_of_a_comparison_can_be_given_and_are_told(served: Served):
    pair = f"/runs/compare?baseline={served.baseline}&candidate={served.candidate}"
    strict = served.get(pair).json["verdict"]
    assert strict["regression_detected"] is True
    assert len(strict["reasons"]) == 3
    loose = served.get(
        f"{pair}&max_pass_rate_drop=0.5&max_avg_score_drop=10&max_latency_increase_pct=0.5"
    ).json["verdict"]
    assert loose["regression_detected"] is False
    assert loose["thresholds_used"] == {
        "max_pass_rate_drop": 0.5,
        "max_avg_score_drop": 10.0,
        "max_latency_increase_pct": 0.5,
    }


@pytest.mark.row("005-07")
@pytest.mark.parametrize(("text", "limit"), [("0.2", 0.2), ("20%25", 0.2), ("150%25", 1.5)])
def test_a_limit_of_latency_is_a_fraction_or_percent(served: Served, text: str, limit: float):
    pair = f"/runs/compare?baseline={served.baseline}&candidate={served.candidate}"
    found = served.get(f"{pair}&max_latency_increase_pct={text}").json["verdict"]
    assert found["thresholds_used"]["max_latency_increase_pct"] == limit


def test_a_comparison_over_http_writes_nothing(served: Served):
    before = json.loads(assizes("sql", served.candidate, QUERY, *JSON, cwd=served.folder).out)
    served.get(f"/runs/compare?baseline={served.candidate}&candidate={served.baseline}")
    after = json.loads(assizes("sql", served.candidate, QUERY, *JSON, cwd=served.folder).out)
    assert before == after


TIERS = ["execution", "knowledge", "process", "delivery"]
QUERY = "select count(*) as n from comparisons"
JSON = ("--json", "--store", STORE)


@pytest.mark.parametrize(
    ("path", "status", "reason"),
    [
        ("/runs/nope", 404, "no run 'nope'"),
        ("/runs/{candidate}/cases/nope", 404, "has no case 'nope'"),
        ("/runs/compare?baseline=x&candidate=y", 404, "no run 'x'"),
        ("/runs/compare?baseline=x", 422, "query.candidate"),
        ("/runs/compare?baseline=x&candidate=y&max_avg_score_drop=inf", 422, "max_avg_score_drop"),
        ("/runs/compare?baseline=x&candidate=y&max_pass_rate_drop=nan", 422, "max_pass_rate_drop"),
        ("/runs/compare?baseline=x&candidate=y&max_latency_increase_pct=inf", 422, "increase_pct"),
        pytest.param(
            "/runs/compare?baseline=x&candidate=y&max_latency_increase_pct=20",
            422,
            "20 could be 20 % or 2000 %",
            marks=pytest.mark.row("005-07"),
        ),
        ("/runs?limit=0", 422, "query.limit"),
        ("/runs?colour=red", 422, "query.colour"),
        ("/runs/{candidate}/cases?sort=colour", 422, "query.sort"),
        ("/nowhere", 404, "Not Found"),
    ],
)
def test_what_cannot_be_answered_is_a_problem_document(
    served: Served, path: str, status: int, reason: str
):
    reply = served.get(path.format(candidate=served.candidate))
    assert reply.status == status
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.json["status"] == status
    assert reason in reply.json["detail"]


def test_another_method_is_a_problem_too(served: Served):
    reply = ask(f"{served.url}/runs/{served.candidate}", method="DELETE")
    assert (reply.status, reply.json["title"]) == (405, "Method not allowed")


@pytest.mark.parametrize("host", ["evil.test", "127.0.0.1.evil.test", "", "localhost.evil.test:80"])
def test_a_request_under_another_name_is_refused(served: Served, host: str):
    assert served.get("/runs", Host=host).status == 400


def test_a_page_of_another_site_is_refused(served: Served):
    assert served.get("/runs", Origin="https://evil.test").status == 403
    assert served.get("/runs", Origin=served.url).status == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])  # the latter: another port
@pytest.mark.parametrize("path", ["/runs", "/"])
def test_a_page_of_another_site_gets_no_data_without_an_origin(
    served: Served, site: str, path: str
):
    def status(mode: str, dest: str, to: str = path) -> int:
        sent = {"Sec_Fetch_Site": site, "Sec_Fetch_Mode": mode, "Sec_Fetch_Dest": dest}
        return served.get(to, **sent).status

    assert status("no-cors", "script") == 403
    assert status("no-cors", "image") == 403
    assert status("navigate", "iframe") == 403
    assert status("navigate", "document") == (403 if path == "/runs" else 200)  # a followed link
    for own in ("same-origin", "none"):
        assert served.get(path, Sec_Fetch_Site=own, Sec_Fetch_Mode="navigate").status == 200


def test_another_port_of_this_host_is_another_origin(served: Served):
    host = served.url.rpartition(":")[0]
    assert served.get("/runs", Origin=f"{host}:9").status == 403
    assert served.get("/runs", Origin=f"{host}:9", Sec_Fetch_Site="none").status == 403
    assert served.get("/runs", Origin=host).status == 403
    assert served.get("/runs", Origin=served.url, Sec_Fetch_Site="same-origin").status == 200


def test_no_answer_lets_other_sites_read_it(served: Served):
    headers = served.get("/runs", Origin=served.url).headers
    assert not [name for name in headers if name.startswith("access-control")]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert "server" not in headers


def test_a_body_that_is_too_long_is_refused(served: Served):
    reply = ask(f"{served.url}/runs", method="POST", body=b"x" * 70_000)
    assert reply.status == 413


def test_an_address_that_others_reach_needs_a_token(tmp_path: Path):
    answer = assizes("serve", "--host", "0.0.0.0", "--store", STORE, cwd=tmp_path)
    assert answer.code == 2
    assert "ASSIZES_API_TOKEN" in answer.err
    short = assizes("serve", cwd=tmp_path, env={"ASSIZES_API_TOKEN": "short"})
    assert (short.code, "at least 16" in short.err) == (2, True)


def test_with_a_token_nothing_but_the_health_is_told_without_it(served: Served):
    token = "a-token-of-a-fair-length"
    basic = base64.b64encode(f"anyone:{token}".encode()).decode()
    with serving(served.folder, ASSIZES_API_TOKEN=token) as url:
        assert ask(f"{url}/health").status == 200
        refused = ask(f"{url}/runs")
        assert (refused.status, refused.headers["www-authenticate"][:5]) == (401, "Basic")
        assert ask(f"{url}/runs", headers={"Authorization": "Bearer other"}).status == 401
        assert ask(f"{url}/runs", headers={"Authorization": f"Bearer {token}"}).status == 200
        assert ask(f"{url}/", headers={"Authorization": f"Basic {basic}"}).status == 200


def test_a_port_that_is_taken_is_one_line(served: Served):
    port = served.url.rpartition(":")[2]
    answer = assizes("serve", "--port", port, "--store", STORE, cwd=served.folder)
    assert answer.code == 2
    assert f"--port {port}" in answer.err
    assert "Traceback" not in answer.err


def test_the_report_files_of_the_demo_are_as_their_schema_says(served: Served):
    files = sorted(served.folder.rglob("report.json"))
    assert {file.parent.name for file in files} == {served.baseline, served.candidate}
    for file in files:
        DESCRIBED.validate(json.loads(file.read_text(encoding="utf-8")))


def test_a_store_that_is_not_there_is_a_problem_and_not_a_crash(tmp_path: Path):
    with serving(tmp_path) as url:
        assert ask(f"{url}/health").json["store"] == "not readable"
        reply = ask(f"{url}/runs")
        assert (reply.status, reply.headers["retry-after"]) == (503, "5")


@pytest.mark.full
@pytest.mark.hypothesis  # so that `make fuzz` runs it
def test_every_answer_to_generated_requests_is_a_documented_one(served: Served):
    schema = schemathesis.openapi.from_url(f"{served.url}/openapi.json")
    asked: set[str] = set()

    for operation in schema.get_all_operations():
        _generated(operation.ok(), asked)
    assert asked == {
        f"{method.upper()} {path}"
        for path, methods in served.get("/openapi.json").json["paths"].items()
        for method in methods
    }


def _generated(operation: Any, asked: set[str]) -> None:
    @given(case=operation.as_strategy())
    @settings(examples(25), suppress_health_check=list(HealthCheck), database=None)
    def put(case: Any) -> None:
        asked.add(operation.label)
        answer = case.call()
        # There is no Prefect server here: that is said, and is no defect.
        gone = answer.status_code == 503 and "`assizes up`" in answer.json()["detail"]
        known = [schemathesis.checks.not_a_server_error] if gone else []
        # No schema can say that one day comes after another, or what belongs together in a search.
        is_grammar = answer.status_code == 400 and answer.json()["detail"].startswith(
            ("search: ", "level: ")
        )
        if is_grammar or (answer.status_code == 422 and "is before since" in answer.text):
            known.append(positive_data_acceptance)
        case.validate_response(answer, excluded_checks=known)

    put()


def test_ids_of_runs_that_are_there_are_answered_as_documented_too(served: Served):
    schema = schemathesis.openapi.from_url(f"{served.url}/openapi.json")
    for path in ("/runs/{run_id}", "/runs/{run_id}/progress", "/runs/{run_id}/cases"):
        case = schema[path]["GET"].Case(path_parameters={"run_id": served.candidate})
        case.call_and_validate()
    case_path = "/runs/{run_id}/cases/{case_id}"
    there = {"run_id": served.candidate, "case_id": quote("7")}
    schema[case_path]["GET"].Case(path_parameters=there, query={}).call_and_validate()
    pair = {"baseline": served.baseline, "candidate": served.candidate}
    schema["/runs/compare"]["GET"].Case(query=pair).call_and_validate()
