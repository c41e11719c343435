"""Runs and rows to store: every column type, with nulls, unicode, lists and empty tables."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import polars as pl

from assizes.judge.rows import TABLES, frame
from assizes.tasks.store import RunRecord

BEGAN = datetime(2026, 3, 1, 2, 30, 0, 123456, tzinfo=timezone(timedelta(hours=2)))
ENDED = datetime(2026, 3, 1, 1, 0, tzinfo=UTC)

COUNTS = {"read": 2, "judged": 2}


def run_record(run_id: str = "nightly-1", **changed: Any) -> RunRecord:
    """The record of a run that begins."""
    begun = RunRecord(
        run_id=run_id,
        name="nightly",
        trigger="nightly",
        status="running",
        config={"judge": {"model": "offline/lexical", "temperature": 0.1}, "name": "größe"},
        config_hash="0123456789abcdef",
        judge_model="offline/lexical",
        started_at=BEGAN,
        plan={
            "content_hash": "größe-7",
            "objects": [{"uri": "s3://b/größe.jsonl", "size": 7}],
            "shards": ["s0", "s1"],
        },
    )
    return replace(begun, **changed)


def ended(run: RunRecord, **changed: Any) -> RunRecord:
    """The record of the same run when it ends."""
    final = replace(
        run,
        status="complete",
        finished_at=ENDED,
        counts={"read": 4, "judged": 4},
        summary={"average": 81.6, "coverage": 1.0, "worst": None},
    )
    return replace(final, **changed)


def run_metrics(run_id: str = "nightly-1", first: float | None = 81.6) -> pl.DataFrame:
    """Metrics of a run; one of them has no number."""
    values = {"weighted_metrics_score_pct": first, "response/correctness": 0.1 + 0.2, "p95": None}
    rows = [{"run_id": run_id, "name": name, "value": value} for name, value in values.items()]
    return frame("run_metrics", rows)


def score_row(run_id: str, case_id: str, **changed: Any) -> dict[str, Any]:
    """A score with a value in every column."""
    row = {
        "run_id": run_id,
        "case_id": case_id,
        "repetition": 0,
        "judge": "conversation",
        "metric": "accuracy",
        "part": "",
        "value": 0.1 + 0.2,
        "raw": 1e-300,
        "label": "fail",
        "passed": False,
        "weight": 1 / 3,
        "tier": "knowledge",
        "status": "scored",
        "reason": 'said «größe», 漢字, 🧾 and \N{ZERO WIDTH SPACE}; two\nlines, a \x00 and "quotes"',
        "failure_code": "wrong_amount",
        "turns": [0, 3, 2_147_483_647],
        "details": '{"a":[1,2]}',
        "judge_version": "1",
        "rubric_hash": "abc",
    }
    return row | changed


def shard(
    run_id: str = "nightly-1", case_id: str = "c1", **changed: Any
) -> dict[str, pl.DataFrame]:
    """The frames of one shard: a full score, one without turns, one all null; a case; no ask."""
    keys = {"run_id": run_id, "case_id": case_id, "repetition": 0, "judge": "conversation"}
    bare = dict.fromkeys(TABLES["scores"]) | keys | {"metric": "z", "part": "turn:1"}
    scores = [
        bare,
        score_row(run_id, case_id, **changed),
        score_row(run_id, case_id, metric="tone", passed=True, turns=[]),
    ]
    case = dict.fromkeys(TABLES["cases"]) | {
        "run_id": run_id,
        "case_id": case_id,
        "repetition": 0,
        "position": 2**62,
        "started_at": BEGAN,
        "overall_score": 74.99999999999999,
        "passed": True,
        "turn_count": 4,
    }
    reject = {
        "run_id": run_id,
        "uri": f"s3://b/{case_id}.jsonl",
        "position": 3,
        "reason": "json",
        "excerpt": "{",
    }
    return {
        "scores": frame("scores", scores),
        "asks": frame("asks", []),
        "cases": frame("cases", [case]),
        "rejects": frame("rejects", [reject]),
    }


def joined(table: str, *shards: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """The rows that a table returns after some shards were committed."""
    return frame(table, [row for part in shards for row in part[table].to_dicts()])
