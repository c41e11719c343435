"""The links of the pages, followed as a browser follows them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, unquote, urljoin, urlsplit

import httpx
import polars as pl
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


HIDDEN = ("x  1", "x 1", " lead", "two\nlines", "tab\tid", "zero\u200bwidth", "turned\u202eround")
LONG = "v" * 200


@pytest.fixture
def pair(tmp_path: Path):
    """A client of an app over two runs whose case ids and versions are not what a page shows."""
    uri = f"duckdb:///{tmp_path}/s.duckdb"
    with open_store(StoreConfig(uri=uri), writing=True) as store:
        for letter, level in (("a", 5), ("b", 1)):
            said = [
                Said(name, (level, level) if name == "x  1" else (5, 5), tools=(LONG,))
                for name in HIDDEN
            ]
            of = run(said, run_id=f"nightly-{letter * 12}")
            cases = of.frames["cases"].with_columns(agent_version=pl.lit(LONG))
            put(store, replace(of, frames={**of.frames, "cases": cases}))
    document = {"name": "nightly", "transcripts": {"uri": "in"}, "store": {"uri": uri}}
    app = create_app(RunConfig.model_validate(document), Access(LOOPBACK))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8320")


async def test_a_report_links_each_case_by_its_own_id_not_by_what_it_shows(
    pair: httpx.AsyncClient,
):
    report = await page_at(pair, "/view/runs/nightly-bbbbbbbbbbbb")
    start = "/view/runs/nightly-bbbbbbbbbbbb/cases/"
    links = {link["href"]: link.text for link in report.select(f"a[href^='{start}']")}
    assert {unquote(link.removeprefix(start)) for link in links} == set(HIDDEN)
    assert links[f"{start}turned%E2%80%AEround"] == "turned⟨U+202E⟩round"
    for link in links:
        assert await page_at(pair, link)


async def test_a_flip_leads_to_the_case_that_turned_not_to_one_that_looks_alike(
    pair: httpx.AsyncClient,
):
    compared = await page_at(
        pair, "/view/compare?baseline=nightly-aaaaaaaaaaaa&candidate=nightly-bbbbbbbbbbbb"
    )
    (flip,) = [link["href"] for link in compared.select("a[href^='/view/compare/case']")]
    assert parse_qs(urlsplit(flip).query)["case"] == ["x  1"]
    assert "passed → failed" in compared.text


async def test_links_filter_by_the_whole_version_and_tool_however_long(pair: httpx.AsyncClient):
    report = await page_at(pair, "/view/runs/nightly-bbbbbbbbbbbb")
    links = {link["href"] for link in report.select("a[href*='/cases?']")}
    filters = [parse_qs(urlsplit(link).query) for link in links]
    assert {"agent_version": [LONG]} in filters
    assert {"tool": [LONG]} in filters
    for name in ("agent_version", "tool"):
        found = await pair.get("/runs/latest/cases", params={name: LONG})
        assert found.json()["count"] == len(HIDDEN)
