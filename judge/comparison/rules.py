"""The three rules of a comparison: how far pass rate and score may fall, and latency may grow."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from assizes.judge.comparison.cases import RuleFigures
from assizes.judge.config.gates import ComparisonConfig
from assizes.judge.statistics.exact import DECIMALS, exceeds, rounded_value

RULES = ("max_pass_rate_drop", "max_avg_score_drop", "max_latency_increase_pct")
"""Names of the settings in [comparison] that hold the limits of the three rules."""


def fired_rules(
    baseline: RuleFigures, candidate: RuleFigures, limits: ComparisonConfig
) -> Iterator[tuple[str, str]]:
    """Yield every rule that fires, with a sentence; one whose numbers are missing never fires."""
    before, after = baseline.pass_rate, candidate.pass_rate
    if before is not None and after is not None:
        # The limit is taken as it was written: 0.3 means three tenths, not the float next to it.
        limit = Fraction(repr(limits.max_pass_rate_drop))
        if before - after > limit:
            low, high = _apart(float(before * 100), float(after * 100), 1)
            shown = rounded_value(float(limit * 100))
            yield RULES[0], f"pass rate fell from {low} % to {high} % (limit {shown} %)"
    if baseline.score is not None and candidate.score is not None:
        fallen = exceeds(baseline.score - candidate.score, limits.max_avg_score_drop)
        low, high = _apart(baseline.score, candidate.score, 2)
        shown = rounded_value(limits.max_avg_score_drop)
        if fallen:
            yield RULES[1], f"average score fell from {low} to {high} (limit {shown} points)"
    if baseline.latency_ms and candidate.latency_ms is not None:  # growth over 0 is not defined
        growth = (candidate.latency_ms - baseline.latency_ms) / baseline.latency_ms
        if exceeds(growth, limits.max_latency_increase_pct):
            low, high = _apart(baseline.latency_ms, candidate.latency_ms, 1)
            grown, allowed = _apart(growth * 100, limits.max_latency_increase_pct * 100, 1)
            rise = f"from {low} ms to {high} ms, by {grown} % (limit {allowed} %)"
            yield RULES[2], f"average latency rose {rise}"


def _apart(first: float, second: float, digits: int) -> tuple[str, str]:
    """Two numbers as text with the fewest decimals that tell them apart, at least `digits`."""
    texts = [(f"{first:.{d}f}", f"{second:.{d}f}") for d in range(digits, DECIMALS + 1)]
    return next((pair for pair in texts if pair[0] != pair[1]), texts[-1])
