"""A case of a suite: the conversation that failed, and where it comes from.

What is known about the failure stands in the case's `metadata`, which no judge sees and no hash of
the case covers.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable
from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError

from assizes.judge.case import Case
from assizes.judge.formats.shared.parsing import schema_error

PROMOTED: Final = "promoted"
"""The key in the metadata of a case of a suite under which its provenance stands."""


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class GuardedCause(_Table):
    """A cause that a case showed when it was promoted."""

    cause_id: str
    name: str


class PromotedFailure(_Table):
    """A failed metric of a promoted case, as the judge explained it."""

    metric: str
    reason: str = ""  # empty: the judge gave a code only
    code: str | None = None
    causes: tuple[str, ...] = ()  # ids of the causes that this failure shows


class Provenance(_Table):
    """Where a case of a suite comes from; the run knows it by the same id."""

    run_id: str
    repetition: int
    transcript_uri: str
    position: int  # of the record in its object, from 0
    transcript_hash: str  # of the case as it was judged
    agent: str | None = None
    agent_version: str | None = None
    day: dt.date  # that the run is about
    promoted_by: str = ""  # empty: nobody said
    failures: tuple[PromotedFailure, ...] = ()
    causes: tuple[GuardedCause, ...] = ()

    @property
    def metrics(self) -> frozenset[str]:
        """The metrics that the case failed at."""
        return frozenset(failure.metric for failure in self.failures)

    def about(self, causes: Collection[str]) -> Provenance:
        """The same with only those failures that show some of these causes (ids), and only these."""
        failures = (
            failure.model_copy(
                update={"causes": tuple(cause for cause in failure.causes if cause in causes)}
            )
            for failure in self.failures
            if not set(causes).isdisjoint(failure.causes)
        )
        kept = tuple(cause for cause in self.causes if cause.cause_id in causes)
        return self.model_copy(update={"failures": tuple(failures), "causes": kept})


def with_provenance(case: Case, provenance: Provenance) -> Case:
    """The case as a suite holds it: one repetition of each, with its provenance in the metadata."""
    body = provenance.model_dump(mode="json", exclude_defaults=True)
    metadata = {**case.metadata, PROMOTED: body}
    return case.model_copy(update={"repetition": 0, "metadata": metadata})


def provenance_of(case: Case) -> Provenance | None:
    """Where a case of a suite comes from; `None` for a case that was written by hand.

    Raises:
        DataError: the metadata hold something else under the key of the provenance.
    """
    body = case.metadata.get(PROMOTED)
    if body is None:
        return None
    try:
        return Provenance.model_validate(body)
    except ValidationError as error:
        raise schema_error(error) from None


def guarded_causes(cases: Iterable[Case]) -> dict[str, GuardedCause]:
    """The causes that cases guard, by id; the latest name of a cause counts."""
    known = [promoted for case in cases if (promoted := provenance_of(case)) is not None]
    return {
        cause.cause_id: cause
        for provenance in sorted(known, key=lambda each: each.day)
        for cause in provenance.causes
    }
