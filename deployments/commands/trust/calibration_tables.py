"""Print a calibration as tables."""

from __future__ import annotations

from assizes.deployments.commands.output import print_line, print_table
from assizes.judge.calibration.record import Calibration, Ceiling, FailingClass
from assizes.judge.calibration.resampling import Estimate

MAX_LEVELS = 12
"""Most grades of a confusion matrix that is printed; `--json` has larger matrices."""

_Row = tuple[str, str, str]


def print_calibration(calibration: Calibration) -> None:
    """Print a calibration; the sentence that reports cite comes first."""
    print_line(f"{calibration.metric}: {calibration.citation()}")
    print_line(f"judge: {calibration.judge} (fingerprint {calibration.fingerprint})")
    print_line(
        f"labels: {calibration.labels}, {calibration.labelled:,} items by {len(calibration.raters)} "
        f"{'rater' if len(calibration.raters) == 1 else 'raters'} in {calibration.clusters:,} clusters; "
        f"{calibration.disputed} disputed, {calibration.missing} not judged"
    )
    if calibration.judge_error_rate:
        share = f"{100 * calibration.judge_error_rate:.1f} %"
        print_line(f"judge errors: {calibration.judge_errors} ({share}), in no figure below")
    print_table("", ("agreement with people", "#value", "95 %"), _measures(calibration))
    _print_confusion(calibration)
    if calibration.ceiling is not None:
        _print_ceiling(calibration.ceiling)
    for warning in calibration.warnings:
        print_line(f"warning: {warning}")


def _measures(calibration: Calibration) -> list[_Row]:
    agreement = calibration.agreement
    rows = [_row("accuracy", agreement.accuracy), _row("kappa", agreement.kappa)]
    if calibration.is_weighted and agreement.quadratic_kappa is not None:
        rows.append(_row("kappa, quadratic", agreement.quadratic_kappa))
    scale = "ordinal" if calibration.ordered else "nominal"
    rows.append(_row(f"Krippendorff's alpha, {scale}", agreement.alpha))
    if calibration.failing is not None:
        rows += _failing_rows(calibration.failing, weighted=calibration.is_weighted)
    if calibration.observed_pass_rate is not None:
        rows.append(("pass rate by the judge", f"{calibration.observed_pass_rate:.4f}", "-"))
    if calibration.corrected_pass_rate is not None:
        rows.append(_row("pass rate, corrected", calibration.corrected_pass_rate))
    return rows


def _failing_rows(failing: FailingClass, *, weighted: bool) -> list[_Row]:
    rows = [
        _row("F1 of fail", failing.f1),
        _row("passes called fail (FPR)", failing.false_positive_rate),
        _row("fails called pass (FNR)", failing.false_negative_rate),
    ]
    return [_row("kappa of pass and fail", failing.kappa), *rows] if weighted else rows


def _row(name: str, estimate: Estimate) -> _Row:
    value = "-" if estimate.value is None else f"{estimate.value:.4f}"
    if estimate.low is None or estimate.high is None:
        return name, value, "-"
    return name, value, f"{estimate.low:.4f} to {estimate.high:.4f}"


def _print_confusion(calibration: Calibration) -> None:
    if not calibration.levels or len(calibration.levels) > MAX_LEVELS:
        return
    names = [f"{level:g}" for level in calibration.levels]
    rows = [
        (f"people {name}", *counts)
        for name, counts in zip(names, calibration.confusion, strict=True)
    ]
    print_table("", ("", *(f"#judge {name}" for name in names)), rows)


def _print_ceiling(ceiling: Ceiling) -> None:
    rows = [
        (
            " and ".join(pair.raters),
            pair.agreement.items,
            _row("", pair.agreement.accuracy)[1],
            *_row("", pair.agreement.quadratic_kappa or pair.agreement.kappa)[1:],
        )
        for pair in ceiling.pairs
    ]
    print_table(
        "people among themselves", ("raters", "#items", "#accuracy", "#kappa", "95 %"), rows
    )
    mean = "not defined" if ceiling.mean_kappa is None else f"{ceiling.mean_kappa:.2f}"
    print_line(f"ceiling: mean kappa of people {mean}, alpha {ceiling.alpha}")
