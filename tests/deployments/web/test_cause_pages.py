"""Causes over HTTP: the pages in a real browser, the operations with and without the token."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from assizes.judge.config.run import StoreConfig
from assizes.tasks.runs.run_causes import causes_of_run
from assizes.tasks.store import open_store
from tests.deployments.web.browser import in_browser
from tests.deployments.web.conftest import Served, ask, environment_without_prefect, serving
from tests.deployments.web.desk_site import TOKEN, DeskSite, sign_in
from tests.deployments.web.test_pages import (
    SCHEMES,
    WIDTHS,
    Scheme,
    Watched,
    axe_finds_closed_and_open,
    browser,
    tab,
)
from tests.tasks.store.failing_nights import RUDE, RUDE_CASES, WRONG_CASES, night

__all__ = ["browser", "tab"]

pytestmark = pytest.mark.full


def filled(folder: Path) -> str:
    """A store of four nights; nobody has asked for the causes of the last one. Returns its URI."""
    uri = f"duckdb:///{folder}/nights.duckdb"
    with open_store(StoreConfig(uri=uri), writing=True) as store:
        night(store, 1, RUDE_CASES)
        night(store, 2, RUDE_CASES | WRONG_CASES)
        night(store, 3, dict.fromkeys(range(3), RUDE) | WRONG_CASES)
        causes_of_run(store, "night-3")
        night(store, 4, RUDE_CASES)
    return uri


@pytest.fixture
def site(tmp_path: Path) -> Iterator[DeskSite]:
    env = environment_without_prefect(tmp_path)
    uri = filled(tmp_path)
    with serving(tmp_path, "--labelling", store=uri, ASSIZES_API_TOKEN=TOKEN, **env) as url:
        yield DeskSite(url, tmp_path, "night-2", "night-3")


@pytest.fixture(scope="module")
def read_only(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("read")
    with serving(folder, store=filled(folder), **environment_without_prefect(folder)) as url:
        yield url


def rows(site: DeskSite, run_id: str = "night-3") -> dict[str, dict]:
    """The causes of a run by the first word that tells them apart."""
    found = site.get(f"/runs/{run_id}/causes").json["causes"]
    return {"tone" if "rude" in row["sentence"] else "sum": row for row in found}


def test_causes_are_answered_and_edited_with_the_token(site: DeskSite):
    tone = rows(site)["tone"]
    assert (tone["cases"], tone["state"], tone["muted"]) == (3, "persisting", False)
    path = f"/runs/night-3/causes/{tone['cause_id']}/edits"
    body = {"kind": "rename", "value": "bad manners", "author": "Ada", "edit_id": "a" * 32}
    for _ in range(2):  # the same id again writes nothing
        answer = site.post(path, body)
        assert (answer.status, answer.json["value"]) == (201, "bad manners")
    for more in ({"kind": "assign", "value": "tone team"}, {"kind": "mute"}):
        assert site.post(path, {**more, "author": "Ada"}).status == 201
    split = {"kind": "split", "value": "worst", "case_ids": ["c1"], "author": "Bo"}
    entry = site.post(path, split).json
    assert (entry["case_ids"], entry["author"]) == (["c1"], "Bo")
    named = {row["name"]: row for row in site.get("/runs/night-3/causes").json["causes"]}
    assert (named["bad manners"]["owner"], named["bad manners"]["muted"]) == ("tone team", True)
    assert (named["bad manners"]["cases"], named["worst"]["cases"]) == (2, 1)
    undo = {"kind": "withdrawn", "value": entry["edit_id"], "author": "Ada"}
    assert site.post(path, undo).json["undone"] is True
    assert rows(site)["tone"]["cases"] == 3
    listed = site.get(path).json
    assert [edit["kind"] for edit in listed["data"]] == ["rename", "assign", "mute", "split"]


def test_what_cannot_be_done_is_a_problem(site: DeskSite, read_only: str):
    tone = rows(site)["tone"]["cause_id"]
    path = f"/runs/night-3/causes/{tone}/edits"
    rename = {"kind": "rename", "value": "x", "author": "Ada"}
    for body, status, fault in (
        ({**rename, "kind": "merge", "value": tone}, 400, "cannot lead back"),
        ({**rename, "value": " "}, 400, "a cause has a name"),
        ({**rename, "kind": "split"}, 400, "a split takes some of the 3 cases"),
        ({**rename, "author": "<b>"}, 422, "a name has"),
        ({**rename, "kind": "delete"}, 422, "kind"),
    ):
        answer = site.post(path, body)
        assert (answer.status, fault in answer.json["detail"]) == (status, True), answer
    unknown = site.post("/runs/night-3/causes/nope/edits", rename)
    assert (unknown.status, "no cause is named 'nope'" in unknown.text) == (404, True)
    unasked = site.get("/runs/night-4/causes")
    assert unasked.status == 404
    assert "`assizes causes night-4` finds them" in unasked.json["detail"]
    assert ask(f"{site.url}/runs/night-3/causes").status == 401
    refused = ask(f"{read_only}{path}", method="POST", headers={"Content-Type": "application/json"},
                  body=b'{"kind": "mute", "author": "Ada"}')  # fmt: skip
    assert (refused.status, "this server only reads" in refused.text) == (403, True)


def test_a_read_only_server_shows_causes_without_forms_and_finds_none(read_only: str):
    page = ask(f"{read_only}/view/runs/night-3/causes").text
    assert "<polyline" in page
    assert RUDE in page
    cause = ask(f"{read_only}/runs/night-3/causes").json["causes"][0]["cause_id"]
    one = ask(f"{read_only}/view/runs/night-3/causes/{cause}").text
    assert "<form" not in one
    unasked = ask(f"{read_only}/view/runs/night-4/causes")
    assert (unasked.status, "<code>assizes causes night-4</code>" in unasked.text) == (200, True)
    assert ask(f"{read_only}/view/runs/night-4/causes/{cause}").status == 404
    assert ask(f"{read_only}/runs/night-4/causes").status == 404  # the page found none either


def test_a_report_and_a_case_link_to_causes(served: Served):
    place = f"/view/runs/{served.candidate}/causes"
    assert f'href="{place}"' in served.get(f"/view/runs/{served.candidate}").text
    causes = served.get(f"/runs/{served.candidate}/causes").json["causes"]
    (cause,) = [row for row in causes if row["cases"]][:1]
    shown = served.get(f"/view/runs/{served.candidate}/cases/{cause['examples'][0]}").text
    assert f'shows <a href="{place}/{cause["cause_id"]}">' in shown


@in_browser
def test_a_person_decides_about_a_cause_with_the_keyboard(site: DeskSite, tab: Watched):
    page = tab.page
    tone = rows(site)["tone"]
    sign_in(page, f"{site.url}/view/runs/night-3/causes")
    page.get_by_role("link", name=tone["name"]).press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(tone["name"])
    page.locator("summary", has_text="Rename").press("Enter")
    page.get_by_label("Name", exact=True).fill("bad manners")
    page.locator("details[open]").get_by_label("Your name").fill("Ada")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("bad manners")
    page.locator("summary", has_text="Split").press("Enter")
    page.get_by_label("Name of the new cause").fill("worst")
    page.get_by_label("c1", exact=True).press("Space")
    page.locator("details[open]").get_by_role("button", name="Split").press("Enter")
    expect(page.locator("#edits")).to_contain_text("Ada: split")
    expect(page.locator("main")).to_contain_text("2 cases")
    page.get_by_role("button", name="Undo: split").press("Enter")
    expect(page.locator("#edits")).to_contain_text("undone")
    page.locator("summary", has_text="Mute").press("Enter")
    page.locator("details[open]").get_by_role("button", name="Mute").press("Enter")
    expect(page.locator("main")).to_contain_text("persisting, muted")
    page.locator("summary", has_text="Merge").press("Enter")
    page.locator("details[open]").get_by_role("button", name="Merge").press("Enter")
    expect(page.get_by_role("heading", level=1)).not_to_have_text("bad manners")
    expect(page.locator("#edits")).to_contain_text("Ada: merge")
    (row,) = [row for row in site.get("/runs/night-3/causes").json["causes"] if row["cases"]]
    assert row["cases"] == 13
    assert [error for error in tab.errors if "401" not in error] == []


@in_browser
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_pages_of_causes_are_accessible_quiet_and_fit(
    site: DeskSite, tab: Watched, scheme: Scheme, width: int
):
    page = tab.page
    tone = rows(site)["tone"]["cause_id"]
    assign = {"kind": "assign", "value": "tone team", "author": "Ada", "note": "theirs"}
    assert site.post(f"/runs/night-3/causes/{tone}/edits", assign).status == 201
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    sign_in(page, f"{site.url}/view/runs/night-3/causes")
    for path in ("night-3/causes", f"night-3/causes/{tone}", "night-4/causes"):
        page.goto(f"{site.url}/view/runs/{path}")
        assert axe_finds_closed_and_open(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert [error for error in tab.errors if "401" not in error] == []
    assert [url for url in tab.asked if not url.startswith((site.url, "data:"))] == []
