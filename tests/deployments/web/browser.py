"""The browser that the tests of pages run in."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest
from playwright.sync_api import Browser, sync_playwright

CHROMIUM: Final = shutil.which("chromium-headless-shell") or shutil.which("chromium")
"""The Chromium of this machine; the build without windows comes first, as it takes a fifth less CPU."""

in_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")


@contextmanager
def running_browser() -> Iterator[Browser]:
    """A browser that is closed when the block ends."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()
