"""The outcome of a run in one word, which is the same in every report and list."""

from __future__ import annotations

from typing import Final

from assizes.judge.rows import COMPLETE

REGRESSION: Final = "regression"
"""The outcome of a run that is worse than its baseline while its judge did not move."""


def outcome_of(status: str, outcome: str, ending: str, *, judge_moved: bool = False) -> str:
    """The outcome of a run: the most severe of what its status, gates and comparison say.

    Missing scores never make an outcome better.

    Args:
        status: the stored status of the run.
        outcome: the outcome of its own gates: `passed`, `failed` or `inconclusive`.
        ending: the ending of its comparison; `fine` without a baseline.
        judge_moved: whether the anchors show that the judge moved; a fall of the scores is then not
            blamed on the agent.

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
