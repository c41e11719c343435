"""A rubric tried on cases whose level people know: which levels are given, confused, never used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from assizes.judge.alignment.rejudging import is_passed
from assizes.judge.calibration.measures import Estimate, accuracy, confusions, estimate, kappa
from assizes.judge.case import Case, Chunk, Expected, Transcript, Turn
from assizes.judge.rubrics.lint import LintFinding
from assizes.judge.rubrics.own_tests import RubricTest
from assizes.judge.score import Score
from assizes.judge.statistics.effects import Method, paired_effect
from assizes.judge.statistics.intervals import Sample
from assizes.judge.verdicts.verdict import rationale

Origin = Literal["test", "cases", "labels"]
"""Where a case comes from: the rubric's own tests, a file of cases, labels of a stored run."""

CONFUSED_SHARE: Final = 0.25
CONFUSED_CASES: Final = 2
"""A level is confused with another if at least this share (0..1), and as many, of its cases are."""

CONFIDENCE: Final = 0.95
MAX_SHOWN_CHARS: Final = 300

_PASSES: Final = {True: "pass", False: "fail", None: None}


@dataclass(frozen=True, slots=True)
class TrialCase:
    """A case with the level that it must get; of labels only pass or fail is known."""

    case: Case
    wanted: str  # the key of a level, or pass or fail
    origin: Origin
    cluster: str
    weight: float = 1.0  # one over the chance with which the case was drawn to be labelled


class WrongLevel(BaseModel):
    """A case that did not get its level."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    case_id: str
    origin: Origin
    wanted: str
    given: str | None = Field(description="null: no level came")
    reason: str = Field(description="of the judge, cut to 300 characters")


class Confusion(BaseModel):
    """Cases of one level that got another one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    wanted: str
    given: str
    cases: int
    share: float = Field(description="of all cases with this level, 0..1")


class RubricComparison(BaseModel):
    """Two rubrics on the same cases: the share of right levels, that of the other one taken off."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    against: str = Field(description="hash of the other rubric")
    right: float = Field(
        description="share of right levels, 0..1; weighted where labels were drawn"
    )
    right_against: float
    delta: float = Field(description="right - right_against")
    low: float | None = Field(description="95 % interval of delta; null: too few clusters")
    high: float | None
    p_value: float
    method: Method
    only_this: int = Field(description="cases that only this rubric gets right")
    only_other: int
    cases: int
    clusters: int

    @property
    def word(self) -> str:
        """Whether the difference is more than chance."""
        if self.p_value > 1 - CONFIDENCE:
            return "no difference is shown"
        return "better" if self.delta > 0 else "worse"


class RubricTrial(BaseModel):
    """What trying a rubric has shown."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    metric: str
    rubric_hash: str
    model: str | None = Field(description="null: no model was asked")
    levels: tuple[str, ...] = Field(description="the best first")
    tests: int = Field(description="tests of the file itself that were asked about")
    failed_tests: tuple[WrongLevel, ...]
    cases: int = Field(description="all cases that were asked about, the tests among them")
    unanswered: int
    mismatches: tuple[WrongLevel, ...] = Field(description="of the other cases")
    wanted: tuple[str, ...] = Field(description="rows of the table")
    given: tuple[str, ...] = Field(description="columns of the table")
    table: tuple[tuple[int, ...], ...] = Field(description="cases by level wanted and level given")
    agreement: Estimate = Field(description="share of cases with their level")
    kappa: Estimate
    never_given: tuple[str, ...] = Field(description="levels that no case got")
    untested: tuple[str, ...] = Field(description="levels that no case must get")
    confused: tuple[Confusion, ...]
    lint: tuple[LintFinding, ...]
    comparison: RubricComparison | None = None
    cost_usd: float | None = None

    @property
    def is_passed(self) -> bool:
        """Whether each test of the file got its level."""
        return not self.failed_tests


def case_of_test(test: RubricTest, number: int, origin: Origin = "test") -> TrialCase:
    """An exchange as a case; `number` counts from 1."""
    turns = [Turn(role="user", text=test.request)] if test.request else []
    chunks = tuple(Chunk(content=text) for text in test.passages)
    case = Case(
        case_id=f"{origin}-{number}",
        transcript=Transcript(
            turns=(*turns, Turn(role="assistant", text=test.response)), chunks=chunks or None
        ),
        expected=Expected(response=test.expected_response or None),
    )
    return TrialCase(case, test.expected, origin, case.case_id)


