"""Passes that are not believed as they stand: the case itself speaks to the judge, or says nothing.

Such a pass is `pass_flagged`: its `passed` is null, it counts as not passed, and it is counted
apart. A failure stays a failure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from assizes.judge.case import Case
from assizes.judge.engine.second_look import NEEDS_REVIEW
from assizes.judge.injection.flags import Flag, flags
from assizes.judge.score import Score
from assizes.judge.verdicts.crosschecks import has_empty_answer
from assizes.judge.verdicts.executions import PASS_FLAGGED
from assizes.judge.verdicts.verdict import CaseVerdict

TRIVIAL_ANSWER: Final = "trivial_answer"
"""Flag of a case whose agent never said a word that means anything."""

_MAX_SHOWN: Final = 3


def case_flags(case: Case) -> tuple[Flag, ...]:
    """Everything in a case that its pass must not rest on."""
    trivial = (Flag(TRIVIAL_ANSWER, "agent"),) if has_empty_answer(case.transcript) else ()
    return (*flags(case), *trivial)


def review_flags(scores: Sequence[Score]) -> tuple[Flag, ...]:
    """One flag for a case on which two looks of a judge differ, at the first such metric."""
    metrics = [score.metric for score in scores if NEEDS_REVIEW in score.details]
    return tuple(Flag(NEEDS_REVIEW, metric) for metric in metrics[:1])


def flag_verdict(
    verdict: CaseVerdict, seen: Sequence[Flag], *, apart: bool
) -> tuple[CaseVerdict, list[str]]:
    """A verdict in the light of what was found, and the flags of its row.

    Args:
        verdict: by the judges.
        seen: flags of the case.
        apart: whether a flagged pass is reported apart; else it stays a pass that says so.
    """
    names = [flag.name for flag in seen]
    if not names:
        return verdict, names
    marked = replace(verdict, summary=f"{verdict.summary}; {_flag_words(seen)}")
    if not apart or verdict.passed is not True:
        return marked, names
    summary = f"PASS FLAGGED{marked.summary.removeprefix('PASSED')}"
    return replace(marked, passed=None, summary=summary), [PASS_FLAGGED, *names]


def _flag_words(seen: Sequence[Flag]) -> str:
    shown = ", ".join(f"{flag.name} ({flag.place})" for flag in seen[:_MAX_SHOWN])
    more = f" and {len(seen) - _MAX_SHOWN} more" if len(seen) > _MAX_SHOWN else ""
    return f"flagged: {shown}{more}"
