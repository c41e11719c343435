"""Hostile names in every place where one becomes part of a path: what got out of its folder.

Each function takes a fresh folder and answers with the escapes, by name; canaries lie around the
folder that a name should stay in.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final
from zipfile import ZipFile

from assizes.judge.config.run import RunConfig, StoreConfig
from assizes.judge.config.transcripts import TranscriptsConfig
from assizes.judge.errors import AssizesError
from assizes.judge.formats import native_line
from assizes.judge.protocol import Query, QueryResult
from assizes.tasks.intake.run_sources import transcript_sources
from assizes.tasks.intake.shards import plan_intake, read_shard
from assizes.tasks.reports import write_report
from assizes.tasks.sandbox.sql_runner import SandboxSqlRunner
from assizes.tasks.sources.spool import Spool
from assizes.tasks.sources.unpacking import ObjectBounds, archive_to_lines
from assizes.tasks.store import open_store
from tests.builders import agent, case, user
from tests.hostile import PATHS
from tests.tasks.reports.sample import Said, run
from tests.tasks.sandbox.databases import CANARY, sqlite_file

OBSERVATION: Final = {
    "id": "o1", "trace_id": "t1", "type": "GENERATION", "start_time": "2026-11-20 01:00:00",
    "input": CANARY, "output": CANARY,
}  # fmt: skip


def laid_out(root: Path) -> Path:
    """A folder two steps down, with canaries where names would lead that step out of it."""
    home = root / "a" / "b"
    home.mkdir(parents=True)
    line = native_line(case(user("Hi"), agent("Hello"), case_id=CANARY))
    for above in (root, root / "a"):
        for name in ("x", "x.jsonl", "etc/passwd", "y"):
            (above / name).parent.mkdir(exist_ok=True)
            (above / name).write_bytes(line)
        sqlite_file(above / "canary.sqlite", f"CREATE TABLE s AS SELECT '{CANARY}' AS name")
    return home


def around(root: Path, home: Path) -> dict[str, bytes]:
    """Every file that is not in the folder."""
    found = (path for path in root.rglob("*") if path.is_file() and not path.is_relative_to(home))
    return {str(path): path.read_bytes() for path in found}


def written(
    root: Path, write: Callable[[Path, str], None], ready: Callable[[], None] = lambda: None
) -> list[str]:
    """Names for which something outside of the folder was made or changed."""
    home = laid_out(root)
    ready()
    before, escapes = around(root, home), []
    for name in PATHS:
        try:
            write(home, name)
        except AssizesError:
            continue
        finally:
            if (after := around(root, home)) != before:
                escapes.append(name)
                before = after
    return escapes


def run_ids(root: Path) -> list[str]:
    """As ids of runs and of shards, in both kinds of store, and of reports."""
    made = run([Said("a", (5, 5))])
    record = replace(made.record, run_id="fine", status="running", finished_at=None, summary=None)
    data = made.data()
    home = root / "a" / "b"
    with ExitStack() as opened:

        def write(home: Path, name: str) -> None:
            named = {**data, "run": {**data["run"], "run_id": name}}
            for store in stores:
                for attempt in (
                    partial(store.begin, replace(record, run_id=name)),
                    partial(store.commit_shard, "fine", name, made.frames, {}),
                    partial(write_report, named, str(home / "reports")),
                ):
                    with suppress(AssizesError):
                        attempt()

        stores = []

        def ready() -> None:
            for uri in (str(home / "lake"), f"duckdb:///{home}/s.duckdb"):
                stores.append(opened.enter_context(open_store(StoreConfig(uri=uri), writing=True)))
                stores[-1].begin(record)

        return written(root, write, ready)


def manifests(root: Path) -> list[str]:
    """As entries of a list of objects."""
    home, escapes = laid_out(root), []
    for name in PATHS:
        (home / "list.json").write_text(json.dumps([name]), "utf-8")
        config = TranscriptsConfig(uri=str(home / "list.json"), manifest=True)
        with Spool.of(config) as spool:
            try:
                found = transcript_sources(config, None, spool)
            except AssizesError:
                continue
        escapes += [name for one in found if _is_outside(one.uri, home)]
    return escapes


def exports(root: Path) -> list[str]:
    """As keys in the manifest of an export."""
    home, escapes = laid_out(root), []
    for above in (root, root / "a"):
        (above / "x").write_text(json.dumps(OBSERVATION), "utf-8")
    (home / "manifests").mkdir()
    for name in PATHS:
        for key in (name, f"prefix/{name}", f"{name}/x"):
            (home / "manifests" / "m.json").write_text(
                json.dumps({"files": [{"key": key}]}), "utf-8"
            )
            try:
                told = _taken_in(TranscriptsConfig(uri=str(home / "manifests")))
            except AssizesError as error:
                told = str(error)
            escapes += [key] if CANARY in told else []
    return escapes


def databases(root: Path) -> list[str]:
    """As the database that a case names."""
    home, escapes = laid_out(root), []
    config = RunConfig.model_validate(
        {
            "transcripts": {"uri": "in", "databases": str(home)},
            "store": {"uri": f"duckdb:///{home}/assizes.duckdb"},
            "limits": {"ledger": f"{home}/ledger.db"},
        }
    )
    for own in (home / "assizes.duckdb", home / "ledger.db"):
        sqlite_file(own, f"CREATE TABLE s AS SELECT '{CANARY}' AS name")
    (home / ".assizes").mkdir()
    sqlite_file(home / ".assizes" / "ledger.db", f"CREATE TABLE s AS SELECT '{CANARY}' AS name")
    (home / "link.sqlite").symlink_to(root / "canary.sqlite")
    more = ("../canary.sqlite", "../../canary.sqlite", str(root / "canary.sqlite"), "link.sqlite")

    async def asked() -> None:
        clerk = SandboxSqlRunner.of(config)
        for name in (*PATHS, *more, "ledger.db"):
            found = await clerk.look_up(Query(name, ("SELECT name FROM s",)))
            if isinstance(found, QueryResult):
                escapes.append(name)
        await clerk.aclose()

    asyncio.run(asked())
    return escapes


def members(root: Path) -> list[str]:
    """As names in an archive: they are read and never written."""

    def write(home: Path, name: str) -> None:
        with ZipFile(home / "x.eval", "w") as archive:
            archive.writestr("header.json", "{}")
            archive.writestr(f"samples/{name}.json", "{}")
            archive.writestr(name or "_", "{}")
        archive_to_lines(home / "x.eval", home / "lines", ObjectBounds(object_bytes=1 << 20))
        assert sorted(one.name for one in home.iterdir()) == ["lines", "x.eval"]

    return written(root, write)


def links(root: Path) -> list[str]:
    """Links out of a folder of transcripts: to files, to folders, by steps, in a chain."""
    home = laid_out(root)
    (home / "in" / "sub").mkdir(parents=True)
    (root / "folder").mkdir()
    (root / "folder" / "x.jsonl").write_bytes((root / "x.jsonl").read_bytes())
    (home / "in" / "fine.jsonl").write_bytes(native_line(case(user("Hi"), agent("Hello"))))
    targets = {
        "file": root / "x.jsonl", "steps": Path("../../../x.jsonl"), "passwd": Path("/etc/passwd"),
        "chain": home / "in" / "file.jsonl", "environ": Path("/proc/self/environ"),
        "inner": home / "in" / "fine.jsonl",
    }  # fmt: skip
    for name, target in targets.items():
        (home / "in" / f"{name}.jsonl").symlink_to(target)
    (home / "in" / "folder").symlink_to(root / "folder")
    escapes = []
    for uri in ("in", "in/*.jsonl", "in/**/*.jsonl", "in/*", "in/folder*/*"):
        try:
            told = _taken_in(TranscriptsConfig(uri=str(home / uri)))
        except AssizesError as error:
            told = str(error)
        escapes += [uri] if CANARY in told or "root:" in told or "PATH=" in told else []
    return escapes


def _taken_in(config: TranscriptsConfig) -> str:
    """All that is known of the records of a place, rejects and their excerpts included."""
    with Spool.of(config) as spool:
        plan = plan_intake(config, 100, spool)
        told = [
            record.case.model_dump_json() if record.case else f"{record.reject} {record.excerpt}"
            for shard in plan.shards
            for record in read_shard(shard, config, spool)
        ]
    return "\n".join(told)


def _is_outside(uri: str, home: Path) -> bool:
    try:
        return "://" in uri or not Path(uri).resolve().is_relative_to(home.resolve())
    except (OSError, ValueError):
        return False


PLACES: Final[dict[str, Callable[[Path], list[str]]]] = {
    one.__name__: one for one in (run_ids, manifests, exports, databases, members, links)
}
