"""Time and memory of one run over very many transcripts, and of the finished run again.

    python -m benchmarks.scale [--cases 100000]

Every run is a process of its own, over the offline judge, the default store and a real Prefect
server on loopback. The transcripts are `benchmarks.corpus`, so copies of one must score alike.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.figures import DATA, ROOT, Figures
from benchmarks.server import own_homes, prefect_server

SIZES = (2_000, 10_000)
"""Smaller runs that the large one is held against: from the first on, memory should not grow."""

PEAK_MB = 600
GROWTH = 1.25
"""What still counts as flat: peak of the large run over peak of the smallest."""
AGAIN_S = 60
_EVERY = 500

CONFIG = """
name = "scale"
[transcripts]
uri = "{uri}"
[runner]
fail_flow = false
"""

DIFFERING = """
    select count(*) from (
        select tags from cases group by tags
        having count(distinct coalesce(overall_score, -1)) > 1 or count(distinct passed) > 1
    )
"""


@dataclass(frozen=True)
class Ran:
    """What one run took.

    `peak_mb` is its memory at most, `planned_mb` and `heard_mb` the same up to the end of planning
    and of judging (0: no such stage). `heard` counts the cases that went to a judge, `judged` those
    with a verdict in the summary.
    """

    seconds: float
    cpu_s: float
    peak_mb: float
    planned_s: float
    planned_mb: float
    heard_mb: float
    heard: int
    judged: int


class Watch:
    """Follows a run by what it reports."""

    def __init__(self) -> None:
        """Start the clock."""
        self.begun = time.perf_counter()
        self.planned_s = self.planned_mb = self.heard_mb = 0.0
        self.heard = 0

    def __call__(self, stage: str, done: int, _total: int) -> None:
        """Keep what is told about a stage; memory is looked at now and then, it costs time."""
        if stage == "reading":
            self.planned_s, self.planned_mb = time.perf_counter() - self.begun, peak_mb()
        else:
            self.heard += done
            if done and self.heard % _EVERY == 0:
                self.heard_mb = peak_mb()


def peak_mb() -> float:
    """The most memory this process ever held, in MB of 10^6 bytes."""
    status = Path("/proc/self/status")
    if status.exists():
        # ru_maxrss begins with what the parent held when it forked; this does not.
        line = next(one for one in status.read_text().splitlines() if one.startswith("VmHWM"))
        return int(line.split()[1]) * 1024 / 1e6
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def evaluated(file: Path) -> Ran:
    """Run the evaluation of a configuration file in this process."""
    from assizes.deployments.commands.run import RunOptions, evaluations, preflight
    from assizes.deployments.settings import read_config
    from assizes.tasks.context.run_context import progress_reporter

    watch = Watch()
    progress_reporter.set(watch)
    wanted = RunOptions(read_config(file))
    preflight(wanted)
    (outcome,) = evaluations([wanted], verbose=False)
    spent = resource.getrusage(resource.RUSAGE_SELF)
    return Ran(
        seconds=time.perf_counter() - watch.begun,
        cpu_s=spent.ru_utime + spent.ru_stime,
        peak_mb=peak_mb(),
        planned_s=watch.planned_s,
        planned_mb=watch.planned_mb,
        heard_mb=watch.heard_mb,
        heard=watch.heard,
        judged=outcome.summary.counts["judged"],
    )


def apart(folder: Path, env: Mapping[str, str]) -> Ran:
    """The run of a folder's configuration, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.scale", "--run", "scale.toml"]
    done = subprocess.run(
        command, cwd=folder, env=env, stdout=subprocess.PIPE, text=True, check=True
    )
    return Ran(**json.loads(done.stdout.splitlines()[-1]))


def prepared(scratch: Path, cases: int, env: Mapping[str, str]) -> Path:
    """A folder with a corpus and the configuration of a run over it; the corpus is written by a
    process of its own, so that this one stays small.
    """
    folder = scratch / f"cases-{cases}"
    folder.mkdir()
    corpus = folder / "transcripts"
    writing = [sys.executable, "-m", "benchmarks.corpus", str(corpus), "--cases", str(cases)]
    subprocess.run(writing, env=env, stdout=subprocess.DEVNULL, check=True)
    (folder / "scale.toml").write_text(CONFIG.format(uri=corpus))
    return folder


def differing(store: Path) -> int:
    """Base transcripts whose copies did not all get the same score and verdict."""
    import duckdb

    with duckdb.connect(str(store), read_only=True) as connection:
        return int(connection.execute(DIFFERING).fetchall()[0][0])


def measured(figures: Figures, folder: Path, cases: int, env: Mapping[str, str]) -> Ran:
    """The figures of one size, which hold for every size."""
    ran = apart(folder, env)
    size = f"{cases // 1000}k"
    figures.add(f"judged_{size}", ran.judged, least=cases, most=cases)
    figures.add(f"seconds_{size}", ran.seconds)
    figures.add(f"planned_s_{size}", ran.planned_s)
    figures.add(f"cases_per_s_{size}", cases / ran.seconds)
    figures.add(f"cpu_ms_per_case_{size}", ran.cpu_s / cases * 1e3)
    figures.add(f"planned_mb_{size}", ran.planned_mb)
    figures.add(f"heard_mb_{size}", ran.heard_mb)
    figures.add(f"peak_mb_{size}", ran.peak_mb, most=PEAK_MB)
    return ran


def measured_all(figures: Figures, scratch: Path, cases: int, env: Mapping[str, str]) -> None:
    """Every size, how memory grows from the smallest to the largest, and the largest again."""
    sizes = sorted({*(size for size in SIZES if size < cases), cases})
    folders = {size: prepared(scratch, size, env) for size in sizes}
    runs = {size: measured(figures, folder, size, env) for size, folder in folders.items()}
    if len(sizes) > 1:
        figures.add("peak_growth", runs[sizes[-1]].peak_mb / runs[sizes[0]].peak_mb, most=GROWTH)
    else:
        figures.missing("peak_growth")
    again = apart(folders[cases], env)
    figures.add("again_s", again.seconds, most=AGAIN_S)
    figures.add("again_planned_s", again.planned_s)
    figures.add("again_heard", again.heard, most=0)
    figures.add("again_peak_mb", again.peak_mb, most=PEAK_MB)
    figures.add("differing_copies", differing(folders[cases] / "assizes.duckdb"), most=0)


def benchmark(cases: int) -> None:
    """Measure everything in a scratch folder with its own Prefect home."""
    figures = Figures()
    if not DATA.exists():
        print(f"no data sets at {DATA}: the bundled transcripts are resampled")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        env = {**os.environ, **own_homes(folder), "PYTHONPATH": str(ROOT)}
        with prefect_server(folder, env):
            measured_all(figures, folder, cases, env)
    figures.close()


def main() -> None:
    """Measure, or be the process that is measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run:
        print(json.dumps(asdict(evaluated(given.run))))
    else:
        benchmark(given.cases)


if __name__ == "__main__":
    main()
