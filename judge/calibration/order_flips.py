"""What a judge of pairs does when the two answers change places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from assizes.judge.calibration import measures
from assizes.judge.calibration.measures import Estimate, estimate


@dataclass(frozen=True, slots=True)
class PairVerdicts:
    """The winner of one pair in both orders, always in the numbering of the order as given.

    1 or 2 names the better answer; `None` is a reply that names none.
    """

    pair: str
    label: int  # the better answer by people, 1 or 2
    as_given: int | None
    swapped: int | None

    @property
    def is_read(self) -> bool:
        """Whether both replies name a winner."""
        return self.as_given is not None and self.swapped is not None

    @property
    def is_same(self) -> bool:
        """Whether both orders have the same result; two unread replies are the same, too."""
        return self.as_given == self.swapped

    @property
    def is_right_twice(self) -> bool:
        """Whether both orders name the answer that people prefer."""
        return self.as_given == self.label == self.swapped


@dataclass(frozen=True, slots=True)
class OrderFlips:
    """How much the order of two answers decides."""

    pairs: int
    read: int  # pairs whose replies name a winner in both orders
    flips: int  # of them, pairs whose winner changes with the order
    rate: Estimate  # flips / read, 0..1
    first_shown: float | None  # share of all winners that were shown first
    right_twice: int  # pairs that are right in both orders
    same: int  # pairs with the same result in both orders, read or not


def order_flips(verdicts: Sequence[PairVerdicts]) -> OrderFlips:
    """Count the pairs of which the judge changes its mind when the answers change places."""
    read = [verdict for verdict in verdicts if verdict.is_read]
    changed = [(verdict.pair, float(not verdict.is_same), 0.0) for verdict in read]
    tables = measures.confusions(changed, (1.0, 0.0))
    first = [verdict.as_given == 1 for verdict in verdicts if verdict.as_given is not None]
    first += [verdict.swapped == 2 for verdict in verdicts if verdict.swapped is not None]
    return OrderFlips(
        pairs=len(verdicts),
        read=len(read),
        flips=sum(not verdict.is_same for verdict in read),
        rate=estimate(tables, lambda stack: stack[..., 0, 1] / stack.sum((-2, -1))),
        first_shown=sum(first) / len(first) if first else None,
        right_twice=sum(verdict.is_right_twice for verdict in verdicts),
        same=sum(verdict.is_same for verdict in verdicts),
    )