def given_level(score: Score, case: TrialCase, levels: Sequence[str]) -> str | None:
    """The level of a score, as pass or fail where only that is wanted; None: it has none."""
    if score.status != "scored":
        return None
    if case.wanted not in levels:
        return _PASSES[is_passed(score)]
    if score.label in levels:
        return score.label
    number = "" if score.raw is None else f"{score.raw:g}"
    if number in levels:
        return number
    return {"1": "yes", "0": "no"}.get(number) if "yes" in levels else None


def tally_levels(
    cases: Sequence[TrialCase], scores: Sequence[Score], levels: Sequence[str]
) -> dict[str, object]:
    """The fields of a trial that follow from its cases and their scores."""
    got_levels = [given_level(s, c, levels) for s, c in zip(scores, cases, strict=True)]
    triples = list(zip(cases, scores, got_levels, strict=True))
    wrong = [_mismatch(*triple) for triple in triples if triple[2] != triple[0].wanted]
    answered = [(case, level) for case, _, level in triples if level is not None]
    order = tuple(dict.fromkeys((*levels, "pass", "fail")))
    pairs = Counter((case.wanted, level) for case, level in answered)
    rows = tuple(level for level in order if any(level == wanted for wanted, _ in pairs))
    columns = tuple(
        level for level in order if level in levels or any(level == got for _, got in pairs)
    )
    places = {level: float(place) for place, level in enumerate(order)}
    grades = [(case.cluster, places[case.wanted], places[level]) for case, level in answered]
    tables = confusions(grades, list(places.values()))
    by_level = [(case, level) for case, level in answered if case.wanted in levels]
    has_levels = bool(by_level)
    return {
        "tests": sum(case.origin == "test" for case in cases),
        "failed_tests": tuple(each for each in wrong if each.origin == "test"),
        "cases": len(cases),
        "unanswered": len(cases) - len(answered),
        "mismatches": tuple(each for each in wrong if each.origin != "test"),
        "wanted": rows,
        "given": columns,
        "table": tuple(tuple(pairs[row, column] for column in columns) for row in rows),
        "agreement": estimate(tables, accuracy),
        "kappa": estimate(tables, kappa),
        "never_given": tuple(
            level for level in levels if has_levels and level not in {got for _, got in by_level}
        ),
        "untested": tuple(
            level for level in levels if level not in {case.wanted for case in cases}
        ),
        "confused": _confusions(pairs),
    }


def compare_rubrics(
    cases: Sequence[TrialCase],
    levels: tuple[Sequence[str], Sequence[str]],
    scores: tuple[Sequence[Score], Sequence[Score]],
    other_hash: str,
) -> RubricComparison:
    """A rubric and another one on the same cases, the own side first; no level counts as wrong.

    Labels that were drawn weigh by the chance with which they were drawn, so that the shares are those
    of the whole run.
    """
    rights = [
        np.array([given_level(s, c, own) == c.wanted for s, c in zip(side, cases, strict=True)])
        for own, side in zip(levels, scores, strict=True)
    ]
    weights = np.array([case.weight for case in cases])
    weights = weights / weights.mean()
    moved = rights[0].astype(float) - rights[1]
    is_drawn = bool(np.any(weights != 1.0))
    sample = Sample.of(moved * weights, [case.cluster for case in cases])
    effect = paired_effect(sample, CONFIDENCE, share=not is_drawn)
    shares = [float((right * weights).mean()) for right in rights]
    low, high = effect.span
    return RubricComparison(
        against=other_hash,
        right=shares[0],
        right_against=shares[1],
        delta=shares[0] - shares[1],
        low=low if np.isfinite(low) else None,
        high=high if np.isfinite(high) else None,
        p_value=effect.p_value,
        method=effect.method,
        only_this=int((moved > 0).sum()),
        only_other=int((moved < 0).sum()),
        cases=len(cases),
        clusters=sample.clusters,
    )


def _mismatch(case: TrialCase, score: Score, given: str | None) -> WrongLevel:
    reason = score.reason or rationale(score.details)
    return WrongLevel(
        case_id=case.case.case_id,
        origin=case.origin,
        wanted=case.wanted,
        given=given,
        reason=reason[:MAX_SHOWN_CHARS],
    )


def _confusions(pairs: Counter[tuple[str, str]]) -> tuple[Confusion, ...]:
    of_level: Counter[str] = Counter()
    for (wanted, _), cases in pairs.items():
        of_level[wanted] += cases
    confusions_found = [
        Confusion(wanted=wanted, given=given, cases=cases, share=cases / of_level[wanted])
        for (wanted, given), cases in pairs.items()
        if wanted != given
        and cases >= CONFUSED_CASES
        and cases >= CONFUSED_SHARE * of_level[wanted]
    ]
    return tuple(sorted(confusions_found, key=lambda each: (-each.cases, each.wanted, each.given)))
