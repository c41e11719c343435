"""The stored causes of runs with the edits of people, which count from the moment they are written.

What the program found stays stored as it was. Names, sentences, owners and silence are laid over it. Where a
merge or a split is younger than the causes of a run, their rows are described anew when they are read.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from assizes.judge.causes.described import MERGED, KnownCause, RunWithCauses, cause_rows
from assizes.judge.causes.edited_identity import with_split
from assizes.judge.causes.edits import CauseEdits, CauseSplit, current_edits
from assizes.judge.causes.failures import failures
from assizes.judge.causes.identity import REMEMBERED, FoundCauses
from assizes.judge.causes.presence import JudgedCases
from assizes.judge.rows import CAUSE_TABLES
from assizes.tasks.store import Store
from assizes.tasks.store.cause_tables import RunCauses

ALPHA: Final = 0.05
"""The share of runs of an unchanged agent in which some cause is called new, worse, better or gone."""

_OF_SCORE: Final = ("case_id", "repetition", "metric")
_PARTS_READ: Final = 200  # failures of a cause, and of what was split from it, that are compared


class EditedCauses:
    """Reads the causes of the runs of a store as people edited them; it finds none and stores none."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.edits: CauseEdits = current_edits(store.people.rows("cause_edits"))
        self._parts: dict[str, pl.DataFrame] = {}

    def read(self, run_id: str) -> RunCauses | None:
        """The causes of a run (full id); None where they are not stored."""
        stored = self._store.causes.read(run_id)
        return None if stored is None else self.edited(run_id, stored)

    def edited(self, run_id: str, stored: RunCauses) -> RunCauses:
        """The causes of a run (full id) with all edits, from those that are stored or just found."""
        shown = self._shown(run_id, stored)
        known = self.memory(stored)
        moved = {*self.edits.merges, *(each.cause_id for each in self._open_splits(stored))}
        causes = stored.causes
        if not moved.isdisjoint(causes["cause_id"]):
            causes = self._described(run_id, stored, shown, known)
        case_causes = shown.select(list(CAUSE_TABLES["case_causes"])).unique(maintain_order=True)
        remembered = self.edits.named(known.drop("found_as"))
        return RunCauses(self.edits.labelled(causes), case_causes, remembered)

    def with_causes(self, run_id: str, stored: RunCauses) -> RunWithCauses:
        """A run and the cases that show its causes, to compare another run with it."""
        return RunWithCauses(run_id, judged_cases(self._store, run_id), self._shown(run_id, stored))

    def memory(self, stored: RunCauses) -> pl.DataFrame:
        """The failures by which the causes of a run and of earlier ones are known, with edits.

        Column `cause_id` is the cause that they are now, and `found_as` what it was before merges.
        """
        rows = stored.remembered.with_columns(found_as="cause_id").with_columns(
            self.edits.current_ids()
        )
        for split in self._open_splits(stored):
            rows = self._with_memory_split(rows, split)
        latest = rows.group_by("found_as", maintain_order=True).tail(REMEMBERED)
        return latest.select(*stored.remembered.columns, "found_as")

    def _with_memory_split(self, rows: pl.DataFrame, split: CauseSplit) -> pl.DataFrame:
        """Remembered failures with a split; those of its run that it named are added."""
        parts = self._failures_of(split)
        after = with_split(rows, split, parts).filter(
            (pl.col("cause_id") != split.part) | (pl.col("run_id") != split.run_id)
        )
        moved = pl.concat([after, parts], how="diagonal").filter(pl.col("cause_id") == split.part)
        moved = moved.with_columns(
            name="cause_id", first_run=pl.lit(split.run_id), found_as="cause_id"
        )
        left = after.filter(pl.col("cause_id") != split.part)
        return pl.concat([left, moved.select(left.columns)]).with_columns(self.edits.current_ids())

    def known(self, memory: pl.DataFrame) -> dict[str, KnownCause]:
        """The name, without what people renamed, and the first run of each cause of a memory."""
        if memory.is_empty():
            return {}
        own = (pl.col("found_as") == pl.col("cause_id")).cast(pl.Int8)
        causes = memory.group_by("cause_id", maintain_order=True).agg(
            pl.col("name").sort_by(own, descending=True, maintain_order=True).first(),
            pl.col("first_run").first(),
        )
        return {
            cause_id: KnownCause(name, first_run) for cause_id, name, first_run in causes.rows()
        }

    def _shown(self, run_id: str, stored: RunCauses, until: str | None = None) -> pl.DataFrame:
        """Rows of table case_causes with all merges and splits, and with reasons where it split.

        `until` is the part of the first split that is left out.
        """
        rows = stored.case_causes.with_columns(self.edits.current_ids())
        for split in self._open_splits(stored):
            if split.part == until:
                break
            if split.cause_id in rows["cause_id"]:
                if "reason" not in rows.columns:
                    rows = self._with_reasons(run_id, rows)
                rows = with_split(rows, split, self._failures_of(split))
                rows = rows.with_columns(self.edits.current_ids())
        return rows

    def _described(
        self, run_id: str, stored: RunCauses, shown: pl.DataFrame, memory: pl.DataFrame
    ) -> pl.DataFrame:
        if "reason" not in shown.columns:
            shown = self._with_reasons(run_id, shown)
        baseline = None
        for before in stored.causes["baseline"].drop_nulls().head(1).to_list():
            earlier = self._store.causes.read(before)
            baseline = None if earlier is None else self.with_causes(before, earlier)
        run = RunWithCauses(run_id, judged_cases(self._store, run_id), shown)
        rows = stored.causes.select("cause_id", "name", "first_run")
        names = {name: KnownCause(*more) for name, *more in rows.iter_rows()} | self.known(memory)
        was_merged = stored.causes.filter(pl.col("state") == MERGED)
        merged = dict(was_merged.select("cause_id", "merged_into").iter_rows())
        merged |= {
            name: into for name in rows["cause_id"] if (into := self.edits.current(name)) != name
        }
        return cause_rows(run, FoundCauses(shown, merged), baseline, names, ALPHA)

    def _with_reasons(self, run_id: str, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows of table case_causes with the columns of their failures."""
        found = failures(self._store.scan(run_id, "scores"))
        return found.join(rows, on=_OF_SCORE, how="inner", maintain_order="left")

    def _open_splits(self, stored: RunCauses) -> list[CauseSplit]:
        """The splits that are younger than stored causes: these do not know the new cause."""
        known = set(stored.remembered["cause_id"])
        now = self.edits.current
        return [
            each._replace(cause_id=now(each.cause_id))
            for each in self.edits.splits
            if each.part not in known and now(each.part) != now(each.cause_id)
        ]

    def _failures_of(self, split: CauseSplit) -> pl.DataFrame:
        """Failures of the run of a split: those that it took, and those that it left."""
        if split.part not in self._parts:
            stored = self._store.causes.read(split.run_id)
            rows = pl.DataFrame(schema=CAUSE_TABLES["case_causes"])
            if stored is not None:
                rows = self._shown(split.run_id, stored, until=split.part)
            rows = rows.select(list(CAUSE_TABLES["case_causes"]))
            rows = rows.filter(pl.col("cause_id") == split.cause_id)
            is_named = pl.col("case_id").is_in(list(split.case_ids))
            part = pl.when(is_named).then(pl.lit(split.part)).otherwise("cause_id")
            rows = rows.with_columns(part.alias("cause_id"))
            chosen = rows.group_by("cause_id", maintain_order=True).tail(_PARTS_READ)
            scores = self._store.rows_of_cases(
                split.run_id, "scores", chosen["case_id"].unique().to_list()
            )
            found = failures(scores.lazy())
            self._parts[split.part] = found.join(chosen, on=_OF_SCORE, maintain_order="left")
        return self._parts[split.part]


def judged_cases(store: Store, run_id: str) -> JudgedCases:
    """The judged cases of a run."""
    judged = store.scan(run_id, "cases").filter(pl.col("status") == "judged")
    return JudgedCases(judged.select("case_id", "repetition", "cluster").collect())
