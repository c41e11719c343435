"""A whole evaluation of twelve cases, without Prefect's server, in a child that may be killed.

Children are forked from a server that has imported everything and has run nothing, so that each
costs a fraction of a second.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from assizes.deployments.samples import sample_cases
from assizes.deployments.settings import validate_config
from assizes.judge.config.run import RunConfig, StoreConfig
from assizes.judge.engine.ledger import CachedReply
from assizes.judge.errors import StoreError
from assizes.judge.formats import native_line
from assizes.judge.models.model import Completion
from assizes.tasks.context.run_context import open_run_context
from assizes.tasks.judge_shard import judge_shard
from assizes.tasks.plan import RunRequest, plan_run
from assizes.tasks.reports.stored import read_report, write_report_files
from assizes.tasks.runtime import failpoints
from assizes.tasks.spending.reply_cache import FileReplyCache
from assizes.tasks.store import Store, open_store, rebuild_store
from assizes.tasks.store.lake import ParquetStore
from assizes.tasks.store.upkeep import (
    DataSubject,
    collect_garbage,
    compact_run,
    find_subject,
    forget_subject,
)
from assizes.tasks.summarise import compare_with_baseline, summarise_run
from tests.soak.rows import content

CASES, SHARD = 12, 4
RUNS = ("base", "cand")
_TABLES = ("scores", "asks", "cases", "rejects", "run_metrics")

_spawn = multiprocessing.get_context("forkserver")
_spawn.set_forkserver_preload(
    [
        "tests.soak.small",
        "tests.soak.writers",
        "assizes.tasks.store.lake",
        "assizes.tasks.store.bucket",
        "assizes.tasks.store.rebuild",
        "assizes.judge.heuristic.answers",
        "botocore.exceptions",
        "s3fs",
        "tests.soak.preloaded",
    ]
)


@dataclass(frozen=True)
class Child:
    """What a child is to do: `work` a function of a module, `folder` its place."""

    work: Callable[[Child], object]
    folder: Path
    store: StoreConfig
    failpoint: str = ""
    runs: tuple[str, ...] = RUNS
    reporting: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def said(self) -> Path:
        """Where the child writes its answer."""
        return self.folder / "said.json"

    @property
    def acked(self) -> Path:
        """Where it notes, line by line, what it was told is committed."""
        return self.folder / "acked"


def start(child: Child) -> Any:
    """The process of a child, started."""
    child.said.unlink(missing_ok=True)
    process = _spawn.Process(target=_run, args=(child,), daemon=True)
    process.start()
    return process


def run(child: Child) -> int:
    """Run a child to its end; its exit code, negative for a signal."""
    process = start(child)
    process.join(120)
    code = process.exitcode
    process.close()
    assert code is not None
    return int(code)


def _run(child: Child) -> None:
    os.environ.update(child.environment)
    failpoints.arm(child.failpoint)
    child.said.write_text(json.dumps(child.work(child)), "utf-8")


def environment() -> dict[str, str]:
    """What a child needs to know of this process: credentials of the S3 server."""
    return {name: value for name, value in os.environ.items() if name.startswith("AWS_")}


def transcripts(folder: Path) -> None:
    """Write the input."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = b"".join(native_line(case) for case in sample_cases()[:CASES])
    (folder / "t.jsonl").write_bytes(lines)


def config(child: Child, baseline: str | None) -> RunConfig:
    """The configuration of a run."""
    body: dict[str, Any] = {
        "name": "small",
        "transcripts": {"uri": str(child.folder.parent / "input" / "t.jsonl")},
        "store": child.store.model_dump(),
        "cache": {"uri": str(child.folder / "replies")},
        "report": {"uri": str(child.folder / "reports")},
        "runner": {"shard_size": SHARD},
    }
    if baseline:
        body["comparison"] = {"baseline": baseline}
    return validate_config(body, "test")


def evaluate_both(child: Child) -> dict[str, Any]:
    """Run, or resume, a baseline and a run compared with it; what the store then holds."""
    before = committed(child)
    for run_id in child.runs:
        wanted = config(child, None if run_id == RUNS[0] else RUNS[0])
        asyncio.run(_evaluate(child, wanted, run_id))
    with open_store(child.store) as store:
        return {"before": before, "rows": rows_of_runs(store), "reports": _reports(child)}


def committed(child: Child) -> dict[str, list[str]]:
    """Shards committed in the store as it was left, by run; none where there is no store."""
    try:
        with open_store(child.store) as store:
            return {run_id: sorted(store.shard_counts(run_id)) for run_id in store.runs()["run_id"]}
    except StoreError as error:
        if "no store at" not in str(error):
            raise
        return {}


