"""The page of trends says which charts it lacks, and shows them when asked."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from bs4 import BeautifulSoup

from assizes.deployments.api import create_app
from assizes.deployments.web.guard import LOOPBACK, Access
from assizes.judge.config.run import RunConfig, StoreConfig
from assizes.tasks.reports.render import trend_chart
from assizes.tasks.store import open_store
from tests.tasks.reports.sample import Said, run
from tests.tasks.stored_runs import put


@pytest.fixture
def client(tmp_path: Path) -> httpx.AsyncClient:
    uri = f"duckdb:///{tmp_path}/s.duckdb"
    with open_store(StoreConfig(uri=uri), writing=True) as store:
        for letter in "ab":
            put(
                store,
                run([Said("one", (5, 4)), Said("two", (4, 5))], run_id=f"nightly-{letter * 12}"),
            )
    document = {"name": "nightly", "transcripts": {"uri": "in"}, "store": {"uri": uri}}
    app = create_app(RunConfig.model_validate(document), Access(LOOPBACK))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8320")


async def test_the_page_says_how_many_series_have_no_chart_and_draws_the_one_that_is_chosen(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    whole = BeautifulSoup((await client.get("/view/trends")).text, "html.parser")
    rows, charts = len(whole.select("#series ~ .scroll tbody tr")), len(whole.select("figure"))
    assert rows == charts > 2
    assert "have no chart" not in whole.text
    monkeypatch.setattr(trend_chart, "MAX_SERIES", 2)
    few = BeautifulSoup((await client.get("/view/trends")).text, "html.parser")
    assert len(few.select("figure")) == 2
    assert f"{rows - 2} of {rows} series have no chart" in few.text
    names = [option["value"] for option in few.select("select[name=series] option")]
    assert names == ["", *sorted(names[1:])]
    assert "tool_routing" in names
    chosen = await client.get("/view/trends", params={"name": "nightly", "series": "tool_routing"})
    page = BeautifulSoup(chosen.text, "html.parser")
    assert [figure.text.strip() for figure in page.select("figcaption")] == [
        "tool_routing: learning"
    ]
    assert "have no chart" not in page.text


async def test_a_series_that_is_not_there_is_named(client: httpx.AsyncClient):
    page = await client.get("/view/trends", params={"name": "nightly", "series": "other"})
    assert "There is no series other." in BeautifulSoup(page.text, "html.parser").text
