"""A run of every family of judges with known findings, put together by the real code."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from assizes.judge.case import Case, Expected
from assizes.judge.catalog import JudgePanel
from assizes.judge.engine.hearings import HearingResult
from assizes.judge.protocol import Judge
from assizes.judge.rows import SHARD_TABLES, frame
from assizes.judge.score import Metric, Scale, Score
from assizes.judge.summary.summary import summarise
from assizes.judge.verdicts.case_rows import RowKey, findings
from tests.builders import agent, case, user
from tests.judge.engine.levels import PAID, but
from tests.judge.verdicts.quality_scores import Promising, measured, rated
from tests.tasks.reports.sample import Run, config, run

RUN_ID = "nightly-ffffffffffff"


def _quality(name: str, step: str = "response") -> Metric:
    published = f"{step}/llm_judged/{name}/rating/percentage"
    return Metric(name, Scale.YES_NO, gate="quality", run_names=(published,))


ROUTING = Metric("tool_routing", Scale.SCORED, tier="execution")
RECALL = Metric("document_recall", run_names=("retrieval/ground_truth/document_recall/average",))
TOKENS = Metric("total_token_count", Scale.AMOUNT, run_names=("agent/total_token_count/average",))
JUDGES: tuple[Judge, ...] = (
    Promising("conversation", (ROUTING,)),
    Promising("sql", (Metric("sql", gate="judges"),)),
    Promising("correctness", (_quality("correctness"),)),
    Promising("context_sufficiency", (_quality("context_sufficiency", "retrieval"),)),
    Promising("safety", (_quality("safety"),)),
    Promising("document_recall", (RECALL,)),
    Promising("agent_usage", (TOKENS,)),
)
COURT = JudgePanel(
    JUDGES, {"tool_routing": 1.0}, tuple(one for judge in JUDGES for one in judge.metrics), 75.0
)

HEARD: dict[str, dict[str, Score]] = {
    "all-good": {
        "tool_routing": Score.of(ROUTING, 5, details={"justification": "Every call was right."}),
        "sql": measured("sql", 0.9).with_details(reasoning="Result Match: 0.90"),
        "correctness": rated("correctness", "yes", "It names the price."),
        "safety": rated("safety", "yes", "Nothing harmful."),
        "total_token_count": Score.of(TOKENS, 350),
    },
    "too-little-found": {
        "tool_routing": Score.of(ROUTING, 4),
        "correctness": rated("correctness", "no", "The price is wrong."),
        "context_sufficiency": rated("context_sufficiency", "no", "No passage has the price."),
        "safety": rated("safety", "yes", "Nothing harmful."),
        "document_recall": Score.of(RECALL, 0.5),
        "total_token_count": Score.of(TOKENS, 351),
    },
    "wrong-answer": {
        "tool_routing": Score.of(ROUTING, 4),
        "sql": measured("sql", 0.2),
        "correctness": rated("correctness", "no", "It says *9* instead of 10."),
        "context_sufficiency": rated("context_sufficiency", "yes", "The price is there."),
        "safety": rated("safety", None),
        "document_recall": Score.of(RECALL, 1.0),
    },
}
WHY = {"sql": "expected.sql is not given", "agent_usage": "no trace"}
COSTS = {"conversation": 0.03, "correctness": 0.01, "safety": None}


def _case(case_id: str) -> Case:
    turns = (user("What does it cost?"), agent("10"))
    return case(*turns, case_id=case_id, expected=Expected(response="10"))


def _heard(case_id: str, judge: Judge) -> HearingResult:
    scores = [
        HEARD[case_id].get(metric.name)
        or Score.skipped(metric.name, WHY.get(judge.name, "missing input: expected_response"))
        for metric in judge.metrics
    ]
    asked = judge.name in COSTS and scores[0].status != "skipped"
    paid = but(PAID, judge=judge.name, cost_usd=COSTS.get(judge.name), cached=False, waited_ms=0.0)
    return HearingResult(judge, scores, [paid] if asked else [])


def families_run() -> Run:
    """Three cases: one that all families pass, one with too little context, one wrong answer."""
    rows: dict[str, list[dict[str, Any]]] = {table: [] for table in SHARD_TABLES}
    for place, case_id in enumerate(HEARD):
        heard = [_heard(case_id, judge) for judge in JUDGES]
        found = findings(RowKey(RUN_ID, "s3://t/a.jsonl", place), _case(case_id), heard, COURT)
        for table, added in found.rows.items():
            rows[table] += added
    frames = {table: frame(table, rows[table]) for table in SHARD_TABLES}
    tables = (frames[table].lazy() for table in ("cases", "scores", "asks"))
    summary = summarise(*tables, config(), {"read": len(HEARD)}, JUDGES)
    plain = run([], run_id=RUN_ID)
    record = replace(plain.record, counts=summary.counts, summary=summary.model_dump(mode="json"))
    return Run(record, summary, frames)
