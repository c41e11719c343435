"""The first screen of a report: what got worse, how sure that is, and the failure code behind it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from assizes.judge.comparison.compare import RunComparison
from assizes.judge.comparison.statistical_verdict import LABELS
from assizes.tasks.reports.formatting import name_of, plural, signed_number
from assizes.tasks.reports.schema import parts
from assizes.tasks.reports.schema import report as schema

_MEASURES: Final = {"pass_rate": "Pass rate", "overall_score": "Average score"}  # measure -> rule
_WORDS: Final = {"regressed": "worse", "improved": "better", "inconclusive": "cannot tell"}
_SURE: Final = {
    "regressed": "With {confidence} confidence the agent got worse; chance does not explain it.",
    "improved": "With {confidence} confidence the agent got better; chance does not explain it.",
    "not_worse": "With {confidence} confidence the agent is at most {margin:g} points worse.",
    "inconclusive": "The data cannot tell whether the agent got worse",
}
_BY_LIMITS: Final = (
    "Only the limits of [comparison] were applied; how sure the change is was not computed."
)
_JUDGE_MOVED: Final = (
    "The judge itself changed between the two runs, so the agent may not have caused these changes."
)


def first_look(
    reasons: Sequence[str], compared: parts.Comparison | None, codes: Sequence[schema.CodeLine] = ()
) -> schema.FirstLook:
    """What the first screen shows.

    `reasons` are those of the verdict; `compared` is `None` without a baseline; `codes` are the
    failure codes, the most frequent first.
    """
    code = _moved_code(codes) or next(iter(codes), None)
    shown = set() if compared is None else {*compared.reasons, *_measure_lines(compared)}
    return schema.FirstLook(
        changes=[] if compared is None else changed_numbers(compared),
        confidence=_confidence(compared),
        sure=None if compared is None else sureness(compared),
        reasons=[reason for reason in reasons if reason not in shown],
        failure_code=None if code is None else code.code,
        failure_code_note=None if code is None else _code_note(code, _confidence(compared)),
        moved=None if compared is None else _moved_cases(compared),
    )


def changed_numbers(compared: parts.Comparison) -> list[schema.ChangedNumber]:
    """The numbers that decide between two runs, those that got worse first."""
    rows = [*_rule_rows(compared), *_gating_rows(compared)]
    return sorted(rows, key=lambda row: not row.worse)  # stable: the order of the rules stays


def without_blame(first: Mapping[str, Any]) -> dict[str, Any]:
    """The data of a first screen of a run whose judge moved: nothing is held against the agent."""
    changes = [
        {**change, "worse": False, "word": "judge moved" if change["worse"] else change["word"]}
        for change in first["changes"]
    ]
    return {**first, "changes": changes, "sure": _JUDGE_MOVED}


def _rule_rows(compared: parts.Comparison) -> Iterator[schema.ChangedNumber]:
    """The numbers that a rule limits, with the interval that the statistics found for them."""
    measures = {_MEASURES.get(measure.measure): measure for measure in _measures(compared)}
    for rule in compared.rules:
        measure = measures.get(rule.name)
        broken = [text for text in compared.reasons if text.startswith(rule.name.lower())]
        worse = not set(broken).isdisjoint(compared.why)
        if measure is not None:
            worse = worse or _decides(measure, compared)
            yield _measured(measure, worse=worse, limit=rule.limit)
            continue
        yield schema.ChangedNumber(
            name=rule.name.lower(),
            baseline=rule.baseline,
            candidate=rule.candidate,
            change=rule.change,
            low=None,
            high=None,
            span=None,
            limit=rule.limit,
            word="worse" if worse else "over its limit" if broken else "within its limit",
            worse=worse,
        )


def _gating_rows(compared: parts.Comparison) -> Iterator[schema.ChangedNumber]:
    """The metrics that `[comparison] gating` names beside the two numbers of the rules."""
    for measure in _measures(compared):
        if measure.measure not in _MEASURES:
            yield _measured(measure, worse=_decides(measure, compared), limit=None)


def _measured(measure: parts.Measure, *, worse: bool, limit: str | None) -> schema.ChangedNumber:
    unit = " %" if measure.measure == "pass_rate" else ""
    word = _WORDS.get(measure.verdict, "not worse")
    return schema.ChangedNumber(
        name=LABELS.get(measure.measure, measure.name),
        baseline=f"{measure.baseline:.1f}{unit}",
        candidate=f"{measure.candidate:.1f}{unit}",
        change=f"{signed_number(measure.delta, 1)} points",
        low=measure.low,
        high=measure.high,
        span=span_text(measure.low, measure.high),
        limit=limit,
        word="worse" if worse else word,
        worse=worse,
    )


def _decides(measure: parts.Measure, compared: parts.Comparison) -> bool:
    """Whether the statistics of a measure make the comparison a regression."""
    by_statistics = compared.ending == "regressed" and compared.mode != "rules"
    return by_statistics and measure.verdict == "regressed"


def span_text(low: float | None, high: float | None) -> str | None:
    """An interval in points, such as `-27.3 to -1.3`; `None` where a bound is missing."""
    if low is None or high is None:
        return None
    return f"{signed_number(low, 1)} to {signed_number(high, 1)}"


def is_sure(low: float | None, high: float | None) -> bool:
    """Whether an interval leaves out 0, so that the change is more than noise."""
    return low is not None and high is not None and (low > 0 or high < 0)


def sureness(compared: parts.Comparison) -> str:
    """How sure the changes are, in a sentence."""
    statistics = compared.statistics
    if statistics is None:
        return _BY_LIMITS
    sentence = _SURE[statistics.verdict].format(
        confidence=_confidence(compared), margin=statistics.margin
    )
    if statistics.verdict != "inconclusive":
        return sentence
    lines = _measure_lines(compared)
    doubts = [reason for reason in statistics.reasons if reason not in lines]
    return f"{sentence}: {doubts[0]}." if doubts else f"{sentence}."


def code_shifts(comparison: RunComparison | None) -> dict[str, schema.CodeShift]:
    """How the share of cases with a failure code changed, by its name, where it was compared."""
    statistics = None if comparison is None else comparison.verdict.statistics
    return {
        name_of(change.name): schema.CodeShift(
            **change.model_dump(include={"baseline", "candidate", "delta"}),
            span=span_text(change.low, change.high),
            sure=is_sure(change.low, change.high),
        )
        for change in (statistics.exploratory if statistics else ())
        if change.kind == "failure_code"
    }


def _moved_code(codes: Sequence[schema.CodeLine]) -> schema.CodeLine | None:
    """The failure code that more cases have than before, of several the one that moved most."""
    grown = [(code.shift.delta, code) for code in codes if code.shift and code.shift.delta > 0]
    return max(grown, key=lambda pair: pair[0])[1] if grown else None


def _moved_cases(compared: parts.Comparison) -> str:
    totals = compared.totals
    return (
        f"Of {plural(totals.matched, 'case')} in both runs {totals.regressions:,} got worse and "
        f"{totals.improvements:,} got better."
    )


def _code_note(code: schema.CodeLine, confidence: str) -> str:
    """What is said of the failure code on the first screen, after its name."""
    shift = code.shift
    if shift is None or shift.delta <= 0:
        return f"is the most frequent failure code: {plural(code.count, 'finding')}."
    interval = f", {confidence} interval {shift.span}" if shift.span else ""
    return (
        f"is the failure code that moved most: {shift.baseline:.1f} % of the cases had it, now "
        f"{shift.candidate:.1f} % ({signed_number(shift.delta, 1)} points{interval})."
    )


def _measures(compared: parts.Comparison) -> list[parts.Measure]:
    return compared.statistics.measures if compared.statistics else []


def _measure_lines(compared: parts.Comparison) -> list[str]:
    return [measure.line for measure in _measures(compared)]


def _confidence(compared: parts.Comparison | None) -> str:
    statistics = None if compared is None else compared.statistics
    return f"{100 * (1 - statistics.alpha):g} %" if statistics else "95 %"
