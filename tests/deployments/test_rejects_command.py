"""`assizes rejects`: the records of a run that were not judged, with file, place and reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assizes.judge.config.run import StoreConfig
from assizes.judge.rows import SHARD_TABLES, frame
from assizes.tasks.store import open_store
from tests.command import assizes
from tests.tasks.store.rows import run_record

REJECTS = (
    (
        "logs/b.jsonl",
        4,
        "json",
        "not JSON: trailing characters at line 1 column 2",
        "ab" * 32,
        "3;",
    ),
    ("logs/a.csv", 0, "format", "not recognised", None, "id,price"),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [
        {"run_id": "nightly-1", "uri": uri, "position": position, "byte_offset": None}
        | {"reason": reason, "detail": detail, "sha256": sha256, "excerpt": excerpt}
        for uri, position, reason, detail, sha256, excerpt in REJECTS
    ]
    config = StoreConfig(uri=f"duckdb:///{tmp_path}/assizes.duckdb")
    with open_store(config, writing=True) as store:
        for name in ("nightly-1", "other-1"):
            store.begin(run_record(name))
        frames = {table: frame(table, []) for table in SHARD_TABLES}
        counts = {"quarantined": len(rows)}
        store.commit_shard("nightly-1", "s0", frames | {"rejects": frame("rejects", rows)}, counts)
    return tmp_path


def test_each_rejected_record_is_named_with_its_place_and_reason(folder: Path):
    answer = assizes("rejects", "nightly-1", cwd=folder)
    assert (answer.code, answer.err) == (0, "")
    lines = [line.split() for line in answer.out.splitlines() if "logs/" in line]
    assert lines == [
        ["logs/a.csv", "format", "not", "recognised", "id,price"],
        [
            "logs/b.jsonl,",
            "record",
            "5",
            "json",
            "not",
            "JSON:",
            "trailing",
            "characters",
            "at",
            "line",
            "1",
            "column",
            "2",
            "3;",
        ],
    ]
    assert answer.out.endswith("once they are mended: assizes retry-rejected nightly-1\n")


def test_as_json_they_are_the_rows_of_the_table(folder: Path):
    rows = json.loads(assizes("rejects", "nightly-1", "--json", cwd=folder).out)
    assert [(row["uri"], row["position"], row["reason"]) for row in rows] == [
        ("logs/a.csv", 0, "format"),
        ("logs/b.jsonl", 4, "json"),
    ]


def test_a_run_without_rejects_says_so(folder: Path):
    answer = assizes("rejects", "other-1", cwd=folder)
    assert (answer.code, answer.out) == (0, "run other-1 rejected no record\n")
