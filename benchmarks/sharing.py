"""How fast a run writes to a store while a client keeps reading pages of another run of it.

    python -m benchmarks.sharing [--cases 20000]

The writer is at its fastest: it commits shard after shard and judges nothing, so that it waits for
readers as often as it can. A real `assizes serve` answers one client, which asks without a pause.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from assizes.judge.config.run import StoreConfig
from assizes.tasks.store import open_store
from benchmarks import bulk_rows
from benchmarks.figures import Figures
from benchmarks.serving import asked_ms, served

TIMES = 3
SHARD = 200
"""Cases of a shard, as by default."""

PAGES = (
    "/runs/base/cases?limit=50",
    "/runs/base/cases?passed=false&limit=50",
    "/runs/base/cases/case-00000007",
)


def main() -> None:
    """Measure, print, and end with one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000, help="cases that are written at a time")
    cases = parser.parse_args().cases
    figures = Figures()
    with tempfile.TemporaryDirectory(prefix="assizes-sharing-") as folder:
        add_sharing(figures, Path(folder), cases)
    figures.close()


def add_sharing(figures: Figures, folder: Path, cases: int) -> None:
    """Rows a second that a run writes alone, and which share of them it keeps beside a reader."""
    for kind, uri in (
        ("lake", f"{folder}/shared"),
        ("duckdb", f"duckdb:///{folder}/shared.duckdb"),
    ):
        with open_store(StoreConfig(uri=uri), writing=True) as store:
            bulk_rows.fill(store, "base", cases, SHARD)
        alone, beside, read = [], [], list[float]()
        with served(uri, first=PAGES[0]) as url:
            for turn in range(TIMES):  # by turns, as a machine has slow minutes
                alone.append(_rows_per_s(uri, f"alone-{turn}", cases))
                with _reading(url, read):
                    beside.append(_rows_per_s(uri, f"beside-{turn}", cases))
        figures.add(f"{kind}: rows/s written alone", statistics.median(alone))
        shares = [with_reader / without for with_reader, without in zip(beside, alone, strict=True)]
        figures.add(f"{kind}: share beside a reader", statistics.median(shares), least=0.7)
        figures.add(f"{kind}: page beside a writer, median ms", statistics.median(read))


def _rows_per_s(uri: str, run_id: str, cases: int) -> float:
    """Rows of tables `cases` and `scores` that a run writes, from the opening of the store on."""
    began = time.perf_counter()
    with open_store(StoreConfig(uri=uri), writing=True) as store:
        bulk_rows.fill(store, run_id, cases, SHARD)
    return cases * (1 + len(bulk_rows.METRICS)) / (time.perf_counter() - began)


@contextmanager
def _reading(url: str, read_ms: list[float]) -> Iterator[None]:
    """A client that asks for one page after the other; what each took is added to a list."""
    is_over = threading.Event()

    def read() -> None:
        number = 0
        while not is_over.is_set():
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
