"""Rows written, summed up and compared, against hand-written polars and DuckDB.

    python -m benchmarks.bulk [--rows 10000000] [--cases 1000000]

Every ratio is of two things measured in one run. Each job of reading is a process of its own, so that
its peak of memory is its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from assizes.judge.config.gates import ComparisonConfig
from assizes.judge.config.run import RunConfig, StoreConfig
from assizes.tasks.store import open_store
from assizes.tasks.store.record import ArrowView
from benchmarks import bulk_rows
from benchmarks.figures import ROOT, Figures

CHUNK_CASES = 100_000
TIMES = 3


def measured(act: Callable[[], object]) -> float:
    """Seconds of wall clock."""
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def written(rows: int, work: Path) -> dict[str, float]:
    """Seconds of writing: the same frames by every way, chunk after chunk, the ways taking turns."""
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
        cases = min(per_chunk, rows - first) // len(bulk_rows.METRICS)
        frame = bulk_rows.scores("r", number * CHUNK_CASES, cases)
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
    took["lake"] += measured(lake.close)
    took["warehouse"] += measured(warehouse.close)
    return took


def _inserted(con: duckdb.DuckDBPyConnection, rows: pl.DataFrame) -> None:
    con.register("_rows", ArrowView(rows))
    con.execute("insert into scores select * from _rows")
    con.unregister("_rows")


FLAGS_BY_HAND = """
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
"""What the comparison would take if no case row held a score: the classical query, for reference."""

SUMMED_BY_HAND = (
    """
select status, passed, gate, root_cause, count(*), avg(overall_score), stddev_samp(overall_score),
    sum(agent_tokens), sum(agent_cost_usd), count(distinct case_id)
from read_parquet({cases}) group by all
""",
    """
select median(agent_latency_ms), quantile_cont(agent_latency_ms, 0.95), max(agent_latency_ms),
    avg(agent_latency_ms) from read_parquet({cases}) where status != 'skipped'
""",
    """
select judge, metric, tier, status, label, count(*), avg(raw), avg(value), stddev_samp(raw),
    stddev_samp(value), avg(passed::int), min(weight)
from read_parquet({baseline}) where part = '' group by all
""",
    """
select tier, avg(points) from (
    select tier, round(sum(value * weight) / sum(weight) * 100, 2) as points
    from read_parquet({baseline}) where part = '' and status = 'scored' and weight > 0
    group by tier, case_id, repetition
) group by tier
""",
    """
select metric, failure_code, count(*) from read_parquet({baseline})
where part = '' and failure_code is not null group by all
""",
    """
select count(*) from read_parquet({baseline})
where part = '' and (contains(details, '"votes":') or contains(details, '"first_votes":'))
""",
)

CASES_BY_HAND = """
with paired as (
    select b.passed as was, c.passed as is_now, round(c.overall_score - b.overall_score, 2) as delta,
        b.overall_score as before, c.overall_score as after, b.status as s, c.status as t,
        b.agent_latency_ms as old_ms, c.agent_latency_ms as new_ms
    from read_parquet({cases}) b join read_parquet({cases_after}) c using (case_id)
)
select case when s = 'errored' or t = 'errored' then 'error'
        when was and not is_now then 'regression' when is_now and not was then 'improvement'
        when delta < -5 then 'regression' when delta > 5 then 'improvement'
        else 'unchanged' end as status,
    count(*), avg(was::int), avg(is_now::int), avg(before), avg(after), avg(old_ms), avg(new_ms),
    stddev_samp(is_now::int - was::int), stddev_samp(delta), quantile_cont(old_ms, 0.95),
    quantile_cont(new_ms, 0.95)
from paired group by all
"""

METRICS_BY_HAND = """
select judge, metric, count(*), avg(b.raw), avg(c.raw), avg(c.value - b.value),
    stddev_samp(c.value - b.value), count(*) filter (c.raw < b.raw)
from read_parquet({baseline}) b join read_parquet({candidate}) c using (case_id, judge, metric)
where b.part = '' and c.part = '' and b.status = 'scored' and c.status = 'scored'
group by judge, metric
"""


