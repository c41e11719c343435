"""Cases are found by full text, filters and saved views; what is shown comes as CSV."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from urllib.parse import urlencode

import httpx
import pytest
from bs4 import BeautifulSoup

from assizes.deployments.api import create_app
from assizes.deployments.web.guard import LOOPBACK, Access
from assizes.deployments.web.pages import excerpt_parts
from assizes.deployments.web.saved_views import checked_query
from assizes.judge.config.run import RunConfig, StoreConfig
from assizes.tasks.finding.build_index import build_index
from tests.tasks.finding.searchable import CONVERSATIONS, judged_run

TOKEN = "a-token-of-a-fair-length"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[StoreConfig, str]:
    folder = tmp_path_factory.mktemp("finding")
    config, run_id = judged_run(folder, f"duckdb:///{folder}/s.duckdb")
    assert build_index(config, run_id)  # no search waits for it, however busy the machine is
    return config, run_id


def client_of(config: StoreConfig, *, labelling: bool = False) -> httpx.AsyncClient:
    document = {"name": "shop", "transcripts": {"uri": "in"}, "store": config.model_dump()}
    access = Access(LOOPBACK, TOKEN, labelling=labelling) if labelling else Access(LOOPBACK)
    app = create_app(RunConfig.model_validate(document), access)
    headers = {"Authorization": f"Bearer {TOKEN}", "Sec-Fetch-Site": "same-origin"}
    transport = httpx.ASGITransport(app)
    return httpx.AsyncClient(
        transport=transport, base_url="http://127.0.0.1:8320", headers=headers if labelling else {}
    )


@pytest.fixture
def client(run: tuple[StoreConfig, str]) -> httpx.AsyncClient:
    return client_of(run[0])


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ({"q": "refund"}, ["late"]),
        ({"q": '"sent today"', "tag": "channel=chat"}, ["late"]),
        ({"q": "refund", "tag": "channel=phone"}, []),
        ({"tag": "language=l"}, ["late"]),
        ({"tag": "language"}, sorted(CONVERSATIONS)),
        ({"tag": 'chat","language'}, []),
        ({"flag": "no_such_flag"}, []),
        ({"label": "none", "q": "paket"}, ["Ärger"]),
        ({"label": "any"}, []),
    ],
)
async def test_cases_are_found_by_full_text_tag_flag_and_label(
    client: httpx.AsyncClient, run: tuple[StoreConfig, str], query: dict[str, str], ids: list[str]
) -> None:
    answer = await client.get(f"/runs/{run[1]}/cases", params=query)
    assert answer.status_code == 200, answer.text
    assert sorted(case["case_id"] for case in answer.json()["data"]) == ids


async def test_a_level_of_a_metric_takes_the_cases_that_have_it(
    client: httpx.AsyncClient, run: tuple[StoreConfig, str]
) -> None:
    case = (await client.get(f"/runs/{run[1]}/cases/late")).json()["data"][0]
    scored = [row for row in case["scores"] if row["label"] and not row["part"]]
    query = {"metric": scored[0]["metric"], "level": scored[0]["label"]}
    page = (await client.get(f"/runs/{run[1]}/cases", params=query)).json()
    assert "late" in [case["case_id"] for case in page["data"]]
    alone = await client.get(f"/runs/{run[1]}/cases", params={"level": "poor"})
    assert alone.status_code == 400
    assert "name the metric too" in alone.json()["detail"]


@pytest.mark.parametrize("text", ['"open', "***", "a*"])
async def test_a_search_that_cannot_be_read_is_answered_by_one_line(
    client: httpx.AsyncClient, run: tuple[StoreConfig, str], text: str
) -> None:
    answer = await client.get(f"/runs/{run[1]}/cases", params={"q": text})
    assert (answer.status_code, answer.json()["detail"].count("\n")) == (400, 0)
    page = await client.get("/view/search", params={"q": text})
    alert = BeautifulSoup(page.text, "html.parser").find(role="alert")
    assert alert is not None
    assert alert.text.startswith("search: ")


async def test_a_search_over_all_runs_names_the_run_and_escapes_what_it_found(
    client: httpx.AsyncClient, run: tuple[StoreConfig, str]
) -> None:
    found = (await client.get("/search", params={"q": "alert"})).json()
    assert [(hit["run_id"], hit["page"]["count"]) for hit in found["data"]] == [(run[1], 1)]
    assert (found["searched"], found["unfinished"]) == (1, 0)
    page = await client.get("/view/search", params={"q": "alert"})
    assert "<script>alert" not in page.text
    assert "&lt;script&gt;<mark>alert</mark>(1)&lt;/script&gt;" in page.text


async def test_csv_holds_every_case_of_the_filter_and_no_formula(
    client: httpx.AsyncClient, run: tuple[StoreConfig, str]
) -> None:
    answer = await client.get(f"/runs/{run[1]}/cases.csv", params={"limit": 1, "sort": "case_id"})
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [row["case_id"] for row in rows] == sorted(CONVERSATIONS)
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    filtered = await client.get(f"/view/runs/{run[1]}/cases.csv?q=refund&tool=&metric=")
    assert [row["case_id"] for row in csv.DictReader(io.StringIO(filtered.text))] == ["late"]
    assert (await client.get("/runs/none/cases.csv")).status_code == 404
    assert (await client.get(f'/runs/{run[1]}/cases.csv?q="')).status_code == 400


async def test_a_view_is_saved_under_a_name_and_opens_by_its_permalink(tmp_path: Path) -> None:
    config, run_id = judged_run(tmp_path, f"duckdb:///{tmp_path}/s.duckdb")
    client = client_of(config, labelling=True)
    form = {"run": run_id, "author": "Ada", "name": "Late <b>", "query": "q=refund&sort=case_id"}
    saved = await client.post("/view/views", data=form)
    assert saved.status_code == 303, saved.text
    second = await client.post("/view/views", data={**form, "name": "Second", "query": "flag=x"})
    assert second.status_code == 303
    page = BeautifulSoup((await client.get(f"/view/runs/{run_id}/cases")).text, "html.parser")
    views = page.select("#views li")
    assert [view.a.text for view in views if view.a] == ["Second", "Late <b>"]
    permalink = views[1].find("a", string="permalink")["href"]  # type: ignore[index]
    opened = await client.get(str(permalink))
    assert opened.headers["location"] == f"/view/runs/{run_id}/cases?q=refund&sort=case_id"
    withdrawn = {"run": run_id, "author": "Ada", "supersedes": str(permalink).rpartition("/")[2]}
    assert (await client.post("/view/views", data=withdrawn)).status_code == 303
    assert (await client.get(str(permalink))).status_code == 404
    kinds = [row["kind"] for row in (await client.get("/annotations")).json()["data"]]
    assert kinds == ["view", "view", "withdrawn"]  # every edit is a row


async def test_a_view_is_refused_where_it_cannot_be_used(run: tuple[StoreConfig, str]) -> None:
    form = {"run": run[1], "author": "Ada", "name": "x", "query": ""}
    read_only = await client_of(run[0]).post("/view/views", data=form)
    assert read_only.status_code == 403
    client = client_of(run[0], labelling=True)
    for wrong in ({"query": "no_field=1"}, {"name": ""}, {"query": "label=maybe"}):
        refused = await client.post("/view/views", data={**form, **wrong})
        assert refused.status_code == 400, refused.text
    stranger = await client.get("/view/views", headers={"Authorization": ""})
    assert stranger.status_code == 401


def test_the_place_in_a_list_is_no_part_of_a_view() -> None:
    assert checked_query("q=a+b&offset=50&limit=10") == urlencode({"q": "a b"})


async def test_runs_show_cases_cost_and_version_and_two_that_are_ticked_are_compared(
    client: httpx.AsyncClient, run: tuple[StoreConfig, str]
) -> None:
    page = BeautifulSoup((await client.get("/")).text, "html.parser")
    row = page.select_one("tbody tr")
    assert row is not None
    shown = {cell.get("data-label"): cell.text.strip() for cell in row.select("td")}
    assert shown["Cases"] == str(len(CONVERSATIONS))
    assert shown["Agent version"] == "1.2"
    one = await client.get("/view/compare-ticked", params={"run": run[1]})
    assert one.status_code == 400
    assert "tick two to compare them" in one.text


def test_pieces_of_an_excerpt_say_what_was_searched_for() -> None:
    assert excerpt_parts("a \x02b\x03 c") == [("a ", False), ("b", True), (" c", False)]
    assert excerpt_parts("plain") == [("plain", False)]
    assert excerpt_parts("") == []
