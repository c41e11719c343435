"""The pages and the file report.html in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from assizes.tasks.reports import formatting
from assizes.tasks.reports.render.html import html_report
from tests.deployments.web.browser import in_browser, running_browser
from tests.deployments.web.conftest import Served
from tests.tasks.reports.sample import Said, compared, run

WIDTHS = (1280, 390)
Scheme = Literal["light", "dark"]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
PAGES = {
    "runs": "/",
    "report": "/view/runs/{candidate}",
    "cases": "/view/runs/{candidate}/cases",
    "case": "/view/runs/{candidate}/cases/7",
    "explain": "/view/explain?run={candidate}&case=7&metric=tool_routing",
    "compare": "/view/compare?baseline={baseline}&candidate={candidate}",
    "found": "/view/runs/{candidate}/cases?q=refund",
    "search": "/view/search?q=flight",
    "trends": "/view/trends",
    "problem": "/view/runs/nope",
}

PATIENCE_MS = 30_000
"""How long a page may take to show what is expected: beside other tests, five seconds were too few."""

OPEN_ALL = "for (const each of document.querySelectorAll('details')) each.open = true"
LENGTHS = {1280: 4200, 390: 7300}
"""A third of what the report of the demo was long, in pixels, by the width of the window."""

pytestmark = [pytest.mark.full, in_browser]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=PATIENCE_MS)
    with running_browser() as browser:
        yield browser


@dataclass
class Watched:
    """A page, the errors in its console, and the URLs that it requested."""

    page: Page
    errors: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def show(self, url: str) -> Page:
        self.page.goto(url)
        return self.page


@pytest.fixture
def tab(browser: Browser) -> Iterator[Watched]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    watched = Watched(context.new_page())
    page = watched.page
    page.on(
        "console", lambda message: message.type == "error" and watched.errors.append(message.text)
    )
    page.on("pageerror", lambda error: watched.errors.append(str(error)))
    page.on("request", lambda request: watched.asked.append(request.url))
    yield watched
    context.close()


def axe_finds(page: Page, *, contrasts: bool = True) -> list[tuple[str, str]]:
    """Every violation, however small: its rule and the element where it is."""
    rules = {"color-contrast": {"enabled": contrasts}}  # most of the seconds that axe takes
    options = {"resultTypes": ["violations"], "rules": rules}
    violations = Axe().run(page, options=options).response["violations"]
    return [(violation["id"], violation["nodes"][0]["html"][:200]) for violation in violations]


def axe_finds_closed_and_open(page: Page) -> list[tuple[str, str]]:
    """The same of a page as it comes and with all of it open, where every contrast is seen."""
    closed = axe_finds(page, contrasts=False)
    page.evaluate(OPEN_ALL)
    return closed + axe_finds(page)


def url_of(served: Served, name: str) -> str:
    path = PAGES[name].format(candidate=served.candidate, baseline=served.baseline)
    return served.url + path


def report_file(served: Served) -> Path:
    return served.folder / ".assizes" / "demo" / "reports" / served.candidate / "report.html"


def test_from_a_run_to_the_turn_that_failed_and_the_prompt_behind_it(served: Served, tab: Watched):
    page = tab.show(served.url)
    page.get_by_role("link", name=served.candidate).click()
    expect(page.get_by_role("heading", level=2).first).to_have_text("REGRESSION")
    every = page.get_by_role("region", name="All cases")
    every.get_by_role("heading", name="All cases").click()
    every.get_by_role("link", name="7", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Case 7")
    row = page.get_by_role("row").filter(has_text="tool_routing")
    row.get_by_role("link", name="28").click()
    failing = page.locator(".turn.failing:target")
    expect(failing).to_contain_text("update_reservation_flights")
    expect(failing).to_contain_text("tool_routing: poor (2 of 5)")
    row.get_by_role("link", name=re.compile("tool_?routing")).click()
    page.get_by_text("system message").click()
    expect(page.locator("pre").first).to_contain_text("You judge a finished conversation")
    assert tab.errors == []


def test_a_column_of_durations_sorts_by_their_length(tab: Watched, tmp_path: Path):
    lengths = (70_000.0, 300.0, 1_200.0, 999.0)  # milliseconds
    rows = "".join(
        f'<tr><td data-sort="{length}">{formatting.duration(length)}</td></tr>'
        for length in lengths
    )
    script = files("assizes.tasks.reports").joinpath("templates/page.js").read_text("utf-8")
    head = "<thead><tr><th class=n>Latency</th></tr></thead>"
    table = f"<table class=sortable>{head}<tbody>{rows}<tr><td>\u2013</td></tr></tbody></table>"
    file = tmp_path / "page.html"
    file.write_text(f"<!doctype html><meta charset=utf-8>{table}<script>{script}</script>", "utf-8")
    page = tab.show(file.as_uri())
    page.get_by_role("button", name="Latency").press("Enter")
    shown = page.locator("tbody td").all_text_contents()
    assert shown == ["300 ms", "999 ms", "1.20 s", "70.00 s", "\u2013"]


def test_a_column_sorts_both_ways_with_the_keyboard(served: Served, tab: Watched):
    page = tab.show(url_of(served, "cases"))
    header = page.get_by_role("columnheader", name="Turns")

    def turns() -> list[int]:
        cells = page.locator("tbody tr td:nth-child(4)").all_text_contents()
        return [int(cell) for cell in cells]

    header.get_by_role("button").press("Enter")
    assert header.get_attribute("aria-sort") == "ascending"
    assert turns() == sorted(turns())
    header.get_by_role("button").press("Enter")
    assert header.get_attribute("aria-sort") == "descending"
    assert turns() == sorted(turns(), reverse=True)


def test_a_filter_keeps_what_was_chosen(served: Served, tab: Watched):
    page = tab.show(url_of(served, "cases"))
    page.get_by_label("Verdict").select_option("false")
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_text("10 cases of run")).to_be_visible()
    assert page.get_by_label("Verdict").input_value() == "false"
    assert page.locator("tbody tr").count() == 10


def test_two_runs_are_chosen_and_compared(served: Served, tab: Watched):
    page = tab.show(f"{served.url}/view/compare")
    page.get_by_label("Baseline").select_option(served.baseline)
    page.get_by_label("Candidate").select_option(served.candidate)
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("heading", name="REGRESSION")).to_be_visible()
    expect(page.get_by_text("90.0 % → 75.0 %").first).to_be_visible()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_quiet_accessible_and_asks_nobody_else(
    served: Served, tab: Watched, name: str, scheme: Scheme, width: int
):
    tab.page.emulate_media(color_scheme=scheme)
    tab.page.set_viewport_size({"width": width, "height": 900})
    page = tab.show(url_of(served, name))
    assert axe_finds_closed_and_open(page) == []
    assert [error for error in tab.errors if "404" not in error] == []
    assert [url for url in tab.asked if not url.startswith((served.url, "data:"))] == []


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_file_of_a_report_is_accessible(
    served: Served, tab: Watched, scheme: Scheme, width: int
):
    tab.page.emulate_media(color_scheme=scheme)
    tab.page.set_viewport_size({"width": width, "height": 900})
    page = tab.show(report_file(served).as_uri())
    assert axe_finds_closed_and_open(page) == []


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PAGES)
def test_no_page_is_wider_than_its_window(served: Served, tab: Watched, name: str, width: int):
    tab.page.set_viewport_size({"width": width, "height": 900})
    page = tab.show(url_of(served, name))
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_rubric_that_changed_is_named_and_tables_scroll_in_their_own_box(
    tab: Watched, tmp_path: Path
):
    cases = [Said(f"a-case-with-quite-a-long-name-{number}", (5, 3)) for number in range(12)]
    before = run(cases, run_id="nightly-bbbbbbbbbbbb")
    after = run([replace(case, levels=(2, 1)) for case in cases])
    prints = {"judge:conversation": "1", "metric:tool_routing": "fedcba9876543210"}
    config = {**after.record.config, "fingerprints": prints}
    after = replace(after, record=replace(after.record, config=config))
    file = tmp_path / "report.html"
    file.write_text(html_report(compared(before, after)), encoding="utf-8")
    tab.page.set_viewport_size({"width": 390, "height": 900})
    page = tab.show(file.as_uri())
    changed = page.locator("#config-diff ~ .reasons li").filter(has_text="metric:tool_routing")
    expect(changed).to_have_text("metric:tool_routing: changed")
    assert page.locator("#config-diff ~ ul li").filter(has_text="judge:conversation").count() == 0
    page.evaluate(OPEN_ALL)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    boxes = "[...document.querySelectorAll('table')].map(t => t.parentElement.clientWidth)"
    assert max(page.evaluate(boxes)) <= 390


def test_dark_pages_are_dark(served: Served, tab: Watched):
    tab.page.emulate_media(color_scheme="dark")
    page = tab.show(served.url)
    color = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert max(int(part) for part in re.findall(r"\d+", color)) < 60


def test_the_file_of_a_report_works_without_a_server(served: Served, tab: Watched):
    page = tab.show(report_file(served).as_uri())
    expect(page.get_by_role("heading", level=2).first).to_have_text("REGRESSION")
    every = page.get_by_role("region", name="All cases")
    every.get_by_role("heading", name="All cases").click()
    every.get_by_role("button", name="Score").click()
    page.locator(".read summary").first.click()
    page.get_by_text("Conversation", exact=True).first.click()
    expect(page.locator(".turn.failing").first).to_be_visible()
    assert axe_finds(page) == []
    assert tab.errors == []
    assert [url for url in tab.asked if not url.startswith(("file:", "data:"))] == []


@pytest.mark.parametrize("width", WIDTHS)
def test_the_report_of_the_demo_is_a_third_of_its_old_length(
    served: Served, tab: Watched, width: int
):
    tab.page.set_viewport_size({"width": width, "height": 900})
    page = tab.show(url_of(served, "report"))
    assert page.evaluate("document.documentElement.scrollHeight") <= LENGTHS[width]


def test_the_first_screen_tells_what_got_worse_how_sure_that_is_and_why(
    served: Served, tab: Watched
):
    page = tab.show(url_of(served, "report"))
    shown = (
        page.get_by_text("Data of"),
        page.get_by_text("\u221215.0 points", exact=True).first,
        page.get_by_text("\u221227.3 to \u22121.3").first,
        page.get_by_text("With 95 % confidence the agent got worse"),
        page.get_by_role("link", name="wrong_state_change").first,
        page.locator(".read q").first,
    )
    for part in shown:
        box = part.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= 900, part


def test_a_failure_code_leads_to_its_cases(served: Served, tab: Watched):
    page = tab.show(url_of(served, "report"))
    page.locator("#verdict").get_by_role("link", name="wrong_state_change").click()
    expect(page.get_by_text("10 cases of run")).to_be_visible()
    assert page.get_by_label("Failure code").input_value() == "wrong_state_change"


def test_in_the_file_a_failure_code_leads_to_its_cases_and_back_to_all(
    served: Served, tab: Watched
):
    page = tab.show(report_file(served).as_uri())
    page.locator("#verdict").get_by_role("link", name="wrong_state_change").click()
    rows = page.locator("#cases tbody tr:visible")
    expect(rows).to_have_count(10)
    expect(page.locator("[data-filtered]")).to_contain_text("failure code wrong state change: 10")
    assert axe_finds(page) == []
    page.get_by_role("link", name="Show all").click()
    expect(rows).to_have_count(40)
    assert tab.errors == []
