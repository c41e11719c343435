"""The times at which leased slots become due, also when others lease at the same moment."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assizes.tasks.distribute.shared_limits import LimitSnapshot, SlotLease, slot_times

DECAY = 100.0
SLOTS = 30


@dataclass
class Limit:
    """A limit on a Prefect server; `end` is the time at which its last slot becomes free."""

    end: float
    true: dict[str, tuple[float, float]] = field(default_factory=dict)
    occupied: dict[str, float] = field(default_factory=dict)

    def look(self, name: str, now: float) -> None:
        self.occupied[name] = max(0.0, self.end - now) * DECAY

    def take(self, name: str, now: float) -> None:
        start = max(self.end, now)
        self.end = start + SLOTS / DECAY
        self.true[name] = start, self.end


def leased(times: list[list[float]], end: float) -> tuple[Limit, list[tuple[float, float]]]:
    """The due times that each process computes for its slots.

    Each process reads the limit, takes slots and reads the limit again. `times` has three times for
    each of these requests: when it is sent, when the server handles it, when the answer arrives.
    """
    limit = Limit(end)
    steps = [
        (at, step, who, what)
        for who, one in enumerate(times)
        for at, step, what in zip(
            one[1::3], (limit.look, limit.take, limit.look), "bta", strict=True
        )
    ]
    for at, step, who, what in sorted(steps, key=lambda step: step[0]):
        step(f"{who}{what}", at)
    dues = []
    for who, (asked, _, known, since, _, until, again, _, done) in enumerate(times):
        before = LimitSnapshot(asked, known, limit.occupied[f"{who}b"], DECAY)
        after = LimitSnapshot(again, done, limit.occupied[f"{who}a"], DECAY)
        dues.append(slot_times(SlotLease(before, since, until, SLOTS), after))
    return limit, dues


def even(*starts: float) -> list[list[float]]:
    """Nine times for each process, a hundredth of a second apart."""
    return [[start + 0.01 * step for step in range(9)] for start in starts]


waits = st.lists(st.floats(0, 1), min_size=9, max_size=9)


@given(waits=st.lists(waits, min_size=1, max_size=4), backlog=st.floats(0, 5))
def test_slots_are_due_within_a_time_that_holds_their_place_and_never_faster(waits, backlog):
    times = [list(itertools.accumulate(one)) for one in waits]
    limit, dues = leased(times, backlog)

    for who, (start, end) in enumerate(dues):
        own = times[who]
        unsure_s = own[2] - own[0] + own[5] - own[3] + own[8] - own[6]
        starts, ends = limit.true[f"{who}t"]
        assert start <= starts + unsure_s + 1e-9
        assert end >= ends - unsure_s - 1e-9
        assert end - start >= SLOTS / DECAY - 1e-9


def test_one_that_leases_alone_finds_its_place_whether_or_not_somebody_waits():
    for backlog in (0.0, 2.0):
        limit, [(start, end)] = leased(even(0.0), backlog)
        assert (start, end) == pytest.approx(limit.true["0t"], abs=0.01)


def test_a_slow_answer_does_not_move_a_place_that_a_quick_one_tells():
    slow = [0.0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 1.5]
    limit, [(start, end)] = leased([slow], 2.0)
    assert (start, end) == pytest.approx(limit.true["0t"], abs=0.02)


def test_those_who_lease_at_the_same_moment_share_the_time_that_both_took():
    _, dues = leased(even(0.0, 0.001), 2.0)

    # Each is slowed to half by the other; neither stands where both would.
    for start, end in dues:
        assert start == pytest.approx(2.0, abs=0.02)
        assert end == pytest.approx(2.0 + 2 * SLOTS / DECAY, abs=0.02)
    assert sum(SLOTS / (end - start) for start, end in dues) == pytest.approx(DECAY, rel=0.05)


def test_a_limit_that_was_raised_meanwhile_leaves_its_slots_due_at_the_new_rate():
    before = LimitSnapshot(0.0, 0.02, occupied=500, decay=100)
    after = LimitSnapshot(0.05, 0.07, occupied=530, decay=1000)
    start, end = slot_times(SlotLease(before, 0.03, 0.04, 30), after)
    assert end - start == pytest.approx(0.03)
