"""The verdict on one case, and its rows for the tables `cases`, `scores` and `asks`.

A score that contradicts its own rationale, or the evidence in its case, is marked as `suspect` for
people to read first; it is never changed, and no number of a run uses the mark.

A pass is held where the case's own text speaks to the judge, or the agent says nothing: its state is
`pass_flagged`, its `passed` is `None`, and a run reports how many there are. Other flags are shown
and hold nothing. A failure stays a failure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from assizes.judge.case import Case, Transcript
from assizes.judge.catalog import JudgePanel
from assizes.judge.engine.ask_records import AskRecord, HearingResult
from assizes.judge.engine.second_look import NEEDS_REVIEW
from assizes.judge.evidence.tool_calls import has_expected_call, tool_evidence
from assizes.judge.formats.shared.parsing import unchecked_truth
from assizes.judge.injection.families import Flag, flags
from assizes.judge.protocol import Judge
from assizes.judge.quick_test import QuickTest
from assizes.judge.rows import as_json
from assizes.judge.rubrics.rubric import OUTCOMES
from assizes.judge.score import SUSPECT, Score
from assizes.judge.statistics.exact import reaches
from assizes.judge.verdicts.executions import PASS_FLAGGED
from assizes.judge.verdicts.quoted import UNSUPPORTED_QUOTE, with_quotes_checked
from assizes.judge.verdicts.verdict import CaseVerdict, rationale, success, verdict

MAX_TOOLS: Final = 50
"""The most tool names in the row of a case."""

MAX_TOOL_NAME: Final = 120
"""The most characters of one tool name in the row of a case."""

TRIVIAL_ANSWER: Final = "trivial_answer"
"""Flag of a case in which all texts of the agent are empty phrases."""

RETRIEVAL_FIX: Final = (
    "Improve retrieval: check that the missing information is indexed at all, then tune chunk "
    "size, query rewriting, filters, the number of passages and their ranking."
)
GENERATION_FIX: Final = (
    "Improve generation: tighten the instructions (answer the question, refuse what is unsafe), or "
    "try a stronger model."
)
FROM_PASSAGES: Final = "Have the agent answer from the retrieved passages only."
"""Added to `GENERATION_FIX` where a case has passages and no judge of retrieval failed it."""

_MAX_SHOWN: Final = 3
"""The most flags that the summary line of a verdict names."""

NOT_CHECKED: Final = "not checked"
"""Words in the summary line of a case before ground truth that no judge can check."""

LOW: Final = 0.2
"""The highest value 0..1 that praise contradicts: level 1 of 5."""

HIGH: Final = 0.8
"""The lowest value 0..1 that blame, or contrary evidence, contradicts: level 4 of 5."""

BLAME: Final = (
    *("completely failed", "failed completely", "completely fails", "fails completely"),
    *("totally failed", "entirely failed", "complete failure", "total failure"),
    *("completely wrong", "entirely wrong", "completely incorrect", "entirely incorrect"),
    *("completely irrelevant", "completely ignored"),
)
PRAISE: Final = (
    *("perfect", "perfectly", "flawless", "flawlessly"),
    *("fully correct", "entirely correct", "completely correct"),
    *("no issues", "no problems", "no errors", "without any issues", "without errors"),
)

_QUALIFIED: Final = "not|never|nor|hardly|far from|less than|almost|nearly|otherwise|if"


def _phrases(words: Sequence[str]) -> re.Pattern[str]:
    """A pattern for these phrases; group 1 is a negation or qualification before the phrase."""
    either = "|".join(re.escape(phrase) for phrase in words)
    return re.compile(
        rf"(?:\b({_QUALIFIED})(?:\s+(?:a|an|be|been|the|have|has|had))?\s+)?\b({either})\b"
    )


_BLAME: Final = _phrases(BLAME)
_PRAISE: Final = _phrases(PRAISE)
_MAYBE_BLAME: Final = QuickTest(BLAME)
_MAYBE_PRAISE: Final = QuickTest(PRAISE)

OF_THE_TASK: Final = frozenset(
    {
        *("task_completion", "response_delivery", OUTCOMES, "correctness"),
        *("relevance_to_query", "answer_criteria", "answer_completeness", "response_quality"),
    }
)
"""Metrics that cannot be high where the agent's answer says nothing."""

_RESTS_ON_CONTEXT: Final = ("context_sufficiency", "groundedness")  # metrics about the documents

# Openers that some judges take for an answer (arXiv 2507.08794). The first quantifier is
# possessive: without it a long run of signs could be split in many ways, in quadratic time.
_OPENERS: Final = re.compile(
    r"\W*+(?:thought process|let(?:'|\u2019)?s (?:solve|think)[^.:\n]{0,40}|solution|answer"
    r"|final answer|reasoning|explanation|response)?\W*",
    re.IGNORECASE,
)