def job(name: str, uri: str) -> dict[str, Any]:
    """One job of reading in this process: seconds of wall clock and of CPU of the fastest time, the
    peaks in MiB after the first and the last, what it found.
    """
    with open_store(StoreConfig(uri=uri)) as store:
        took, used, peaks, found = [], [], [], None
        for _ in range(TIMES):
            began, begun = time.perf_counter(), time.process_time()
            found = JOBS[name](store)
            took.append(time.perf_counter() - began)
            used.append(time.process_time() - begun)
            peaks.append(_peak())
    return {
        "seconds": min(took),
        "cpu": min(used),
        "peak": peaks[0],
        "peak again": peaks[-1],
        "found": found,
    }


def _peak() -> float:
    """MiB. Not getrusage: its peak begins with that of the process that forked this one."""
    status = Path("/proc/self/status").read_text().splitlines()
    (line,) = [one for one in status if one.startswith("VmHWM")]
    return int(line.split()[1]) / 1024


def _by_hand(*queries: str) -> Callable[[Any], Any]:
    def ask(store: Any) -> Any:
        files = {
            "baseline": _files(store, "base", "scores"),
            "candidate": _files(store, "cand", "scores"),
            "cases": _files(store, "base", "cases"),
            "cases_after": _files(store, "cand", "cases"),
        }
        with duckdb.connect() as con:
            con.execute("set enable_progress_bar = false")
            return str([con.sql(query.format(**files)).fetchall() for query in queries])[:300]

    return ask


def _files(store: Any, run_id: str, table: str) -> list[str]:
    return [str(path) for path in store.sources(run_id, table)]


def _summed(store: Any) -> Any:
    from assizes.judge.summary.summary import summarise

    tables = (store.scan("base", name) for name in ("cases", "scores", "asks"))
    config = RunConfig.model_validate({"name": "bulk", "transcripts": {"uri": "t"}})
    read = store.scan("base", "cases").select(pl.len()).collect().item()
    summary = summarise(*tables, config, {"read": read})
    return [summary.avg_overall_score, summary.pass_rate, summary.latency_p95_ms]


def _compared(mode: str) -> Callable[[Any], Any]:
    def ask(store: Any) -> Any:
        from assizes.judge.comparison.compare import compare
        from assizes.tasks.runs.stored_comparison import run_data

        limits = ComparisonConfig.model_validate({"mode": mode})
        comparison = compare(run_data(store, "base"), run_data(store, "cand"), limits)
        totals = comparison.aggregate
        return [totals.total_regressions, totals.total_improvements, totals.total_unchanged]

    return ask


JOBS: dict[str, Callable[[Any], Any]] = {
    "sum by hand": _by_hand(*SUMMED_BY_HAND),
    "sum": _summed,
    "flags by hand": _by_hand(FLAGS_BY_HAND),
    "compare by hand": _by_hand(CASES_BY_HAND, METRICS_BY_HAND),
    "compare, rules": _compared("rules"),
    "compare": _compared("both"),
}


def ended(uri: str, run_ids: Sequence[str] = ("base", "cand")) -> None:
    """End runs as the product does, so that they can be compared."""
    from dataclasses import replace
    from datetime import UTC, datetime

    from assizes.judge.rows import frame
    from assizes.judge.summary.summary import summarise

    config = RunConfig.model_validate({"name": "bulk", "transcripts": {"uri": "t"}})
    with open_store(StoreConfig(uri=uri), writing=True) as store:
        for run_id in run_ids:
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
        figures.add(f"{name}: CPU s", one["cpu"])
        figures.add(f"{name}: peak MiB", one["peak"])
        figures.add(f"{name}: peak MiB, {TIMES} times", one["peak again"])
        print(f"    {one['found']}")
    for name, hand in (
        ("sum", "sum by hand"),
        ("compare, rules", "compare by hand"),
        ("compare", "compare by hand"),
    ):
        figures.add(f"{name} / by hand", found[name]["seconds"] / found[hand]["seconds"], most=1)
        # On a machine that does other things as well, the processor's time says more.
        figures.add(f"{name}, CPU / by hand", found[name]["cpu"] / found[hand]["cpu"])
        figures.add(f"{name}, peak / by hand", found[name]["peak"] / found[hand]["peak"])
    for name in ("sum", "compare, rules", "compare"):
        figures.add(f"{name} peak MiB", found[name]["peak"], most=400)


if __name__ == "__main__":
    main()
