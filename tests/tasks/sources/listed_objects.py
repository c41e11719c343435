"""Objects to list and to get."""

from __future__ import annotations

import gzip

LINES = b'{"a": 1}\n{"a": 2}\n'
PACKED = gzip.compress(LINES * 100)
OURS = (
    "rows/_assizes.json",
    "rows/runs/nightly-1/run.json",
    "rows/runs/nightly-1/commits/s0.json",
    "rows/comparisons/a..b-0.json",
    "reports/nightly-1/report.json",
    "reports/nightly-1/report.html",
    "reports/nightly-1/report.md",
)
THEIRS = ("deep/runs/a.jsonl", "report.json", "reports/nightly-1/more.json", "rows/mine.jsonl")
