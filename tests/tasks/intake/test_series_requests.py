"""What a series of runs may be asked to judge: days that have begun, and not too many."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from assizes.judge.errors import ConfigurationError
from assizes.tasks.intake.run_sources import day_of_moment
from assizes.tasks.intake.series_requests import MAX_DAYS, check_has_begun, check_range

ZONES = pytest.mark.parametrize("zone", ["UTC", "Pacific/Auckland", "America/Los_Angeles"])


def day_in(zone: str, days: int = 0) -> date:
    return day_of_moment(datetime.now(UTC), zone) + timedelta(days=days)


@ZONES
def test_today_has_begun_and_the_day_after_tomorrow_has_not(zone: str):
    check_has_begun(day_in(zone), zone)
    check_range(day_in(zone, -3), day_in(zone), zone)
    for check in (
        lambda: check_has_begun(day_in(zone, 2), zone),
        lambda: check_range(day_in(zone, -3), day_in(zone, 2), zone),
    ):
        with pytest.raises(ConfigurationError, match=f"lies in the future.*today in {zone}"):
            check()


def test_a_range_has_a_bound_whether_its_end_is_given_or_not():
    last = date(2026, 3, 30)
    first = last - timedelta(days=MAX_DAYS - 1)
    check_range(first, last, "UTC")
    check_range(None, None, "UTC")
    said = r"from 2023-03-26 to 2026-03-30 has 1,101 days; accepted are up to 1,100: give --from"
    with pytest.raises(ConfigurationError, match=said):
        check_range(first - timedelta(days=1), last, "UTC")
    with pytest.raises(ConfigurationError, match="accepted are up to 1,100"):
        check_range(date.min, None, "UTC")
