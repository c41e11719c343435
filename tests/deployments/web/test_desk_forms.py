"""The forms of the pages on which people label, sent as a browser without a script sends them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import httpx
import pytest
from bs4 import BeautifulSoup

from assizes.deployments.api import create_app
from assizes.deployments.web.guard import LOOPBACK, Access
from assizes.judge.config.run import RunConfig, StoreConfig
from assizes.tasks.store import open_store
from assizes.tasks.store.people import people_tables
from tests.tasks.reports.sample import BEGUN, Said, run
from tests.tasks.stored_runs import put

TOKEN = "0123456789abcdef"
OLD, NEW, NEWER = (f"nightly-{letter * 12}" for letter in "abc")
CASES = ("c0", "c1", "c2", "c3")
QUEUE = "0123456789ab"


class Reader:
    """A person with a browser: it keeps cookies and follows redirects."""

    def __init__(self, app: Any, name: str = "") -> None:
        self.client = httpx.AsyncClient(
            transport=httpx.ASGITransport(app),
            base_url="http://127.0.0.1:8320",
            headers={"Authorization": f"Bearer {TOKEN}"},
            follow_redirects=True,
        )
        if name:
            self.client.cookies.set("assizes_name", quote(name), domain="127.0.0.1")
        self.url = ""
        self.page = BeautifulSoup("", "html.parser")

    async def open(self, path: str, **fields: str) -> None:
        self._show(await self.client.get(f"{path}?{urlencode(fields)}" if fields else path))

    def form(self, selector: str = "form[data-desk]") -> dict[str, str]:
        """The fields of a form as it stands."""
        form = self.page.select_one(selector)
        assert form is not None, self.page.text
        fields = {one["name"]: one.get("value", "") for one in form.select("input[name]")}
        fields |= {one["name"]: one.text for one in form.select("textarea[name]")}
        return {**fields, "": form["action"]}

    async def send(self, fields: dict[str, str], **more: str) -> None:
        body = {name: text for name, text in (fields | more).items() if name}
        self._show(await self.client.post(fields[""], data=body))

    async def press(self, answer: str) -> None:
        await self.send(self.form(), answer=answer)

    def _show(self, answer: httpx.Response) -> None:
        assert answer.status_code == 200, answer.url
        self.url, self.page = str(answer.url), BeautifulSoup(answer.text, "html.parser")

    @property
    def name(self) -> str:
        """The name that the page says the person has."""
        return self.page.select_one("header strong").text

    @property
    def case(self) -> str:
        return parse_qs(urlsplit(self.url).query)["case"][0]

    async def labels(self, **fields: str) -> list[dict[str, Any]]:
        rows = await self.client.get("/labels", params={"limit": 1000, **fields})
        return list(rows.json()["data"])

    async def current(self, rater: str) -> dict[str, tuple[str, float | None]]:
        """What a person says now: kind and value, by case."""
        rows = await self.labels(current="true", rater=rater)
        return {row["case_id"]: (row["kind"], row["value"]) for row in rows}


def keep(config: StoreConfig, run_id: str) -> None:
    of = run([Said(case_id, (5, 5)) for case_id in CASES], run_id=run_id)
    begun = BEGUN + timedelta(days=(OLD, NEW, NEWER).index(run_id))
    record = replace(of.record, started_at=begun, finished_at=begun + timedelta(minutes=3))
    with open_store(config, writing=True) as store:
        put(store, replace(of, record=record))


@pytest.fixture
def config(tmp_path: Path) -> StoreConfig:
    """A store of two runs, the newer one with a queue of its first two cases."""
    config = StoreConfig(uri=f"duckdb:///{tmp_path}/s.duckdb")
    keep(config, OLD)
    keep(config, NEW)
    rows = [
        {
            **{"queue_id": QUEUE, "position": place, "run_id": NEW, "metric": "verdict"},
            **{"case_id": case_id, "repetition": 0, "part": "random", "reason": "drawn"},
            **{"stratum": "all", "probability": 0.5, "at": BEGUN, "drawn_by": "Ada"},
        }
        for place, case_id in enumerate(CASES[:2])
    ]
    people_tables(config).add("queues", rows)
    return config


@pytest.fixture
def app(config: StoreConfig) -> Any:
    document = {"name": "nightly", "transcripts": {"uri": "in"}, "store": {"uri": config.uri}}
    access = Access(LOOPBACK, token=TOKEN, labelling=True)
    return create_app(RunConfig.model_validate(document), access)


async def label_all(reader: Reader) -> None:
    for case_id in CASES:
        await reader.open("/view/label", run=NEW, case=case_id)
        await reader.press("1.0")


async def test_a_label_given_side_by_side_is_of_the_run_that_was_shown(
    app: Any, config: StoreConfig
) -> None:
    ada = Reader(app, "Ada")
    await ada.open("/view/compare/case", baseline="nightly~1", candidate="latest", case="c0")
    fields = ada.form("form[data-label=candidate]")
    links = [link["href"] for link in ada.page.select("a[href*='baseline=']")]
    keep(config, NEWER)  # now `latest` is another run
    await ada.send(fields, answer="0.0")
    (row,) = await ada.labels()
    assert (row["run_id"], row["value"]) == (NEW, 0.0)
    for url in (ada.url, *links):
        query = parse_qs(urlsplit(url).query)
        assert (query["baseline"], query["candidate"]) == ([OLD], [NEW])


async def test_an_undo_that_is_sent_twice_withdraws_one_label(app: Any) -> None:
    ada = Reader(app, "Ada")
    await label_all(ada)
    fields = ada.form()
    for _ in range(2):
        await ada.send(fields, answer="undo")
        assert ada.case == CASES[3]
    assert set(await ada.current("Ada")) == set(CASES[:3])
    assert [row["kind"] for row in await ada.labels()].count("withdrawn") == 1
    await ada.press("undo")  # the page after it names the newest label that is left
    assert ada.case == CASES[2]
    assert set(await ada.current("Ada")) == set(CASES[:2])


async def test_an_undo_withdraws_the_label_that_its_page_showed_whatever_another_tab_did(
    app: Any,
) -> None:
    ada = Reader(app, "Ada")
    await label_all(ada)
    first = ada.form()
    await ada.open("/view/label", run=NEW, case=CASES[3])
    await ada.press("0.0")
    await ada.send(first, answer="undo")
    assert (await ada.current("Ada"))[CASES[3]] == ("label", 0.0)


async def test_an_undo_withdraws_no_label_of_somebody_else(app: Any) -> None:
    ada, bob = Reader(app, "Ada"), Reader(app, "Bob")
    await label_all(ada)
    await bob.open("/view/label", run=NEW, case="c0")
    await bob.send(bob.form(), undoes=ada.form()["undoes"], answer="undo")
    assert set(await ada.current("Ada")) == set(CASES)


async def test_undo_stays_within_the_list_that_is_shown(app: Any) -> None:
    ada = Reader(app, "Ada")
    await ada.open("/view/label", run=NEW, case="c3")
    await ada.press("1.0")
    await ada.open("/view/label", run=NEW, queue=QUEUE)
    assert ada.page.select_one("button[value=undo]") is None
    await ada.press("1.0")
    await ada.open("/view/label", run=NEW, queue=QUEUE)
    assert ada.page.select_one("#answer") is None  # another case of the queue
    await ada.press("undo")
    assert ada.case == "c0"
    assert await ada.current("Ada") == {"c3": ("label", 1.0)}


@pytest.mark.parametrize("path", ["/view/label", "/view/adjudicate"])
async def test_no_link_of_the_desk_hands_on_the_name_of_its_reader(app: Any, path: str) -> None:
    ada = Reader(app, "Ada")
    for rater, value in (("Cyd", 0), ("Dee", 1)):
        body = {"run": NEW, "case_id": "c0", "rater": rater, "value": value}
        assert (await ada.client.post("/labels", json=body)).status_code == 201
    await ada.open(path, run=NEW)
    await ada.press("1.0")
    links = [link["href"] for link in ada.page.select("a[href]")]
    assert [url for url in (ada.url, *links) if "rater" in url or "Ada" in url] == []
    assert ada.name == "Ada"


async def test_the_name_of_a_browser_wins_over_that_of_a_link(app: Any) -> None:
    bob = Reader(app, "Bob")
    await bob.open("/view/label", run=NEW, rater="Ada", case="c0")
    assert bob.name == "Bob"
    await bob.press("1.0")
    assert [row["rater"] for row in await bob.labels()] == ["Bob"]
    new = Reader(app)
    await new.open("/view/label", run=NEW, rater="Eve", case="c0")
    assert new.name == "Eve"


async def test_a_name_that_is_chosen_in_a_form_replaces_that_of_the_browser(app: Any) -> None:
    bob = Reader(app, "Bob")
    await bob.open("/view/labels", run=NEW)
    await bob.send(bob.form("form.filter"), rater="Ada", metric="tool_routing")
    assert bob.name == "Ada"
    assert parse_qs(urlsplit(bob.url).query) == {"run": [NEW], "metric": ["tool_routing"]}
    await bob.open("/view/label", run=NEW)
    assert bob.name == "Ada"


async def test_who_has_no_name_yet_is_asked_and_led_to_the_page_that_was_wanted(app: Any) -> None:
    new = Reader(app)
    await new.open("/view/adjudicate", run=NEW, blind="false")
    await new.send(new.form("form.filter"), rater="<b>")
    assert "A name has 1 to 64 letters" in new.page.text
    await new.send(new.form("form.filter"), rater="Eve")
    assert new.name == "Eve"
    assert urlsplit(new.url).path == "/view/adjudicate"
    assert parse_qs(urlsplit(new.url).query)["blind"] == ["false"]


async def test_a_skip_leaves_an_answer_as_it_is(app: Any) -> None:
    ada = Reader(app, "Ada")
    await ada.open("/view/label", run=NEW, queue=QUEUE, case="c0")
    await ada.press("1.0")
    await ada.press("skip")
    assert ada.case == "c1"
    assert await ada.current("Ada") == {"c0": ("label", 1.0)}
    await ada.press("skip")
    assert (await ada.current("Ada"))["c1"] == ("skip", None)


async def test_a_name_with_a_joiner_is_kept_shown_and_may_take_back_what_it_said(app: Any) -> None:
    name = "علی\u200cپور"
    ali = Reader(app, name)
    await ali.open("/view/label", run=NEW, case="c0")
    assert ali.name == name
    await ali.press("1.0")
    assert [row["rater"] for row in await ali.labels()] == [name]
    body = {"run": NEW, "case_id": "c0", "kind": "comment", "text": "look", "author": name}
    assert (await ali.client.post("/annotations", json=body)).status_code == 201
    await ali.open(f"/view/runs/{NEW}/cases/c0")
    assert name in ali.page.text
    assert ali.page.select_one("[aria-label^=Withdraw]") is not None


async def test_an_undo_side_by_side_that_is_sent_twice_withdraws_one_label(app: Any) -> None:
    ada = Reader(app, "Ada")
    await ada.open("/view/compare/case", baseline=OLD, candidate=NEW, case="c0")
    for side in ("baseline", "candidate"):
        await ada.send(ada.form(f"form[data-label={side}]"), answer="1.0")
    fields = ada.form("form[data-label=candidate]")
    for _ in range(2):
        await ada.send(fields, answer="undo")
    (left,) = await ada.labels(current="true")
    assert left["run_id"] == OLD
