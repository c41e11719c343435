"""Result files of other projects, and helpers that read them."""

from __future__ import annotations

import gzip
from pathlib import Path

from assizes.judge.case import Case
from assizes.judge.formats import FORMATS

TAU_BENCH = "tau_bench_airline/gpt-4o-airline.json.gz"
AGENTS = (
    "claude-sonnet-4.5",
    "gpt-4.1",
    "gpt-4.1-finetuned",
    "gpt-4o",
    "gpt-oss-120b",
    "qwen2.5-7b",
)
TAU2 = [f"tau2_airline/{agent}.json.gz" for agent in AGENTS]
RESULT_FILES = [(TAU_BENCH, "tau_bench"), *((path, "tau2") for path in TAU2)]


def read(path: Path) -> bytes:
    """Return the decompressed bytes of a gzip file."""
    return gzip.decompress(path.read_bytes())


def cases_of(path: Path, name: str) -> list[Case]:
    """Return all cases of a result file."""
    format_ = FORMATS[name]
    return [format_.case(record) for record in format_.records(read(path))]
