"""When slots that were taken of a shared limit are due: their place in its queue.

Prefect says how many slots of a limit are occupied, not whose they are; and taking some does not
tell how many are. So the queue is looked at before and after. What can be told from that is within
the time the server took to answer. Where others took slots in between, nobody knows who came first:
what this process took is spread over all the time that was given away meanwhile, where there is
just so much room for everyone's.

Times are seconds on the clock of this process.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LimitSnapshot:
    """What the server said of a limit's slots.

    Args:
        since: when it was asked.
        until: when it had answered.
        occupied: slots that were occupied at some time between.
        decay: how many become free in a second.
    """

    asked_at: float
    answered_at: float
    occupied: float
    decay: float

    @property
    def all_free_at(self) -> tuple[float, float]:
        """The earliest and the latest time at which all will have become free."""
        ahead_s = self.occupied / self.decay
        return self.asked_at + ahead_s, self.answered_at + ahead_s


@dataclass(frozen=True, slots=True)
class SlotLease:
    """Slots that this process took.

    Args:
        before: the queue as it was found.
        since: when they were asked for.
        until: when they had been taken.
        slots: how many.
    """

    queue_before: LimitSnapshot
    asked_at: float
    taken_at: float
    slots: int


def slot_times(lease: SlotLease, queue_after: LimitSnapshot) -> tuple[float, float]:
    """When the slots are due: from the one time to the other, never faster than slots become free.

    Args:
        lease: the slots.
        queue_after: the queue with them in it.
    """
    lasts_s = lease.slots / queue_after.decay
    earliest, latest = lease.queue_before.all_free_at
    earliest, latest = max(earliest, lease.asked_at), max(latest, lease.taken_at)
    ends_earliest, ends_latest = queue_after.all_free_at
    if latest + lasts_s < ends_earliest:  # others took some meanwhile
        return (earliest + latest) / 2, (ends_earliest + ends_latest) / 2
    end = (max(earliest + lasts_s, ends_earliest) + min(latest + lasts_s, ends_latest)) / 2
    return end - lasts_s, end
