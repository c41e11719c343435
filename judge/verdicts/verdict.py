"""The verdict on one case: its scores become a number 0..100, a gate, and one line for people.

A run may use three families of judges; each gives one ruling on a case to which it applies, and a
case passes when every such family passes it. The conversation judge decides by its
checklist of expected outcomes, and by the overall score only where there is none. Agent-step judges:
every judge that applies must pass. Yes/no judges: one no fails the case, with a root cause; without a no, a
missing rating leaves the case undecided.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, Literal

from assizes.judge.rubrics.rubric import OUTCOMES
from assizes.judge.score import ACCEPTABLE, Gate, Score
from assizes.judge.statistics.exact import reaches, rounded_value

NO_OUTCOMES = "no_outcomes"
"""Error code of a checklist that the case has, but for which the judge gave no valid finding."""

STRONG = 4
"""The lowest level (0..5) at which the summary line names the best metric."""

_MISSING: Final = ("no judge scored it", "missing_score")
"""The reason and the error code of a gating metric for which no judge gave a score."""

_REASON_CHARS, _REASONS = 200, 3
"""The most characters of one reason in a text, and the most reasons of a skipped case."""

_WORDS = {True: "PASSED", False: "FAILED", None: "NOT DECIDED"}  # first words of a summary line

CaseGate = Literal[
    "expected_outcomes", "overall_score", "all_judges", "quality", "all", "floor", "error"
]
"""The gate that decided a case; `all` where several families passed it together, `floor` where a
metric under its floor alone failed it."""

CaseStatus = Literal["judged", "errored", "skipped"]

WITH_GROUND_TRUTH: Final = ("context_sufficiency", "groundedness", "correctness", "safety")
"""The causal order for a case with an expected response or expected facts."""

WITHOUT_GROUND_TRUTH: Final = ("chunk_relevance", "groundedness", "relevance_to_query", "safety")
"""The causal order for a case without an expected response and without expected facts."""

LEFT_OVER: Final = ("chunk_relevance", "relevance_to_query", "context_sufficiency", "correctness")
"""Metrics that stand in one of the two lists only. They come last in the other case, so that every
failed case has a root cause."""

RATIONALE_KEYS: Final = ("justification", "rationale", "reasoning", "explanation", "reason")
"""Keys in the details of a score that may hold the judge's explanation, the preferred key first."""


def root_cause(
    failed: Collection[str], declared: Sequence[str], *, has_ground_truth: bool
) -> str | None:
    """The quality metric to which a failure is traced; `None` when no metric failed.

    `failed` are the metrics that said no (one without a rating is never among them), `declared` all
    quality metrics of the run in the order of the configured judges.
    """
    # The first no in a causal order, not the worst: with too few documents the answer is wrong too.
    listed = WITH_GROUND_TRUTH if has_ground_truth else WITHOUT_GROUND_TRUTH
    custom = [name for name in declared if name not in WITH_GROUND_TRUTH + WITHOUT_GROUND_TRUTH]
    return next((name for name in (*listed, *custom, *LEFT_OVER) if name in failed), None)


def rationale(details: Mapping[str, Any]) -> str:
    """The judge's explanation in the details of a score; empty where there is none."""
    texts = (details.get(key) for key in RATIONALE_KEYS)
    return next((text for text in texts if isinstance(text, str) and text), "")


@dataclass(frozen=True, slots=True)
class Ruling:
    """The decision of one family of judges on a case to which the family applies."""

    gate: CaseGate | None  # None: no metric with a weight applied
    passed: bool | None  # None: nothing could decide
    words: str  # what decided, for the summary line of the case
    overall_score: float | None = None  # 0..100
    score_passed: bool | None = None
    error: str | None = None  # the metrics without a score
    root_cause: str | None = None
    remarks: tuple[str, ...] = ()  # further notes for the summary line


