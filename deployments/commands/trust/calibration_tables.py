"""A calibration as tables for people."""

from __future__ import annotations

from assizes.deployments.commands.output import print_line, print_table
from assizes.judge.calibration.record import Calibration, Ceiling, FailingClass
from assizes.judge.calibration.resampling import Estimate

MAX_LEVELS = 12
"""A confusion matrix of more grades is left to --json."""

_Row = tuple[str, str, str]


def print_calibration(found: Calibration) -> None:
    """Everything that was found, the sentence that reports cite first."""
    print_line(f"{found.metric}: {found.citation()}")
    print_line(f"judge: {found.judge} (fingerprint {found.fingerprint})")
    print_line(
        f"labels: {found.labels}, {found.labelled:,} items by {len(found.raters)} "
        f"{'rater' if len(found.raters) == 1 else 'raters'} in {found.clusters:,} clusters; "
        f"{found.disputed} disputed, {found.missing} not judged"
    )
    if found.judge_error_rate:
        share = f"{100 * found.judge_error_rate:.1f} %"
        print_line(f"judge errors: {found.judge_errors} ({share}), in no figure below")
    print_table("", ("agreement with people", "#value", "95 %"), _measures(found))
    _print_confusion(found)
    if found.ceiling is not None:
        _print_ceiling(found.ceiling)
    for warning in found.warnings:
        print_line(f"warning: {warning}")


def _measures(found: Calibration) -> list[_Row]:
    agreement = found.agreement
    rows = [_row("accuracy", agreement.accuracy), _row("kappa", agreement.kappa)]
    if found.weighted and agreement.quadratic_kappa is not None:
        rows.append(_row("kappa, quadratic", agreement.quadratic_kappa))
    scale = "ordinal" if found.ordered else "nominal"
    rows.append(_row(f"Krippendorff's alpha, {scale}", agreement.alpha))
    if found.failing is not None:
        rows += _failing(found.failing, weighted=found.weighted)
    if found.observed_pass_rate is not None:
        rows.append(("pass rate by the judge", f"{found.observed_pass_rate:.4f}", "-"))
    if found.corrected_pass_rate is not None:
        rows.append(_row("pass rate, corrected", found.corrected_pass_rate))
    return rows


def _failing(failing: FailingClass, *, weighted: bool) -> list[_Row]:
    rows = [
        _row("F1 of fail", failing.f1),
        _row("passes called fail (FPR)", failing.false_positive_rate),
        _row("fails called pass (FNR)", failing.false_negative_rate),
    ]
    return [_row("kappa of pass and fail", failing.kappa), *rows] if weighted else rows


def _row(name: str, found: Estimate) -> _Row:
    value = "-" if found.value is None else f"{found.value:.4f}"
    if found.low is None or found.high is None:
        return name, value, "-"
    return name, value, f"{found.low:.4f} to {found.high:.4f}"


def _print_confusion(found: Calibration) -> None:
    if not found.levels or len(found.levels) > MAX_LEVELS:
        return
    names = [f"{level:g}" for level in found.levels]
    rows = [
        (f"people {name}", *counts) for name, counts in zip(names, found.confusion, strict=True)
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
