"""Passes that do not count: the case's own text speaks to the judge, or the agent says nothing.

Such a pass has the state `pass_flagged`: its `passed` is `null`, it counts as not passed, and a run
reports how many there are. A failure stays a failure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from assizes.judge.case import Case
from assizes.judge.engine.second_look import NEEDS_REVIEW
from assizes.judge.injection.flags import Flag, flags
from assizes.judge.score import Score
from assizes.judge.verdicts.contradictions import has_empty_answer
from assizes.judge.verdicts.executions import PASS_FLAGGED
from assizes.judge.verdicts.verdict import CaseVerdict

TRIVIAL_ANSWER: Final = "trivial_answer"
"""Flag of a case in which all texts of the agent are empty phrases."""

_MAX_SHOWN: Final = 3
"""The most flags that the summary line of a verdict names."""


def case_flags(case: Case) -> tuple[Flag, ...]:
    """The flags of a case: reasons in its transcript why a pass must not be trusted."""
    trivial = (Flag(TRIVIAL_ANSWER, "agent"),) if has_empty_answer(case.transcript) else ()
    return (*flags(case), *trivial)


def review_flags(scores: Sequence[Score]) -> tuple[Flag, ...]:
    """One flag, with the first metric's name, where the two looks of a judge differ; else none."""
    metrics = [score.metric for score in scores if NEEDS_REVIEW in score.details]
    return tuple(Flag(NEEDS_REVIEW, metric) for metric in metrics[:1])


def flag_verdict(
    verdict: CaseVerdict, found_flags: Sequence[Flag], *, apart: bool
) -> tuple[CaseVerdict, list[str]]:
    """The verdict with the flags of its case taken into account, and the names of the flags.

    Args:
        verdict: the verdict by the judges.
        found_flags: the flags of the case.
        apart: whether a flagged pass does not count; else it stays a pass whose summary names the
            flags.
    """
    names = [flag.name for flag in found_flags]
    if not names:
        return verdict, names
    shown = ", ".join(f"{flag.name} ({flag.place})" for flag in found_flags[:_MAX_SHOWN])
    more = f" and {len(names) - _MAX_SHOWN} more" if len(names) > _MAX_SHOWN else ""
    marked = replace(verdict, summary=f"{verdict.summary}; flagged: {shown}{more}")
    if not apart or verdict.passed is not True:
        return marked, names
    summary = f"PASS FLAGGED{marked.summary.removeprefix('PASSED')}"
    return replace(marked, passed=None, summary=summary), [PASS_FLAGGED, *names]