def contradiction(score: Score) -> str | None:
    """How a score contradicts its rationale; `None` where it does not."""
    if score.value is None or LOW < score.value < HIGH:
        return None
    maybe, pattern = (_MAYBE_BLAME, _BLAME) if score.value >= HIGH else (_MAYBE_PRAISE, _PRAISE)
    text = rationale(score.details).lower()
    # The pattern is slow, and most rationales hold none of the phrases.
    if not maybe.may_match_any(text):
        return None
    plain = next((match[2] for match in pattern.finditer(text) if match[1] is None), None)
    return plain and f"value {score.value:g}, but its rationale says {plain!r}"


def has_empty_answer(transcript: Transcript) -> bool:
    """Whether all texts of the agent are empty phrases; false for an agent without any text."""
    texts = [text for _, text in transcript.agent_texts()]
    return bool(texts) and all(_OPENERS.fullmatch(text) for text in texts)


def contradicted_metrics(case: Case, scores: Sequence[Score]) -> dict[str, str]:
    """Metrics whose headline score is high against the evidence, each with the contradiction."""
    values = {score.metric: score.value for score in scores if not score.part}
    high = {name for name, value in values.items() if value is not None and value >= HIGH}
    if not high:
        return {}
    contradictions = {}
    # Where an expected tool was called with success, and no other metric asks, nothing contradicts.
    if case.expected.tool_calls and (
        "task_completion" in high or ("tool_routing" in high and not has_expected_call(case))
    ):
        tools = tool_evidence(case)
        if tools.recall == 0 and "tool_routing" in high:
            expected = len(tools.expected or ())
            contradictions["tool_routing"] = f"none of the {expected} expected calls was made"
        if tools.writes_known and tools.write_match is False and "task_completion" in high:
            why = "the state-changing calls are not the expected ones"
            contradictions["task_completion"] = why
    if values.get("document_recall") == 0:
        why = "none of the expected documents was retrieved"
        contradictions |= {name: why for name in _RESTS_ON_CONTEXT if name in high}
    if has_empty_answer(case.transcript):
        why = "the agent's answer says nothing"
        contradictions |= dict.fromkeys(sorted(high & OF_THE_TASK), why)
    return {name: f"value {values[name]:g}, but {why}" for name, why in contradictions.items()}


def case_flags(case: Case) -> tuple[Flag, ...]:
    """The flags of a case: those that hold a pass, and those that only tell a reader to look."""
    trivial = (
        (Flag(TRIVIAL_ANSWER, "agent", holds=True),) if has_empty_answer(case.transcript) else ()
    )
    return (*flags(case), *trivial)


def _flagged_verdict(
    verdict: CaseVerdict, case_flags: Sequence[Flag], *, apart: bool
) -> tuple[CaseVerdict, list[str]]:
    """The verdict with the flags of its case taken into account, and the names of the flags.

    Where `apart`, a pass does not count if a flag holds it; else it stays a pass. The summary names
    the flags, those that hold first.
    """
    names = [flag.name for flag in case_flags]
    if not names:
        return verdict, names
    first = sorted(case_flags, key=lambda flag: not flag.holds)[:_MAX_SHOWN]
    shown = ", ".join(f"{flag.name} ({flag.place})" for flag in first)
    more = f" and {len(names) - _MAX_SHOWN} more" if len(names) > _MAX_SHOWN else ""
    summary = f"{verdict.summary}; flagged: {shown}{more}"
    is_held = apart and any(flag.holds for flag in case_flags)
    if not is_held or verdict.passed is not True:
        return replace(verdict, summary=summary), names
    summary = f"PASS FLAGGED{summary.removeprefix('PASSED')}"
    return replace(verdict, passed=None, summary=summary), [PASS_FLAGGED, *names]


@dataclass(frozen=True, slots=True)
class RowKey:
    """The place where a case was read, within a run."""

    run_id: str
    uri: str  # of the object that holds the record
    position: int  # the record's place in the object


@dataclass(frozen=True, slots=True)
class Findings:
    """The verdict on one case, and the rows of the case by table name."""

    verdict: CaseVerdict
    rows: Mapping[str, list[dict[str, Any]]]


_ASK_COLUMNS: Final = tuple(field.name for field in fields(AskRecord))
_VERDICT_COLUMNS: Final = tuple(field.name for field in fields(CaseVerdict))


