"""How well a yes/no judge agrees with people (seed 004): five numbers from four counts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from assizes.judge.statistics.exact import rounded_value


@dataclass(frozen=True, slots=True)
class YesNoAgreement:
    """Counts of the judge's answers against those of people, and the measures of agreement.

    Positive means that the judge says yes, true that people agree. Every measure is `None` where
    its denominator is 0: without a single no from people there is no false positive rate.
    """

    true_positives: int
    false_positives: int
    false_negatives: int
    true_negatives: int

    @property
    def total(self) -> int:
        """The number of pairs of answers."""
        return (
            self.true_positives + self.false_positives + self.false_negatives + self.true_negatives
        )

    @property
    def accuracy(self) -> float | None:
        """(TP + TN) / all."""
        return _share(self.true_positives + self.true_negatives, self.total)

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa (po - pe) / (1 - pe): po is the accuracy, pe the agreement that judge and
        people would reach by chance with the same shares of yes.

        With counts: 2 (TP TN - FN FP) / ((TP + FP)(FP + TN) + (TP + FN)(FN + TN)). `None` where
        judge and people say nothing but yes, or nothing but no.
        """
        tp, fp = self.true_positives, self.false_positives
        fn, tn = self.false_negatives, self.true_negatives
        return _share(2 * (tp * tn - fn * fp), (tp + fp) * (fp + tn) + (tp + fn) * (fn + tn))

    @property
    def f1(self) -> float | None:
        """2 TP / (2 TP + FP + FN), the harmonic mean of precision and recall of yes."""
        twice = 2 * self.true_positives
        return _share(twice, twice + self.false_positives + self.false_negatives)

    @property
    def false_positive_rate(self) -> float | None:
        """FP / (FP + TN): the share of the people's no that the judge calls yes."""
        return _share(self.false_positives, self.false_positives + self.true_negatives)

    @property
    def false_negative_rate(self) -> float | None:
        """FN / (FN + TP): the share of the people's yes that the judge calls no."""
        return _share(self.false_negatives, self.false_negatives + self.true_positives)


def yes_no_agreement(pairs: Iterable[tuple[bool, bool]]) -> YesNoAgreement:
    """Count pairs of (judge says yes, people say yes)."""
    counts = {(True, True): 0, (True, False): 0, (False, True): 0, (False, False): 0}
    for judged, true in pairs:
        counts[judged, true] += 1
    return YesNoAgreement(
        true_positives=counts[True, True],
        false_positives=counts[True, False],
        false_negatives=counts[False, True],
        true_negatives=counts[False, False],
    )


def _share(part: int, whole: int) -> float | None:
    return rounded_value(part / whole) if whole else None
