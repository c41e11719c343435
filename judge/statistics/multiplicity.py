"""Corrections for several tests at once: Holm for gating metrics, Benjamini-Hochberg for slices."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values (1979), in the order given.

    When each is compared with a level, the chance of any false alarm among all stays at that level.
    """
    adjusted, highest = [0.0] * len(p_values), 0.0
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    for rank, place in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = highest
    return adjusted


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Benjamini and Hochberg's adjusted p-values (1995), in the order given.

    Among the tests with a value of at most q, a share of at most q is expected to be false.
    """
    if not p_values:
        return []
    from scipy.stats import false_discovery_control  # type: ignore[import-untyped]  # it has no types

    return [float(p_value) for p_value in false_discovery_control(p_values, method="bh")]
