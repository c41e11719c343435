"""The judge `recorded`: it asks no model and repeats the verdicts that came with the data."""

from __future__ import annotations

from typing import Final

from assizes.judge.case import Case
from assizes.judge.score import Metric, Scale, Score

REWARD: Final = "reward"
"""Key in the labels of a case: the verdict of a benchmark or of a person on the conversation."""

RECORDED_REWARD: Final = Metric(
    name="recorded_reward",
    scale=Scale.FRACTION,
    display_name="Recorded Reward",
    description="The verdict on the conversation that its data set came with.",
    needs=("labels",),
    needs_ground_truth=True,
)


class RecordedJudge:
    """Repeats the verdicts found in the data, so that other judges can be compared with them.

    The headline score is `labels["reward"]`; every other label becomes the part `label:<name>`. A
    label is a number 0..1; it has passed when it is 1 after rounding to 9 decimals.
    """

    name = "recorded"
    version = "1"
    metrics = (RECORDED_REWARD,)

    def missing(self, case: Case) -> str | None:
        """A case without labels is skipped: there is nothing to repeat."""
        return None if case.labels else "no recorded label"

    def judge(self, case: Case) -> list[Score]:
        """The headline score, then one part for each other label, sorted by name."""
        others = sorted(name for name in case.labels if name != REWARD)
        parts = [_recorded_score(case.labels[name], name, f"label:{name}") for name in others]
        if REWARD not in case.labels:
            return [Score.skipped(RECORDED_REWARD.name, "no recorded label"), *parts]
        return [_recorded_score(case.labels[REWARD], REWARD), *parts]


def _recorded_score(verdict: float, name: str, part: str = "") -> Score:
    if not 0 <= verdict <= 1:
        reason = f"label {name!r} is {verdict!r}, wanted 0 to 1"
        return Score.failed(RECORDED_REWARD.name, reason, "invalid_label", part)
    return Score.of(RECORDED_REWARD, verdict, part=part, passed=round(verdict, 9) >= 1)
