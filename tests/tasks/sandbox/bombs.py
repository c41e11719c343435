"""Runs statements that would take all time or memory, and prints what they took, as JSON.

A process of its own: the peak memory of children and of the parent is only known per process. The arguments are the
folder of the databases, the seconds that one statement may take, and the statements to run, where not all.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from pathlib import Path

from assizes.judge.protocol import Query, QueryResult
from assizes.tasks.sandbox.child import Caps
from assizes.tasks.sandbox.sql_runner import SandboxSqlRunner

_COUNT = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)"

BOMBS = (
    ("sqlite", f"{_COUNT} SELECT count(*) FROM c"),
    ("sqlite", f"{_COUNT} SELECT * FROM c"),
    ("sqlite", f"{_COUNT} SELECT x FROM c ORDER BY x DESC"),
    ("sqlite", f"{_COUNT} SELECT group_concat(hex(zeroblob(4000000))) FROM c LIMIT 1"),
    (
        "sqlite",
        "WITH RECURSIVE c(x) AS (SELECT zeroblob(9000000) UNION ALL SELECT zeroblob(9000000) FROM c"
        " LIMIT 900) SELECT x FROM c ORDER BY x",
    ),
    ("sqlite", "SELECT hex(zeroblob(1000000000))"),
    ("sqlite", "SELECT replace(hex(zeroblob(4000000)), '0', hex(zeroblob(4000000)))"),
    ("sqlite", "SELECT printf('%.*c', 1000000000, 'x')"),
    (
        "sqlite",
        "SELECT hex(zeroblob(4000000)) LIKE '%' || replace(hex(zeroblob(200)), '0', '0%') || '1'",
    ),
    ("sqlite", "SELECT " + "(" * 20_000 + "1" + ")" * 20_000),
    (
        "sqlite",
        f"{_COUNT} SELECT count(*) FROM c AS a, c AS b, c AS d WHERE a.x + b.x = d.x",
    ),
    ("duckdb", "SELECT count(*) FROM range(1000000000) a, range(1000000000) b WHERE a.range > 1"),
    ("duckdb", "SELECT len(range(100000000))"),
    ("duckdb", "SELECT len(repeat('x', 1000000000))"),
    ("duckdb", "SELECT sum(len(repeat('x', 1000000))) FROM range(1000000)"),
    ("duckdb", "SELECT lpad('x', 2000000000, 'y')"),
    ("duckdb", "SELECT * FROM range(1000000000) ORDER BY hash(range)"),
    ("duckdb", "SELECT list(range) FROM range(1000000000)"),
    ("duckdb", f"{_COUNT} SELECT count(*) FROM c"),
    ("duckdb", "SELECT range, count(*) FROM range(1000000000) GROUP BY range"),
    ("duckdb", "SELECT sleep_ms(60000)"),
    ("duckdb", "SELECT repeat('x', 999) || range FROM range(1000000000)"),
    ("duckdb", "SELECT regexp_matches(repeat('a', 50000000), '(a?){900}a{900}$')"),
    ("duckdb", "SELECT " + "(" * 20_000 + "1" + ")" * 20_000),
)


def _peak_mb(whose: int) -> float:
    return resource.getrusage(whose).ru_maxrss / 1024


async def _took(runner: SandboxSqlRunner, engine: str, statement: str) -> dict[str, object]:
    begun = time.perf_counter()
    found = await runner.look_up(Query(f"guests.{engine}", (statement,)))
    seconds = time.perf_counter() - begun
    assert isinstance(found, QueryResult)
    table = found.tables[0]
    said = table.error or ("cut" if table.truncated else "answered")
    return {"engine": engine, "bomb": statement[:90], "seconds": seconds, "said": said[:200]}


async def _all(folder: Path, time_s: float, only: list[str]) -> dict[str, object]:
    runner = SandboxSqlRunner(folder, caps=Caps(time_s=time_s))
    await runner.look_up(Query("guests.sqlite", ("SELECT 1",)))
    before = _peak_mb(resource.RUSAGE_SELF)
    bombs = [one for one in BOMBS if not only or one[1] in only]
    halves = [bombs[::2], bombs[1::2]]

    async def one_by_one(bombs):
        return [await _took(runner, engine, statement) for engine, statement in bombs]

    took = [one for half in await asyncio.gather(*map(one_by_one, halves)) for one in half]
    await runner.aclose()
    return {
        "bombs": took,
        "child_mb": _peak_mb(resource.RUSAGE_CHILDREN),
        "parent_mb": _peak_mb(resource.RUSAGE_SELF) - before,
        "left": sorted(runner.pids),
    }


if __name__ == "__main__":
    _, folder, time_s, *only = sys.argv
    sys.stdout.write(json.dumps(asyncio.run(_all(Path(folder), float(time_s), only))))
