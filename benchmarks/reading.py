"""How fast records become cases, beside what pydantic alone takes for the same bytes.

    python -m benchmarks.reading [--cases 1500] [--megabytes 256]

For each format one line: MB/s of CPU time, and the share of the speed of `Case.model_validate_json`
on the same cases in native lines. Then the peak of memory while a large file of lines, and one of
Parquet, is planned: what it takes over the interpreter with everything imported.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from assizes.judge.case import Case
from assizes.judge.formats import FORMATS, WRITERS, native_line
from benchmarks.figures import DATA

ROUNDS = 5
MB = 1 << 20

_PLANNED = """
import re, sys
from pathlib import Path
from assizes.judge.config.transcripts import TranscriptsConfig
from assizes.tasks.intake.shards import plan_intake
from assizes.tasks.sources.spool import Spool

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024

config = TranscriptsConfig(uri=sys.argv[1])
Path("/proc/self/clear_refs").write_text("5")
before = peak()
with Spool.of(config) as spool:
    plan = plan_intake(config, 100, spool)
print(plan.read, peak() - before)
"""


def base_cases() -> list[Case]:
    """The published tau-bench and tau2 conversations."""
    files = [(DATA / "tau_bench_airline" / "gpt-4o-airline.json.gz", "tau_bench")]
    files += [(path, "tau2") for path in sorted((DATA / "tau2_airline").glob("*.json.gz"))]
    return [
        FORMATS[name].case(record)
        for path, name in files
        for record in FORMATS[name].records(gzip.decompress(path.read_bytes()))
    ]


def best_s(works: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """The least CPU time of several rounds, in turns: a busy machine slows all of them alike."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(ROUNDS):
        for name, work in works.items():
            begun = time.process_time()
            work()
            times[name].append(time.process_time() - begun)
    return {name: min(taken) for name, taken in times.items()}


def read_all(name: str, records: Iterable[bytes]) -> Callable[[], object]:
    """Every record into a case, none of them kept: as a run reads."""
    return each(FORMATS[name].case, records)


def each(case: Callable[[bytes], Case], records: Iterable[bytes]) -> Callable[[], object]:
    """One after the other; a list of them all would measure the garbage collector."""

    def work() -> None:
        for record in records:
            case(record)

    return work


def speeds(cases: list[Case]) -> None:
    """One line a format."""
    lines = {"native": [native_line(case).rstrip() for case in cases]}
    for name, (write, _) in WRITERS.items():
        lines[name] = [json.dumps(write(case), ensure_ascii=False).encode() for case in cases]
    works: dict[str, Callable[[], object]] = {
        "pydantic": each(Case.model_validate_json, lines["native"]),
    }
    works |= {name: read_all(name, records) for name, records in lines.items()}
    taken = best_s(works)
    for name, seconds in taken.items():
        size = sum(map(len, lines.get(name, lines["native"])))
        ratio = taken["pydantic"] / seconds
        floor = "   (floor 0.80)" if name == "native" else ""
        print(f"{name:12} {size / seconds / 1e6:7.1f} MB/s   {ratio:.2f}{floor}")


def peaks(cases: list[Case], megabytes: int) -> None:
    """The peak of memory while a large file is planned, lines and Parquet."""
    import polars as pl

    with tempfile.TemporaryDirectory() as folder:
        lines, size, number = Path(folder, "big.jsonl"), 0, 0
        with lines.open("wb") as out:
            while size < megabytes * MB:
                case = cases[number % len(cases)]
                size += out.write(native_line(case.model_copy(update={"case_id": f"c{number}"})))
                number += 1
        print(f"lines, {size / MB:.0f} MiB: {planned(lines)}   (at most 100 MiB)")
        write, _ = WRITERS["openai_chat"]
        table = Path(folder, "big.parquet")
        records = (
            {"id": f"c{at}", "messages": json.dumps(write(cases[at % len(cases)])["messages"])}
            for at in range(number)
        )
        pl.LazyFrame(records).sink_parquet(table, row_group_size=1000, compression="snappy")
        print(f"Parquet, {table.stat().st_size / MB:.0f} MiB: {planned(table)}")


def planned(path: Path) -> str:
    """Plan a file in a process of its own; what that takes."""
    done = subprocess.run(
        [sys.executable, "-c", _PLANNED, str(path)], capture_output=True, text=True, check=True
    )
    read, peak = done.stdout.split()
    return f"{read} records, peak +{float(peak):.0f} MiB"


def main() -> None:
    """Print the figures."""
    wanted = argparse.ArgumentParser(description=__doc__)
    wanted.add_argument("--cases", type=int, default=1500)
    wanted.add_argument("--megabytes", type=int, default=256)
    args = wanted.parse_args()
    base = base_cases()
    speeds([base[at % len(base)] for at in range(args.cases)])
    peaks(base, args.megabytes)


if __name__ == "__main__":
    main()
