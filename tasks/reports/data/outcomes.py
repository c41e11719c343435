"""What a run comes to in one word, the same in every report and list: the most severe finding."""

from __future__ import annotations

from typing import Final

from assizes.judge.rows import COMPLETE

REGRESSION: Final = "regression"
"""The outcome of a run that is worse than its baseline, and whose judge held still."""


def outcome_of(status: str, outcome: str, ending: str, *, judge_moved: bool = False) -> str:
    """The most severe finding names the run; missing scores never pass for good news.

    Args:
        status: of its row.
        outcome: of its own gates: `passed`, `failed` or `inconclusive`.
        ending: of its comparison; `fine` without one.
        judge_moved: whether the anchors say so; a fall is not held against the agent then.

    Returns:
        `passed`, `failed`, `regression`, `inconclusive`, `undecided`, `not_comparable` or
        `incomplete`.
    """
    if status != COMPLETE:
        return "incomplete"
    if outcome == "inconclusive":
        return outcome
    if ending == "regressed":
        return "undecided" if judge_moved else REGRESSION
    if outcome == "failed" or ending == "fine":
        return outcome
    return "undecided" if ending == "inconclusive" else ending
