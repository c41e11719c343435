"""Renders calibrations as Markdown, for the artifact of the flow that calibrates judges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assizes.judge.calibration.canaries import Canaries
from assizes.judge.calibration.record import Calibration
from assizes.tasks.reports.markdown_text import bullets, plain, table


def calibration_markdown(
    calibrations: Sequence[Calibration], shortfalls: Sequence[str], canaries: Canaries | None = None
) -> str:
    """The calibrations as Markdown: the shortfalls, then a section for each metric.

    Args:
        calibrations: one for each metric.
        shortfalls: the reasons why the judge may not be used.
        canaries: the outcome of the canaries; `None` where there were none.
    """
    blocks = [f"- FALLS SHORT: {plain(reason, 500)}" for reason in shortfalls]
    for calibration in calibrations:
        blocks += _blocks(calibration)
    if canaries is not None:
        blocks += ["## Canaries", _canary_table(canaries)]
    return "\n\n".join(blocks) + "\n"


def _blocks(calibration: Calibration) -> Iterator[str]:
    yield f"## {plain(calibration.metric)}: {plain(calibration.citation())}"
    yield (
        f"Judge: {plain(calibration.judge, 500)}. Labels: {plain(calibration.labels)}, "
        f"{calibration.labelled:,} items, {calibration.disputed} disputed, {calibration.missing} not judged, "
        f"{calibration.judge_errors} judge errors."
    )
    rows = [("accuracy", calibration.agreement.accuracy), ("kappa", calibration.agreement.kappa)]
    if calibration.agreement.quadratic_kappa is not None:
        rows.append(("quadratic kappa", calibration.agreement.quadratic_kappa))
    rows.append(("Krippendorff's alpha", calibration.agreement.alpha))
    if (failing := calibration.failing) is not None:
        rows.append(("F1 of fail", failing.f1))
        rows.append(("false positive rate of fail", failing.false_positive_rate))
        rows.append(("false negative rate of fail", failing.false_negative_rate))
    if calibration.corrected_pass_rate is not None:
        rows.append(("pass rate, corrected", calibration.corrected_pass_rate))
    yield table(
        ["measure", "value [95 %]"], [[name, plain(str(value))] for name, value in rows], numbers=1
    )
    if calibration.ceiling is not None and calibration.ceiling.mean_kappa is not None:
        yield f"People among themselves: mean kappa {calibration.ceiling.mean_kappa:.2f}."
    if calibration.warnings:
        yield bullets(f"Warning: {plain(warning, 500)}" for warning in calibration.warnings)


def _canary_table(canaries: Canaries) -> str:
    counts = ("planted", "judged", "takeovers", "silent", "noticed")
    return table(
        ["canaries", "cases"], [[name, str(getattr(canaries, name))] for name in counts], numbers=1
    )
