"""Which series are drawn, and the dates under their charts."""

from __future__ import annotations

import base64
import re
from datetime import UTC, datetime, timedelta

import pytest

from assizes.judge.config.gates import SeriesConfig
from assizes.judge.history.trends import Trends, trends
from assizes.tasks.reports.render.trend_chart import MAX_SERIES, trend_chart, trend_charts
from tests.judge.series.histories import nights, series

CALM = nights(5, (28, 0.8), (6, 0.8))
FALLEN = [*CALM[:28], *nights(6, (6, 0.6))]


def found(*names_of_calm: str, fallen: str = "z_last") -> Trends:
    all_series = [*(series(CALM, name) for name in names_of_calm), series(FALLEN, fallen)]
    return trends("nightly", all_series, SeriesConfig())


def test_what_left_its_reference_is_drawn_before_the_rest():
    names = [f"calm_{number:02d}" for number in range(MAX_SERIES)]
    titles = [chart.title for chart in trend_charts(found(*names))]
    assert titles == ["z_last: worse", *(f"{name}: quiet" for name in names[:-1])]
    assert "z_last: worse" in trend_chart(found(*names))


def test_few_series_keep_their_order_but_for_those_that_left():
    titles = [chart.title for chart in trend_charts(found("a", "b"))]
    assert titles == ["z_last: worse", "a: quiet", "b: quiet"]


@pytest.mark.parametrize(
    ("step", "form", "labels"),
    [
        (timedelta(seconds=7), r"\d\d \w\w\w \d\d:\d\d", ["02 Mar 01:00"]),
        (timedelta(minutes=1), r"\d\d \w\w\w \d\d:\d\d", ["02 Mar 01:00", "02 Mar 01:01"]),
        (timedelta(days=1), r"\d\d \w\w\w", ["02 Mar", "03 Mar"]),
    ],
)
def test_no_two_ticks_have_the_same_label(step: timedelta, form: str, labels: list[str]):
    begun = datetime(2026, 3, 2, 0 if step.days else 1, tzinfo=UTC)
    (trend,) = trends("nightly", [series([0.8, 0.7])], SeriesConfig()).series
    points = [
        point.model_copy(update={"at": begun + place * step})
        for place, point in enumerate(trend.points)
    ]
    timed = trend.model_copy(update={"points": tuple(points)})
    (chart,) = trend_charts(Trends.model_construct(series=(timed,)))
    drawing = base64.b64decode(chart.light.partition("base64,")[2]).decode()
    assert re.findall(f">({form})<", drawing) == labels
