"""From series to incidents: one for one problem, new, persisting or resolved."""

from __future__ import annotations

from dataclasses import replace

import pytest

from assizes.judge.config.gates import SeriesConfig
from assizes.judge.history.trends import Series, trends
from tests.judge.series.histories import nights, points, series

CONFIG = SeriesConfig()
CALM = nights(5, (28, 0.8), (20, 0.8))
FALLEN = [*CALM[:28], *nights(6, (6, 0.8), (14, 0.7))]
BACK = [*FALLEN, *nights(7, (10, 0.8))]


def test_a_quiet_history_has_no_incident():
    found = trends("nightly", [series(CALM)], CONFIG)
    assert found.incidents == ()
    assert found.series[0].state == "quiet"
    assert found.series[0].reference == pytest.approx(sum(CALM[:28]) / 28)


def test_the_first_runs_are_learnt_from_and_raise_nothing():
    wild = [0.2, 0.9] * 10
    found = trends("nightly", [series(wild)], CONFIG)
    assert found.series[0].state == "learning"
    assert found.series[0].reference_runs == 20
    assert found.incidents == ()


def test_a_fall_is_new_on_its_first_run_then_persists_then_is_resolved_under_one_id():
    opened = trends("nightly", [series(FALLEN)], CONFIG).incidents[0].opened_run
    place = int(opened[1:])
    first, later, over = (
        trends("nightly", [series(values)], CONFIG).incidents[0]
        for values in (FALLEN[: place + 1], FALLEN, BACK)
    )
    assert (first.state, later.state, over.state) == ("new", "persisting", "resolved")
    assert first.incident == later.incident == over.incident
    assert first.side == "worse"
    assert 34 <= place <= 36
    assert over.resolved_run > over.opened_run
    assert later.runs == len(FALLEN) - place


def test_series_that_fall_together_are_one_problem():
    metric = [value - 0.1 for value in FALLEN]
    both = [series(FALLEN), series(metric, "tool_routing"), series(CALM, "tone")]
    found = trends("nightly", both, CONFIG)
    (incident,) = found.incidents
    assert incident.series == ("pass_rate", "tool_routing")
    assert [one.state for one in found.series] == ["worse", "worse", "quiet"]


def test_a_second_fall_weeks_later_is_another_problem():
    twice = [*BACK, *nights(8, (10, 0.8), (6, 0.6))]
    found = trends("nightly", [series(twice)], CONFIG)
    assert [one.state for one in found.incidents] == ["resolved", "persisting"]
    assert len({one.incident for one in found.incidents}) == 2


def test_a_rise_is_better_and_a_rise_of_latency_is_worse():
    risen = [1.6 - value for value in FALLEN]
    assert trends("nightly", [series(risen)], CONFIG).incidents[0].side == "better"
    slow = Series("agent_latency_ms", points(risen), falls_when_worse=False, span=0.0)
    found = trends("nightly", [slow], CONFIG)
    assert found.incidents[0].side == "worse"
    assert found.series[0].state == "worse"


def test_a_fall_in_one_slice_is_marked_as_exploratory():
    sliced = [series(CALM), series(FALLEN, slice_of="tags.intent=refund")]
    (incident,) = trends("nightly", sliced, CONFIG).incidents
    assert incident.exploratory
    assert incident.series == ("pass_rate [tags.intent=refund]",)


def test_runs_under_their_coverage_are_shown_and_not_judged_by():
    history = points(FALLEN)
    lost = [
        one if place < 34 else type(one)(one.run_id, one.at, 0.0, 0.0, 3, one.judge, usable=False)
        for place, one in enumerate(history)
    ]
    found = trends("nightly", [Series("pass_rate", lost)], CONFIG)
    assert found.incidents == ()
    assert found.series[0].points[-1].z is None
    assert not found.series[0].points[-1].usable


def changed_judge(lift: float) -> Series:
    """28 runs by one judge, then 12 by another that gives so much more."""
    new = [value + lift for value in nights(9, (12, 0.8))]
    return Series("pass_rate", [*points(CALM[:28]), *points(new, judge="j2", start=28)])


def test_another_judge_begins_another_reference_and_blames_nobody():
    found = trends("nightly", [changed_judge(-0.2)], CONFIG)
    assert found.incidents == ()
    assert (found.series[0].state, found.series[0].reference_runs) == ("learning", 12)


def test_a_judge_that_comes_back_goes_on_with_its_own_reference():
    values, visit = FALLEN, range(20, 23)
    runs = [
        replace(point, judge="j2") if place in visit else point
        for place, point in enumerate(points(values))
    ]
    found = trends("nightly", [Series("pass_rate", runs)], CONFIG)
    trend, (incident,) = found.series[0], found.incidents
    assert (trend.state, incident.state) == ("worse", "persisting")
    assert [point.run_id for point in trend.points] == [point.run_id for point in runs]
    own = [value for place, value in enumerate(values[:31]) if place not in visit]
    assert trend.reference == pytest.approx(sum(own) / 28)


def test_anchors_judged_by_both_bridge_the_series():
    bridges = {("j1", "j2"): {"pass_rate": -0.2}}
    found = trends("nightly", [changed_judge(-0.2)], CONFIG, bridges)
    assert found.incidents == ()
    assert found.series[0].state == "quiet"
    first = found.series[0].points[0]
    assert first.bridged == pytest.approx(first.value - 0.2)
    fallen = trends("nightly", [changed_judge(-0.35)], CONFIG, bridges)
    assert fallen.series[0].state == "worse"
