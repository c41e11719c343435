"""Computes when the slots that a process took of a shared limit become due.

The slots of a limit are a queue. Prefect says how many slots are occupied, but not by whom, and its
answer to taking slots does not say where in the queue they stand. So the limit is read before and
after, which gives the place to within the time that the server took to answer. If other processes
took slots in between, nobody knows who came first. Then the slots of this process are spread over
all the time that was given away in between, which has room for the slots of all.

Times are seconds on the clock of this process's event loop.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LimitSnapshot:
    """The occupied slots of a limit, as the server reported them.

    Attributes:
        asked_at: when the server was asked.
        answered_at: when its answer had arrived.
        occupied: slots that were occupied at some time between the two.
        decay: slots that become free in a second.
    """

    asked_at: float
    answered_at: float
    occupied: float
    decay: float

    @property
    def all_free_at(self) -> tuple[float, float]:
        """The earliest and the latest time at which all slots will have become free."""
        queue_s = self.occupied / self.decay
        return self.asked_at + queue_s, self.answered_at + queue_s


@dataclass(frozen=True, slots=True)
class SlotLease:
    """Slots that this process took.

    Attributes:
        queue_before: the limit before the slots were taken.
        asked_at: when the server was asked for the slots.
        taken_at: when the server's answer had arrived.
        slots: the number of slots.
    """

    queue_before: LimitSnapshot
    asked_at: float
    taken_at: float
    slots: int


def slot_times(lease: SlotLease, queue_after: LimitSnapshot) -> tuple[float, float]:
    """The start and the end of the time in which the slots become due, evenly spread.

    The slots never become due faster than the limit frees slots.

    Args:
        lease: the slots.
        queue_after: the limit after the slots were taken.
    """
    lasts_s = lease.slots / queue_after.decay
    earliest, latest = lease.queue_before.all_free_at
    earliest, latest = max(earliest, lease.asked_at), max(latest, lease.taken_at)
    ends_earliest, ends_latest = queue_after.all_free_at
    if latest + lasts_s < ends_earliest:  # other processes took slots in between
        return (earliest + latest) / 2, (ends_earliest + ends_latest) / 2
    end = (max(earliest + lasts_s, ends_earliest) + min(latest + lasts_s, ends_latest)) / 2
    return end - lasts_s, end
