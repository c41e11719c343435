"""A DuckDB store whose files are cut short, altered or taken away: is it told, or read as it is?"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from assizes.judge.config.run import StoreConfig
from assizes.judge.errors import StoreError
from assizes.judge.rows import SHARD_TABLES
from assizes.tasks.store import Store, open_store, rebuild_store
from tests.soak.rows import SHARDS, content, rows_of
from tests.tasks.store.rows import COUNTS, ended, run_metrics, run_record

ROOT = Path(__file__).resolve().parents[2]
NAME = "store.duckdb"
RUNS = ("first", "second")

UNTOLD, NOT_REBUILT = "untold", "not rebuilt"
OUTCOMES = ("same", "told", "crashed", UNTOLD, NOT_REBUILT)
"""What can become of a damaged store; the last two are faults of ours."""

_CHILD = """
import json, sys
from pathlib import Path
from tests.soak.damage import look
wanted, every = json.loads(sys.argv[1]), int(sys.argv[2])
for number, folder in enumerate(sys.argv[3:]):
    print(look(Path(folder), wanted, rebuilding=number % every == 0), flush=True)
"""

KINDS = ("wal cut", "wal flipped", "wal gone", "file cut", "file flipped", "file gone")
WEIGHTS = (30, 30, 1, 12, 26, 1)


def build(folder: Path) -> dict[str, str]:
    """A store with a complete run in the file and another, complete too, in its write-ahead log.

    Returns:
        What its tables hold, see `held`.
    """
    folder.mkdir(parents=True)
    code = "from tests.soak.damage import fill_and_die; import sys; fill_and_die(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", code, str(folder)], cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGKILL
    assert (folder / f"{NAME}.wal").stat().st_size > 10_000
    whole = folder.parent / "whole"
    shutil.copytree(folder, whole)
    with open_store(StoreConfig(uri=str(folder.parent / "lake")), writing=True) as lake:
        for run_id in RUNS:
            fill(lake, run_id)
    return held(whole)


def fill_and_die(folder: str) -> None:
    """Close after the first run; die in the middle of the second, without a checkpoint."""
    place = StoreConfig(uri=f"duckdb:///{folder}/{NAME}")
    for run_id in RUNS:
        store = open_store(place, writing=True)
        fill(store, run_id)
        if run_id == RUNS[0]:
            store.close()
    os.kill(os.getpid(), signal.SIGKILL)


def fill(store: Store, run_id: str) -> None:
    """Begin a run or go on with it, and end it."""
    begun = store.begin(run_record(run_id))
    for shard in SHARDS:
        store.commit_shard(run_id, shard, rows_of(run_id, shard), COUNTS)
    store.finish(ended(begun), run_metrics(run_id))


def held(folder: Path) -> dict[str, str]:
    """A hash of every table of every run of the store in a folder, opened as a reader would."""
    with open_store(StoreConfig(uri=f"duckdb:///{folder}/{NAME}")) as store:
        return tables_of(store)


def tables_of(store: Store) -> dict[str, str]:
    """The same, of an open store."""
    runs = store.runs()
    found = {"runs": content(runs)}
    for run_id in runs["run_id"]:
        for table in (*SHARD_TABLES, "run_metrics"):
            found[f"{run_id}/{table}"] = content(store.table(run_id, table))
    return found


def damage(folder: Path, kind: str, dice: random.Random) -> None:
    """Harm one of the two files."""
    what, _, how = kind.partition(" ")
    path = folder / (f"{NAME}.wal" if what == "wal" else NAME)
    if how == "gone":
        path.unlink()
        return
    data = bytearray(path.read_bytes())
    place = dice.randrange(len(data))
    if how == "cut":
        del data[place:]
    else:
        data[place] ^= 1 << dice.randrange(8)
    path.write_bytes(data)


def outcomes(work: Path, count: int, seed: int = 0, rebuilt: int = 1) -> Counter[tuple[str, str]]:
    """Damage a store `count` times, in as many ways; count what became of each by kind.

    Every `rebuilt`-th of those that are refused is rebuilt from a Parquet copy and compared.
    """
    dice = random.Random(seed)
    wanted = build(work / "store")
    kinds = [*KINDS, *dice.choices(KINDS, WEIGHTS, k=max(0, count - len(KINDS)))]
    folders = []
    for number, kind in enumerate(kinds):
        folder = work / f"{number:04d}"
        shutil.copytree(work / "store", folder)
        damage(folder, kind, dice)
        folders.append(folder)
    found = Counter(zip(kinds, _looked_at(folders, wanted, rebuilt), strict=True))
    assert found.total() == len(kinds)
    return found


def _looked_at(folders: Sequence[Path], wanted: dict[str, str], rebuilt: int) -> Iterator[str]:
    """One child looks at many stores; where it dies, another goes on behind."""
    left = list(folders)
    while left:
        done = subprocess.run(
            [sys.executable, "-c", _CHILD, json.dumps(wanted), str(rebuilt), *map(str, left)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        said = [line for line in done.stdout.splitlines() if line in OUTCOMES]
        yield from said
        if len(said) < len(left):
            assert done.returncode < 0, done.stderr  # a signal; anything else is a fault of ours
            yield "crashed"
        left = left[len(said) + 1 :]


def look(folder: Path, wanted: dict[str, str], *, rebuilding: bool) -> str:
    """Open it as a reader; where that is refused, rebuild it from the Parquet copy."""
    try:
        return "same" if held(folder) == wanted else UNTOLD
    except StoreError:
        if not rebuilding:
            return "told"
        copy = StoreConfig(uri=str(folder.parent / "lake"))
        rebuild_store(StoreConfig(uri=f"duckdb:///{folder}/{NAME}"), copy)
        return "told" if held(folder) == wanted else NOT_REBUILT
