"""Control charts: formulas, false alarms, how soon a fall is seen."""

from __future__ import annotations

from itertools import pairwise
from statistics import median, variance

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from assizes.judge.config.gates import SeriesConfig
from assizes.judge.history.control_charts import ControlChart, Limits, Reference, reference
from tests.judge.series.histories import nights, points

CONFIG = SeriesConfig()
ONE = Limits.of(CONFIG, 1)
KNOWN = Reference(0.8, 0.0, 10**30)  # as sure as can be: no slack for doubt


def chart(usual: Reference = KNOWN, limits: Limits = ONE) -> ControlChart:
    return ControlChart(usual, CONFIG, limits, -1, 1.0)


@given(st.lists(st.floats(0.5, 1.0), min_size=1, max_size=50))
def test_ewma_and_cusum_are_their_recurrences_while_no_incident_is_open(values):
    read, ewma, cusum = chart(), 0.0, 0.0
    for point in points(values):
        z = (0.8 - point.value) / 0.02
        ewma, cusum = 0.2 * z + 0.8 * ewma, max(0.0, cusum + z - 0.5)
        found = read.read(point)
        assert found.z == pytest.approx(z, abs=1e-9)
        assert found.ewma == pytest.approx(ewma, abs=1e-9)
        assert found.cusum == pytest.approx(cusum, abs=1e-9)
        if found.open:
            break


def test_the_limits_of_one_series_are_the_textbooks():
    assert (ONE.ewma, ONE.cusum) == (pytest.approx(3.0), 5.0)
    many = Limits.of(CONFIG, 12)
    assert many.ewma == pytest.approx(3.69, abs=0.01)
    assert many.cusum > ONE.cusum
    assert many.hard > ONE.hard


def test_the_reference_parts_the_errors_of_means_from_what_differs_between_runs():
    values = nights(1, (28, 0.8), sigma=0.03)
    usual = reference(points(values, se=0.02), CONFIG)
    assert usual.between == pytest.approx(variance(values) - 0.02**2)
    assert usual.deviation(points([0.8], se=0.04)[0], 1.0) == pytest.approx(
        (usual.between + 0.04**2) ** 0.5
    )
    assert reference(points(values[:27]), CONFIG) is None


def test_over_the_same_cases_every_night_the_error_of_a_mean_does_not_count():
    values = nights(2, (28, 0.8), sigma=0.004)
    usual = reference(points(values, se=0.05), CONFIG)
    assert usual.same_cases
    most = 27 * variance(values) / stats.chi2.ppf(0.05, 27)
    assert usual.deviation(points([0.8], se=0.05)[0], 1.0) == pytest.approx(most**0.5)


def test_the_same_agent_over_the_same_cases_raises_at_most_one_alarm_a_year():
    """The reference alone says what is usual, and it is of 28 runs only."""
    assert sum(quiet_year(seed) for seed in range(60)) / 60 <= 1.0


def quiet_year(seed: int) -> int:
    history = points(nights(seed, (28 + 365, 0.8)), se=0.08)
    usual = reference(history, CONFIG)
    assert usual.same_cases
    read = chart(usual)
    opens = [read.read(point).open for point in history[28:]]
    return sum(now and not before for before, now in pairwise([False, *opens]))


def test_a_series_that_never_moved_is_not_alarmed_by_one_item():
    usual = reference(points([1.0] * 28, se=0.0), CONFIG)
    read = chart(usual)
    assert not read.read(points([1.0 - 1 / 500], se=0.0)[0]).open
    assert read.read(points([0.9], se=0.0)[0]).open


def test_a_run_far_off_opens_at_once_and_a_milder_one_needs_a_second():
    far, mild = 0.8 - 0.02 * 3.2, 0.8 - 0.02 * 2.5
    assert chart().read(points([far])[0]).open
    read = chart()
    first, second = (read.read(point) for point in points([mild, mild]))
    assert (first.open, second.open) == (False, True)
    read = chart()
    alone = [read.read(point).open for point in points([mild, 0.8, 0.82])]
    assert alone == [False, False, False]


def test_an_incident_ends_when_three_runs_are_back_and_the_charts_begin_anew():
    read = chart()
    opens = [read.read(point).open for point in points([0.7, 0.7, 0.8, 0.8, 0.8, 0.8])]
    assert opens == [True, True, True, True, False, False]


def onsets(seed: int, drift: float, days: int, many: int = 1) -> tuple[int, int]:
    """How often an incident opened, and on which night first (0: never)."""
    values = nights(seed, (28, 0.8), (days, 0.8 - drift * 0.02))
    history = points(values, se=0.015)
    read = chart(reference(history, CONFIG), Limits.of(CONFIG, many))
    opens = [read.read(point).open for point in history[28:]]
    times = [n for n, now in enumerate(opens) if now and not (n and opens[n - 1])]
    return len(times), times[0] + 1 if times else 0


def test_a_year_without_change_raises_about_one_false_alarm_and_fewer_with_more_series():
    one = sum(onsets(seed, 0.0, 365)[0] for seed in range(80)) / 80
    twelve = sum(onsets(seed, 0.0, 365, 12)[0] for seed in range(80)) / 80
    assert one < 1.6
    assert twelve < one / 2


@pytest.mark.parametrize(("drift", "within"), [(1.0, 16), (1.5, 8), (3.0, 3), (5.0, 1)])
def test_a_lasting_fall_is_seen_within_so_many_nights(drift: float, within: int):
    waits = [onsets(seed, drift, 120)[1] or 120 for seed in range(60)]
    assert median(waits) <= within
