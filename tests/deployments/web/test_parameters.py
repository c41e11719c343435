"""What a request may ask: parameters that a route knows, by GET and by HEAD."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urljoin, urlsplit

import httpx
import pytest
from bs4 import BeautifulSoup

from assizes.deployments.api import create_app
from assizes.deployments.web.guard import LOOPBACK, Access
from assizes.judge.config.run import RunConfig, StoreConfig
from assizes.tasks.store import open_store
from tests.tasks.reports.sample import Said, run
from tests.tasks.stored_runs import put

BASELINE, CANDIDATE = "nightly-aaaaaaaaaaaa", "nightly-bbbbbbbbbbbb"
ORIGIN = "http://127.0.0.1:8320"


@pytest.fixture
def client(tmp_path: Path) -> httpx.AsyncClient:
    """A client of an app over two runs of forty cases."""
    uri = f"duckdb:///{tmp_path}/s.duckdb"
    cases = [Said(f"c{number}", (5, 5), tools=("find",)) for number in range(40)]
    with open_store(StoreConfig(uri=uri), writing=True) as store:
        for name, levels in ((BASELINE, (5, 5)), (CANDIDATE, (1, 1))):
            put(store, run([Said("turned", levels), *cases], run_id=name))
    document = {"name": "nightly", "transcripts": {"uri": "in"}, "store": {"uri": uri}}
    app = create_app(RunConfig.model_validate(document), Access(LOOPBACK, "t" * 16, labelling=True))
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(app),
        base_url=ORIGIN,
        headers={"Authorization": f"Bearer {'t' * 16}"},
    )


PAIR = f"baseline={BASELINE}&candidate={CANDIDATE}"
ASKED = [
    *("/health", "/config/available-metrics", "/runs", f"/runs/compare?{PAIR}", "/search?q=find"),
    *(f"/runs/{CANDIDATE}{rest}" for rest in ("", "/progress", "/cases", "/cases/c1", "/causes")),
    *("/labels", "/annotations", "/queues", f"/runs/compare/case?{PAIR}&case_id=c1"),
    *("/", "/view/trends", "/view/compare", f"/view/compare?{PAIR}", "/view/search?q=find"),
    *(f"/view/runs/{CANDIDATE}{rest}" for rest in ("", "/cases", "/cases/c1", "/cases.csv")),
    *(f"/view/case?run={CANDIDATE}&case=c1", f"/view/labels?run={CANDIDATE}", "/view/calibration"),
    *(f"/view/explain?run={CANDIDATE}&case=c1&metric=tool_routing", "/view/search"),
    *(f"/view/label?run={CANDIDATE}", f"/view/compare/case?{PAIR}&case=c1"),
    f"/view/labels/export?run={CANDIDATE}",
]


@pytest.mark.parametrize("path", ASKED)
async def test_a_parameter_that_a_route_does_not_know_is_refused(
    client: httpx.AsyncClient, path: str
):
    known = await client.get(path)
    assert known.status_code in (200, 404), known.text  # 404: the run has no causes
    more = await client.get(f"{path}{'&' if '?' in path else '?'}max_pass_rate_drops=0.5")
    assert more.status_code == 422
    assert "max_pass_rate_drops" in more.text


async def test_the_page_of_labels_and_of_a_comparison_refuse_what_they_ignore(
    client: httpx.AsyncClient,
):
    for path in ("/view/labels?rater=ann", f"/view/compare?{PAIR}&max_pass_rate_drop=0.5"):
        answer = await client.get(path)
        assert (answer.status_code, "Extra inputs" in answer.text) == (422, True), path


async def test_every_link_and_every_form_of_our_pages_asks_what_its_route_knows(
    client: httpx.AsyncClient,
):
    todo, seen = ["/", f"/view/label?run={CANDIDATE}"], {}
    while todo and len(seen) < 150:
        page = todo.pop(0)
        answer = await client.get(page, follow_redirects=True)
        seen[page] = answer.status_code
        html = BeautifulSoup(answer.text, "html.parser")
        links = [link["href"] for link in html.select("main a[href], nav a[href]")]
        for form in html.select("form[method=get]"):
            fields = form.select("input[name]:not([type=checkbox]), select[name]")
            query = "&".join(f"{field['name']}=" for field in fields)
            links.append(f"{form.get('action') or urlsplit(page).path}?{query}")
        for link in links:
            place = urljoin(str(answer.url), link).removeprefix(ORIGIN).partition("#")[0]
            shape = place.replace(BASELINE, CANDIDATE)
            if place.startswith("/") and shape not in seen and place not in todo:
                seen.setdefault(shape, 0)
                todo.append(place)
    refused = [page for page, status in seen.items() if status == 422]
    assert refused == []
    assert len(seen) > 40


@pytest.mark.parametrize("path", ["/", "/health", "/runs", f"/view/runs/{CANDIDATE}", "/nothing"])
async def test_head_is_answered_as_get_without_a_body(client: httpx.AsyncClient, path: str):
    whole, head = await client.get(path), await client.head(path)
    assert head.status_code == whole.status_code
    assert head.content == b""
    assert head.headers["content-type"] == whole.headers["content-type"]


async def test_head_reads_and_never_writes(client: httpx.AsyncClient):
    assert (await client.head("/view/annotate")).status_code == 405


async def test_a_part_behind_the_end_of_a_list_leads_to_its_beginning(client: httpx.AsyncClient):
    path = f"/view/runs/{CANDIDATE}/cases"
    answer = await client.get(path, params={"offset": 100, "tool": "find"})
    page = BeautifulSoup(answer.text, "html.parser")
    assert "No case fits this filter" not in page.text
    assert "The list ends at case 40." in page.text
    beginning = page.find("a", string="Show it from its beginning")["href"]
    first = BeautifulSoup((await client.get(beginning)).text, "html.parser")
    assert len(first.select("tbody tr")) == 40
    runs = BeautifulSoup((await client.get("/", params={"offset": 7})).text, "html.parser")
    assert "The list ends at run 2." in runs.text


async def test_a_repetition_that_is_not_there_is_told_from_a_case_that_is_not(
    client: httpx.AsyncClient,
):
    answer = await client.get(f"/runs/{CANDIDATE}/cases/c1", params={"repetition": 7})
    assert answer.status_code == 404
    detail = f"case 'c1' of run '{CANDIDATE}' has no repetition 7; it has 0"
    assert answer.json()["detail"] == detail
    unknown = await client.get(f"/runs/{CANDIDATE}/cases/other", params={"repetition": 7})
    assert unknown.json()["detail"] == f"run '{CANDIDATE}' has no case 'other'"


async def test_median_times_are_sorted_by_their_seconds(client: httpx.AsyncClient):
    label = {"run": CANDIDATE, "case_id": "c1", "metric": "verdict", "rater": "ann", "value": 1}
    posted = await client.post("/labels", json={**label, "seconds": 70})
    assert posted.status_code == 201, posted.text
    page = BeautifulSoup((await client.get(f"/view/labels?run={CANDIDATE}")).text, "html.parser")
    (cell,) = page.select('td[data-label="Median time"]')
    assert (cell.text, cell["data-sort"]) == ("70.00 s", "70.0")