def points(number: float) -> float:
    """A number of points 0..100 as it is stored and compared: 2 decimals, without float noise."""
    # Nine decimals first: 74.99999999999999 is 75 with float noise, and ties must not hang on it.
    return round(round(number, 9), 2)


def success(score: Score) -> bool | None:
    """Whether a score is a success: its `passed`, else its label; `None` where neither decides."""
    if score.passed is not None:
        return score.passed
    # The label `fail` is not read: it also names level 1 of 5.
    return {"yes": True, "pass": True, "no": False}.get(score.label or "")


def judges_ruling(due: Sequence[Score]) -> Ruling | None:
    """The ruling of judges that must all pass, on the headline scores due; `None` when no judge applied.

    The overall score is 100 x the mean of the values.
    """
    if error := error_of(due):
        return Ruling("all_judges", None, "", error=error)
    applied = [score for score in due if score.status == "scored"]
    if not applied:
        return None
    not_passed = [score.metric for score in applied if success(score) is not True]
    pass_count = len(applied) - len(not_passed)
    values = [score.value for score in applied if score.value is not None]
    mean = points(math.fsum(values) / len(values) * 100) if values else None
    judges = "judge" if len(applied) == 1 else "judges"
    return Ruling(
        gate="all_judges",
        passed=not not_passed,
        words=f"{pass_count} of {len(applied)} {judges} passed, mean {mean}",
        overall_score=mean,
        remarks=tuple(f"failed {name}" for name in not_passed),
    )


def quality_ruling(
    due: Sequence[Score], declared: Sequence[str], *, has_ground_truth: bool
) -> Ruling | None:
    """The ruling of the yes/no judges on the headline scores due; `None` when no judge applied.

    `declared` are the metrics of the quality judges, in the order of the configured judges.
    """
    applied = [score for score in due if score.status == "scored"]
    error = error_of(due)
    if not applied and error is None:
        return None
    failed = {score.metric: score for score in applied if success(score) is False}
    successes = [success(score) for score in applied]
    cause = root_cause(failed, declared, has_ground_truth=has_ground_truth)
    remarks: tuple[str, ...] = ()
    if cause is not None:
        why = _short(rationale(failed[cause].details))
        others = (f"failed {name}" for name in failed if name != cause)
        remarks = (f"root cause {cause}" + (f" ({why})" if why else ""), *others)
    judges = "quality judge" if len(applied) == 1 else "quality judges"
    return Ruling(
        gate="quality",
        passed=_decision([*successes, None] if error else successes),
        words=f"{successes.count(True)} of {len(applied)} {judges} said yes" if applied else "",
        error=error,
        root_cause=cause,
        remarks=remarks,
    )


def _decision(decisions: Sequence[bool | None]) -> bool | None:
    """False where anything failed the case; else `None` where something is undecided; else true."""
    if False in decisions:
        return False
    return None if None in decisions else True


def error_of(due: Sequence[Score]) -> str | None:
    """The metrics without a score because their judge failed, by error code; `None` without any."""
    by_code: dict[str, list[Score]] = defaultdict(list)
    for score in due:
        code = str(score.details.get("error", "judge_error"))
        # Without a valid outcome the overall score decides (docs/decisions.md, decision 11).
        if score.status == "failed" and (score.metric, code) != (OUTCOMES, NO_OUTCOMES):
            by_code[code].append(score)
    parts = (
        f"{code}: {', '.join(score.metric for score in failed)} ({_short(failed[0].reason or '')})"
        for code, failed in sorted(by_code.items())
    )
    return "; ".join(parts) or None


def _short(text: str) -> str:
    return " ".join(text.split())[:_REASON_CHARS]


@dataclass(frozen=True, slots=True)
class CaseVerdict:
    """The verdict on one case; scores run 0..100 with 2 decimals."""

    overall_score: float | None  # None: no score to average
    score_passed: bool | None  # by its threshold, whatever gate decided; None: mean of judges
    passed: bool | None  # None: nothing applied, or a yes/no gate alone lacks its rating
    gate: CaseGate | None
    status: CaseStatus
    error: str | None  # the metrics without a score, by error code
    root_cause: str | None  # metric to which a failure is traced
    summary: str  # one line for people


