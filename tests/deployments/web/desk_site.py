"""A server with the desk over a copy of the demo's store, and browsers that have signed in."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

from tests.deployments.web.conftest import Reply, Served, ask

TOKEN = "a-token-of-a-fair-length"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
JSON = {**BEARER, "Content-Type": "application/json"}


@dataclass(frozen=True)
class DeskSite:
    """A server with the desk, and the two runs that it serves."""

    url: str
    folder: Path
    baseline: str
    candidate: str

    def get(self, path: str) -> Reply:
        return ask(self.url + path, headers=BEARER)

    def post(self, path: str, body: dict[str, Any], **headers: str) -> Reply:
        named = {**JSON, **headers}
        return ask(self.url + path, method="POST", headers=named, body=json.dumps(body).encode())

    def labels(self, **fields: str) -> list[dict[str, Any]]:
        query = "".join(f"&{name}={value}" for name, value in fields.items())
        rows: list[dict[str, Any]] = self.get(f"/labels?limit=10000{query}").json["data"]
        return rows

    def desk(self, path: str = "label", **fields: str) -> str:
        query = "&".join(f"{name}={value}" for name, value in fields.items())
        return f"{self.url}/view/{path}?run={self.candidate}&{query}"


def copied_store(served: Served, folder: Path) -> Path:
    """A folder with a copy of the demo, so that what people say in a test stays in it."""
    shutil.copytree(served.folder / ".assizes", folder / ".assizes")
    return folder


def sign_in(page: Page, url: str) -> None:
    """Open a page, give the token that it asks for, and land on the page."""
    page.goto(url)
    page.get_by_label("Token of this server").fill(TOKEN)
    page.get_by_role("button", name="Sign in").click()
    # The script of the page hears keys once the page is whole.
    page.locator("[name=token]").wait_for(state="detached")
    page.wait_for_load_state("load")


def press(page: Page, key: str, answer: str) -> None:
    """Press one key and wait until the page acknowledges the answer."""
    page.keyboard.press(key)
    expect(page.locator("#answer strong")).to_have_text(answer, timeout=20_000)


def go_on(page: Page) -> None:
    """Go to the next case by its key."""
    before = page.locator("#case-title").inner_text()
    page.keyboard.press("j")
    expect(page.locator("#case-title")).not_to_have_text(before)
