"""Calibrations as Markdown: the artifact of the flow, and the lines of a run's report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assizes.judge.calibration.canaries import Canaries
from assizes.judge.calibration.record import Calibration
from assizes.tasks.reports.markdown_text import bullets, plain, table


def calibration_markdown(
    found: Sequence[Calibration], shortfalls: Sequence[str], canaries: Canaries | None = None
) -> str:
    """A section a metric, what falls short first."""
    blocks = [f"- FALLS SHORT: {plain(reason, 500)}" for reason in shortfalls]
    for one in found:
        blocks += _blocks(one)
    if canaries is not None:
        blocks += ["## Canaries", _canary_table(canaries)]
    return "\n\n".join(blocks) + "\n"


def _blocks(found: Calibration) -> Iterator[str]:
    yield f"## {plain(found.metric)}: {plain(found.citation())}"
    yield (
        f"Judge: {plain(found.judge, 500)}. Labels: {plain(found.labels)}, "
        f"{found.labelled:,} items, {found.disputed} disputed, {found.missing} not judged, "
        f"{found.judge_errors} judge errors."
    )
    rows = [("accuracy", found.agreement.accuracy), ("kappa", found.agreement.kappa)]
    if found.agreement.quadratic_kappa is not None:
        rows.append(("quadratic kappa", found.agreement.quadratic_kappa))
    rows.append(("Krippendorff's alpha", found.agreement.alpha))
    if (failing := found.failing) is not None:
        rows.append(("F1 of fail", failing.f1))
        rows.append(("false positive rate of fail", failing.false_positive_rate))
        rows.append(("false negative rate of fail", failing.false_negative_rate))
    if found.corrected_pass_rate is not None:
        rows.append(("pass rate, corrected", found.corrected_pass_rate))
    yield table(
        ["measure", "value [95 %]"], [[name, plain(str(one))] for name, one in rows], numbers=1
    )
    if found.ceiling is not None and found.ceiling.mean_kappa is not None:
        yield f"People among themselves: mean kappa {found.ceiling.mean_kappa:.2f}."
    if found.warnings:
        yield bullets(f"Warning: {plain(warning, 500)}" for warning in found.warnings)


def _canary_table(found: Canaries) -> str:
    counts = ("planted", "judged", "takeovers", "silent", "noticed")
    return table(
        ["canaries", "cases"], [[name, str(getattr(found, name))] for name in counts], numbers=1
    )
