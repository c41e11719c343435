"""What `assizes store forget` does about scores that were sent to other places."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from assizes.judge.config.run import StoreConfig
from assizes.judge.errors import StoreError
from assizes.tasks.publishing.deliveries import DeliveryLog, delivery_log
from assizes.tasks.publishing.withdrawal import SentCases, Withdrawal, sent_rows, withdraw


class CasesOfRun(Protocol):
    """Some cases of a run, as `find_subject` returns them."""

    @property
    def run_id(self) -> str:
        """The full id of the run."""

    @property
    def case_ids(self) -> list[str]:
        """The ids of the cases."""


class Elsewhere:
    """The scores of some cases at other places: counted, or deleted there."""

    def __init__(self, config: StoreConfig, *, here_only: bool) -> None:
        self._config, self._here_only = config, here_only
        self._there = 0  # findings that other places have or may have
        self._done: Withdrawal | None = None

    def count(self, matches: Iterable[CasesOfRun]) -> None:
        """Count what would be deleted."""
        log = self._log()
        if log is not None:
            self._there = sum(len(sent_rows(log, cases)) for cases in _cases(matches))

    def withdraw(self, matches: Iterable[CasesOfRun]) -> None:
        """Delete what was sent; with `here_only` only list it.

        Raises:
            TraceStoreError: a place cannot be reached; then nothing is deleted here either.
        """
        log = self._log()
        if log is None:
            return
        cases = _cases(matches)
        if not self._here_only:
            self._done = withdraw(log, cases)
            return
        rows = [row for each in cases for row in sent_rows(log, each)]
        lines = [
            f"{r['destination']}: {r['name']} of {r['target']} (id {r['delivery_id']})"
            for r in rows
        ]
        self._done = Withdrawal(by_hand=lines)

    def forget(self, matches: Iterable[CasesOfRun]) -> None:
        """Delete the rows about what was sent."""
        if (log := self._log()) is None:
            return
        for cases in _cases(matches):
            rows = log.latest(cases.run_id)
            own = rows.filter(rows["case_id"].is_in(cases.case_ids))["delivery_id"]
            log.forget(cases.run_id, set(own))

    def document(self) -> dict[str, Any]:
        """What became of it, as JSON values."""
        if self._done is None:
            return {"to_delete": self._there}
        return {"deleted": self._done.withdrawn, "by_hand": self._done.by_hand}

    def lines(self) -> Iterator[str]:
        """What became of it, for people."""
        if self._done is None:
            if self._there:
                yield f"sent to other places: {self._there} scores to delete there, too"
            return
        if self._done.withdrawn:
            yield f"deleted at other places: {self._done.withdrawn} scores"
        if self._done.by_hand:
            yield f"delete by hand at other places: {len(self._done.by_hand)} scores"
            yield from (f"  {line}" for line in self._done.by_hand)

    def _log(self) -> DeliveryLog | None:
        try:
            return delivery_log(self._config)
        except StoreError:  # a store in memory
            return None


def _cases(matches: Iterable[CasesOfRun]) -> list[SentCases]:
    return [SentCases(match.run_id, match.case_ids) for match in matches]
