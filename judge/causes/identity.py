"""The cause of each failure of a run: one that earlier runs had, or a new one."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final, NamedTuple

import polars as pl

from assizes.judge.causes.grouping import ALONE, Groups
from assizes.judge.causes.meanings import SentenceEncoder

REMEMBERED: Final = 30
"""The failures by which a cause is known, the latest ones."""

LEAST_CASES: Final = 3
"""The fewest cases of a new cause."""


class FoundCauses(NamedTuple):
    """The causes of the failures of a run."""

    failures: pl.DataFrame
    """The failures in the order in which they came, with a column `cause_id`; None where a failure
    has no cause in common with others."""
    merged: Mapping[str, str]
    """Known causes that turn out to be the same as an older one, and that one."""


def find_causes(
    failures: pl.DataFrame,
    known: pl.DataFrame,
    origin: str,
    encoder: SentenceEncoder | None = None,
) -> FoundCauses:
    """Find the cause of each failure.

    Args:
        failures: of one run, with the columns `FAILURES`.
        known: failures of earlier runs, with the columns `FAILURES` and `cause_id`. The cause that
            is known longest comes first; of each cause the latest failures come last.
        origin: what, beside the failures themselves, makes the ids of new causes: a run id.
        encoder: compares what reasons mean, beside their words. Known causes are known by their
            reasons, so they are found again with or without it.
    """
    groups = Groups(failures, known, encoder)
    own = groups.of_failures()
    names: dict[int, str | None] = {ALONE: None}
    for number, cause in enumerate(groups.causes):
        names[number] = cause or _new_id(failures.filter(pl.Series(own == number)), origin)
    ids = [names[number] for number in own.tolist()]
    named = failures.with_columns(pl.Series("cause_id", ids, dtype=pl.String))
    return FoundCauses(named, groups.merged)


def _new_id(members: pl.DataFrame, origin: str) -> str | None:
    """The id of a new cause, made from its failures; None for fewer cases than `LEAST_CASES`."""
    if members["case_id"].n_unique() < LEAST_CASES:
        return None
    keys = members.select("case_id", "repetition", "metric").sort(pl.all())
    content = "\n".join([origin, *("\t".join(map(str, row)) for row in keys.iter_rows())])
    return hashlib.blake2b(content.encode(), digest_size=5).hexdigest()
