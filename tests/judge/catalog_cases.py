"""A custom metric and selections of metrics."""

from __future__ import annotations

from typing import Any

import pytest

from assizes.judge.catalog import resolve_judges
from assizes.judge.config.judging import JudgeConfig, MetricSelection
from assizes.judge.errors import ConfigurationError


def weights(*metrics: Any, **rest: Any) -> dict[str, float]:
    return dict(resolve_judges(JudgeConfig(metrics=metrics or None, **rest)).weights)


def refused(*metrics: Any, **rest: Any) -> str:
    with pytest.raises(ConfigurationError) as error:
        weights(*metrics, **rest)
    assert "\n" not in str(error.value)
    return str(error.value)


def select(metric: str, weight: float | None = None) -> MetricSelection:
    return MetricSelection(metric=metric, weight=weight)
