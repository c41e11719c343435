"""Two small runs with known findings, summed up and compared by the real code."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import jsonschema_rs
import polars as pl

from assizes.judge.comparison.compare import RunComparison, compare
from assizes.judge.comparison.runs import RunData
from assizes.judge.config.run import RunConfig
from assizes.judge.rows import SHARD_TABLES, as_json, frame
from assizes.judge.score import LABELS
from assizes.judge.summary.run_summary import RunSummary
from assizes.judge.summary.summary import summarise
from assizes.tasks.reports import json_report, report_data
from assizes.tasks.reports.schema import report_schema
from assizes.tasks.store import RunRecord

DESCRIBED = jsonschema_rs.validator_for(report_schema())
"""Every report of a sample is held against the schema."""

BEGUN = datetime(2026, 3, 2, 1, 0, tzinfo=UTC)

WEIGHTS = {"tool_routing": ("execution", 0.5), "response_delivery": ("delivery", 0.25)}
BINARY = ("task_completion", "execution", 0.25)


@dataclass(frozen=True)
class Said:
    """What the judge found on one case, in short."""

    case_id: str
    levels: tuple[int, int]
    done: bool = True
    outcomes: tuple[tuple[str, bool, str], ...] = ()
    code: str = "wrong_tool_selected"
    why: str = "Called the right tool with the right arguments."
    error: str | None = None
    repetition: int = 0
    agent: str = "airline"
    tags: Mapping[str, str] = field(default_factory=dict)
    latency_ms: float | None = 800.0
    tools: tuple[str, ...] = ()


@dataclass(frozen=True)
class Run:
    """A finished run: its row, its summary and its tables."""

    record: RunRecord
    summary: RunSummary
    frames: Mapping[str, pl.DataFrame]

    def data(self, comparison: RunComparison | None = None) -> dict[str, Any]:
        tables = (self.frames[name] for name in ("cases", "scores", "asks"))
        found = report_data(self.record, self.summary, *tables, comparison)
        DESCRIBED.validate(json.loads(json_report(found)))
        return found

    def side(self) -> RunData:
        return RunData(
            run_id=self.record.run_id,
            name=self.record.name,
            agent_version="1.0",
            config=self.record.config,
            summary=self.summary,
            cases=self.frames["cases"].lazy(),
            scores=self.frames["scores"].lazy(),
            status=self.record.status,
            prompts=self.record.plan.get("prompts", {}),
        )


def config(**tables: Any) -> RunConfig:
    return RunConfig.model_validate(
        {
            "name": "nightly",
            "transcripts": {"uri": "s3://transcripts/2026-03-01/*.jsonl"},
            "judge": {"metrics": [*WEIGHTS, {"metric": BINARY[0], "weight": 0.25}]},
            **tables,
        }
    )


def run(said: Sequence[Said], *, run_id: str = "nightly-aaaaaaaaaaaa", **tables: Any) -> Run:
    chosen = config(**tables)
    rows: dict[str, list[dict[str, Any]]] = {table: [] for table in SHARD_TABLES}
    for place, one in enumerate(said):
        key = {"run_id": run_id, "case_id": one.case_id, "repetition": one.repetition}
        rows["cases"].append(key | _case_row(one, place))
        rows["scores"] += [key | _SCORE | row for row in _score_rows(one)]
        rows["asks"].append(key | _ask_row(one, chosen.judge.model_id))
    frames = {table: frame(table, rows[table]) for table in SHARD_TABLES}
    summary = summarise(
        *(frames[table].lazy() for table in ("cases", "scores", "asks")),
        chosen,
        {"read": len(said) + 2, "quarantined": 1, "duplicate": 1},
    )
    record = RunRecord(
        run_id=run_id,
        name=chosen.name,
        trigger="nightly",
        status="complete",
        config={
            **chosen.model_dump(mode="json"),
            "fingerprints": {"judge:conversation": "1", "metric:tool_routing": "0123456789abcdef"},
        },
        config_hash="0123456789abcdef",
        judge_model=chosen.judge.model_id,
        started_at=BEGUN,
        finished_at=BEGUN + timedelta(minutes=3, seconds=20),
        counts=summary.counts,
        summary=summary.model_dump(mode="json"),
    )
    return Run(record, summary, frames)


def compared(baseline: Run, candidate: Run) -> dict[str, Any]:
    chosen = RunConfig.model_validate(
        {key: value for key, value in candidate.record.config.items() if key != "fingerprints"}
    )
    return candidate.data(compare(baseline.side(), candidate.side(), chosen.comparison))


def with_prompts(of: Run, **prompts: str) -> Run:
    """The run with another fingerprint for each judge, and its prompts kept; without any, an old one."""
    texts = {f"of {text}": text for text in prompts.values()}
    kept = {"judges": {name: [f"of {text}"] for name, text in prompts.items()}, "texts": texts}
    plan = {"prompts": kept} if prompts else {}
    prints = {"judge:conversation": of.record.run_id}
    record = replace(of.record, config={**of.record.config, "fingerprints": prints}, plan=plan)
    return replace(of, record=record)


def incomplete(of: Run) -> Run:
    return replace(of, record=replace(of.record, status="incomplete", finished_at=None))


_SCORE = {
    "judge": "conversation",
    "part": "",
    "status": "scored",
    "turns": [],
    "details": "{}",
    "judge_version": "1",
    "rubric_hash": "0123456789abcdef",
}


def _overall(one: Said) -> float:
    levels = [*one.levels, 5 if one.done else 0]
    return round(sum(level * w for level, w in zip(levels, (0.5, 0.25, 0.25), strict=True)) * 20, 2)


def _case_row(one: Said, place: int) -> dict[str, Any]:
    score = None if one.error else _overall(one)
    gated = all(passed for _, passed, _ in one.outcomes) if one.outcomes else None
    passed = False if score is None else score >= 75 if gated is None else gated
    return {
        "transcript_uri": "s3://transcripts/2026-03-01/part-0.jsonl",
        "position": place,
        "transcript_hash": f"{place:032x}",
        "agent": one.agent,
        "agent_version": "1.0",
        "tags": as_json(dict(one.tags)),
        "started_at": BEGUN,
        "overall_score": score,
        "score_passed": None if score is None else score >= 75,
        "passed": passed,
        "gate": "error" if one.error else "expected_outcomes" if one.outcomes else "overall_score",
        "summary": _summary(one, score, passed=passed),
        "status": "errored" if one.error else "judged",
        "error": one.error,
        "turn_count": 6,
        "agent_latency_ms": one.latency_ms,
        "agent_tokens": 1200,
        "agent_input_tokens": 1000,
        "agent_output_tokens": 200,
        "tools": list(one.tools),
    }


def _summary(one: Said, score: float | None, *, passed: bool) -> str:
    if one.error:
        return f"ERROR ({one.error})"
    held = sum(passed for _, passed, _ in one.outcomes)
    by = f"{held} of {len(one.outcomes)} expected outcomes" if one.outcomes else f"score {score}"
    return f"{'PASSED' if passed else 'FAILED'} ({by})"


def _score_rows(one: Said) -> list[dict[str, Any]]:
    metrics = [*((name, *rest) for name, rest in WEIGHTS.items()), BINARY]
    common = [{"metric": name, "tier": tier, "weight": weight} for name, tier, weight in metrics]
    if one.error:
        failed = {"status": "failed", "reason": one.error, "details": as_json({"error": "timeout"})}
        return [row | failed for row in common]
    scored = [row | _level(level, one) for row, level in zip(common, one.levels, strict=False)]
    completed = common[-1] | {
        "raw": 5.0 if one.done else 0.0,
        "value": 1.0 if one.done else 0.0,
        "label": "pass" if one.done else "fail",
        "failure_code": None if one.done else "goal_not_reached",
        "details": as_json({"justification": "The goal was reached." if one.done else one.why}),
    }
    return [*scored, completed, *_outcome_rows(one)]


def _level(level: int, one: Said) -> dict[str, Any]:
    return {
        "raw": float(level),
        "value": level / 5,
        "label": LABELS[level],
        "failure_code": one.code if level < 3 else None,
        "turns": [1, 3] if level < 3 else [],
        "details": as_json({"justification": one.why}),
    }


def _outcome_rows(one: Said) -> list[dict[str, Any]]:
    if not one.outcomes:
        return []
    held = sum(passed for _, passed, _ in one.outcomes) / len(one.outcomes)
    headline = {"metric": "expected_outcomes", "raw": held, "value": held, "passed": held == 1}
    parts = [
        {
            "metric": "expected_outcomes",
            "part": f"outcome:{place}",
            "raw": float(passed),
            "value": float(passed),
            "label": "pass" if passed else "fail",
            "passed": passed,
            "details": as_json({"statement": statement, "justification": why}),
        }
        for place, (statement, passed, why) in enumerate(one.outcomes)
    ]
    return [headline, *parts]


def _ask_row(one: Said, model: str) -> dict[str, Any]:
    return {
        "judge": "conversation",
        "round": 0,
        "index": 0,
        "model": model,
        "provider": model.split("/", 1)[0],
        "answered_by": None if one.error else model,
        "prompt_hash": "0" * 32,
        "cached": False,
        "attempts": 1,
        "input_tokens": None if one.error else 700,
        "output_tokens": None if one.error else 300,
        "cost_usd": None,
        "latency_ms": 0.0 if one.error else 1500.0,
        "error": one.error,
    }
