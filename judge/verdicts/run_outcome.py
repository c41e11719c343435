"""How a run ends: its outcome, the conclusion that follows from it, and the word for people.

The outcome is what report.json, the HTTP API and the metrics name; the conclusion is the name of
the Prefect state and decides the exit code; the word is what terminal and report print.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from assizes.judge.rows import COMPLETE

REGRESSION: Final = "regression"
"""The outcome of a run that is worse than its baseline, while its judge did not move."""

Conclusion = Literal[
    "Passed",
    "GateFailed",
    "Regression",
    "NotComparable",
    "Inconclusive",
    "Incomplete",
    "OverBudget",
    "Halted",
    "NoData",
]
"""The end of a run in one name, which is also that of its Prefect state."""

PartConclusion = Conclusion | Literal["Failed"]
"""The conclusion of a part of a series; `Failed`: it was not begun, or its outcome not returned."""

CONCLUSIONS: Final[Mapping[str, Conclusion]] = {
    "passed": "Passed",
    "failed": "GateFailed",
    REGRESSION: "Regression",
    "inconclusive": "Inconclusive",
    "undecided": "Inconclusive",
    "not_comparable": "NotComparable",
    "incomplete": "Incomplete",
}
"""The conclusion of a run by its outcome.

A run that is incomplete because somebody stopped it, or its budget ran out, and one without data
have a conclusion of their own.
"""

WORDS: Final[Mapping[PartConclusion, str]] = {
    "Passed": "PASSED",
    "GateFailed": "FAILED",
    "Regression": "REGRESSION",
    "NotComparable": "NOT COMPARABLE",
    "Inconclusive": "INCONCLUSIVE",
    "Incomplete": "INCOMPLETE",
    "OverBudget": "OVER BUDGET",
    "Halted": "HALTED",
    "NoData": "NO DATA",
    "Failed": "ERROR",
}
"""The word for each conclusion, in the terminal as in the report."""

TASK_UNJUDGED: Final = "TASK SUCCESS NOT JUDGED"
"""The word that stands for `PASSED` where a pass leaves open whether the agent did its task."""


def outcome_of(
    status: str,
    outcome: str,
    ending: str,
    *,
    judge_moved: bool = False,
    surely_failed: bool = False,
) -> str:
    """The outcome of a run: the most severe of what its stored status, gates and comparison say.

    `outcome` is that of the gates: `passed`, `failed` or `inconclusive`. `ending` is that of the
    comparison, `fine` without a baseline. `judge_moved`: by its anchors, the judge moved, so a fall
    of the scores is not blamed on the agent. `surely_failed`: no missing score could have turned
    the gates. Returns `passed`, `failed`, `regression`, `inconclusive`, `undecided`,
    `not_comparable` or `incomplete`.
    """
    if status != COMPLETE:
        return "incomplete"
    if outcome == "inconclusive":  # missing scores never make an outcome better
        return "failed" if surely_failed else outcome
    if ending == "regressed":
        return "undecided" if judge_moved else REGRESSION
    if outcome == "failed" or ending == "fine":
        return outcome
    return "undecided" if ending == "inconclusive" else ending
