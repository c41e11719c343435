"""One case of two runs side by side, in a real browser and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from assizes.tasks.reports.schema.side_by_side import SideBySide
from tests.deployments.web.browser import in_browser
from tests.deployments.web.conftest import Served, environment_without_prefect, serving
from tests.deployments.web.desk_site import TOKEN, DeskSite, copied_store, sign_in
from tests.deployments.web.test_pages import (
    OPEN_ALL,
    SCHEMES,
    WIDTHS,
    Scheme,
    Watched,
    axe_finds,
    axe_finds_closed_and_open,
    browser,
    tab,
)

__all__ = ["browser", "tab"]

pytestmark = in_browser


def pair_path(site: Served | DeskSite, case: str, **fields: str) -> str:
    runs = {"baseline": site.baseline, "candidate": site.candidate}
    return f"/view/compare/case?{urlencode({**runs, 'case': case, **fields})}"


def compared(served: Served, case: str, **fields: str) -> SideBySide:
    query = {"baseline": served.baseline, "candidate": served.candidate, "case_id": case, **fields}
    reply = served.get(f"/runs/compare/case?{urlencode(query)}")
    assert reply.status == 200, reply.text
    return SideBySide.model_validate_json(reply.text)


def flips(served: Served) -> list[str]:
    """The cases whose verdict turned, from the comparison itself."""
    query = f"baseline={served.baseline}&candidate={served.candidate}"
    cases = served.get(f"/runs/compare?{query}").json["test_case_comparisons"]
    turned = [
        one for one in cases if {one["baseline_passed"], one["candidate_passed"]} == {True, False}
    ]
    worse = [one["baseline_passed"] for one in turned]
    assert all(worse), "the demo has regressions alone"
    ordered = sorted(turned, key=lambda one: (-abs(one["score_delta"]), one["test_case_id"]))
    return [one["test_case_id"] for one in ordered]


@pytest.fixture
def site(served: Served, tmp_path: Path) -> Iterator[DeskSite]:
    with desk_over(served, tmp_path) as site:
        yield site


@pytest.fixture(scope="module")
def unlabelled(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeskSite]:
    """A server with the desk, on which no test writes."""
    with desk_over(served, tmp_path_factory.mktemp("unlabelled")) as site:
        yield site


@contextmanager
def desk_over(served: Served, place: Path) -> Iterator[DeskSite]:
    folder = copied_store(served, place)
    env = environment_without_prefect(folder)
    with serving(folder, "--labelling", ASSIZES_API_TOKEN=TOKEN, **env) as url:
        yield DeskSite(url, folder, served.baseline, served.candidate)


def shown_case(page: Page) -> str:
    return parse_qs(urlsplit(page.url).query)["case"][0]


@pytest.mark.full
def test_the_flips_of_a_comparison_are_read_one_after_the_other_by_keyboard(
    served: Served, tab: Watched
):
    ids = flips(served)
    page = tab.show(
        f"{served.url}/view/compare?baseline={served.baseline}&candidate={served.candidate}"
    )
    page.get_by_role("link", name=f"passed → failed: case {ids[0]} side by side").click()
    read = [shown_case(page)]
    while page.get_by_role("link", name="Next flip").count():
        page.keyboard.press("n")
        page.wait_for_url(lambda url: parse_qs(urlsplit(url).query)["case"][0] != read[-1])
        read.append(shown_case(page))
        expect(page.get_by_text(f"Flip {len(read)} of {len(ids)}")).to_be_visible()
    assert read == ids
    page.keyboard.press("p")
    page.wait_for_url(lambda url: parse_qs(urlsplit(url).query)["case"][0] == ids[-2])
    assert tab.errors == []


def test_the_api_gives_the_same_turns_scores_and_flips(served: Served):
    ids = flips(served)
    pair = compared(served, ids[1])
    assert (pair.flips.place, pair.flips.previous, pair.flips.next) == (2, ids[0], ids[2])
    assert (pair.baseline.passed, pair.candidate.passed) == (True, False)
    assert pair.scores[0].move == "worse"
    assert pair.scores[-1].move == "same"
    kinds = {row.kind for row in pair.turns}
    assert "same" in kinds
    assert kinds & {"changed", "baseline_only", "candidate_only"}
    for side in ("baseline", "candidate"):
        numbers = [getattr(row, side).number for row in pair.turns if getattr(row, side)]
        assert numbers == [*range(len(numbers))]


def test_a_case_that_neither_run_has_and_an_unknown_field_are_refused(served: Served):
    runs = f"baseline={served.baseline}&candidate={served.candidate}"
    reply = served.get(f"/runs/compare/case?{runs}&case_id=nope")
    assert (reply.status, reply.json["title"]) == (404, "Not found")
    assert "neither run" in reply.json["detail"]
    assert served.get(f"/runs/compare/case?{runs}&case_id=7&more=1").status == 422
    assert served.get(pair_path(served, "nope")).status == 404
    assert served.get(pair_path(served, "7", repetition="3")).status == 404


def test_the_page_that_only_reads_has_no_form_and_works_without_a_script(
    served: Served, browser: Browser
):
    ids = flips(served)
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(served.url + pair_path(served, ids[0]))
    assert page.locator("form").count() == 0
    page.locator("details.keys-line summary").click()
    fold = page.locator(".fold summary").first
    fold.click()
    expect(page.locator(".fold .pair").first).to_be_visible()
    page.get_by_role("link", name="Next flip").click()
    assert shown_case(page) == ids[1]
    context.close()


@pytest.mark.full
def test_labels_and_comments_are_given_by_keyboard_and_are_not_blind(site: DeskSite, tab: Watched):
    page = tab.page
    sign_in(page, site.url + pair_path(site, "7"))
    for side in ("candidate", "baseline"):
        page.locator(f"form[data-label={side}] [name=name]").fill("Ada")
    page.keyboard.press("Escape")
    page.keyboard.press("l")
    page.keyboard.press("f")
    expect(page.locator(".person").first).to_contain_text("Ada says fail")
    (row,) = site.labels(rater="Ada")
    assert (row["run_id"], row["case_id"], row["value"]) == (site.candidate, "7", 0.0)
    assert row["blind"] is False
    page.keyboard.press("b")
    page.keyboard.press("p")
    expect(page.locator(".person")).to_have_count(2)
    assert {(one["run_id"], one["value"]) for one in site.labels(rater="Ada")} == {
        (site.candidate, 0.0),
        (site.baseline, 1.0),
    }
    page.keyboard.press("c")
    page.locator("form[data-comment=candidate] [name=turn]").select_option("2")
    page.locator("form[data-comment=candidate] textarea").fill("p f n: here it begins")
    page.get_by_role("button", name="Comment", exact=True).first.click()
    expect(page.locator(".pairs .person")).to_contain_text("Ada: p f n: here it begins")
    (comment,) = site.get("/annotations").json["data"]
    assert (comment["run_id"], comment["turn"]) == (site.candidate, 2)
    page.keyboard.press("l")
    page.keyboard.press("u")
    expect(page.locator("#verdicts ~ .pair .person")).to_have_count(1)
    assert [one["kind"] for one in site.labels(rater="Ada")] == ["label", "label", "withdrawn"]


@pytest.mark.full
def test_a_navigation_key_writes_nothing_while_no_form_is_entered(
    unlabelled: DeskSite, tab: Watched
):
    page = tab.page
    sign_in(page, unlabelled.url + pair_path(unlabelled, "7"))
    page.keyboard.press("f")
    page.keyboard.press("p")
    page.keyboard.press("n")
    page.wait_for_url(lambda url: "case=7" not in url)
    assert unlabelled.labels() == []


@pytest.mark.full
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("kind", ["flip", "same"])
def test_the_page_is_accessible_quiet_and_fits(
    served: Served, tab: Watched, kind: str, scheme: Scheme, width: int
):
    page = tab.page
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    tab.show(served.url + pair_path(served, flips(served)[0] if kind == "flip" else "7"))
    assert axe_finds_closed_and_open(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.errors == []
    assert [url for url in tab.asked if not url.startswith((served.url, "data:"))] == []


@pytest.mark.full
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_page_with_its_forms_is_accessible(
    unlabelled: DeskSite, tab: Watched, scheme: Scheme, width: int
):
    page = tab.page
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    sign_in(page, unlabelled.url + pair_path(unlabelled, "7", metric="tool_routing"))
    page.evaluate(OPEN_ALL)
    assert axe_finds(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
