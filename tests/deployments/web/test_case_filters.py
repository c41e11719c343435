"""Failure codes, metrics, tools and versions in the pages lead to the cases that have them."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from bs4 import BeautifulSoup

from assizes.deployments.api import create_app
from assizes.deployments.web.guard import LOOPBACK, Access
from assizes.judge.config.run import RunConfig, StoreConfig
from assizes.tasks.store import open_store
from tests.tasks.reports.sample import Said, run
from tests.tasks.stored_runs import put

RUN = "nightly-aaaaaaaaaaaa"
CASES = [
    Said("routed", (1, 4), tools=("find", "pay & go"), latency_ms=999.0),
    Said("undone", (5, 5), done=False, tools=("find",), latency_ms=1200.0),
    Said("fine", (5, 5), tools=(), latency_ms=None),
]


@pytest.fixture
def client(tmp_path: Path) -> httpx.AsyncClient:
    uri = f"duckdb:///{tmp_path}/s.duckdb"
    with open_store(StoreConfig(uri=uri), writing=True) as store:
        put(store, run(CASES, run_id=RUN))
    document = {"name": "nightly", "transcripts": {"uri": "in"}, "store": {"uri": uri}}
    app = create_app(RunConfig.model_validate(document), Access(LOOPBACK))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8320")


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ({"failure_code": "wrong_tool_selected"}, ["routed"]),
        ({"metric": "task_completion"}, ["undone"]),
        ({"metric": "tool_routing", "failure_code": "wrong_tool_selected"}, ["routed"]),
        ({"metric": "conversation/tool_routing"}, ["routed"]),
        ({"metric": "other/tool_routing"}, []),
        ({"metric": "response_delivery"}, []),
        ({"tool": "find"}, ["routed", "undone"]),
        ({"tool": "pay & go"}, ["routed"]),
        ({"tool": "fin"}, []),
        ({"tool": "find", "metric": "task_completion"}, ["undone"]),
        ({"agent_version": "1.0"}, ["fine", "routed", "undone"]),
    ],
)
async def test_cases_are_filtered_by_metric_tool_code_and_version(
    client: httpx.AsyncClient, query: dict[str, str], ids: list[str]
):
    answer = await client.get(f"/runs/{RUN}/cases", params=query)
    assert answer.status_code == 200, answer.text
    assert sorted(case["case_id"] for case in answer.json()["data"]) == ids


async def test_every_link_of_a_report_to_filtered_cases_finds_some(client: httpx.AsyncClient):
    report = BeautifulSoup((await client.get(f"/view/runs/{RUN}")).text, "html.parser")
    links = {link["href"] for link in report.select(f'a[href^="/view/runs/{RUN}/cases?"]')}
    names = {name for link in links for name in parse_qs(urlsplit(link).query)}
    assert names == {"failure_code", "metric", "tool", "agent_version"}
    findings = {link for link in links if "metric=response_delivery" in link}  # nobody fails it
    for link in links - findings:
        cases = BeautifulSoup((await client.get(link)).text, "html.parser")
        assert cases.select("tbody tr"), link


async def test_a_page_of_a_case_links_its_codes_tools_and_version(client: httpx.AsyncClient):
    page = BeautifulSoup((await client.get(f"/view/runs/{RUN}/cases/routed")).text, "html.parser")
    links = {link["href"].partition("?")[2] for link in page.select('a[href*="/cases?"]')}
    assert links == {
        "failure_code=wrong_tool_selected",
        "tool=find",
        "tool=pay+%26+go",
        "agent_version=1.0",
    }


async def test_a_filter_that_no_case_fits_leads_back_to_all(client: httpx.AsyncClient):
    path = f"/view/runs/{RUN}/cases"
    page = BeautifulSoup((await client.get(path, params={"tool": "none"})).text, "html.parser")
    assert page.find("a", string="Show all cases")["href"] == path
    assert page.find("input", attrs={"name": "tool"})["value"] == "none"


async def test_latencies_are_sorted_by_their_number_not_by_what_is_shown(client: httpx.AsyncClient):
    page = BeautifulSoup((await client.get(f"/view/runs/{RUN}/cases")).text, "html.parser")
    cells = page.select('td[data-label="Latency"]')
    assert {(cell.text, cell.get("data-sort")) for cell in cells} == {
        ("999 ms", "999.0"),
        ("1.20 s", "1200.0"),
        ("\u2013", None),
    }