async def _evaluate(child: Child, wanted: RunConfig, run_id: str) -> None:
    async with open_run_context(wanted) as room:
        planned = await plan_run.fn(room, RunRequest("adhoc", run_id))
        done = () if planned.is_finished else room.store.shard_counts(run_id)
        for shard in planned.intake.shards:
            if planned.is_finished or shard.shard_id in done:
                continue
            await judge_shard.fn(room, run_id, shard)
            with child.acked.open("a", encoding="utf-8") as file:
                file.write(f"{run_id} {shard.shard_id}\n")
            if shard is planned.intake.shards[0]:
                # As if the next shard could not be had: the run stops, and is resumed at once.
                await summarise_run.fn(room, planned, has_lost_shards=True)
        ended, _ = await summarise_run.fn(room, planned, has_lost_shards=False)
        against = await compare_with_baseline.fn(room, ended)
        if child.reporting and run_id != RUNS[0]:
            report = read_report(room.store, ended.record, against.comparison)
            write_report_files(report, wanted.report)


def rows_of_runs(store: Store) -> dict[str, str]:
    """A hash of every table, without the times at which a run began and ended."""
    runs = store.runs().drop("day", "started_at", "finished_at", "config").sort("run_id")
    found = {"runs": content(runs), "comparisons": content(store.comparisons().drop("at"))}
    for run_id in runs["run_id"]:
        for table in _TABLES:
            found[f"{run_id}/{table}"] = content(_stable(store.table(run_id, table)))
    return found


def _stable(rows: Any) -> Any:
    return rows.drop("latency_ms", strict=False)


def _reports(child: Child) -> list[str]:
    folder = child.folder / "reports"
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("report.*"))


def keep_in_order(child: Child) -> dict[str, Any]:
    """Compact a complete run, forget one of its cases, collect what is left over."""
    before = committed(child)
    asyncio.run(_evaluate(child, config(child, None), RUNS[0]))
    with open_store(child.store, writing=True) as store:
        case_id = sample_cases()[0].case_id
        if isinstance(store, ParquetStore):
            compact_run(store, RUNS[0])
        forget_subject(store, find_subject(store, DataSubject(case_id, {})))
        collect_garbage(store, older_than=timedelta(0), removing=True)
        parts = (
            len(store.objects.names(f"runs/{RUNS[0]}/parts"))
            if isinstance(store, ParquetStore)
            else 0
        )
        assert find_subject(store, DataSubject(case_id, {})) == []
        return {"before": before, "rows": {**rows_of_runs(store), "parts": parts}, "reports": []}


def rebuild_it(child: Child) -> dict[str, Any]:
    """A file that is cut is rebuilt from a Parquet copy; both lie in the folder of the store."""
    file = child.folder / "store" / "a.duckdb"
    lake = StoreConfig(uri=str(child.folder / "store" / "lake"))
    if not lake_is_there(lake):
        _copied_into(child, lake)
        file.write_bytes(file.read_bytes()[:5000])
        child.acked.unlink()
    if not _is_whole(child.store):
        rebuild_store(child.store, lake)
    with open_store(child.store) as store:
        damaged = sorted(path.name for path in file.parent.glob("*.damaged-*"))
        rows = {**rows_of_runs(store), "aside": damaged}
        return {"before": {}, "rows": rows, "reports": []}


def _is_whole(place: StoreConfig) -> bool:
    try:
        open_store(place).close()
    except StoreError:
        return False
    return True


def lake_is_there(lake: StoreConfig) -> bool:
    """Whether the Parquet copy was made."""
    return (Path(lake.uri) / "runs" / RUNS[0] / "SUCCESS.json").exists()


def _copied_into(child: Child, lake: StoreConfig) -> None:
    """The same run, evaluated into a Parquet store."""
    other = replace(child, store=lake)
    asyncio.run(_evaluate(other, config(other, None), RUNS[0]))


def keep_replies(child: Child) -> dict[str, Any]:
    """Keep twelve replies, and read back all of them."""
    replies = FileReplyCache(str(child.folder / "replies"))

    async def work() -> list[str]:
        for number in range(CASES):
            key = f"{number:02d}" * 8
            kept = await replies.get(key)
            if kept is None:
                await replies.store(
                    key, CachedReply(Completion(f"reply {number} " + "x" * 500, "m"))
                )
            elif kept.completion.text != f"reply {number} " + "x" * 500:
                raise AssertionError(f"a torn reply: {kept.completion.text[:40]}")
            with child.acked.open("a", encoding="utf-8") as file:
                file.write(f"replies {key}\n")
        return [
            found.completion.text
            for n in range(CASES)
            if (found := await replies.get(f"{n:02d}" * 8))
        ]

    kept = [path.stem for path in (child.folder / "replies").rglob("[!.]*.json")]
    return {"before": {"replies": sorted(kept)}, "rows": asyncio.run(work()), "reports": []}
