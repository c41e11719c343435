"""Made-up histories: means around a level, with an error of their own."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import numpy as np

from assizes.judge.history.control_charts import Point
from assizes.judge.history.trends import Series

DAY = datetime(2026, 1, 1, tzinfo=UTC)


def points(values: Iterable[float], *, se: float = 0.02, judge: str = "j1", start: int = 0):
    return [
        Point(f"r{start + n:03d}", DAY + timedelta(days=start + n), float(value), se, 500, judge)
        for n, value in enumerate(values)
    ]


def series(values: Iterable[float], name: str = "pass_rate", **rest) -> Series:
    return Series(name=name, points=points(values), **rest)


def nights(seed: int, *levels: tuple[int, float], sigma: float = 0.02) -> list[float]:
    """So many nights at each level, in turn."""
    random = np.random.default_rng(seed)
    return [float(random.normal(level, sigma)) for count, level in levels for _ in range(count)]
