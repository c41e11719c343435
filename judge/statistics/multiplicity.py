"""Several tests at once: fewer false alarms among the gating ones, fewer false finds among slices."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down p-values (1979), in the order given: the chance of any false alarm among all
    of them stays at the level each is then compared with.
    """
    adjusted, highest = [0.0] * len(p_values), 0.0
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    for rank, place in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = highest
    return adjusted


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Benjamini and Hochberg's p-values (1995), in the order given: of those at most q a share q is
    expected to be false.
    """
    if not p_values:
        return []
    from scipy.stats import false_discovery_control  # type: ignore[import-untyped]  # it has no types

    return [float(p_value) for p_value in false_discovery_control(p_values, method="bh")]
