"""The links of the pages, followed as a browser follows them."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urljoin

import httpx
import pytest
from bs4 import BeautifulSoup

from assizes.deployments.api import create_app
from assizes.deployments.web.guard import LOOPBACK, Access
from assizes.judge.config.run import RunConfig, StoreConfig
from assizes.tasks.store import open_store
from tests.tasks.reports.sample import Said, run
from tests.tasks.stored_runs import put

IDS = ("plain/1", "..", ".", "../../../compare", "a/../b", "a/./b", "%2e%2e/x", "..x", "a//b?c#d")


@pytest.fixture
def client(tmp_path: Path):
    """A client of an app over a store of one run, whose cases have the ids `IDS`."""
    uri = f"duckdb:///{tmp_path}/s.duckdb"
    with open_store(StoreConfig(uri=uri), writing=True) as store:
        put(store, run([Said(case_id, (5, 5)) for case_id in IDS], run_id="nightly-aaaaaaaaaaaa"))
    document = {"name": "nightly", "transcripts": {"uri": "in"}, "store": {"uri": uri}}
    app = create_app(RunConfig.model_validate(document), Access(LOOPBACK))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8320")


async def page_at(client: httpx.AsyncClient, path: str) -> BeautifulSoup:
    answer = await client.get(path)
    assert answer.status_code == 200, answer.text
    return BeautifulSoup(answer.text, "html.parser")


async def test_a_link_to_a_case_leads_to_its_page_whatever_its_id(client: httpx.AsyncClient):
    # Both `urljoin` and the client resolve dots in a path, as a browser does.
    here = "http://127.0.0.1:8320/view/runs/nightly-aaaaaaaaaaaa/cases"
    links = {link.text: link["href"] for link in (await page_at(client, here)).select("tbody th a")}
    assert set(links) == set(IDS)
    assert links["plain/1"] == "/view/runs/nightly-aaaaaaaaaaaa/cases/plain/1"
    for case_id, link in links.items():
        case = await page_at(client, urljoin(here, link))
        assert case.select_one("h1 bdi").text == case_id
        (score, *_) = [one["href"] for one in case.select("a[href^='/view/explain']")]
        back = (await page_at(client, score)).select_one("header p a")
        assert back["href"] == link
