"""`make screenshots`: every page of the demo, wide and narrow, light and dark, as PNG files.

Usage: python docs/screenshots.py [FOLDER]; the demo is judged anew in a folder of its own.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, sync_playwright

COMMAND: Final = (sys.executable, "-m", "assizes.deployments.cli")
STORE: Final = "duckdb:///.assizes/demo/demo.duckdb"
WIDTHS: Final = (1280, 390)
SCHEMES: Final = ("light", "dark")
SLOWEST_MS: Final = 120_000  # a whole long page takes a busy machine its time
PAGES: Final = {
    "runs": "/",
    "report": "/view/runs/{candidate}",
    "cases": "/view/runs/{candidate}/cases",
    "case": "/view/runs/{candidate}/cases/7",
    "explain": "/view/explain?run={candidate}&case=7&metric=tool_routing",
    "compare": "/view/compare?baseline={baseline}&candidate={candidate}",
    "trends": "/view/trends",
    "problem": "/view/runs/nope",
}
SHOWN: Final = {"report": 800, "case": 760}
"""Those that the documentation shows, with the height in pixels that it shows of them."""


def main(target: Path) -> None:
    """Take them all."""
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("make screenshots: no chromium on this machine; install the package chromium")
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [*COMMAND, "demo", "--json"], cwd=folder, check=True, capture_output=True, text=True
        )
        said = json.loads(done.stdout)
        runs = {
            "baseline": said["comparison"]["baseline_run_id"],
            "candidate": said["run_id"],
        }
        with served(Path(folder)) as url, sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=chromium, args=["--no-sandbox", "--force-color-profile=srgb"]
            )
            for name, path in PAGES.items():
                shoot(browser, f"{url}{path.format(**runs)}", name, target)
            browser.close()


def shoot(browser: Browser, url: str, name: str, target: Path) -> None:
    """One page in every width and scheme, whole; and the part that the documentation shows."""
    for width in WIDTHS:
        for scheme in SCHEMES:
            context = browser.new_context(
                viewport={"width": width, "height": 900}, color_scheme=scheme
            )
            context.set_default_timeout(SLOWEST_MS)
            page = context.new_page()
            page.goto(url)
            page.screenshot(path=target / f"{name}-{width}-{scheme}.png", full_page=True)
            if name == "report" and scheme == SCHEMES[0]:
                page.screenshot(path=target / f"first-screen-{width}.png")
            if name in SHOWN and (width, scheme) == (WIDTHS[0], SCHEMES[0]):
                page.set_viewport_size({"width": 1120, "height": SHOWN[name]})
                page.screenshot(path=target / f"{name}.png")
            context.close()


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """`assizes serve` over the demo's store."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    process = subprocess.Popen([*COMMAND, "serve", "--store", STORE, "--port", port], cwd=folder)
    try:
        yield _answering(f"http://127.0.0.1:{port}", process)
    finally:
        process.terminate()
        process.wait(20)


def _answering(url: str, process: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(f"{url}/health", timeout=5).close()
        except OSError:
            time.sleep(0.1)
        else:
            return url
    sys.exit("make screenshots: `assizes serve` does not answer")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "screenshots"))
