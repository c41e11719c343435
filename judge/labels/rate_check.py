"""The pass rate after Rogan and Gladen (1978), as a check of the corrected one.

It needs the judge's error rates among the labelled cases, and so does not use which case was
labelled. Where it differs from the prediction-powered number beyond both intervals, the labels are
few, the labelled cases are no sample of the run, or the chances of being drawn are wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from assizes.judge.calibration.measures import (
    Estimate,
    JudgeErrors,
    ObservedPasses,
    corrected_rate,
    design_effect,
)
from assizes.judge.labels.corrected import LabelledRun
from assizes.judge.statistics.prediction_powered import MIN_LABELS, CorrectedEstimate

SOURCE: Final = "Rogan and Gladen"


@dataclass(frozen=True, slots=True)
class RateCheck:
    """The pass rate by the judge's error rates, beside the corrected one; both 0..1."""

    value: float
    low: float
    high: float
    agrees: bool  # whether the two intervals overlap

    def sentence(self) -> str:
        """The check in words, such as `Rogan and Gladen: 70.2 % [61.0, 78.9], which agrees`."""
        word = (
            "which agrees"
            if self.agrees
            else "which DISAGREES beyond both intervals: look at how the labelled cases were chosen"
        )
        shown = f"{100 * self.value:.1f} % [{100 * self.low:.1f}, {100 * self.high:.1f}]"
        return f"{SOURCE} from the same labels: {shown}, {word}"


def judge_errors(run: LabelledRun) -> JudgeErrors:
    """How often the judge is right among the labelled cases, each weighed by 1 / chance.

    The counts are those of independent cases with as much to say (Kish's effective number).
    """
    judged = {(case.case_id, case.repetition): case.value for case in run.judged}
    sums = {1.0: [0.0, 0.0, 0.0], 0.0: [0.0, 0.0, 0.0]}  # weights, their squares, those right
    for key, (value, chance) in run.labels.items():
        if judged.get(key) is None or value not in sums:
            continue
        sums[value][0] += 1 / chance
        sums[value][1] += 1 / chance**2
        sums[value][2] += (judged[key] == value) / chance
    counts = [_counts(*sums[value]) for value in (1.0, 0.0)]
    (passes, passes_right), (fails, fails_right) = counts
    return JudgeErrors(
        passes=passes, passes_right=passes_right, fails=fails, fails_right=fails_right
    )


def _counts(weights: float, squares: float, right: float) -> tuple[int, int]:
    if not weights:
        return 0, 0
    effective = round(weights**2 / squares)
    return effective, round(effective * right / weights)


def observed_passes(run: LabelledRun) -> ObservedPasses:
    """How many cases the judge passed, with the design effect of their clusters."""
    outcomes = [
        (case.cluster or case.case_id, bool(case.value))
        for case in run.judged
        if case.value is not None
    ]
    passed = sum(is_pass for _, is_pass in outcomes)
    return ObservedPasses(passed, len(outcomes), design_effect(outcomes))


def rate_by_errors(run: LabelledRun, errors: JudgeErrors) -> Estimate | None:
    """The pass rate of a run by error rates of its judge; `None` where these tell nothing.

    The rates may be those of the same judge in another run. Then the number holds only if the judge
    errs alike in both, which nothing in the data shows.
    """
    if min(errors.passes, errors.fails) < 2 or errors.passes + errors.fails < MIN_LABELS:
        return None
    rate = corrected_rate(observed_passes(run), errors)
    return None if rate.value is None else rate


def rate_check(run: LabelledRun, estimate: CorrectedEstimate | None) -> RateCheck | None:
    """The check of a corrected pass rate; `None` where there is nothing to check or to check by."""
    rate = None if estimate is None else rate_by_errors(run, judge_errors(run))
    if estimate is None or rate is None or None in (rate.value, rate.low, rate.high):
        return None
    value, low, high = (float(number or 0.0) for number in (rate.value, rate.low, rate.high))
    overlap = low <= estimate.high and estimate.low <= high
    return RateCheck(value, low, high, agrees=overlap)
