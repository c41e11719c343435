"""Every failpoint: a child dies there, another goes on, and the rows are those of a calm run."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from assizes.judge.config.run import StoreConfig
from tests.soak.small import (
    RUNS,
    Child,
    environment,
    evaluate_both,
    keep_in_order,
    keep_replies,
    rebuild_it,
    run,
    transcripts,
)

FRESH = frozenset({"warehouse.open.half"})
"""Failpoints that are reached only where no store is yet."""


def kind_of(name: str) -> str:
    """The scenario in which a failpoint is reached."""
    head = name.partition(".")[0]
    if name.startswith("warehouse.forget"):
        return "upkeep-duckdb"
    return {
        "bucket": "s3",
        "warehouse": "duckdb",
        "journal": "duckdb",
        "replies": "replies",
        "report": "report",
        "gc": "upkeep-folder",
        "rewrite": "upkeep-folder",
        "rebuild": "rebuild",
    }.get(head, "folder")


_WORKS: Mapping[str, Callable[[Child], object]] = {
    "replies": keep_replies,
    "upkeep-folder": keep_in_order,
    "upkeep-duckdb": keep_in_order,
    "rebuild": rebuild_it,
}


class Scenarios:
    """Each kind of scenario once without harm, then as often as wanted with it."""

    def __init__(self, work: Path, s3: Any | None) -> None:
        self._work, self._s3 = work, s3
        self._begun: dict[str, Child] = {}
        self._calm: dict[str, dict[str, Any]] = {}
        transcripts(work / "input")

    def suffered(self, failpoint: str) -> list[str]:
        """Die at a failpoint, go on without; what was wrong, in words: nothing when all is well."""
        kind = kind_of(failpoint)
        calm = self._calmly(kind)
        child = self._place(kind, failpoint, fresh=failpoint in FRESH)
        died = run(replace(child, failpoint=failpoint))
        if died != -signal.SIGKILL:
            return [f"{failpoint}: not hit (exit code {died})"]
        acked = child.acked.read_text("utf-8").split("\n")[:-1] if child.acked.exists() else []
        code = run(child)
        if code != 0:
            return [f"{failpoint}: going on failed with exit code {code}"]
        said = json.loads(child.said.read_text("utf-8"))
        before = {f"{run_id} {name}" for run_id, names in said["before"].items() for name in names}
        wrong = [
            f"{failpoint}: {one} was committed and is lost" for one in acked if one not in before
        ]
        wrong += [
            f"{failpoint}: {what} differ from a calm run"
            for what in ("rows", "reports")
            if said[what] != calm[what]
        ]
        shutil.rmtree(child.folder)
        return wrong

    def _calmly(self, kind: str) -> dict[str, Any]:
        """What the scenario says when nothing happens to it."""
        if kind not in self._calm:
            child = self._place(kind, f"calm-{kind}")
            code = run(child)
            assert code == 0, f"{kind}: exit code {code}"
            self._calm[kind] = json.loads(child.said.read_text("utf-8"))
        return self._calm[kind]

    def _place(self, kind: str, name: str, *, fresh: bool = False) -> Child:
        """A place of its own for a child; unless it is to be fresh, with what comes before in it."""
        folder = self._work / name
        folder.mkdir()
        child = self._child(kind, folder)
        if fresh or kind == "replies":
            return child
        begun = self._begun_already(kind)
        if kind == "s3":
            self._copied(begun.store, child.store)
        else:
            shutil.copytree(begun.folder / "store", folder / "store")
        return child

    def _begun_already(self, kind: str) -> Child:
        if kind not in self._begun:
            folder = self._work / f"begun-{kind}"
            folder.mkdir()
            child = replace(self._child(kind, folder), work=evaluate_both, runs=RUNS[:1])
            code = run(child)
            assert code == 0, f"{kind}: exit code {code}"
            self._begun[kind] = child
        return self._begun[kind]

    def _child(self, kind: str, folder: Path) -> Child:
        work = _WORKS.get(kind, evaluate_both)
        store = StoreConfig(uri=str(folder / "store"))
        if kind in ("duckdb", "upkeep-duckdb", "rebuild"):
            store = StoreConfig(uri=f"duckdb:///{folder}/store/a.duckdb")
        elif kind == "s3":
            assert self._s3 is not None
            uri = f"s3://{self._s3.bucket()}/lake"
            store = StoreConfig(uri=uri, storage_options=self._s3.storage_options)
        return Child(work, folder, store, environment=environment(), reporting=kind == "report")

    def _copied(self, source: StoreConfig, target: StoreConfig) -> None:
        assert self._s3 is not None
        buckets = [place.uri.removeprefix("s3://").partition("/")[0] for place in (source, target)]
        for entry in self._s3.client.list_objects_v2(Bucket=buckets[0])["Contents"]:
            self._s3.client.copy_object(
                Bucket=buckets[1], Key=entry["Key"], CopySource=f"{buckets[0]}/{entry['Key']}"
            )
