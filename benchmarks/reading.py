"""How fast records become cases, beside what pydantic alone takes for the same cases.

    python -m benchmarks.reading [--cases 1500] [--megabytes 256]

The cases are transcripts of which no sentence comes twice, in six languages, with nested arguments
and JSON results (`benchmarks.varied_texts`), and the published conversations of tau-bench and tau2.
Every format is written three ways: as UTF-8, with escapes for all but ASCII, and as published.

"pydantic alone" is `Case.model_validate_json` on the same cases in native lines: one parse of the
JSON and one validation, and less than a reader does, as it takes the last of two equal keys. The
ratio is CPU time of pydantic by CPU time of the reader, for the same cases. Cold is the first time
that a process sees the records, each once; warm is the fastest of several rounds, small blocks of
both sides taking turns, so that a busy machine slows all of them alike. Then the peak of memory while
a large file of lines, and one of Parquet, is planned: what it takes over the interpreter with
everything imported.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from assizes.judge.case import Case
from assizes.judge.formats import FORMATS, WRITERS, native_line
from benchmarks.figures import DATA, Figures
from benchmarks.varied_texts import varied_records

ROUNDS = 9
BLOCK = 25
"""Records of one side before the other takes its turn."""

LEAST = 0.8
MB = 1 << 20
_READ = ("native", "openai_chat", "anthropic")

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

Lines = Mapping[str, Sequence[bytes]]
"""The same cases in each format, a record each."""


def published_cases() -> list[Case]:
    """The published tau-bench and tau2 conversations."""
    files = [(DATA / "tau_bench_airline" / "gpt-4o-airline.json.gz", "tau_bench")]
    files += [(path, "tau2") for path in sorted((DATA / "tau2_airline").glob("*.json.gz"))]
    return [
        FORMATS[name].case(record)
        for path, name in files
        for record in FORMATS[name].records(gzip.decompress(path.read_bytes()))
    ]


def varied_cases(count: int) -> list[Case]:
    """Transcripts without a repeated sentence, without what the foreign formats have no place for."""
    return [
        Case.model_validate({**record, "expected": {}, "tags": {}})
        for record in varied_records(count)
    ]


def lines_of(cases: Sequence[Case], *, escaped: bool = False) -> Lines:
    """The cases in every format, `escaped`: in ASCII, with escapes for all other characters."""
    made: dict[str, list[bytes]] = {"native": [native_line(case).rstrip() for case in cases]}
    if escaped:
        made["native"] = [json.dumps(json.loads(line)).encode() for line in made["native"]]
    for name in _READ[1:]:
        write = WRITERS[name][0]
        made[name] = [json.dumps(write(case), ensure_ascii=escaped).encode() for case in cases]
    return made


def speeds(figures: Figures, corpus: str, lines: Lines) -> None:
    """The ratios of one corpus, cold and warm."""
    sides: dict[str, tuple[Callable[[bytes], object], Sequence[bytes]]] = {
        "pydantic": (Case.model_validate_json, lines["native"])
    }
    sides |= {name: (FORMATS[name].case, lines[name]) for name in _READ}
    times: dict[str, list[list[float]]] = defaultdict(list)  # by side, round and block
    for number in range(ROUNDS + 1):
        for name in sides:
            times[name].append([])
        for at in range(0, len(lines["native"]), BLOCK):
            for name in (*sides,) if number % 2 else (*reversed(sides),):
                read, records = sides[name]
                begun = time.process_time()
                for record in records[at : at + BLOCK]:
                    read(record)  # not kept: as a run reads
                times[name][number].append(time.process_time() - begun)
    cold = {name: sum(rounds[0]) for name, rounds in times.items()}
    warm = {name: sum(map(min, zip(*rounds[1:], strict=True))) for name, rounds in times.items()}
    for name in _READ:
        size = sum(map(len, lines[name]))
        figures.add(f"{corpus}, {name}: MB/s warm", size / warm[name] / 1e6)
        figures.add(f"{corpus}, {name}: cold", cold["pydantic"] / cold[name])
        figures.add(f"{corpus}, {name}: warm", warm["pydantic"] / warm[name], least=LEAST)


def peaks(cases: Sequence[Case], megabytes: int) -> None:
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
    """Print the figures, the last line as JSON."""
    wanted = argparse.ArgumentParser(description=__doc__)
    wanted.add_argument("--cases", type=int, default=1500)
    wanted.add_argument("--megabytes", type=int, default=256)
    args = wanted.parse_args()
    figures = Figures()
    varied = varied_cases(args.cases)
    published = published_cases()
    speeds(figures, "varied", lines_of(varied))
    speeds(figures, "escaped", lines_of(varied, escaped=True))
    speeds(figures, "published", lines_of(published))
    if args.megabytes:
        peaks(published, args.megabytes)
    figures.close()


if __name__ == "__main__":
    main()