def findings(
    row_key: RowKey, case: Case, hearing_results: Sequence[HearingResult], panel: JudgePanel
) -> Findings:
    """The verdict on a case and its rows, after the hearings of all judges of the panel."""
    hearing_results = with_quotes_checked(case, hearing_results)
    scores = [score for result in hearing_results for score in result.scores]
    by_judges = verdict(
        scores,
        panel.weights,
        panel.pass_threshold,
        {metric.name: metric.gate for metric in panel.metrics if metric.gate},
        has_ground_truth=has_ground_truth(case),
    )
    by_judges = _above_floors(by_judges, scores, panel.floors)
    if unchecked := unchecked_truth(case):
        by_judges = replace(by_judges, summary=f"{by_judges.summary}; {NOT_CHECKED}: {unchecked}")
    # One flag of each kind is enough: the details of the scores say more.
    reviewed = [
        flag
        for name in (NEEDS_REVIEW, UNSUPPORTED_QUOTE)
        for flag in [Flag(name, score.metric) for score in scores if name in score.details][:1]
    ]
    case_verdict, flag_names = _flagged_verdict(
        by_judges, (*case_flags(case), *reviewed), apart=panel.flagged_passes == "apart"
    )
    suspects = contradicted_metrics(case, scores)
    key = {"run_id": row_key.run_id, "case_id": case.case_id, "repetition": case.repetition}
    cause = case_verdict.root_cause
    fixes = {} if cause is None else {cause: _fix(case, scores, panel, cause)}
    score_rows = [
        {**key, **_score_row(result.judge, score, panel, fixes, suspects)}
        for result in hearing_results
        for score in result.scores
    ]
    ask_rows = [
        {**key, **{name: getattr(ask, name) for name in _ASK_COLUMNS}}
        for result in hearing_results
        for ask in result.asks
    ]
    of_verdict = {name: getattr(case_verdict, name) for name in _VERDICT_COLUMNS}
    case_row = {**key, **_case_row(row_key, case), **of_verdict, "flags": flag_names}
    return Findings(case_verdict, {"scores": score_rows, "asks": ask_rows, "cases": [case_row]})


def _above_floors(
    verdict: CaseVerdict, scores: Sequence[Score], floors: Mapping[str, float]
) -> CaseVerdict:
    """The verdict, failed where a metric is under its floor, whatever the average says."""
    under = [
        f"{score.metric} {score.raw:g} is under its floor {floors[score.metric]:g}"
        for score in scores
        if not score.part and score.metric in floors
        if reaches(score.raw, floors[score.metric]) is False
    ]
    if not under or verdict.status != "judged":
        return verdict
    gate = verdict.gate if verdict.passed is False else "floor"
    _, _, words = verdict.summary.partition(" (")
    summary = f"FAILED ({'; '.join(under)}; {words}"
    return replace(verdict, passed=False, gate=gate, summary=summary)


def has_ground_truth(case: Case) -> bool:
    """Whether the case holds an expected response or expected facts that are not blank."""
    texts = (case.expected.response or "", *case.expected.facts)
    return any(text.strip() for text in texts)


def suggested_fix(metric: str, run_names: Sequence[str] = ()) -> str:
    """The suggestion for a failure of retrieval or of generation, by its root cause."""
    # A retrieval judge that a user wrote is known by its published names only.
    retrieval = any(name.startswith("retrieval/") for name in run_names)
    retrieval = retrieval or metric in ("context_sufficiency", "chunk_relevance")
    return RETRIEVAL_FIX if retrieval else GENERATION_FIX


def _fix(case: Case, scores: Sequence[Score], panel: JudgePanel, root_cause: str) -> str:
    fixes = {metric.name: suggested_fix(metric.name, metric.run_names) for metric in panel.metrics}
    if fixes.get(root_cause) == RETRIEVAL_FIX:
        return RETRIEVAL_FIX
    failed = [score.metric for score in scores if not score.part and success(score) is False]
    if beside := [name for name in failed if fixes.get(name) == RETRIEVAL_FIX]:
        return f"{GENERATION_FIX} {', '.join(beside)} failed as well. {RETRIEVAL_FIX}"
    has_passages = bool(case.transcript.retrieved_chunks())
    return f"{GENERATION_FIX} {FROM_PASSAGES}" if has_passages else GENERATION_FIX


def _score_row(
    judge: Judge,
    score: Score,
    panel: JudgePanel,
    fixes: Mapping[str, str],
    suspects: Mapping[str, str],
) -> dict[str, Any]:
    """The row of a score with notes in its details: `suspect`, and for the root cause the fix."""
    metric = next((metric for metric in judge.metrics if metric.name == score.metric), None)
    headline, details = not score.part, dict(score.details)
    if why := contradiction(score) or (suspects.get(score.metric) if headline else None):
        details[SUSPECT] = why
    # Stored, not made up by reports: an old run keeps the advice that it was given.
    if headline and score.metric in fixes:
        details["suggested_fix"] = fixes[score.metric]
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
        "details": as_json(details),
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
        # Names come from the transcript, so their number and length are bounded.
        # Calls of a sub-agent within a call are not the agent's own.
        "tools": sorted({call.name[:MAX_TOOL_NAME] for _, call in transcript.calls()})[:MAX_TOOLS],
        "system_prompt_hash": case.transcript.system_hash,
        "turn_spans": transcript.turn_spans(),
    }
