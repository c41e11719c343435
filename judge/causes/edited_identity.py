"""Causes over nights as people want them: what they merged stays one, what they split stays two."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import polars as pl

from assizes.judge.causes.edits import CauseEdits, CauseSplit
from assizes.judge.causes.identity import FoundCauses, find_causes
from assizes.judge.causes.meanings import SentenceEncoder
from assizes.judge.causes.reason_space import ReasonSpace, mean_vectors, reasons


def find_edited_causes(
    failures: pl.DataFrame,
    known: pl.DataFrame,
    origin: str,
    edits: CauseEdits,
    encoder: SentenceEncoder | None = None,
) -> FoundCauses:
    """Find the cause of each failure as `find_causes` does, and keep to what people decided.

    A cause that a person merged or split is never merged by the program. Where such causes end in
    one group, each failure goes to the one whose known reasons are nearest. The failures of the
    result have a column `found_as` too: the cause before merges of people. By it they are known
    later, so that two wordings that a person made one cause are found again, each by itself.

    With an encoder, reasons are grouped by meaning too. What people split is shared out by words in
    any case, because every later look at a run repeats it, on machines that need not have an encoder.
    """
    found = find_causes(failures, known, origin, encoder)
    ids = set(known["cause_id"])
    merged = {name: into for name, into in found.merged.items() if name not in edits.kept}
    own = found.failures
    for members in _families(found.merged, edits, ids):
        labels = {name: merged.get(name, name) for name in members}
        if len(set(labels.values())) > 1:
            parts = known.filter(pl.col("cause_id").is_in(members)).with_columns(
                pl.col("cause_id").replace(labels)
            )
            own = _reassigned(own, pl.col("cause_id").is_in(members), parts)
    own = own.with_columns(found_as="cause_id").with_columns(edits.current_ids())
    return FoundCauses(own, {name: edits.current(into) for name, into in merged.items()})


def with_split(rows: pl.DataFrame, split: CauseSplit, parts: pl.DataFrame) -> pl.DataFrame:
    """Failures of any run with a split applied.

    Args:
        rows: failures with the columns `run_id`, `case_id`, `reason`, `code` and `cause_id`.
        split: cases of its run go to the new cause, whatever their reasons say.
        parts: failures of the run of the split, with the same columns; their `cause_id` is the cause
            or the new one. Failures of other runs go to the nearer one.
    """
    of_cause = pl.col("cause_id") == split.cause_id
    in_run = pl.col("run_id") == split.run_id
    is_named = of_cause & in_run & pl.col("case_id").is_in(list(split.case_ids))
    named = pl.when(is_named).then(pl.lit(split.part)).otherwise("cause_id").alias("cause_id")
    return _reassigned(rows, of_cause & ~in_run, parts).with_columns(named)


def _families(
    merged: Mapping[str, str], edits: CauseEdits, known: Collection[str]
) -> list[list[str]]:
    """Known causes between which failures are shared out: a cause, its parts, what joined them."""
    links = [(each.cause_id, each.part) for each in edits.splits]
    links += [*edits.merges.items()]
    links += [pair for pair in merged.items() if edits.kept.intersection(pair)]
    families: list[set[str]] = []
    for pair in links:
        touched = [family for family in families if family.intersection(pair)]
        families = [family for family in families if family not in touched]
        families.append(set(pair).union(*touched))
    return [sorted(family.intersection(known)) for family in families]


def _reassigned(rows: pl.DataFrame, chosen: pl.Expr, parts: pl.DataFrame) -> pl.DataFrame:
    """Failures of which some, those with `chosen` true, get the cause whose reasons are nearest."""
    numbered = rows.with_row_index("_row")
    moved = numbered.filter(chosen)
    if moved.is_empty() or parts["cause_id"].n_unique() < 2:
        return rows
    nearer = moved.select("_row", _nearest(moved, parts).alias("_nearest"))
    joined = numbered.join(nearer, on="_row", how="left", maintain_order="left")
    cause = pl.coalesce("_nearest", "cause_id").alias("cause_id")
    return joined.with_columns(cause).drop("_row", "_nearest")


def _nearest(failures: pl.DataFrame, parts: pl.DataFrame) -> pl.Series:
    """The cause for each failure: the highest cosine to the mean of its reasons."""
    own, theirs = reasons(failures), reasons(parts)
    space = ReasonSpace(pl.concat([own, theirs]))
    names = parts["cause_id"].unique(maintain_order=True).to_list()
    places = np.array([names.index(name) for name in parts["cause_id"].to_list()])
    means = mean_vectors(space.vectors(theirs), places, len(names)).toarray()
    means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)
    nearest = (space.vectors(own) @ means.T).argmax(axis=1)  # the first one where none is nearer
    return pl.Series([names[place] for place in nearest.tolist()], dtype=pl.String)
