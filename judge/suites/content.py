"""The content of a suite: its version, and what promoting or retiring cases makes of it."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from assizes.judge.case import Case


class Suite(NamedTuple):
    """A suite."""

    name: str
    cases: tuple[Case, ...]  # sorted by id, which is unique
    retired: tuple[Case, ...] = ()  # likewise; a run does not read them

    @property
    def version(self) -> str:
        """12 hex digits of the SHA-256 over the sorted hashes of the cases.

        The order of the lines and the metadata of the cases do not count: two suites of one version
        ask the same.
        """
        lines = sorted(f"{case.case_id}\t{case.content_hash()}" for case in self.cases)
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


class Promotion(NamedTuple):
    """A suite with further cases."""

    suite: Suite
    added: tuple[str, ...]  # ids of the cases that it did not have
    held: tuple[str, ...]  # ids of those whose conversation it has already
    taken: tuple[str, ...]  # ids under which it has another conversation, which stays


def with_promoted(suite: Suite, cases: Iterable[Case]) -> Promotion:
    """The suite with these cases; a conversation that it holds already is not added again.

    A retired case that is promoted again is a case of the suite again.
    """
    by_id = {case.case_id: case for case in suite.cases}
    hashes = {case.content_hash() for case in suite.cases}
    added, held, taken = [], [], []
    for case in cases:
        if case.content_hash() in hashes:
            held.append(case.case_id)
        elif case.case_id in by_id:
            taken.append(case.case_id)
        else:
            by_id[case.case_id] = case
            hashes.add(case.content_hash())
            added.append(case.case_id)
    retired = tuple(case for case in suite.retired if case.case_id not in added)
    grown = Suite(suite.name, _in_order(by_id.values()), retired)
    return Promotion(grown, tuple(added), tuple(held), tuple(taken))


def without(suite: Suite, case_ids: Collection[str]) -> Suite:
    """The suite with some of its cases retired."""
    leaving = [case for case in suite.cases if case.case_id in case_ids]
    stay = [case for case in suite.cases if case.case_id not in case_ids]
    ids = {case.case_id for case in leaving}
    retired = [case for case in suite.retired if case.case_id not in ids]
    return Suite(suite.name, tuple(stay), _in_order([*retired, *leaving]))


def _in_order(cases: Iterable[Case]) -> tuple[Case, ...]:
    return tuple(sorted(cases, key=lambda case: case.case_id))


def duplicate_ids(cases: Sequence[Case]) -> list[str]:
    """The ids that more than one case has, sorted."""
    ids = [case.case_id for case in cases]
    return sorted({case_id for case_id in ids if ids.count(case_id) > 1})
