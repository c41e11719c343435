"""P9 and P10: rows written, summed up and compared, against hand-written polars and DuckDB.

    python -m benchmarks.bulk [--rows 10000000] [--cases 1000000]

Every ratio is of two things measured in one run. Each job of P10 is a process of its own, so that
its peak of memory is its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from benchmarks import bulk_rows
from benchmarks.figures import ROOT, Figures
from judge.config import ComparisonConfig, RunConfig, StoreConfig
from tasks.store import open_store
from tasks.store.arrow import ArrowView

CHUNK_CASES = 100_000
TIMES = 3


def measured(act: Callable[[], object]) -> float:
    """Seconds of wall clock."""
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def written(rows: int, work: Path) -> dict[str, float]:
    """P9: the same frames by every way, chunk after chunk, the ways taking turns."""
    took = dict.fromkeys(("polars", "duckdb", "lake", "warehouse"), 0.0)
    con = duckdb.connect(work / "bare.duckdb")
    con.register("_none", ArrowView(bulk_rows.scores("r", 0, 1).clear()))
    con.execute("create table scores as select * from _none")
    lake = open_store(StoreConfig(uri=str(work / "lake")), writing=True)
    warehouse = open_store(StoreConfig(uri=f"duckdb:///{work}/store.duckdb"), writing=True)
    for store in (lake, warehouse):
        store.begin(bulk_rows.record("r"))
    per_chunk = CHUNK_CASES * len(bulk_rows.METRICS)
    for number, first in enumerate(range(0, rows, per_chunk)):
        frame = bulk_rows.scores("r", number * CHUNK_CASES, min(per_chunk, rows - first) // 9)
        ways: dict[str, Callable[[], object]] = {
            "polars": lambda f=frame, n=number: f.write_parquet(work / f"bare-{n}.parquet"),
            "duckdb": lambda f=frame: _inserted(con, f),
            "lake": lambda f=frame, n=number: lake.commit_shard("r", f"s{n}", {"scores": f}, {}),
            "warehouse": lambda f=frame, n=number: warehouse.commit_shard(
                "r", f"s{n}", {"scores": f}, {}
            ),
        }
        for way in (*ways,) if number % 2 else reversed((*ways,)):
            took[way] += measured(ways[way])
    took["duckdb"] += measured(con.close)
    took["warehouse"] += measured(warehouse.close)
    return took


def _inserted(con: duckdb.DuckDBPyConnection, rows: pl.DataFrame) -> None:
    con.register("_rows", ArrowView(rows))
    con.execute("insert into scores select * from _rows")
    con.unregister("_rows")


BY_HAND = """
with a as (
    select case_id, sum((value * 5)::int * (weight * 1000)::int) / 50.0 as points
    from read_parquet({baseline}) where part = '' and status = 'scored' group by case_id
), b as (
    select case_id, sum((value * 5)::int * (weight * 1000)::int) / 50.0 as points
    from read_parquet({candidate}) where part = '' and status = 'scored' group by case_id
)
select count(*), count(*) filter (b.points - a.points < -5), count(*) filter (b.points - a.points > 5)
from a full join b using (case_id)
"""

SUMMED_BY_HAND = """
with a as (
    select case_id, sum((value * 5)::int * (weight * 1000)::int) / 50.0 as points
    from read_parquet({baseline}) where part = '' and status = 'scored' group by case_id
)
select avg(points), stddev_samp(points), median(points), avg((points >= 50)::int),
    (select [median(agent_latency_ms), quantile_cont(agent_latency_ms, 0.95), max(agent_latency_ms)]
     from read_parquet({cases})),
    (select sum(agent_tokens) from read_parquet({cases}))
