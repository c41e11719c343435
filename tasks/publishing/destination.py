"""A place that takes findings: what every kind of it promises, and what its refusals mean."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from assizes.judge.rows import as_json
from assizes.tasks.publishing.entry import (
    DeliveryAnswer,
    LabelThere,
    Parcel,
    PublishedFinding,
    TraceTarget,
)
from assizes.tasks.trace_stores.http_client import TraceStoreError

MAX_BATCH_BYTES: Final = 800_000
"""Bytes of one request as JSON, at most: the smallest bound of the vendors is 1 MB."""

PROJECT: Final = ", project "
"""What stands in the name of a place between its server and its project."""

UNKNOWN_ACCESS: Final = "whether the keys may write is seen when scores are sent"
"""What `write_access` says where only a score could tell."""

_MAX_DETAIL: Final = 200  # characters of a reason that is kept


class Destination(Protocol):
    """A place that takes findings. Its methods raise `TraceStoreError` where it cannot be reached."""

    @property
    def uri(self) -> str:
        """The kind and the server, by which deliveries are known; it holds no secret."""

    @property
    def batch_size(self) -> int:
        """The number of findings that are noted down before they are sent."""

    def target(self, case: dict[str, Any], given: TraceTarget) -> TraceTarget | None:
        """What the findings of a case are about; None where nothing there is known to be the case.

        `given` holds the ids that the case itself states.
        """

    def takes_span(self, span_id: str) -> bool:
        """Whether a finding can be about a span with this id."""

    def send(self, parcels: Sequence[Parcel]) -> Iterator[tuple[Parcel, DeliveryAnswer]]:
        """Send parcels, and yield each with what became of it as soon as that is known.

        Sending a parcel again whose earlier answer was lost must not write it twice, where the
        other side allows that.
        """

    def withdraw(self, row: dict[str, Any]) -> DeliveryAnswer:
        """Delete what a row of table deliveries names; what is not there any more counts as deleted."""

    def write_access(self) -> str:
        """Say whether the keys may write, without writing anything."""

    def labels(self, targets: Sequence[TraceTarget]) -> Iterator[LabelThere]:
        """Yield the labels that people made there, at least those about the targets.

        Raises:
            ConfigurationError: the place holds no labels.
        """

    def close(self) -> None:
        """Close the connections."""


def refusal(error: TraceStoreError) -> DeliveryAnswer:
    """The answer `refused` for an error that is about one finding only.

    Raises:
        TraceStoreError: the error is about the whole server: it accepts no keys, is busy, or cannot
            be reached.
    """
    if error.status is None or error.status in (401, 403, 429) or error.status >= 500:
        raise error
    return DeliveryAnswer("refused", detail=one_line(str(error)))


def one_line(text: str) -> str:
    """The beginning of a text as one line, for column `detail`."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:_MAX_DETAIL]


def chunks(
    parcels: Iterable[Parcel], body: Callable[[Parcel], Any]
) -> Iterator[list[tuple[Parcel, Any]]]:
    """Cut parcels, each with its body, into requests of at most `MAX_BATCH_BYTES`."""
    chunk: list[tuple[Parcel, Any]] = []
    size = 0
    for parcel in parcels:
        made = body(parcel)
        length = len(as_json(made).encode("utf-8", "surrogatepass"))
        if chunk and size + length > MAX_BATCH_BYTES:
            yield chunk
            chunk, size = [], 0
        chunk.append((parcel, made))
        size += length
    if chunk:
        yield chunk


def is_empty(finding: PublishedFinding) -> bool:
    """Whether a finding has nothing that a place could show."""
    return finding.value is None and finding.label is None and finding.error is None


def moment_there(text: object) -> datetime:
    """A time as a trace store writes it; the beginning of time where it wrote none."""
    try:
        at = datetime.fromisoformat(str(text))
    except ValueError:
        return datetime(1970, 1, 1, tzinfo=UTC)
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def batches(ids: Iterable[str], size: int) -> Iterator[list[str]]:
    """Cut ids into lists of at most `size`."""
    known = list(dict.fromkeys(ids))
    return (known[start : start + size] for start in range(0, len(known), size))
