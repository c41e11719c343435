"""The names under which a run can be asked for; every command, page and function takes all of them.

    nightly-1f2e3d4c5b6a   its id
    nightly-1f2e           a beginning of its id that only this run has
    latest                 the newest run of the store
    nightly                the newest run of a name
    nightly@2026-11-20     the newest run of a name about a day
    nightly~1              the run of the same name before it; after any of the above

The newest run is the one that `assizes runs` lists first: the one about the newest day and, of
several about that day, the one that began last.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import date
from itertools import islice
from typing import Final, NamedTuple

import polars as pl

from assizes.judge.errors import UnknownRun

LATEST: Final = "latest"  # the newest run of a store

SIDE_RUNS: Final = ("anchors", "canaries")
"""Suffixes of runs that are made beside another run, to watch its judge: `nightly-anchors`."""

_REFERENCE: Final = re.compile(r"(?P<base>[^@~]+)(@(?P<day>[^@~]*))?(~(?P<back>[0-9]{0,9}))?")
"""A name, a day and a number of runs before; no id and no name has an `@` or a `~`."""

_CONTENT_HASH: Final = re.compile(
    r"-[0-9a-f]{12}(-(r|f|replay)[0-9]+)*"
)  # in an id, after the name
_DAYS_SHOWN: Final = 3  # days that an error message names, at most


class RunName(NamedTuple):
    """What a run can be named by; `day` is `None` where it is not known."""

    run_id: str
    name: str
    day: date | None


def run_names(runs: pl.DataFrame) -> list[RunName]:
    """The names of the runs of a store, in the order of its table `runs`: the newest first."""
    return [RunName(*row) for row in runs.select("run_id", "name", "day").iter_rows()]


def names_in_ids(run_ids: Iterable[str]) -> list[RunName]:
    """The names of runs of which only the ids are known; a run that was given its id is named so."""
    return [RunName(run_id, _CONTENT_HASH.sub("", run_id), None) for run_id in run_ids]


def resolve_run(reference: str, runs: Sequence[RunName], where: str) -> str:
    """The id of the run that a text names, among `runs`, the newest first.

    `where` names for messages what holds the runs.

    Raises:
        UnknownRun: when no run, or more than one, is named so.
    """
    if any(run.run_id == reference for run in runs):  # though other ids may begin with it
        return reference
    parts = _REFERENCE.fullmatch(reference)
    candidates = _candidates(parts["base"], runs) if parts else []
    if parts is None or not candidates:
        raise UnknownRun.in_store(reference, where, (run.run_id for run in runs))
    if parts["day"] is not None:
        candidates = _of_day(parts["day"], candidates, reference, where)
    if len(candidates) > 1 and not _is_name(parts["base"], runs):
        some = ", ".join(run.run_id for run in candidates[:5])
        raise UnknownRun(
            f"{len(candidates)} runs in {where} start with {parts['base']!r}: {some}; give more of the id"
        )
    back = 0 if parts["back"] is None else int(parts["back"] or 1)
    return _earlier_run(candidates[0], back, runs, reference, where).run_id


def _is_name(base: str, runs: Sequence[RunName]) -> bool:
    return base == LATEST or any(run.name == base for run in runs)


def _candidates(base: str, runs: Sequence[RunName]) -> list[RunName]:
    """The runs of a name, else those whose id is or begins with it; the newest first."""
    if base == LATEST:
        return _without_side_runs(runs)
    same = [run for run in runs if run.run_id == base] or [run for run in runs if run.name == base]
    return same or _without_side_runs([run for run in runs if run.run_id.startswith(base)])


def _without_side_runs(runs: Sequence[RunName]) -> list[RunName]:
    """The runs without those made beside another of them."""
    taken = {text for run in runs for text in (run.run_id, run.name)}
    return [
        run
        for run in runs
        if not any(
            run.name.endswith(f"-{suffix}") and run.name.removesuffix(f"-{suffix}") in taken
            for suffix in SIDE_RUNS
        )
    ]


def _of_day(text: str, runs: Sequence[RunName], reference: str, where: str) -> list[RunName]:
    """The runs about a day."""
    day = None
    with suppress(ValueError):
        day = date.fromisoformat(text)
    if day is None:
        raise UnknownRun(f"{reference!r}: {text!r} is no day; write NAME@2026-11-20")
    days = {run.day for run in runs if run.day is not None}
    if not days:
        raise UnknownRun(f"{reference!r}: {where} knows no days; give an id (`assizes runs`)")
    if day not in days:
        nearest = sorted(days, key=lambda other: (abs((other - day).days), other))[:_DAYS_SHOWN]
        known = ", ".join(str(other) for other in sorted(nearest))
        raise UnknownRun(f"no run {reference!r} in {where}; the nearest days are {known}")
    return [run for run in runs if run.day == day]


def _earlier_run(
    run: RunName, back: int, runs: Sequence[RunName], reference: str, where: str
) -> RunName:
    """The run of the same name that is so many runs before a run."""
    same = [other for other in runs if other.name == run.name]
    following = next(islice(same, same.index(run) + back, None), None)
    if following is None:
        raise UnknownRun(
            f"no run {reference!r} in {where}; {run.run_id} has {len(same) - same.index(run) - 1} "
            f"earlier runs of the name {run.name!r}"
        )
    return following
