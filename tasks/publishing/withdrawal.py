"""Deletes elsewhere what was sent about some cases, or names what must be deleted there by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import polars as pl

from assizes.judge.errors import ConfigurationError
from assizes.tasks.publishing.deliveries import DeliveryLog
from assizes.tasks.publishing.destination import Destination
from assizes.tasks.publishing.places import reopen_place

_THERE = ("sent", "sending")  # states in which the other side has a finding, or may have it


class SentCases(NamedTuple):
    """Cases of one run of which something may have been sent."""

    run_id: str
    case_ids: list[str]


@dataclass
class Withdrawal:
    """What was deleted elsewhere, and what was not."""

    withdrawn: int = 0
    by_hand: list[str] = field(default_factory=list)  # a line each: where, which, and why


def sent_rows(log: DeliveryLog, cases: SentCases) -> list[dict[str, Any]]:
    """The last rows of the deliveries about some cases that the other side has or may have."""
    of_cases = pl.col("case_id").is_in(cases.case_ids) & pl.col("state").is_in(_THERE)
    return log.latest(cases.run_id).filter(of_cases).to_dicts()


def withdraw(
    log: DeliveryLog,
    subjects: Iterable[SentCases],
    open_place: Callable[[str], Destination] = reopen_place,
) -> Withdrawal:
    """Delete what was sent about some cases; the log notes each deletion.

    Raises:
        TraceStoreError: a place cannot be reached, or refuses; what was deleted is noted, and
            calling this again goes on.
        StoreBusy: another process is publishing one of the runs.
    """
    done = Withdrawal()
    places: dict[str, Destination | None] = {}
    with ExitStack() as opened:
        for cases in subjects:
            rows = sent_rows(log, cases)
            if not rows:
                continue
            with log.locked(cases.run_id):
                for row in rows:
                    name = row["destination"]
                    if name not in places:
                        places[name] = _opened(name, open_place, opened)
                    _withdraw_row(log, cases.run_id, row, places[name], done)
    return done


def _opened(
    name: str, open_place: Callable[[str], Destination], opened: ExitStack
) -> Destination | None:
    """The place of that name; None where the environment leads to another one, or to none."""
    try:
        place = open_place(name)
    except ConfigurationError:
        return None
    opened.callback(place.close)
    return place if place.uri == name else None


def _withdraw_row(
    log: DeliveryLog, run_id: str, row: dict[str, Any], place: Destination | None, done: Withdrawal
) -> None:
    where = f"{row['destination']}: {row['name']} of {row['target']} (id {row['delivery_id']})"
    if place is None:
        done.by_hand.append(f"{where}; the environment does not lead there")
        return
    answer = place.withdraw(row)
    if answer.state != "withdrawn":
        done.by_hand.append(f"{where}; {answer.detail}")
        return
    log.add(run_id, [{**row, "state": "withdrawn"}])
    done.withdrawn += 1