from a
"""

METRICS_BY_HAND = """
select count(*), avg(c.raw - b.raw), count(*) filter (c.raw < b.raw)
from read_parquet({baseline}) b join read_parquet({candidate}) c using (case_id, judge, metric)
where b.part = '' and c.part = '' group by metric
"""


def job(name: str, uri: str) -> dict[str, Any]:
    """One job of P10 in this process: seconds of each time, the peak in MiB, what it found."""
    with open_store(StoreConfig(uri=uri)) as store:
        took, found = [], None
        for _ in range(TIMES):
            began = time.perf_counter()
            found = JOBS[name](store)
            took.append(time.perf_counter() - began)
    # Not getrusage: its peak begins with that of the process that forked this one.
    status = Path("/proc/self/status").read_text().splitlines()
    (line,) = [one for one in status if one.startswith("VmHWM")]
    return {"seconds": min(took), "peak": int(line.split()[1]) / 1024, "found": found}


def _by_hand(query: str) -> Callable[[Any], Any]:
    def ask(store: Any) -> Any:
        files = {
            "baseline": [str(path) for path in store.sources("base", "scores")],
            "candidate": [str(path) for path in store.sources("cand", "scores")],
            "cases": [str(path) for path in store.sources("base", "cases")],
        }
        with duckdb.connect() as con:
            return str(con.sql(query.format(**files)).fetchall())[:300]

    return ask


def _summed(store: Any) -> Any:
    from judge.summary import summarise

    tables = (store.scan("base", name) for name in ("cases", "scores", "asks"))
    config = RunConfig.model_validate({"name": "bulk", "transcripts": {"uri": "t"}})
    read = store.scan("base", "cases").select(pl.len()).collect().item()
    summary = summarise(*tables, config, {"read": read})
    return [summary.avg_overall_score, summary.pass_rate, summary.latency_p95_ms]


def _compared(store: Any) -> Any:
    from judge.compare import compare
    from tasks.compared import run_data

    comparison = compare(run_data(store, "base"), run_data(store, "cand"), ComparisonConfig())
    aggregate = comparison.aggregate
    return [aggregate.total_regressions, aggregate.total_improvements, aggregate.total_unchanged]


JOBS: dict[str, Callable[[Any], Any]] = {
    "sum by hand": _by_hand(SUMMED_BY_HAND),
    "sum": _summed,
    "compare by hand": _by_hand(BY_HAND),
    "compare metrics by hand": _by_hand(METRICS_BY_HAND),
    "compare": _compared,
}


def ended(uri: str) -> None:
    """End both runs as the product does, so that they can be compared."""
    from dataclasses import replace
    from datetime import UTC, datetime

    from judge.rows import frame
    from judge.summary import summarise

    config = RunConfig.model_validate({"name": "bulk", "transcripts": {"uri": "t"}})
    with open_store(StoreConfig(uri=uri), writing=True) as store:
        for run_id in ("base", "cand"):
            tables = (store.scan(run_id, name) for name in ("cases", "scores", "asks"))
            read = store.scan(run_id, "cases").select(pl.len()).collect().item()
            summary = summarise(*tables, config, {"read": read})
            final = replace(
                bulk_rows.record(run_id),
                status="complete",
                finished_at=datetime(2026, 3, 2, tzinfo=UTC),
                summary=summary.model_dump(mode="json"),
            )
            store.finish(final, frame("run_metrics", []))


def in_a_process(name: str, uri: str) -> dict[str, Any]:
    """A job in a process of its own."""
    code = (
        f"import json; from benchmarks.bulk import job; print(json.dumps(job({name!r}, {uri!r})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    """Measure, print, and end with one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000, help="score rows to write")
    parser.add_argument("--cases", type=int, default=1_000_000, help="cases of each run compared")
    given = parser.parse_args()
    figures = Figures()
    with tempfile.TemporaryDirectory(prefix="assizes-bulk-") as folder:
        if given.rows:
            _figures_of_writing(written(given.rows, Path(folder)), given.rows, figures)
        if given.cases:
            _figures_of_reading(given.cases, f"{folder}/big", figures)
    figures.close()


def _figures_of_writing(took: dict[str, float], rows: int, figures: Figures) -> None:
    for way, seconds in took.items():
        figures.add(f"{way} M rows/s", rows / seconds / 1e6)
    figures.add("lake / polars rate", took["polars"] / took["lake"], least=0.5)
    figures.add("warehouse / duckdb rate", took["duckdb"] / took["warehouse"], least=0.5)


def _figures_of_reading(cases: int, uri: str, figures: Figures) -> None:
    with open_store(StoreConfig(uri=uri), writing=True) as store:
        bulk_rows.fill(store, "base", cases, CHUNK_CASES)
        bulk_rows.fill(store, "cand", cases, CHUNK_CASES, shift=1)
    ended(uri)
    found = {name: in_a_process(name, uri) for name in JOBS}
    for name, one in found.items():
        figures.add(f"{name}: s", one["seconds"])
        figures.add(f"{name}: peak MiB", one["peak"])
        print(f"    {one['found']}")
    summed = found["sum"]["seconds"] / found["sum by hand"]["seconds"]
    figures.add("sum / by hand", summed, most=1.2)
    figures.add("compare / by hand", _ratio(found, "compare by hand"), most=1.2)
    figures.add("compare / metrics by hand", _ratio(found, "compare metrics by hand"))
    figures.add("compare peak MiB", found["compare"]["peak"], most=400)


def _ratio(found: dict[str, Any], other: str) -> float:
    return float(found["compare"]["seconds"] / found[other]["seconds"])


if __name__ == "__main__":
    main()
