"""Sends the findings of a run and keeps account of it, so that a kill loses and doubles nothing.

A finding is noted as `sending` before it is sent, and its answer after. What is found as `sending`
later may have arrived: the destination sends it again in a way that writes it once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any, Final

from assizes.judge.config.publishing import PublishConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.rows import COMPLETE
from assizes.tasks.publishing.deliveries import DeliveryLog, DeliveryState
from assizes.tasks.publishing.destination import Destination, is_empty
from assizes.tasks.publishing.entry import (
    DeliveryAnswer,
    Parcel,
    PublishedFinding,
    TraceTarget,
    target_of,
    turn_target,
)
from assizes.tasks.publishing.findings import RunFindings
from assizes.tasks.publishing.places import given_target, open_place, place_of
from assizes.tasks.runtime.failpoints import failpoint
from assizes.tasks.store import RunRecord, Store
from assizes.tasks.trace_stores.http_client import TraceStoreError

_SHOWN: Final = 10
"""The most refusals, and findings of a dry run, that a report lists."""


@dataclass
class PublishReport:
    """What was sent of one run, or would be."""

    run_id: str
    destination: str
    dry_run: bool
    sent: Counter[str] = field(default_factory=Counter)  # by kind; of a dry run: to be sent
    unchanged: int = 0  # sent before, with the same content
    refused: int = 0
    refused_before: int = 0  # with the same content, so not sent again
    unanswered: int = 0  # may have arrived; the next call settles it
    without_target: int = 0  # cases
    reasons: list[str] = field(default_factory=list)  # of refusals, the first ones
    first: list[dict[str, Any]] = field(default_factory=list)  # of a dry run
    stopped: str | None = None  # why not everything was tried

    @property
    def exit_code(self) -> int:
        """0: everything that can be sent is there; 4: something is not."""
        return 4 if self.refused or self.unanswered or self.stopped else 0

    def document(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {**asdict(self), "sent": dict(sorted(self.sent.items()))}


@dataclass(frozen=True)
class Publisher:
    """Publishes runs of one store."""

    store: Store
    log: DeliveryLog
    config: PublishConfig

    def publish(
        self,
        record: RunRecord,
        *,
        dry_run: bool = False,
        retry_refused: bool = False,
        destination: Destination | None = None,  # None: the one that settings or run name
    ) -> PublishReport:
        """Send what is not there yet, or with `dry_run` only say what would be sent.

        Raises:
            ConfigurationError: the run is not complete, no place is named, or its keys are missing
                or not accepted.
            StoreBusy: another process is publishing the run.
        """
        if record.status != COMPLETE:
            raise ConfigurationError(
                f"run {record.run_id} is {record.status}: only complete runs are published; "
                f"`assizes resume {record.run_id}` goes on with it"
            )
        chosen = destination or open_place(place_of(self.config, record))
        with closing(chosen):
            report = PublishReport(record.run_id, chosen.uri, dry_run)
            if dry_run:
                for parcel in self._pending(record, chosen, report, retry_refused=retry_refused):
                    report.sent[parcel.finding.kind] += 1
                    if len(report.first) < _SHOWN:
                        report.first.append(_preview(parcel))
                return report
            with self.log.locked(record.run_id) as renew:
                pending = self._pending(record, chosen, report, retry_refused=retry_refused)
                for batch in _batched(pending, chosen.batch_size):
                    renew()
                    if not self._send(record.run_id, batch, chosen, report):
                        break
        return report

    def _send(
        self, run_id: str, batch: list[Parcel], destination: Destination, report: PublishReport
    ) -> bool:
        """Send some findings between two notes; returns whether the destination still answers."""
        failpoint("publish.before")
        self.log.add(run_id, [parcel.row("sending") for parcel in batch])
        failpoint("publish.noted")
        answers: list[tuple[Parcel, DeliveryAnswer]] = []
        stop: TraceStoreError | None = None
        try:
            for answered in destination.send(batch):
                answers.append(answered)  # those before an error count
                failpoint("publish.answered")
        except TraceStoreError as error:
            stop = error
        failpoint("publish.sent")
        self._record(run_id, answers, report)
        failpoint("publish.recorded")
        if stop is None:
            return True
        if stop.status in (401, 403):
            raise ConfigurationError(str(stop)) from stop
        report.unanswered += len(batch) - len(answers)
        report.stopped = str(stop)
        return False

    def _record(
        self, run_id: str, answers: list[tuple[Parcel, DeliveryAnswer]], report: PublishReport
    ) -> None:
        rows = []
        for parcel, answer in answers:
            if answer.state == "sending":
                report.unanswered += 1
            elif answer.state == "refused":
                report.refused += 1
                if len(report.reasons) < _SHOWN:
                    about = parcel.finding
                    report.reasons.append(f"{about.case_id} {about.name}: {answer.detail}")
            else:
                report.sent[parcel.finding.kind] += 1
            if answer.state != "sending":
                rows.append(parcel.row(answer.state, answer.remote_id, answer.detail))
        self.log.add(run_id, rows)

    def _pending(
        self,
        record: RunRecord,
        destination: Destination,
        report: PublishReport,
        *,
        retry_refused: bool,
    ) -> Iterator[Parcel]:
        """Yield what is not known to be there; the report counts the rest."""
        states = self.log.states(record.run_id)
        for case, findings in RunFindings(self.store, record, self.config.include).cases():
            target = destination.target(case, given_target(case)) if findings else None
            if target is None:
                report.without_target += bool(findings)
                continue
            for finding in findings:
                if is_empty(finding):
                    continue
                parcel = Parcel(finding, target, destination.uri)
                before = states.get(parcel.delivery_id)
                own = _own_target(case, finding, target, before, destination)
                if finding.part and own == target:
                    continue
                is_same = before is not None and before.content_hash == finding.content_hash()
                state = before.state if before is not None and is_same else None
                if state == "sent":
                    report.unchanged += 1
                elif state == "refused" and not retry_refused:
                    report.refused_before += 1
                else:
                    yield Parcel(finding, own, destination.uri, before)


def _own_target(
    case: dict[str, Any],
    finding: PublishedFinding,
    target: TraceTarget,
    before: DeliveryState | None,
    destination: Destination,
) -> TraceTarget:
    """What a finding is about: the span of its turn where the place takes it, else what the case is.

    What may be there already stays where it was sent to: elsewhere it would stand a second time.
    """
    if before is not None and before.state in ("sending", "sent"):
        earlier = target_of(before.target)
        if earlier != TraceTarget():
            return earlier
    of_turn = turn_target(case, finding.turns, target)
    is_taken = of_turn is not None and destination.takes_span(of_turn.span_id or "")
    return of_turn if of_turn is not None and is_taken else target


def _batched(parcels: Iterator[Parcel], size: int) -> Iterator[list[Parcel]]:
    while batch := list(islice(parcels, size)):
        yield batch


def _preview(parcel: Parcel) -> dict[str, Any]:
    about = parcel.finding
    return {
        "case_id": about.case_id,
        "kind": about.kind,
        "name": about.name,
        "value": about.value,
        "label": about.label,
        "error": about.error,
        "explanation": about.explanation,
        "target": parcel.target.as_json(),
        "metadata": parcel.metadata(),
    }
