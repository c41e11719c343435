"""From hearings to rows: what one case adds to the public tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from assizes.judge.case import Case
from assizes.judge.catalog import Court
from assizes.judge.engine.ask_records import AskRecord, Heard
from assizes.judge.protocol import Judge
from assizes.judge.rows import as_json
from assizes.judge.score import Metric, Score
from assizes.judge.verdicts.contradictions import SUSPECT, suspicion
from assizes.judge.verdicts.crosschecks import contradicted
from assizes.judge.verdicts.fixes import suggested_fix
from assizes.judge.verdicts.flagged_passes import case_flags, held_back, review_flags
from assizes.judge.verdicts.verdict import Verdict, verdict

MAX_TOOLS: Final = 50
MAX_TOOL_NAME: Final = 120
"""So many tools of a case are kept, in order of their names, and so many characters of a name."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a case was read: its object and its position in it."""

    run_id: str
    uri: str
    position: int


@dataclass(frozen=True, slots=True)
class Findings:
    """The rows of one judged case, by table, and its verdict."""

    verdict: Verdict
    rows: Mapping[str, list[dict[str, Any]]]


def findings(origin: Origin, case: Case, heard: Sequence[Heard], court: Court) -> Findings:
    """The rows of a case that every judge of the court has heard.

    The score that a failure is traced to carries the suggested fix in its details; one that its own
    rationale, or the evidence, contradicts says so there. A pass of a case that speaks to its
    judges is held back (`assizes.judge.verdicts.flagged_passes`).
    """
    scores = [score for one in heard for score in one.scores]
    found = verdict(
        scores,
        court.weights,
        court.pass_threshold,
        {metric.name: metric.tier for metric in court.metrics if metric.tier},
        {metric.name: metric.gate for metric in court.metrics if metric.gate},
        has_ground_truth=has_ground_truth(case),
    )
    apart = court.flagged_passes == "apart"
    seen = (*case_flags(case), *review_flags(scores))
    found, flags = held_back(found, seen, apart=apart)
    at_odds = contradicted(case, scores)
    key = {"run_id": origin.run_id, "case_id": case.case_id, "repetition": case.repetition}
    score_rows = [
        {
            **key,
            **_score_row(one.judge, _annotated(one.judge, score, found.root_cause, at_odds), court),
        }
        for one in heard
        for score in one.scores
    ]
    ask_rows = [{**key, **_ask_row(ask)} for one in heard for ask in one.asks]
    case_row = {**key, **_case_row(origin, case), **_verdict_row(found), "flags": flags}
    return Findings(found, {"scores": score_rows, "asks": ask_rows, "cases": [case_row]})


def has_ground_truth(case: Case) -> bool:
    """Whether the case says what the answer should have been; an empty text says nothing."""
    said = (case.expected.response or "", *case.expected.facts)
    return any(text.strip() for text in said)


def _annotated(
    judge: Judge, score: Score, root_cause: str | None, at_odds: Mapping[str, str]
) -> Score:
    why = suspicion(score) or (None if score.part else at_odds.get(score.metric))
    marked = score.with_details(**{SUSPECT: why}) if why else score
    return _with_fix(judge, marked, root_cause)


def _with_fix(judge: Judge, score: Score, root_cause: str | None) -> Score:
    if score.part or score.metric != root_cause:
        return score
    metric = _metric_of(judge, score.metric)
    return score.with_details(
        suggested_fix=suggested_fix(root_cause, metric.run_names if metric else ())
    )


def _metric_of(judge: Judge, name: str) -> Metric | None:
    return next((metric for metric in judge.metrics if metric.name == name), None)


def _score_row(judge: Judge, score: Score, court: Court) -> dict[str, Any]:
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
        "weight": court.weights.get(score.metric) if headline else None,
        "tier": metric.tier if metric else None,
        "status": score.status,
        "reason": score.reason,
        "failure_code": score.failure_code,
        "turns": list(score.turns),
        "details": as_json(dict(score.details)),
        "judge_version": judge.version,
        "rubric_hash": metric.rubric_hash if metric else "",
    }


def _ask_row(ask: AskRecord) -> dict[str, Any]:
    return {field.name: getattr(ask, field.name) for field in fields(ask)}


def _case_row(origin: Origin, case: Case) -> dict[str, Any]:
    transcript = case.transcript
    usage = transcript.agent_usage()
    return {
        "transcript_uri": origin.uri,
        "position": origin.position,
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
        "tools": _tools(case),
    }


def _tools(case: Case) -> list[str]:
    """The distinct names of the tools that the agent called; calls within a call are not its own."""
    names = {call.name[:MAX_TOOL_NAME] for _, call in case.transcript.calls()}
    return sorted(names)[:MAX_TOOLS]


def _verdict_row(found: Verdict) -> dict[str, Any]:
    return {
        "overall_score": found.overall_score,
        "score_passed": found.score_passed,
        "passed": found.passed,
        "gate": found.gate,
        "root_cause": found.root_cause,
        "summary": found.summary,
        "status": found.status,
        "error": found.error,
    }
