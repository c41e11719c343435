"""How a calibration is printed: agreement, confusion, disagreements, groups, and the ceiling."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from assizes.deployments.commands import output
from assizes.deployments.commands.sql import csv_text
from assizes.judge.calibration.disagreements import MetricDisagreements, level_word
from assizes.judge.calibration.measures import Estimate
from assizes.judge.calibration.record import Calibration, Ceiling
from assizes.judge.errors import ConfigurationError
from assizes.tasks.runs.calibrations import EarlierCalibration

MAX_LEVELS = 12
"""Most grades of a confusion matrix that is printed; `--json` has larger matrices."""


MAX_PRINTED = 10
"""Most disagreements, and groups of cases, that are printed; `--json` has them all."""

REASON_CHARS = 300
"""Characters of a reason that are printed, at most."""


def print_calibration(calibration: Calibration, apart: MetricDisagreements) -> None:
    """Print a calibration and its disagreements; the sentence that reports cite comes first."""
    output.print_line(f"{calibration.metric}: {calibration.citation()}")
    output.print_line(f"judge: {calibration.judge} (fingerprint {calibration.fingerprint})")
    output.print_line(
        f"labels: {calibration.labels}, {calibration.labelled:,} items by {len(calibration.raters)} "
        f"{'rater' if len(calibration.raters) == 1 else 'raters'} in {calibration.clusters:,} clusters; "
        f"{calibration.disputed} disputed, {calibration.missing} not judged"
    )
    if calibration.judge_error_rate:
        share = f"{100 * calibration.judge_error_rate:.1f} %"
        output.print_line(f"judge errors: {calibration.judge_errors} ({share}), not counted below")
    output.print_table("", ("agreement with people", "#value", "95 %"), measure_rows(calibration))
    if 0 < len(calibration.levels) <= MAX_LEVELS:
        names = [level_word(level, calibration.levels) for level in calibration.levels]
        pairs = zip(names, calibration.confusion, strict=True)
        confusion = [(f"people say {name}", *counts) for name, counts in pairs]
        output.print_table("", ("", *(f"#judge says {name}" for name in names)), confusion)
    _print_disagreements(calibration, apart)
    _print_groups(apart)
    if calibration.ceiling is not None:
        _print_ceiling(calibration.ceiling)
    output.print_warnings(calibration.warnings)


def measure_rows(calibration: Calibration) -> list[tuple[str, str, str]]:
    """The measures of agreement with people: name, value, 95 % interval, as texts."""
    agreement = calibration.agreement
    rows = [_measure_row("accuracy", agreement.accuracy), _measure_row("kappa", agreement.kappa)]
    if calibration.is_weighted and agreement.quadratic_kappa is not None:  # ordered grades
        rows.append(_measure_row("kappa, quadratic", agreement.quadratic_kappa))
    scale = "ordinal" if calibration.ordered else "nominal"
    rows.append(_measure_row(f"Krippendorff's alpha, {scale}", agreement.alpha))
    if (failing := calibration.failing) is not None:  # the grades as pass and fail
        if calibration.is_weighted:
            rows.append(_measure_row("kappa of pass and fail", failing.kappa))
        rows += [
            _measure_row("F1 of fail", failing.f1),
            _measure_row("passes called fail (FPR)", failing.false_positive_rate),
            _measure_row("fails called pass (FNR)", failing.false_negative_rate),
        ]
    if calibration.observed_pass_rate is not None:
        rows.append(("pass rate by the judge", f"{calibration.observed_pass_rate:.4f}", "-"))
    if calibration.corrected_pass_rate is not None:  # Rogan and Gladen 1978
        rows.append(_measure_row("pass rate, corrected", calibration.corrected_pass_rate))
    return rows


def _measure_row(name: str, estimate: Estimate) -> tuple[str, str, str]:
    value = "-" if estimate.value is None else f"{estimate.value:.4f}"
    if estimate.low is None or estimate.high is None:
        return name, value, "-"
    return name, value, f"{estimate.low:.4f} to {estimate.high:.4f}"


def _print_ceiling(ceiling: Ceiling) -> None:
    columns = ("raters", "#items", "#accuracy", "#kappa", "95 %")
    output.print_table("people among themselves", columns, ceiling_rows(ceiling))
    output.print_line(ceiling_sentence(ceiling))


def ceiling_rows(ceiling: Ceiling) -> list[tuple[str, int, str, str, str]]:
    """The agreement of each two raters: names, items, accuracy, kappa, its 95 % interval."""
    return [
        (
            " and ".join(pair.raters),
            pair.agreement.items,
            _measure_row("", pair.agreement.accuracy)[1],  # without its interval
            *_measure_row("", pair.agreement.quadratic_kappa or pair.agreement.kappa)[1:],
        )
        for pair in ceiling.pairs
    ]


def ceiling_sentence(ceiling: Ceiling) -> str:
    """The agreement of people with each other in one line."""
    mean = "not defined" if ceiling.mean_kappa is None else f"{ceiling.mean_kappa:.2f}"
    return f"ceiling: mean kappa of people {mean}, alpha {ceiling.alpha}"


def _print_disagreements(calibration: Calibration, apart: MetricDisagreements) -> None:
    rows = []
    for item in apart.listed[:MAX_PRINTED]:
        people = level_word(item.people, calibration.levels)
        notes = "; ".join(f"{rater}: {note}" for rater, note in item.notes.items())
        case_id = f"{item.case_id} ({item.repetition})" if item.repetition else item.case_id
        judge = level_word(item.judge, calibration.levels)
        rows.append((case_id, people, notes or "-", judge, item.reason[:REASON_CHARS] or "-"))
    if not rows:
        return
    columns = ("case", "people say", "because", "judge says", "because")
    output.print_table(f"disagreements: {apart.total:,}", columns, rows)
    hidden = apart.total - len(rows)
    more = f"{hidden:,} more: --json, or --disagreements FILE.csv; " if hidden else ""
    run = calibration.run_id
    if run is not None:
        output.print_line(f"{more}`assizes case {run} CASE` shows a conversation with its scores")
    elif more:
        output.print_line(more.removesuffix("; "))


def _print_groups(apart: MetricDisagreements) -> None:
    rows = [
        (
            f"{group.field}={group.value}",
            group.items,
            f"{group.accuracy:.4f}",
            "-" if group.low is None else f"{group.low:.4f} to {group.high:.4f}",
            "-" if group.kappa is None else f"{group.kappa:.4f}",
        )
        for group in apart.groups[:MAX_PRINTED]
    ]
    if rows:
        columns = ("cases with", "#items", "#accuracy", "95 %", "#kappa")
        output.print_table("agreement by group, lowest first", columns, rows)


def print_earlier(earlier: Sequence[EarlierCalibration]) -> None:
    """Print the calibrations that were stored before, the newest first."""
    rows = [
        (f"{item.at:%Y-%m-%d}", item.metric, item.items, str(item.kappa), item.judge)
        for item in earlier
    ]
    if rows:
        columns = ("day", "metric", "#labels", "kappa", "judge")
        output.print_table("calibrated before", columns, rows)


def write_disagreements(file: Path, metrics: Sequence[MetricDisagreements]) -> None:
    """Write the disagreements on all metrics as CSV, a row for each item.

    Raises:
        ConfigurationError: the file cannot be written.
    """
    columns = (
        *("metric", "case_id", "repetition", "people", "judge", "judge_reason", "failure_code"),
        *("raters", "notes"),
    )
    rows = [
        (
            *(apart.metric, item.case_id, item.repetition, item.people, item.judge),
            *(item.reason, item.failure_code, item.raters, item.notes),
        )
        for apart in metrics
        for item in apart.listed
    ]
    try:
        file.write_text(csv_text(columns, rows), encoding="utf-8")
    except OSError as error:
        fault = f"--disagreements {str(file)!r} cannot be written"
        raise ConfigurationError(f"{fault}: {error.strerror or error}") from error
