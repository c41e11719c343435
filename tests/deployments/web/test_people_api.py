"""Who may write labels and annotations over HTTP, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from assizes.deployments.web.login import own_path
from tests.command import assizes
from tests.deployments.web.conftest import Served, ask, environment_without_prefect, serving
from tests.deployments.web.desk_site import BEARER, TOKEN, DeskSite, copied_store

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
ROW = "0123456789abcdef" * 2


@pytest.fixture(scope="module")
def site(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeskSite]:
    yield from site_in(tmp_path_factory.mktemp("people"), served)


@pytest.fixture
def own_site(served: Served, tmp_path: Path) -> Iterator[DeskSite]:
    """A site that no other test sees: a label on a case can take that of another test its chance."""
    yield from site_in(tmp_path, served)


def site_in(folder: Path, served: Served) -> Iterator[DeskSite]:
    copied_store(served, folder)
    env = environment_without_prefect(folder)
    with serving(folder, "--labelling", ASSIZES_API_TOKEN=TOKEN, **env) as url:
        yield DeskSite(url, folder, served.baseline, served.candidate)


def body(site: DeskSite, **more: Any) -> dict[str, Any]:
    return {"run": site.candidate, "case_id": "7", "rater": "Ada", "value": 1, **more}


def test_a_label_is_answered_with_its_row_and_the_same_id_writes_nothing(
    own_site: DeskSite,
) -> None:
    first = own_site.post("/labels", body(own_site, label_id=ROW))
    again = own_site.post("/labels", body(own_site, label_id=ROW))
    assert (first.status, again.status) == (201, 200)
    assert first.json == again.json
    other = own_site.post("/labels", body(own_site, label_id=ROW, value=0))
    assert (other.status, other.headers["content-type"]) == (409, "application/problem+json")
    corrected = own_site.post("/labels", body(own_site, value=0)).json
    assert corrected["supersedes"] == ROW
    current = own_site.labels(current="true", rater="Ada")
    assert [row["label_id"] for row in current] == [corrected["label_id"]]
    text = own_site.get(f"/view/labels/export?run={own_site.candidate}").text
    assert text.startswith("case_id,repetition,metric,rater,role,label,note,at,")
    assert "\n7,0,verdict,Ada,rater,0.0," in text


@pytest.mark.full
def test_labels_of_a_queue_keep_their_chance_and_correct_the_pass_rate(site: DeskSite) -> None:
    (file,) = site.folder.glob(".assizes/**/*.duckdb")
    store = ("--store", str(file))
    words = ("labels", "queue", site.candidate, "--size", "25", "--json", *store)
    queue = assizes(*words, cwd=site.folder)
    assert queue.code == 0, queue
    drawn = json.loads(queue.out)
    for row in drawn["cases"]:
        fields = {"case_id": row["case_id"], "repetition": row["repetition"], "value": 1}
        fields |= {"rater": "Bob", "queue_id": drawn["queue_id"], "run": site.candidate}
        answer = site.post("/labels", fields)
        assert answer.status == 201
        assert answer.json["probability"] == row["probability"]
    text = site.get(f"/view/labels?run={site.candidate}").text
    assert drawn["queue_id"] in text
    status = assizes("labels", "status", site.candidate, *store, cwd=site.folder).out
    assert f"queue {drawn['queue_id']} of verdict: 25 of 25 labelled" in status
    assert "pass rate corrected by 25 labels: 100.0 % [" in status
    assert "chosen at random" not in status
    assert "pass rate corrected by 25 labels" in site.get(f"/view/runs/{site.candidate}").text
    detail = site.get(f"/runs/{site.candidate}").json
    assert detail["corrected"]["numbers"][0]["labels"] == 25
    assert detail["metrics"]["corrected/pass_rate/labels"] == 25
    query = f"baseline={site.baseline}&candidate={site.candidate}"
    changes = site.get(f"/runs/compare?{query}&verdict=corrected").json["corrected"]
    assert (changes["ending"], changes["decides"]) == (None, False)
    assert "only 0 labels count for the baseline" in changes["fell_back"]
    compared = site.get(f"/view/compare?{query}").text
    assert "only 0 labels count for the baseline" in compared
    assert "corrected by 25 labels" in compared


def test_a_label_of_levels_is_exported_as_a_level(site: DeskSite) -> None:
    label = body(site, metric="tool_routing", value=0.6, rater="Eve")
    assert site.post("/labels", label).status == 201
    text = site.get(f"/view/labels/export?run={site.candidate}").text
    assert "\n7,0,tool_routing,Eve,rater,3.0," in text


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({"case_id": "nope"}, 404),
        ({"run": "nope"}, 404),
        ({"value": 0.5}, 422),
        ({"value": None}, 422),
        ({"metric": "nope"}, 400),
        ({"metric": "tool_routing", "value": 0.55}, 400),
        ({"rater": "<b>"}, 422),
        ({"rater": ""}, 422),
        ({"note": "x" * 4001}, 422),
        ({"seconds": 1e9}, 422),
        ({"role": "judge"}, 422),
        ({"more": 1}, 422),
        ({"note": "x" * 70_000}, 413),
    ],
)
def test_a_label_that_cannot_be_used_is_a_problem(
    site: DeskSite, more: dict[str, Any], status: int
) -> None:
    answer = site.post("/labels", body(site, **more))
    assert (answer.status, answer.headers["content-type"]) == (status, "application/problem+json")


@pytest.mark.parametrize("path", ["/labels", "/annotations"])
def test_writing_needs_the_token_and_a_page_of_this_server(site: DeskSite, path: str) -> None:
    json_type = {"Content-Type": "application/json"}
    assert ask(site.url + path, method="POST", headers=json_type, body=b"{}").status == 401
    for named in (
        {"Origin": "https://evil.test"},
        {"Origin": "http://127.0.0.1:9"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ):
        headers = {**BEARER, **json_type, **named}
        assert ask(site.url + path, method="POST", headers=headers, body=b"{}").status == 403


def cookie_of(site: DeskSite, token: str, **headers: str) -> tuple[int, str]:
    import http.client

    client = http.client.HTTPConnection(site.url.removeprefix("http://"))
    form = urlencode({"token": token, "next": "//evil.test"})
    client.request("POST", "/view/login", form, {**FORM, **headers})
    answer = client.getresponse()
    set_cookie = answer.getheader("Set-Cookie") or ""
    if answer.status == 303:
        assert answer.getheader("Location") == "/"
    client.close()
    return answer.status, set_cookie


def test_a_session_is_given_for_the_token_alone_and_no_other_site_can_use_it(
    site: DeskSite,
) -> None:
    assert cookie_of(site, TOKEN)[0] == 403
    assert cookie_of(site, TOKEN, Origin="http://127.0.0.1:9")[0] == 403
    assert cookie_of(site, "another", Origin=site.url) == (401, "")
    status, set_cookie = cookie_of(site, TOKEN, Origin=site.url)
    assert status == 303
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(set_cookie.split("; "))
    assert TOKEN not in set_cookie
    cookie = set_cookie.partition(";")[0]
    assert ask(f"{site.url}/runs", headers={"Cookie": cookie}).status == 200
    form = urlencode({"run": site.candidate, "kind": "note", "text": "x", "author": "Ada"}).encode()
    for named, expected in (
        ({}, 403),
        ({"Origin": "http://127.0.0.1:9"}, 403),
        ({"Sec-Fetch-Site": "same-site", "Origin": site.url}, 403),
        ({"Origin": site.url}, 200),
    ):
        headers = {"Cookie": cookie, **FORM, **named}
        answer = ask(f"{site.url}/view/annotate", method="POST", headers=headers, body=form)
        assert answer.status == expected, named
    expired = cookie.replace("assizes_session=", "assizes_session=1")[:40]
    for bad in (expired, f"{cookie}0", "assizes_session=9999999999." + "0" * 64):
        assert ask(f"{site.url}/runs", headers={"Cookie": bad}).status == 401


def test_logging_out_has_the_browser_forget_the_session(site: DeskSite) -> None:
    cookie = cookie_of(site, TOKEN, Origin=site.url)[1].partition(";")[0]
    headers = {"Cookie": cookie, **FORM, "Origin": site.url}
    page = ask(f"{site.url}/view/labels?run={site.candidate}", headers={"Cookie": cookie}).text
    assert 'action="/view/logout"' in page
    import http.client

    client = http.client.HTTPConnection(site.url.removeprefix("http://"))
    client.request("POST", "/view/logout", "", headers)
    answer = client.getresponse()
    assert (answer.status, answer.getheader("Location")) == (303, "/view/login")
    assert 'assizes_session=""' in (answer.getheader("Set-Cookie") or "")
    client.close()


@pytest.mark.parametrize(
    "path", ["https://evil.test", "//evil.test", "/\\evil.test", "x", "/\n/x", "/" + "a" * 3000]
)
def test_after_the_token_no_browser_is_led_elsewhere(path: str) -> None:
    assert own_path(path) == "/"
    assert own_path("/view/label?run=a") == "/view/label?run=a"


def test_a_bare_server_reads_and_refuses_to_write(served: Served) -> None:
    label = b'{"run": "latest", "case_id": "7", "rater": "Ada", "value": 1}'
    note = b'{"run": "latest", "kind": "note", "text": "x", "author": "Ada"}'
    for path, sent in (("/labels", label), ("/annotations", note)):
        named = {"Content-Type": "application/json"}
        answer = ask(served.url + path, method="POST", headers=named, body=sent)
        assert (answer.status, answer.headers["content-type"]) == (403, "application/problem+json")
        assert "--labelling" in answer.json["detail"]
        assert served.get(path).json["data"] == []
    writing = ("/view/annotate", "/view/label", "/view/adjudicate", "/view/name", "/view/login")
    for page in writing:
        named = {**FORM, "Origin": served.url}
        assert ask(served.url + page, method="POST", headers=named, body=b"a=b").status == 403
    assert "--labelling" in served.get("/view/labels").text
    assert served.get("/view/label").status == 403


def test_labelling_needs_a_token(served: Served) -> None:
    answer = assizes("serve", "--labelling", cwd=served.folder)
    assert answer.code == 2
    assert "ASSIZES_API_TOKEN" in answer.err
    assert "Traceback" not in answer.err


def test_tags_that_two_people_edit_at_once_keep_both_edits(own_site: DeskSite) -> None:
    def edit(text: str, **more: str) -> str:
        body = {"run": own_site.candidate, "kind": "tags", "text": text, "author": "Ada", **more}
        answer = own_site.post("/annotations", body)
        assert answer.status == 201
        return str(answer.json["text"])

    assert edit("fee", seen="") == "fee"
    assert edit("release", seen="") == "fee, release"  # saw none, as the one before
    assert edit("fee, late, release", seen="fee, release") == "fee, late, release"
    assert edit("release", seen="fee, release") == "late, release"
    assert edit("last") == "last"  # without what its author saw
    page = own_site.get("/").text
    assert '<input type="hidden" name="seen" value="last">' in page
    refused = {"run": own_site.candidate, "kind": "note", "text": "n", "author": "Ada", "seen": "n"}
    assert own_site.post("/annotations", refused).status == 422