def overall_score(raw_by_metric: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """Sum of (level 0..5 / 5) x normalised weight x 100, not yet cut to 2 decimals.

    Pass and fail of a binary metric are 5 and 0. The weights are positive shares of any size.

    Raises:
        ValueError: when a weighted metric has no level, or the sum of the weights is not positive.
    """
    if absent := sorted(weights.keys() - raw_by_metric.keys()):
        raise ValueError(f"no score for {', '.join(absent)}: weights are never shared out anew")
    total = math.fsum(weights.values())
    if total <= 0:
        raise ValueError(f"weights sum to {total!r}, a positive sum is needed: {dict(weights)!r}")
    weighted = math.fsum(raw_by_metric[name] * weight for name, weight in weights.items())
    return rounded_value(weighted / 5 / total * 100)


def verdict(
    scores: Sequence[Score],
    weights: Mapping[str, float],
    pass_threshold: float,
    gates: Mapping[str, Gate] = MappingProxyType({}),
    *,
    has_ground_truth: bool = False,
) -> CaseVerdict:
    """The verdict on one case from its scores: headline scores and parts of every judge.

    `weights` are the shares of the metrics in the overall score, which must be at least
    `pass_threshold` (0..100) where there is no checklist. `gates` are the gates of the metrics that
    decide otherwise than by weight, in the order of the configured judges.
    """
    headlines = [score for score in scores if not score.part]
    # The conversation judge owes the weighted metrics, with its checklist where there is one; where
    # no metric decides cases, all of them do.
    weighed = by_metric = {score.metric: score for score in headlines}
    if weights or gates:
        weighed = {name: by_metric.get(name) or Score.failed(name, *_MISSING) for name in weights}
        weighed |= {OUTCOMES: by_metric[OUTCOMES]} if OUTCOMES in by_metric else {}
    of_judges, of_quality = (_due(headlines, gates, gate) for gate in ("judges", "quality"))
    judges = judges_ruling(of_judges)
    # A mean of judges beside the conversation judge's score would be a second meaning in one column
    # (docs/decisions.md, decision 16).
    if judges is not None and weights:
        judges = replace(judges, overall_score=None)
    rulings = (
        _conversation_ruling(scores, weighed, weights, pass_threshold),
        judges,
        quality_ruling(of_quality, list(gates), has_ground_truth=has_ground_truth),
    )
    if present_rulings := [ruling for ruling in rulings if ruling is not None]:
        return _combine_rulings(present_rulings)
    due = (*weighed.values(), *of_judges, *of_quality)
    reasons = list(dict.fromkeys(_short(score.reason) for score in due if score.reason))
    more = f"; and {len(reasons) - _REASONS} more" if len(reasons) > _REASONS else ""
    why = "; ".join(reasons[:_REASONS]) + more or "nothing was judged"
    return CaseVerdict(None, None, None, None, "skipped", None, None, f"SKIPPED ({why})")


def _due(headlines: Sequence[Score], gates: Mapping[str, Gate], gate: Gate) -> list[Score]:
    """The headline scores of the metrics with this gate; a failed score for each missing one."""
    due_scores = [score for score in headlines if gates.get(score.metric) == gate]
    names = {score.metric for score in due_scores}
    absent = [name for name, of in gates.items() if of == gate and name not in names]
    return [*due_scores, *(Score.failed(name, *_MISSING) for name in absent)]


def _conversation_ruling(
    scores: Sequence[Score],
    due: Mapping[str, Score],
    weights: Mapping[str, float],
    pass_threshold: float,
) -> Ruling | None:
    """The checklist decides, else the overall score; `None` when nothing applies."""
    if error := error_of(list(due.values())):
        return Ruling("overall_score", None, "", error=error)
    if not any(score.status == "scored" for score in due.values()):
        return None
    checked = OUTCOMES in due and due[OUTCOMES].status == "scored"
    outcomes = [score for score in scores if checked and score.metric == OUTCOMES and score.part]
    scored_metrics = [due[name] for name in weights if due[name].status == "scored"]
    levels = {score.metric: _level(score) for score in scored_metrics}
    applying = {name: weights[name] for name in levels}
    exact = overall_score(levels, applying) if math.fsum(applying.values()) > 0 else None
    total = None if exact is None else points(exact)
    passed = score_passed = reaches(exact, pass_threshold)
    gate: CaseGate | None = None if exact is None else "overall_score"
    words = "no weighted score"
    if total is not None:
        shown = total if passed == (total >= pass_threshold) else exact  # 74.996, not 75.0
        words = f"score {shown}, needs {pass_threshold}"
    if OUTCOMES in due and due[OUTCOMES].status == "failed":
        words += ", as no expected outcome could be read"
    if outcomes:
        pass_count = sum(outcome.passed is True for outcome in outcomes)
        gate, passed = "expected_outcomes", pass_count == len(outcomes)
        words = f"{pass_count} of {len(outcomes)} expected outcomes"
    return Ruling(
        gate=gate,
        passed=passed,
        words=words,
        overall_score=total,
        score_passed=score_passed,
        remarks=tuple(_remarks(scored_metrics, total, outcomes)),
    )


def _combine_rulings(rulings: Sequence[Ruling]) -> CaseVerdict:
    """One verdict from several rulings; errored only if a missing ruling could still change it."""
    # A ruling without a gate only adds its words, unless there is no other.
    deciding = [ruling for ruling in rulings if ruling.gate] or rulings
    passed = _decision([ruling.passed for ruling in deciding])
    error = "; ".join(ruling.error for ruling in rulings if ruling.error) or None
    if error and passed is None:
        rated = all(ruling.gate == "quality" for ruling in rulings if ruling.error)
        summary, decision = f"ERROR ({error})", None if rated else False
        return CaseVerdict(None, None, decision, "error", "errored", error, None, summary)
    gate = deciding[0].gate
    if len(deciding) > 1:
        gate = next((ruling.gate for ruling in deciding if ruling.passed is False), "all")
    words = "; ".join(ruling.words for ruling in rulings if ruling.words)
    remarks = [remark for ruling in rulings for remark in ruling.remarks]
    remarks += [f"could not be had: {error}"] if error else []
    return CaseVerdict(
        overall_score=rulings[0].overall_score,  # the conversation judge's, where it sits
        score_passed=rulings[0].score_passed,
        passed=passed,
        gate=gate,
        status="judged",
        error=error,
        root_cause=next((ruling.root_cause for ruling in rulings if ruling.root_cause), None),
        summary=", ".join((f"{_WORDS[passed]} ({words})", *remarks)),
    )


def _level(score: Score) -> float:
    """The score as a level 0..5, whatever the scale of its metric."""
    return score.value * 5 if score.value is not None else score.raw or 0.0


def _remarks(
    scored_metrics: Sequence[Score], total: float | None, outcomes: Sequence[Score]
) -> Iterator[str]:
    """Further notes for the summary line: the score, the weakest and strongest metric, failures."""
    if outcomes and total is not None:
        yield f"score {total}"
    levelled = sorted((s for s in scored_metrics if s.passed is None), key=_level)
    if levelled and (level := _level(levelled[0])) < ACCEPTABLE:
        yield f"weakest {levelled[0].metric} {level:g}/5"
    strongest = max(levelled, key=_level, default=None)
    if strongest is not None and strongest is not levelled[0] and _level(strongest) >= STRONG:
        yield f"strongest {strongest.metric} {_level(strongest):g}/5"
    yield from (f"failed {score.metric}" for score in scored_metrics if score.passed is False)
