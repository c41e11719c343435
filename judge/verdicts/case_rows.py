"""The verdict on one case, and its rows for the tables `cases`, `scores` and `asks`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from assizes.judge.case import Case
from assizes.judge.catalog import JudgePanel
from assizes.judge.engine.ask_records import HearingResult
from assizes.judge.protocol import Judge
from assizes.judge.rows import as_json
from assizes.judge.score import Metric, Score
from assizes.judge.verdicts.contradictions import SUSPECT, contradicted_metrics, contradiction
from assizes.judge.verdicts.flagged_passes import case_flags, flag_verdict, review_flags
from assizes.judge.verdicts.root_cause import suggested_fix
from assizes.judge.verdicts.verdict import CaseVerdict, verdict

MAX_TOOLS: Final = 50
"""The most tool names in the row of a case."""

MAX_TOOL_NAME: Final = 120
"""The most characters of one tool name in the row of a case."""


@dataclass(frozen=True, slots=True)
class RowKey:
    """The place where a case was read: the URI of an object, and the record's position in it."""

    run_id: str
    uri: str
    position: int


@dataclass(frozen=True, slots=True)
class Findings:
    """The verdict on one case, and the rows of the case by table name."""

    verdict: CaseVerdict
    rows: Mapping[str, list[dict[str, Any]]]


def findings(
    row_key: RowKey, case: Case, hearing_results: Sequence[HearingResult], panel: JudgePanel
) -> Findings:
    """The verdict on a case and its rows, after the hearings of all judges.

    The score to which a failure is traced holds the suggested fix in its details. A score that is
    contradicted by its own rationale, or by the evidence, says so under `suspect`. A pass of a case
    whose text speaks to its judges does not count (`assizes.judge.verdicts.flagged_passes`).

    Args:
        row_key: where the case was read.
        case: the case.
        hearing_results: the scores and asks of each judge.
        panel: the judges with their weights and thresholds.
    """
    scores = [score for result in hearing_results for score in result.scores]
    case_verdict = verdict(
        scores,
        panel.weights,
        panel.pass_threshold,
        {metric.name: metric.tier for metric in panel.metrics if metric.tier},
        {metric.name: metric.gate for metric in panel.metrics if metric.gate},
        has_ground_truth=has_ground_truth(case),
    )
    case_verdict, flags = flag_verdict(
        case_verdict,
        (*case_flags(case), *review_flags(scores)),
        apart=panel.flagged_passes == "apart",
    )
    contradictions = contradicted_metrics(case, scores)
    key = {"run_id": row_key.run_id, "case_id": case.case_id, "repetition": case.repetition}
    score_rows = []
    for result in hearing_results:
        for score in result.scores:
            noted = _annotated_score(result.judge, score, case_verdict.root_cause, contradictions)
            score_rows.append({**key, **_score_row(result.judge, noted, panel)})
    ask_rows = [
        {**key, **{field.name: getattr(ask, field.name) for field in fields(ask)}}
        for result in hearing_results
        for ask in result.asks
    ]
    case_row = {**key, **_case_row(row_key, case), **_verdict_row(case_verdict), "flags": flags}
    return Findings(case_verdict, {"scores": score_rows, "asks": ask_rows, "cases": [case_row]})


def has_ground_truth(case: Case) -> bool:
    """Whether the case holds an expected response or expected facts that are not blank."""
    texts = (case.expected.response or "", *case.expected.facts)
    return any(text.strip() for text in texts)


def _annotated_score(
    judge: Judge, score: Score, root_cause: str | None, contradictions: Mapping[str, str]
) -> Score:
    """The score with notes in its details: `suspect`, and on the root cause the suggested fix."""
    why = contradiction(score) or (None if score.part else contradictions.get(score.metric))
    if why:
        score = score.with_details(**{SUSPECT: why})
    if score.part or score.metric != root_cause:
        return score
    metric = _metric_of(judge, score.metric)
    fix = suggested_fix(root_cause, metric.run_names if metric else ())
    return score.with_details(suggested_fix=fix)


def _metric_of(judge: Judge, name: str) -> Metric | None:
    return next((metric for metric in judge.metrics if metric.name == name), None)


def _score_row(judge: Judge, score: Score, panel: JudgePanel) -> dict[str, Any]:
    metric = _metric_of(judge, score.metric)
    headline = not score.part
    return {
        "judge": judge.name,
        "metric": score.metric,
        "part": score.part,
        "value": score.value,
        "raw": score.raw,
        "label": score.label,
        "passed": score.passed,
        "weight": panel.weights.get(score.metric) if headline else None,
        "tier": metric.tier if metric else None,
        "status": score.status,
        "reason": score.reason,
        "failure_code": score.failure_code,
        "turns": list(score.turns),
        "details": as_json(dict(score.details)),
        "judge_version": judge.version,
        "rubric_hash": metric.rubric_hash if metric else "",
    }


def _case_row(row_key: RowKey, case: Case) -> dict[str, Any]:
    transcript = case.transcript
    usage = transcript.agent_usage()
    return {
        "transcript_uri": row_key.uri,
        "position": row_key.position,
        "transcript_hash": case.content_hash(),
        "agent": case.agent,
        "agent_version": case.agent_version,
        "tags": as_json(case.tags),
        "cluster": case.cluster,
        "started_at": transcript.started_at,
        "turn_count": len(transcript.turns),
        "agent_latency_ms": transcript.agent_latency_ms(),
        "duration_ms": transcript.duration_ms,
        "agent_tokens": usage and usage.input_tokens + usage.output_tokens,
        "agent_input_tokens": usage and usage.input_tokens,
        "agent_output_tokens": usage and usage.output_tokens,
        "agent_cost_usd": transcript.cost_usd(),
        # Calls of a sub-agent within a call are not the agent's own.
        "tools": sorted({call.name[:MAX_TOOL_NAME] for _, call in transcript.calls()})[:MAX_TOOLS],
    }


def _verdict_row(case_verdict: CaseVerdict) -> dict[str, Any]:
    return {
        "overall_score": case_verdict.overall_score,
        "score_passed": case_verdict.score_passed,
        "passed": case_verdict.passed,
        "gate": case_verdict.gate,
        "root_cause": case_verdict.root_cause,
        "summary": case_verdict.summary,
        "status": case_verdict.status,
        "error": case_verdict.error,
    }
