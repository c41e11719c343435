"""Whether failures of a run show a cause that a suite guards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import polars as pl

from assizes.judge.case import Case
from assizes.judge.causes.failures import FAILURES
from assizes.judge.causes.identity import find_causes
from assizes.judge.causes.meanings import SentenceEncoder
from assizes.judge.suites.promoted import provenance_of

KNOWN: Final[dict[str, Any]] = {**FAILURES, "cause_id": pl.String}
"""The columns of the failures by which the causes of a suite are known."""


def returned_causes(
    cases: Sequence[Case],
    failures: pl.DataFrame,
    run_id: str,
    encoder: SentenceEncoder | None = None,
) -> dict[str, tuple[str, ...]]:
    """The causes guarded by a suite that failures of a run show, by case id.

    The reasons of the promoted failures tell the causes, so that no store of the time is needed.

    Args:
        cases: of the suite.
        failures: of the run, with the columns of `failures.FAILURES`.
        run_id: the id of the run.
        encoder: compares what reasons mean, as it did when the causes were found.
    """
    known = known_failures(cases)
    ids = [case.case_id for case in cases]
    own = failures.filter(pl.col("case_id").is_in(ids))
    if known.is_empty() or own.is_empty():
        return {}
    found = find_causes(own, known, run_id, encoder)
    known_ids = set(known["cause_id"])
    guarded = dict(known.select("case_id", "cause_id").group_by("case_id").all().iter_rows())
    back: dict[str, dict[str, None]] = {}
    for case_id, cause_id in found.failures.select("case_id", "cause_id").iter_rows():
        same = {cause_id, *(other for other, older in found.merged.items() if older == cause_id)}
        # Of causes that are hard to tell apart, those that the case itself guards are meant.
        shown = sorted(same & set(guarded.get(case_id, ()))) or [cause_id]
        if cause_id in known_ids:
            back.setdefault(case_id, {}).update(dict.fromkeys(shown))
    return {case_id: tuple(causes) for case_id, causes in back.items()}


def known_failures(cases: Iterable[Case]) -> pl.DataFrame:
    """The promoted failures of a suite with their causes, the cause that is known longest first."""
    rows = [
        (provenance.day, case.case_id, failure, cause_id)
        for case in cases
        if (provenance := provenance_of(case)) is not None
        for failure in provenance.failures
        for cause_id in failure.causes
    ]
    first = {
        cause_id: day for day, *_, cause_id in sorted(rows, key=lambda row: row[0], reverse=True)
    }
    rows.sort(key=lambda row: (first[row[3]], row[3], row[0], row[1], row[2].metric))
    return pl.DataFrame(
        [
            (case_id, 0, failure.metric, failure.reason, failure.code, 0.0, cause_id)
            for _, case_id, failure, cause_id in rows
        ],
        schema=KNOWN,
        orient="row",
    )
