"""The checklist of the conversation judge: the expected outcomes of a case, each judged on its own.

A finding belongs to the statement with its number, never to the one with its words: a model may
reorder and reword the statements. A statement that has no finding after the second ask, or findings
that contradict each other, has failed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from assizes.judge.prompts.sections import neutralise
from assizes.judge.rubrics.rubric import OUTCOMES
from assizes.judge.score import Metric, Scale, Score

EXPECTED_OUTCOMES: Final = Metric(
    name=OUTCOMES,
    scale=Scale.FRACTION,
    display_name="Expected Outcomes",
    description="Share of the case's expected outcomes that hold; one part for each statement.",
    needs=("expected.outcomes",),
    needs_ground_truth=True,
)
"""The metric of the whole checklist: it has no weight, and it gates the case (seed 001)."""

NOT_EVALUATED: Final = "not evaluated"
"""Justification of a statement without a finding."""

MISSING_OUTCOME: Final = "missing_outcome"
"""Error code of a statement for which the model gave no valid finding."""


class ConversationReplyPart(BaseModel):
    """A part of the conversation judge's reply: no keys but those asked for."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, protected_namespaces=())


class OutcomeFinding(ConversationReplyPart):
    """What the model replies for one expected outcome; `number` is its place in the list, from 1.

    The statement is copied so that a model which counts otherwise is found out.
    """

    number: int
    statement: str
    justification: str
    passed: bool


@dataclass(frozen=True, slots=True)
class _AlignedFindings:
    """The findings in the order of the case's statements, `None` for a statement without one.

    `doubled` holds the numbers that were judged more than once. `ignored` holds a sentence for each
    finding that was not counted.
    """

    findings: tuple[OutcomeFinding | None, ...]
    doubled: tuple[int, ...]
    ignored: tuple[str, ...]


def outcome_doubts(statements: Sequence[str], findings: Sequence[OutcomeFinding]) -> list[str]:
    """Reasons to ask once more: statements without a finding, or with more than one."""
    aligned = _align_findings(statements, findings)
    missing = [number for number, finding in enumerate(aligned.findings, 1) if finding is None]
    doubts = []
    if missing:
        doubts.append(f"{OUTCOMES} has no entry that counts for number {_numbers_text(missing)}")
    if aligned.doubled:
        doubts.append(
            f"{OUTCOMES} has more than one entry for number {_numbers_text(aligned.doubled)}"
        )
    return [*doubts, *aligned.ignored] if doubts else []


def outcome_scores(statements: Sequence[str], findings: Sequence[OutcomeFinding]) -> list[Score]:
    """The headline score, and a part for each statement in the order of the case (seed 001).

    A statement without a finding has failed, and then the headline has not passed. A reply without
    any valid finding says nothing about the case: the status of the headline is `failed`, and the
    overall score decides the case.
    """
    if not statements:
        return [Score.skipped(OUTCOMES, "no expected outcomes defined")]
    aligned = _align_findings(statements, findings)
    warned: dict[str, Any] = {"warnings": list(aligned.ignored)} if aligned.ignored else {}
    if not any(aligned.findings):
        reason = "the judge evaluated none of the expected outcomes"
        return [Score.failed(OUTCOMES, reason, "no_outcomes").with_details(**warned)]
    parts = [
        _part(place, statement, finding)
        for place, (statement, finding) in enumerate(zip(statements, aligned.findings, strict=True))
    ]
    values = [part.raw or 0.0 for part in parts]
    share = round(math.fsum(values) / len(values), 9)
    headline = Score.of(EXPECTED_OUTCOMES, share, passed=all(values), details=warned)
    return [headline, *parts]


def _align_findings(
    statements: Sequence[str], findings: Sequence[OutcomeFinding]
) -> _AlignedFindings:
    if any(finding.number == 0 for finding in findings):
        # Where one number counts from 0, every other number may be off by one as well.
        numbering = f"{OUTCOMES} is numbered from 0, the statements from 1"
        return _AlignedFindings((None,) * len(statements), (), (numbering,))
    by_number: dict[int, list[OutcomeFinding]] = {}
    ignored: list[str] = []
    for finding in findings:
        if why := _stray_reason(statements, finding):
            ignored.append(f"ignored an entry of {OUTCOMES}: {why}")
        else:
            by_number.setdefault(finding.number, []).append(finding)
    doubled = tuple(sorted(number for number, entries in by_number.items() if len(entries) > 1))
    ignored += [
        f"{OUTCOMES} {number} is judged more than once, "
        + (
            "with the same result"
            if _agreed_finding(by_number[number])
            else "with different results"
        )
        for number in doubled
    ]
    agreed_findings = tuple(
        _agreed_finding(by_number.get(place, [])) for place in range(1, len(statements) + 1)
    )
    return _AlignedFindings(agreed_findings, doubled, tuple(ignored))


def _agreed_finding(findings: Sequence[OutcomeFinding]) -> OutcomeFinding | None:
    """The first finding of a statement; `None` where another finding says the opposite."""
    return findings[0] if len({finding.passed for finding in findings}) == 1 else None


def _stray_reason(statements: Sequence[str], finding: OutcomeFinding) -> str | None:
    """Why a finding is not counted: an unknown number, or the words of another statement."""
    if not 1 <= finding.number <= len(statements):
        return f"number {str(finding.number)[:20]} is not among 1 to {len(statements)}"
    key = _key(finding.statement)
    if key == _key(statements[finding.number - 1]):
        return None
    others = [number for number, other in enumerate(statements, 1) if _key(other) == key]
    return f"number {finding.number} has the words of {others[0]}" if others else None


def _key(statement: str) -> str:
    return " ".join(neutralise(statement).casefold().split()).strip(" .\"'")


def _numbers_text(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _part(place: int, statement: str, finding: OutcomeFinding | None) -> Score:
    part = f"outcome:{place}"
    if finding is None:
        details = {"statement": statement, "justification": NOT_EVALUATED}
        return Score.failed(OUTCOMES, NOT_EVALUATED, MISSING_OUTCOME, part, **details)
    return Score(
        metric=OUTCOMES,
        part=part,
        value=float(finding.passed),
        raw=float(finding.passed),
        label="pass" if finding.passed else "fail",
        passed=finding.passed,
        details={"statement": statement, "justification": finding.justification},
    )
