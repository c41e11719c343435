"""Hostile transcripts, verdicts and requests on the served pages, as a real browser parses them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from urllib.parse import quote

import pytest

from tests.deployments.web.browser import in_browser
from tests.deployments.web.hostile_site import (
    Hostile,
    Tab,
    active_parts,
    case_pages,
    hostile_site,
    listed_pages,
    opened_tab,
    pair_pages,
    reflecting,
    score_pages,
)
from tests.hostile import XSS

OPENED: Final = 8
"""Pages of cases that are opened in the browser, besides being parsed."""

pytestmark = [pytest.mark.full, in_browser]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory, prefect_server: str) -> Iterator[Hostile]:
    with hostile_site(tmp_path_factory.mktemp("hostile"), prefect_server) as site:
        yield site


@pytest.fixture(scope="module")
def tab(hostile: Hostile) -> Iterator[Tab]:
    with opened_tab(hostile.url) as tab:
        yield tab


def test_no_list_and_no_report_holds_an_active_node(hostile: Hostile, tab: Tab):
    assert active_parts(tab, listed_pages(hostile)) == []


def test_no_page_of_a_case_holds_an_active_node(hostile: Hostile, tab: Tab):
    pages = case_pages(hostile)
    assert len(pages) == len(XSS) >= 120
    assert active_parts(tab, pages) == []


def test_no_case_of_two_runs_holds_an_active_node(hostile: Hostile, tab: Tab):
    assert active_parts(tab, pair_pages(hostile), script_file="side_by_side.js") == []


def test_no_page_of_a_score_holds_an_active_node(hostile: Hostile, tab: Tab):
    assert active_parts(tab, score_pages(hostile)[::3]) == []


def test_no_page_reflects_a_request_as_an_active_node(hostile: Hostile, tab: Tab):
    pages = reflecting(hostile)
    assert len(pages) >= 120
    assert active_parts(tab, pages, None) == []


def test_opened_pages_run_nothing_and_ask_nobody_else(hostile: Hostile, tab: Tab):
    cases = case_pages(hostile)
    for path in [*listed_pages(hostile), *cases[:: len(cases) // OPENED]]:
        tab.page.goto(hostile.url + path)
        tab.page.evaluate("document.querySelectorAll('details').forEach((one) => one.open = true)")
    assert tab.dialogs == []
    assert [url for url in tab.asked if not url.startswith((hostile.url, "data:image/svg"))] == []


def test_a_case_is_shown_as_what_was_said(hostile: Hostile, tab: Tab):
    payload = "<img src=x onerror=alert(1)>"
    tab.page.goto(f"{hostile.url}/view/runs/{hostile.said}/cases/{quote(payload, safe='')}")
    assert tab.page.locator("h1 bdi").inner_text() == payload
    assert tab.page.locator(".turn.user .said").inner_text() == payload
    assert payload in tab.page.locator(".turn.assistant pre").first.inner_text()
