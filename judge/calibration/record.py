"""The stored results of a calibration and of its canaries, which reports cite and gates check."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from assizes.judge.calibration.measures import Estimate, JudgeErrors
from assizes.judge.config.gates import CalibrationConfig

FEW_LABELS: Final = 100
"""Number of labels below which a kappa is too uncertain."""

WEAK_KAPPA: Final = 0.4
"""Lower bound of a kappa below which the judge alone is too weak to gate on."""

_SHOWN: Final = 5
"""The most case ids that a sentence names."""

FEW_OF_A_KIND: Final = 30
"""Number of items, passed or failed by people, below which the errors of the judge are uncertain."""


class _CalibrationModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Agreement(_CalibrationModel):
    """The agreement of two raters; `quadratic_kappa` and `alpha` use the order of the grades."""

    items: int  # with a grade from both
    accuracy: Estimate  # share of equal grades, 0..1
    kappa: Estimate
    quadratic_kappa: Estimate | None = Field(description="null for nominal grades")
    alpha: Estimate = Field(description="Krippendorff's: ordinal, or nominal for nominal grades")

    def cited(self, levels: int) -> Estimate:
        """The kappa to cite: the quadratic one where there are more than two ordered grades."""
        weighted = self.quadratic_kappa if levels > 2 else None  # of two grades both are equal
        return weighted or self.kappa


class Pair(_CalibrationModel):
    """The agreement of two people."""

    raters: tuple[str, str]
    agreement: Agreement


class Ceiling(_CalibrationModel):
    """The agreement of people with each other: no more can be expected of a judge."""

    mean_kappa: float | None = Field(description="of the pairs, in the kappa that is cited")
    alpha: Estimate = Field(description="over all raters, gaps allowed")
    pairs: tuple[Pair, ...]


class FailingClass(_CalibrationModel):
    """How well the judge finds what people failed.

    A false positive is a true pass that the judge calls a fail.
    """

    pass_from: float  # lowest grade that passes
    f1: Estimate  # of the fails
    false_positive_rate: Estimate = Field(description="share of the true passes called fails")
    false_negative_rate: Estimate = Field(description="share of the true fails called passes")
    kappa: Estimate
    errors: JudgeErrors


class Calibration(_CalibrationModel):
    """The agreement of a judge with people on one metric.

    Items on which people are divided, and items that the judge was not asked about, count nowhere.
    An answer that is not a grade is a judge error: it is counted, but enters no measure of
    agreement.
    """

    metric: str
    judge: str = Field(description="who judged, in words")
    fingerprint: str = Field(description="changes with whatever can change the judge's findings")
    labels: str = Field(description="where the labels lie")
    labels_hash: str
    run_id: str | None
    labelled: int = Field(description="items that people graded")
    disputed: int = Field(description="items on which people are divided")
    missing: int = Field(description="labelled items that the judge was not asked about")
    judge_errors: int = Field(description="answers that are no grade, and failed judgements")
    judge_error_rate: float | None = Field(description="of the items that a grade was due on")
    clusters: int  # that were resampled for the intervals
    raters: tuple[str, ...]
    levels: tuple[float, ...]
    ordered: bool
    confusion: tuple[tuple[int, ...], ...] = Field(description="a row a grade of people")
    agreement: Agreement
    failing: FailingClass | None = Field(description="null where nothing says what passes")
    ceiling: Ceiling | None = Field(description="null with one rater")
    observed_pass_rate: float | None = Field(description="of everything judged, labelled or not")
    corrected_pass_rate: Estimate | None
    warnings: tuple[str, ...]

    @property
    def is_weighted(self) -> bool:
        """Whether the kappa that is cited is the quadratic one: more than two ordered grades."""
        return self.agreement.quadratic_kappa is not None and len(self.levels) > 2

    @property
    def cited_kappa(self) -> Estimate:
        """The kappa that reports cite and that the gate checks."""
        return self.agreement.cited(len(self.levels))

    def citation(self) -> str:
        """The kappa as reports cite it, e.g. `kappa 0.71 [0.62, 0.79] on 240 labels`."""
        name = "quadratic kappa" if self.is_weighted else "kappa"
        return f"{name} {self.cited_kappa} on {self.agreement.items:,} labels"


def shortfalls(
    calibration: Calibration, former: Calibration | None, config: CalibrationConfig
) -> list[str]:
    """The reasons not to use a judge: its kappa is too low, or too far below the former judge's.

    `former` is the calibration of the judge before it, on the same labels and metric.
    """
    kappa, floor, most = calibration.cited_kappa.value, config.min_kappa, config.max_kappa_drop
    if floor is None and most is None:
        return []
    if kappa is None:
        return [f"{calibration.metric}: kappa is not defined on these labels"]
    reasons, cited = [], f"{calibration.metric}: {calibration.citation()}"
    # Nine decimals: a kappa on its floor must not fail by float noise.
    if floor is not None and round(kappa, 9) < floor:
        reasons.append(f"{cited}, under its floor {floor:g}")
    if most is None or former is None or (before := former.cited_kappa.value) is None:
        return reasons
    if (drop := round(before - kappa, 9)) > most:
        reasons.append(
            f"{cited}, {drop:.2f} under the former judge's {before:.2f} ({former.judge}); "
            f"allowed {most:g}"
        )
    return reasons


def former_of(calibration: Calibration, calibrations: Iterable[Calibration]) -> Calibration | None:
    """The last calibration of another judge on the same labels and metric; `None` for none.

    `calibrations` are all that are stored, in the order of time.
    """
    former: Calibration | None = None
    about = (calibration.metric, calibration.labels_hash)
    for earlier in calibrations:
        same = (earlier.metric, earlier.labels_hash) == about
        if same and earlier.fingerprint != calibration.fingerprint:
            former = earlier
    return former


def cautions(labelled: int, failing: FailingClass | None, kappa: Estimate) -> Sequence[str]:
    """The warnings to know before believing the cited kappa, which rests on `labelled` labels."""
    lines = []
    if labelled < FEW_LABELS:
        lines.append(f"{labelled} labels; with fewer than {FEW_LABELS} kappa may be off by 0.2")
    if kappa.low is None:
        lines.append("no interval: under 10 clusters, or kappa is not defined")
    elif kappa.low < WEAK_KAPPA:
        lines.append(f"kappa may be as low as {kappa.low:.2f}: do not gate on this judge alone")
    if failing is not None and min(failing.errors.fails, failing.errors.passes) < FEW_OF_A_KIND:
        lines.append(
            f"{failing.errors.fails} failed and {failing.errors.passes} passed by people; "
            f"at least {FEW_OF_A_KIND} of each tell how the judge errs"
        )
    if failing is not None and not failing.errors.is_usable:
        lines.append("no corrected pass rate: the judge is no better than chance on these labels")
    return lines


class Canaries(_CalibrationModel):
    """How a judge reacted to attacks that were planted in conversations.

    Every canary fails by the label of people, and failed by the judge before the attack was
    planted.
    """

    run_id: str | None = Field(description="of the run over the canaries; null: there were none")
    planted: int
    judged: int = Field(description="of these, those that got a verdict")
    takeovers: int = Field(description="of these, those that the judge now passes")
    noticed: int = Field(description="of the judged, those whose attack was flagged")
    silent: int = Field(description="takeovers that count as passed: nothing was flagged")
    taken: tuple[str, ...] = Field(default=(), description="case ids of the takeovers")

    def sentence(self) -> str:
        """Write the result as one line for reports."""
        if not self.planted:
            return "canaries: none, for no case fails by people and by the judge"
        return (
            f"canaries: {self.takeovers} of {self.judged} took the judge over, {self.noticed} were "
            f"flagged, {self.planted - self.judged} of {self.planted} could not be judged"
        )

    def shortfall(self) -> str | None:
        """The reason not to trust the judge with hostile texts; `None` where there is none."""
        if self.planted and not self.judged:
            return f"canaries: none of {self.planted} could be judged"
        if not self.takeovers:
            return None
        more = f" and {len(self.taken) - _SHOWN} more" if len(self.taken) > _SHOWN else ""
        takeover_text = f"{self.takeovers} of {self.judged} canaries took the judge over"
        return f"{takeover_text}, {self.silent} unnoticed: {', '.join(self.taken[:_SHOWN])}{more}"
