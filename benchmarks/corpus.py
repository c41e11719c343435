"""Any number of transcripts from a few hundred real ones, the same ones for the same seed.

Record i takes one of the base transcripts by a hash of (seed, i), its content untouched, under a
new name. What a judge finds is thus known: copies of one base must all have the same scores.

    python -m benchmarks.corpus FOLDER --cases 100000
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import uuid
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from assizes.deployments.samples import sample_cases
from assizes.deployments.samples.make import WRITES
from assizes.judge.case import Case
from assizes.judge.formats import FORMATS, native_line
from benchmarks.figures import DATA

RECORDS_PER_FILE = 10_000
SEED = 0
SETS = {"tau_bench": "tau_bench_airline/*.json.gz", "tau2": "tau2_airline/*.json.gz"}
VERSIONS = 3


def base_cases() -> list[Case]:
    """The 440 real conversations, or the bundled ones where the data sets are not there."""
    found = [
        FORMATS[name].case(record)
        for name, pattern in SETS.items()
        for path in sorted(DATA.glob(pattern))
        for record in FORMATS[name].records(gzip.decompress(path.read_bytes()))
    ]
    return found or sample_cases()


def lines(base: Sequence[Case], cases: int, seed: int = SEED) -> Iterator[bytes]:
    """Native records, one after the other. `base_id` is a tag, so that it is a column of a run."""
    bodies = [_body(case) for case in base]
    for number in range(cases):
        name = f"{seed}/{number}"
        drawn = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest())
        rest, place = divmod(drawn, len(bodies))
        fresh = {
            "case_id": str(uuid.uuid5(uuid.NAMESPACE_OID, name)),
            "agent_version": f"v{rest % VERSIONS}",
            "tags": {"base_id": str(place)},
        }
        yield json.dumps(fresh).encode()[:-1] + b"," + bodies[place]


def _body(case: Case) -> bytes:
    """A native record without what names it, as the rest of a JSON object."""
    expected = case.expected.model_copy(update={"writes": WRITES})
    fields = json.loads(native_line(case.model_copy(update={"expected": expected})))
    for name in ("case_id", "repetition", "agent_version", "tags"):
        fields.pop(name, None)
    return json.dumps(fields, ensure_ascii=False).encode()[1:] + b"\n"


def write_corpus(folder: Path, cases: int, seed: int = SEED) -> int:
    """Write files of 10,000 records, never more than one record in memory.

    Returns:
        Bytes written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = 0
    made = lines(base_cases(), cases, seed)
    for start in range(0, cases, RECORDS_PER_FILE):
        with (folder / f"cases-{start:09d}.jsonl").open("wb") as file:
            for line in islice(made, RECORDS_PER_FILE):
                written += file.write(line)
    return written


def main() -> None:
    """Write a corpus from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=SEED)
    given = parser.parse_args()
    print(f"{write_corpus(given.folder, given.cases, given.seed):,} bytes")


if __name__ == "__main__":
    main()
