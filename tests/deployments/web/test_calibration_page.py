"""The page of calibrations: agreement, disagreements with links and filters, and time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.command import assizes
from tests.deployments.web.browser import in_browser
from tests.deployments.web.conftest import STORE, Served, environment_without_prefect, serving
from tests.deployments.web.desk_site import TOKEN, DeskSite, copied_store, sign_in
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

pytestmark = in_browser


@pytest.fixture(scope="module")
def calibrated(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeskSite]:
    """A server whose store holds labels of two raters, and a calibration with them."""
    folder = copied_store(served, tmp_path_factory.mktemp("calibrated"))
    env = environment_without_prefect(folder)
    with serving(folder, "--labelling", ASSIZES_API_TOKEN=TOKEN, **env) as url:
        site = DeskSite(url, folder, served.baseline, served.candidate)
        judged = {
            row["case_id"]: row["passed"]
            for row in site.get(f"/runs/{site.candidate}/cases?limit=14").json["data"]
        }
        for place, (case_id, passed) in enumerate(sorted(judged.items())):
            value = int(passed) if place > 1 else int(not passed)  # two disagreements
            for rater in ("Ada", "Bo"):
                body = {"run": site.candidate, "case_id": case_id, "rater": rater, "value": value}
                note = {"note": f"seen by {rater}"}
                assert site.post("/labels", {**body, **note}).status == 201
        command = ("calibrate", "store:", "--run", site.candidate, "--store", STORE)
        done = assizes(*command, cwd=folder, env=env)
        assert done.code == 0, done
        yield site


@pytest.mark.full
def test_disagreements_have_both_reasons_a_link_and_filters(calibrated: DeskSite, tab: Watched):
    page = tab.page
    sign_in(page, f"{calibrated.url}/view/calibration?run={calibrated.candidate}")
    expect(page.get_by_role("heading", level=1)).to_have_text("Calibration: verdict")
    expect(page.get_by_role("columnheader", name="judge says fail")).to_be_visible()
    expect(page.get_by_text("2 of 2 disagreements.")).to_be_visible()
    row = page.locator("#apart tbody tr").first
    expect(row).to_contain_text("seen by Ada")
    expect(row).to_contain_text("PASSED (1 of 1 expected outcomes)")  # the reason of the judge
    page.locator("a[href$='#apart']").first.click()
    expect(page.locator("#apart")).to_contain_text("of 2 disagreements.")
    assert "people=" in page.url
    page.get_by_label("Text").fill("no such text")
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_text("0 of 2 disagreements.")).to_be_visible()
    page.get_by_label("Text").fill("SEEN BY BO")
    page.get_by_label("People say").select_option("")
    page.get_by_label("The judge says").select_option("")
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_text("2 of 2 disagreements.")).to_be_visible()
    page.locator("#apart tbody th a").first.click()
    expect(page.get_by_role("heading", name="Conversation", exact=True)).to_be_visible()


@pytest.mark.full
def test_a_label_that_came_later_is_in_the_list_and_the_page_says_so(
    served: Served, calibrated: DeskSite
):
    last = calibrated.get(f"/runs/{calibrated.candidate}/cases?limit=40").json["data"][-1]
    body = {"run": calibrated.candidate, "case_id": last["case_id"], "rater": "Ada"}
    assert calibrated.post("/labels", {**body, "value": int(not last["passed"])}).status == 201
    text = calibrated.get("/view/calibration").text
    assert "Labels have changed since" in text
    assert "3 of 3 disagreements." in text


def test_a_store_without_a_calibration_says_what_to_do(served: Served):
    reply = served.get("/view/calibration")
    assert reply.status == 200
    assert "No judge is calibrated in this store" in reply.text
    assert served.get("/view/calibration?run=nope").status == 404
    assert served.get("/view/calibration?what=1").status == 422


@pytest.mark.full
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_page_is_accessible_quiet_and_fits(
    calibrated: DeskSite, tab: Watched, scheme: Scheme, width: int
):
    page = tab.page
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    sign_in(page, f"{calibrated.url}/view/calibration")
    assert axe_finds_closed_and_open(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert [url for url in tab.asked if not url.startswith((calibrated.url, "data:"))] == []
