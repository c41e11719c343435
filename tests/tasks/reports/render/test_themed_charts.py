"""Charts are drawn once, for light and for dark pages."""

from __future__ import annotations

import base64

import pytest

from assizes.tasks.reports.render import charts


def test_the_dark_drawing_is_the_one_that_would_be_drawn(monkeypatch: pytest.MonkeyPatch):
    drawn: list[tuple[str, str]] = []
    themed = charts.themed_chart

    def compared_chart(title, text, drawing, **layout):
        chart = themed(title, text, drawing, **layout)
        dark = charts.svg_of(drawing(charts.DARK), charts.DARK, background="transparent", **layout)
        drawn.append((base64.b64decode(chart.dark.partition("base64,")[2]).decode(), dark))
        return chart

    monkeypatch.setattr(charts, "themed_chart", compared_chart)
    charts._draw_chart.cache_clear()
    data = {
        "metrics": [{"metric": "a", "mean": 3.0, "baseline_mean": 2.0, "unit": "0-5"}],
        "failure_codes": {"shown": [{"code": "c", "count": 2}]},
        "scores": {"bins": [{"from": 0, "to": 10, "passed": 2, "not_passed": 1}]},
    }
    assert charts.report_charts(data) is not charts.report_charts(data)
    assert len(drawn) == 3  # the second time nothing was drawn
    assert all(recoloured == dark for recoloured, dark in drawn)
