"""The HTTP API and the report over runs of 10,000 cases: latencies in ms, seconds, megabytes.

    python -m benchmarks.serving [--cases 10000]

A real `assizes serve` over a Parquet store and over a DuckDB file, asked by one client in turn.
`cold` is the first request of its kind that a new server answers, in the order in which they are
printed; median and p95 are of the warm requests after it. No sentence of a conversation comes twice
in a run, and the page of a case is asked for another case each time.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from assizes.judge.config.run import StoreConfig
from assizes.tasks.store import open_store
from benchmarks import bulk_rows, conversations
from benchmarks.bulk import ended
from benchmarks.figures import ROOT, Figures, p95

TIMES = 30
LISTS = {
    "runs": "/runs",
    "cases": "/runs/cand/cases",
    "cases, failed": "/runs/cand/cases?passed=false&limit=100",
}
SINGLE = {"run": "/runs/cand", "case": "/runs/cand/cases/case-00000007"}
"""Without a goal; printed beside the lists."""
COMPARE = "/runs/compare?baseline=base&candidate=cand"
PAIR = "/view/compare/case?baseline=talk-1&candidate=talk-2&case=case-{:08d}"
"""One case of two runs side by side; its conversations are read from a file of all cases."""


def main() -> None:
    """Measure, print, and end with one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000, help="cases of each run")
    cases = parser.parse_args().cases
    figures = Figures()
    with tempfile.TemporaryDirectory(prefix="assizes-serving-") as folder:
        for kind, uri in (
            ("lake", f"{folder}/lake"),
            ("duckdb", f"duckdb:///{folder}/store.duckdb"),
        ):
            with open_store(StoreConfig(uri=uri), writing=True) as store:
                bulk_rows.fill(store, "base", cases, 1000)
                bulk_rows.fill(store, "cand", cases, 1000, shift=1)
            ended(uri)
            with served(uri, warm=False) as url:
                for name, path in LISTS.items():
                    _add(figures, f"{kind}: {name}", f"{url}{path}", most=50)
                for name, path in SINGLE.items():
                    _add(figures, f"{kind}: {name}", f"{url}{path}")
                _add(figures, f"{kind}: compare", f"{url}{COMPARE}", most=300)
            _add_report(figures, kind, uri, Path(folder, f"{kind}-report"))
            _add_pairs(figures, kind, Path(folder, f"{kind}-talks"), uri, cases)
    figures.close()


def _add_pairs(figures: Figures, kind: str, folder: Path, uri: str, cases: int) -> None:
    """The page of a case side by side: the first of a new server, then cases all over the run."""
    with open_store(StoreConfig(uri=uri), writing=True) as store:
        for shift, run_id in enumerate(("talk-1", "talk-2")):
            conversations.fill(store, folder / run_id, run_id, cases, shift)
    with served(uri, warm=False) as url:
        cold = asked_ms(url + PAIR.format(cases // 2))
        figures.add(f"{kind}: side by side, cold ms", cold)
        # Another case each time: no cache of a case can help.
        took = sorted(asked_ms(url + PAIR.format(n * cases // TIMES)) for n in range(TIMES))
    figures.add(f"{kind}: side by side, median ms", statistics.median(took))
    figures.add(f"{kind}: side by side, p95 ms", p95(took), most=300)


def _add(figures: Figures, name: str, url: str, most: float | None = None) -> None:
    figures.add(f"{name}, cold ms", asked_ms(url))
    took = sorted(asked_ms(url) for _ in range(TIMES))
    figures.add(f"{name}, median ms", statistics.median(took))
    figures.add(f"{name}, p95 ms", p95(took), most=most)


def _add_report(figures: Figures, kind: str, uri: str, folder: Path) -> None:
    """The report as `assizes report` writes it, from the start of the command on."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "assizes.deployments.cli", "report", "cand"]
    rest = ["--store", uri, "--output", str(folder)]
    subprocess.run([*command, *rest], env=_env(), check=True, capture_output=True)
    figures.add(f"{kind}: report s", time.perf_counter() - began, most=5)
    (html,) = folder.rglob("*.html")
    figures.add(f"{kind}: report MB", html.stat().st_size / 1e6, most=5)


def _env() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def asked_ms(url: str) -> float:
    """Milliseconds until the whole answer of a request is there."""
    began = time.perf_counter()
    with urllib.request.urlopen(url, timeout=120) as answer:
        answer.read()
    return (time.perf_counter() - began) * 1000


@contextmanager
def served(uri: str, first: str = COMPARE, *, warm: bool = True) -> Iterator[str]:
    """The address of an `assizes serve` over a store; `warm`: it has been asked for `first`."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "assizes.deployments.cli", "serve", "--store", uri]
    process = subprocess.Popen([*command, "--port", str(port)], env=_env())
    url = f"http://127.0.0.1:{port}"
    try:
        _wait(url)
        if warm:  # what is imported with the first request is not the answer
            asked_ms(f"{url}/runs")
            asked_ms(f"{url}{first}")
        yield url
    finally:
        process.terminate()
        process.wait(20)


def _wait(url: str) -> None:
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline:
        try:
            asked_ms(f"{url}/health")
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
        else:
            return
    raise SystemExit("the server does not answer")


if __name__ == "__main__":
    main()
