"""The desk in a real browser: cases labelled by keyboard, disagreements settled, nothing lost."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.deployments.web.browser import in_browser
from tests.deployments.web.conftest import (
    Served,
    environment_without_prefect,
    serving,
)
from tests.deployments.web.desk_site import TOKEN, DeskSite, copied_store, go_on, press, sign_in
from tests.deployments.web.test_pages import (
    SCHEMES,
    WIDTHS,
    Scheme,
    Watched,
    axe_finds_closed_and_open,
    browser,
    tab,
)

__all__ = ["browser", "tab"]

pytestmark = [pytest.mark.full, in_browser]

CASES = 40
ANSWERS = {"p": "pass", "f": "fail"}


@pytest.fixture
def site(served: Served, tmp_path: Path) -> Iterator[DeskSite]:
    folder = copied_store(served, tmp_path)
    env = environment_without_prefect(folder)
    with serving(folder, "--labelling", ASSIZES_API_TOKEN=TOKEN, **env) as url:
        yield DeskSite(url, folder, served.baseline, served.candidate)


def shown_case(page: Page) -> str:
    return parse_qs(urlsplit(page.url).query)["case"][0]


def choose_name(page: Page, site: DeskSite, name: str) -> None:
    """Give a name in the form of the page of the labels, and come to the desk with it."""
    page.goto(f"{site.url}/view/labels?run={site.candidate}")
    page.get_by_label("Your name").fill(name)
    page.get_by_role("button", name="Label cases").click()
    expect(page.get_by_text(f"you are {name}")).to_be_visible()


def label_all(page: Page, keys: str) -> dict[str, str]:
    """Label every case by keyboard; returns what was pressed by case."""
    pressed: dict[str, str] = {}
    for place in range(CASES):
        key = keys[place % len(keys)]
        press(page, key, ANSWERS[key])
        pressed[shown_case(page)] = ANSWERS[key]
        if place < CASES - 1:
            go_on(page)
    return pressed


def test_forty_cases_are_labelled_by_keyboard_in_under_two_minutes(site: DeskSite, tab: Watched):
    page = tab.page
    sign_in(page, site.desk(rater="Ada"))
    pressed = {}
    for rater, keys in (("Ada", "pf"), ("Bo", "p")):
        choose_name(page, site, rater)
        began = time.monotonic()
        pressed[rater] = label_all(page, keys)
        assert time.monotonic() - began < 120
    values = {"pass": 1.0, "fail": 0.0}
    for rater, answers in pressed.items():
        rows = site.labels(rater=rater)
        assert len(rows) == CASES
        assert {row["case_id"]: row["value"] for row in rows} == {
            case_id: values[answer] for case_id, answer in answers.items()
        }
        assert {(row["kind"], row["role"], row["blind"]) for row in rows} == {
            ("label", "rater", True)
        }
        assert all(0 <= row["seconds"] < 120 for row in rows)
        assert all('"judge_score":null' in row["shown"] for row in rows)
    choose_name(page, site, "Cyd")
    page.goto(site.desk("adjudicate"))
    expect(page.get_by_text("of 20 cases")).to_be_visible()
    expect(page.get_by_role("group", name="What the raters say")).to_contain_text("Ada")
    press(page, "f", "fail")
    (settled,) = site.labels(role="adjudicator")
    assert (settled["rater"], settled["value"]) == ("Cyd", 0.0)
    assert settled["case_id"] == shown_case(page)
    page.goto(f"{site.url}/view/labels?run={site.candidate}")
    expect(page.get_by_text("20 disagreements of raters, 19 not settled.")).to_be_visible()
    assert tab.errors == [
        "Failed to load resource: the server responded with a status of 401 (Unauthorized)"
    ]


def test_a_killed_server_loses_no_press_that_it_acknowledged(
    served: Served, tab: Watched, tmp_path: Path
):
    folder = copied_store(served, tmp_path)
    env = environment_without_prefect(folder) | {"ASSIZES_API_TOKEN": TOKEN}
    page, first = tab.page, serving(folder, "--labelling", **env)
    pressed: dict[str, float] = {}
    with first as url:
        site = DeskSite(url, folder, served.baseline, served.candidate)
        sign_in(page, site.desk(rater="Ada"))
        for _ in range(5):
            press(page, "p", "pass")
            pressed[shown_case(page)] = 1.0
            go_on(page)
        os.kill(first.process.pid, signal.SIGKILL)
        first.process.wait(20)
        page.keyboard.press("f")
        expect(page.locator("#said")).to_contain_text("Not saved: the server does not answer")
    with serving(folder, "--labelling", **env) as url:
        again = DeskSite(url, folder, served.baseline, served.candidate)
        rows = again.labels(rater="Ada")
    assert {row["case_id"]: row["value"] for row in rows} == pressed


def test_the_judge_is_not_in_the_page_until_the_rater_has_answered(site: DeskSite, tab: Watched):
    page = tab.page
    sign_in(page, site.desk(rater="Ada", case="7"))
    row = site.get(f"/runs/{site.candidate}/cases/7").json["data"][0]
    texts = [row["case"]["summary"], f"{row['case']['overall_score']:.2f}"]
    texts += [score["reason"] for score in row["scores"] if score["reason"]]
    texts += [score["failure_code"] for score in row["scores"] if score["failure_code"]]
    assert len(texts) > 3
    hidden = site.get(site.desk(rater="Ada", case="7").removeprefix(site.url)).text
    assert [text for text in texts if text in hidden] == []
    assert "failing" not in hidden.partition("<main")[2]
    assert page.locator("#judge").count() == 0
    press(page, "p", "pass")
    expect(page.locator("#judge")).to_contain_text("The judge: fail")
    expect(page.locator("#judge")).to_contain_text("you disagree")
    press(page, "f", "fail")
    first, second = site.labels(rater="Ada")
    assert (first["blind"], second["blind"]) == (True, False)
    assert second["supersedes"] == first["label_id"]
    assert '"judge_score":0.0' in second["shown"]


def test_notes_skips_undo_levels_and_the_way_back(site: DeskSite, tab: Watched):
    page = tab.page
    sign_in(page, site.desk(rater="Ada", metric="tool_routing"))
    first = page.locator("#case-title").inner_text()
    page.keyboard.press("s")
    expect(page.locator("#case-title")).not_to_have_text(first)
    page.keyboard.press("n")
    page.keyboard.type("pays twice, p f s")
    page.keyboard.press("Escape")
    press(page, "4", "4 good")
    expect(page.locator("#answer q")).to_have_text("pays twice, p f s")
    page.keyboard.press("u")
    expect(page.locator("#answer")).to_have_count(0)
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#case-title")).to_have_text(first)
    expect(page.locator("#answer strong")).to_have_text("skipped")
    page.keyboard.press("?")
    expect(page.get_by_text("withdraw the answer to this case")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_text("withdraw the answer to this case")).to_be_hidden()
    rows = site.labels(rater="Ada", metric="tool_routing")
    assert [row["kind"] for row in rows] == ["skip", "label", "withdrawn"]
    assert [row["value"] for row in rows] == [None, 0.8, None]
    assert rows[2]["supersedes"] == rows[1]["label_id"]


def test_keys_that_are_pressed_faster_than_pages_come_are_not_lost(site: DeskSite, tab: Watched):
    page = tab.page
    sign_in(page, site.desk(rater="Ada"))
    for key in "pjfjpjfj":
        page.keyboard.press(key)
    expect(page.locator("[data-mine]")).to_have_text("4")
    assert [row["value"] for row in site.labels(rater="Ada")] == [1.0, 0.0, 1.0, 0.0]


@pytest.mark.parametrize("between_ms", [0, 300])
def test_a_double_click_on_undo_withdraws_one_answer(site: DeskSite, tab: Watched, between_ms: int):
    page = tab.page
    sign_in(page, site.desk(rater="Ada"))
    for _ in range(3):
        press(page, "p", "pass")
        go_on(page)
    page.keyboard.press("k")
    expect(page.locator("#answer strong")).to_have_text("pass")
    place = page.get_by_role("button", name="Undo").bounding_box()
    assert place is not None
    for count in (1, 2):
        page.mouse.move(place["x"] + 5, place["y"] + 5)
        page.mouse.down(click_count=count)
        page.mouse.up(click_count=count)
        page.wait_for_timeout(between_ms)  # in which the next page comes, or does not
    expect(page.locator("#said")).to_have_text("Withdrawn.")
    expect(page.locator("[data-mine]")).to_have_text("2")
    page.wait_for_timeout(500)
    kinds = [row["kind"] for row in site.labels(rater="Ada")]
    assert kinds.count("withdrawn") == 1


def test_the_desk_works_without_javascript(browser: Browser, site: DeskSite):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    sign_in(page, site.desk())
    page.get_by_label("Your name").fill("Ada")
    page.get_by_role("button", name="Begin").click()
    page.get_by_label("Note").fill("says nothing of the fee")
    page.get_by_role("button", name="Fail").click()
    expect(page.locator("#answer strong")).to_have_text("fail")
    page.get_by_role("link", name="Next").click()
    page.get_by_role("button", name="Skip").click()
    page.get_by_role("button", name="Undo").click()
    rows = site.labels(rater="Ada")
    assert [(row["kind"], row["note"]) for row in rows[:2]] == [
        ("label", "says nothing of the fee"),
        ("skip", ""),
    ]
    context.close()


def test_a_case_a_finding_a_turn_and_a_run_are_annotated(site: DeskSite, tab: Watched):
    page = tab.page
    before = site.get(f"/runs/{site.candidate}/cases/7").json
    sign_in(page, f"{site.url}/view/runs/{site.candidate}/cases/7")
    for summary, field, text, button in (
        ("Overrule the verdict", "Why", "it was right", "Overrule"),
        ("Mark a finding as wrong", "Why", "the tool was right", "Mark as wrong"),
        ("Comment", "Comment", "see turn one", "Comment"),
    ):
        page.locator("summary", has_text=summary).click()
        box = page.locator("details[open]", has_text=summary)
        box.get_by_label("Your name").fill("Ada")
        if summary == "Comment":
            box.get_by_label("Turn").select_option("1")
        box.get_by_label(field, exact=True).fill(text)
        box.get_by_role("button", name=button, exact=True).click()
        expect(page.locator("main")).to_contain_text(text)
    expect(page.locator("section .person").first).to_contain_text("Overruled: Ada says")
    expect(page.locator("#turn-0-1 .person")).to_contain_text("Ada: see turn one")
    assert site.get(f"/runs/{site.candidate}/cases/7").json == before
    page.get_by_text("Give a failure code").click()
    page.get_by_label("Code; empty for no fault").fill("wrong_tool")
    page.get_by_role("button", name="Give code").click()
    expect(page.locator("#people")).to_contain_text("wrong_tool")
    page.goto(site.url)
    row = page.get_by_role("row").filter(has_text=site.candidate).first
    row.get_by_text("Edit").click()
    row.get_by_label("Tags, with commas").fill("release, fee , release")
    row.get_by_role("button", name="Save tags").click()
    expect(page.get_by_role("row").filter(has_text=site.candidate).first).to_contain_text("fee")
    rows = site.get("/annotations").json["data"]
    kinds = ["override", "finding_wrong", "comment", "code", "tags"]
    assert [row["kind"] for row in rows] == kinds
    assert rows[4]["text"] == "fee, release"
    refused = {"run": site.candidate, "case_id": "7", "kind": "code", "metric": "tool_routing"}
    assert site.post("/annotations", {**refused, "text": "No Code", "author": "Ada"}).status == 422


DESKS = {
    "login": "/view/label?rater=Ada",
    "name": "/view/label?run={candidate}",
    "label": "/view/label?run={candidate}&rater=Ada&case=7",
    "answered": "/view/label?run={candidate}&rater=Bo&case=7",
    "adjudicate": "/view/adjudicate?run={candidate}&rater=Cyd&case=7",
    "labels": "/view/labels?run={candidate}",
    "case": "/view/runs/{candidate}/cases/7",
    "found": "/view/runs/{candidate}/cases?q=refund",
    "runs": "/",
}


@pytest.fixture(scope="module")
def labelled(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeskSite]:
    """A server whose store holds labels that disagree, annotations, tags and a note."""
    folder = copied_store(served, tmp_path_factory.mktemp("labelled"))
    env = environment_without_prefect(folder)
    with serving(folder, "--labelling", ASSIZES_API_TOKEN=TOKEN, **env) as url:
        site = DeskSite(url, folder, served.baseline, served.candidate)
        case = {"run": site.candidate, "case_id": "7"}
        for rater, value in (("Bo", 1), ("Dee", 0)):
            body = {**case, "rater": rater, "value": value, "note": "a note"}
            assert site.post("/labels", body).status == 201
        for extra in (
            {**case, "kind": "override", "value": 1, "text": "it was right"},
            {**case, "kind": "finding_wrong", "metric": "tool_routing", "text": "no"},
            {**case, "kind": "code", "metric": "tool_routing", "text": "wrong_tool"},
            {**case, "kind": "comment", "turn": 1, "text": "look here"},
            {"run": site.candidate, "kind": "note", "text": "with the new prompt"},
            {"run": site.candidate, "kind": "tags", "text": "release,fee"},
            {
                "run": site.candidate,
                "kind": "view",
                "text": '{"name": "Refunds", "query": "q=refund"}',
            },
        ):
            assert site.post("/annotations", {**extra, "author": "Bo"}).status == 201
        yield site


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", DESKS)
def test_a_page_of_the_desk_is_accessible_quiet_and_fits(
    labelled: DeskSite, tab: Watched, name: str, scheme: Scheme, width: int
):
    page, path = tab.page, DESKS[name].format(candidate=labelled.candidate)
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    if name == "login":
        page.goto(labelled.url + path)
    else:
        sign_in(page, labelled.url + path)
    assert axe_finds_closed_and_open(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert [error for error in tab.errors if "401" not in error] == []
    assert [url for url in tab.asked if not url.startswith((labelled.url, "data:"))] == []
