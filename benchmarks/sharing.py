"""How fast a run writes to a store while a client keeps reading pages of another run of it.

    python -m benchmarks.sharing [--cases 4000]

The run is judged by `offline/lexical`, which is faster than any model over a network, so that it
commits more often than other runs do. A real `assizes serve` answers one client, which asks for up to
five pages a second: as many as fifty people who each look at a page for ten seconds. Beside it stands what a writer keeps that judges nothing and
only commits, as `assizes store copy` does: it has no goal, as it wants the file all the time.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl

import assizes
from assizes.judge.config.run import RunConfig, StoreConfig
from assizes.judge.rows import SHARD_TABLES
from assizes.judge.verdicts.executions import collect_rows
from assizes.tasks.store import open_store
from benchmarks import bulk_rows, conversations
from benchmarks.figures import Figures
from benchmarks.serving import asked_ms, served

TIMES = 2
SHARD = 200
"""Cases of a shard, as by default."""

BASE = 10_000
"""Cases of the run whose pages are read."""

PAUSE_S = 0.2
"""Seconds between two pages. Without a pause, client and server would take one of two cores."""

PAGES = (
    "/runs/base/cases?limit=50",
    "/runs/base/cases?passed=false&limit=50",
    "/runs/base/cases/case-00000007",
)


def main() -> None:
    """Measure, print, and end with one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=4000, help="cases that a run judges")
    cases = parser.parse_args().cases
    figures = Figures()
    with tempfile.TemporaryDirectory(prefix="assizes-sharing-") as name:
        folder = Path(name)
        os.environ["ASSIZES_HOME"] = str(folder / "home")
        conversations.write(folder / "in", cases)
        _judged_rows_per_s(f"{folder}/first", folder, "first")  # what is imported and started once
        for kind, uri in (
            ("lake", f"{folder}/shared"),
            ("duckdb", f"duckdb:///{folder}/shared.duckdb"),
        ):
            _add(figures, kind, uri, folder)
    figures.close()


def _add(figures: Figures, kind: str, uri: str, folder: Path) -> None:
    """Rows a second that a run writes alone, and which share of them it keeps beside a reader."""
    with open_store(StoreConfig(uri=uri), writing=True) as store:
        bulk_rows.fill(store, "base", BASE, SHARD)
    writers: dict[str, Callable[[str], float]] = {
        "judging": lambda name: _judged_rows_per_s(uri, folder, f"{kind}-{name}"),
        "only writing": lambda name: _bare_rows_per_s(uri, name),
    }
    with served(uri, first=PAGES[0]) as url:
        for writer, rows_per_s in writers.items():
            alone, beside, read = list[float](), list[float](), list[float]()
            for turn in range(TIMES):  # by turns, as a machine has slow minutes
                alone.append(rows_per_s(f"{writer.split()[0]}-alone-{turn}"))
                with _reading(url, read):
                    beside.append(rows_per_s(f"{writer.split()[0]}-beside-{turn}"))
            shares = [least / most for least, most in zip(beside, alone, strict=True)]
            goal = 0.7 if writer == "judging" else None
            figures.add(f"{kind}, {writer}: rows/s alone", statistics.median(alone))
            figures.add(
                f"{kind}, {writer}: share beside a reader", statistics.median(shares), least=goal
            )
            figures.add(f"{kind}, {writer}: page, median ms", statistics.median(read))


def _judged_rows_per_s(uri: str, folder: Path, name: str) -> float:
    """Rows a second that a run of `assizes.evaluate` stores, from its call to its return."""
    config = RunConfig.model_validate(
        {
            "name": name,
            "transcripts": {"uri": f"{folder}/in/*.jsonl"},
            "store": {"uri": uri},
            "cache": {"uri": f"{folder}/cache-{name}"},
            "limits": {"ledger": f"{folder}/ledger-{name}.db"},
        }
    )
    began = time.perf_counter()
    assizes.evaluate(config)
    took = time.perf_counter() - began
    with open_store(config.store) as store:
        run_id = store.run(name).run_id
        tables = [store.scan(run_id, table).select(pl.len()) for table in SHARD_TABLES]
        return sum(int(collect_rows(table).item()) for table in tables) / took


def _bare_rows_per_s(uri: str, run_id: str) -> float:
    """Rows of tables `cases` and `scores` that are committed, from the opening of the store on."""
    began = time.perf_counter()
    with open_store(StoreConfig(uri=uri), writing=True) as store:
        bulk_rows.fill(store, run_id, BASE, SHARD)
    return BASE * (1 + len(bulk_rows.METRICS)) / (time.perf_counter() - began)


@contextmanager
def _reading(url: str, read_ms: list[float]) -> Iterator[None]:
    """A client that asks for a page every `PAUSE_S`; what each took is added to a list."""
    is_over = threading.Event()

    def read() -> None:
        number = 0
        while not is_over.wait(PAUSE_S):
            read_ms.append(asked_ms(url + PAGES[number % len(PAGES)]))
            number += 1

    client = threading.Thread(target=read)
    client.start()
    try:
        yield
    finally:
        is_over.set()
        client.join()


if __name__ == "__main__":
    main()
