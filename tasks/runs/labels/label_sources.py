"""Reads from a store which labels of people count for a run, by the rules of judge/labels."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import polars as pl

from assizes.judge.calibration.calibrate import judge_fingerprint
from assizes.judge.config.gates import VERDICT
from assizes.judge.labels.carrying import (
    CaseKey,
    ChosenSource,
    LabelledConversations,
    LabelOrigin,
    choose_source,
)
from assizes.judge.labels.current import settled_labels
from assizes.judge.verdicts.executions import collect_rows
from assizes.tasks.runs.labels.labels_and_grades import answering_models
from assizes.tasks.runs.labels.people_labels import metric_units
from assizes.tasks.store import RunRecord, Store

HASH: Final = "transcript_hash"
"""The key in column `shown` of a label: the hash of the conversation that the rater read."""


@dataclass(frozen=True, slots=True)
class CountingLabels:
    """The labels of one metric that count for a run."""

    settled: pl.DataFrame  # as `settled_labels`, with the id of the corrected run as `run_id`
    source: ChosenSource
    origin: LabelOrigin | None  # None: no label counts


class LabelReader:
    """Reads labels for several runs of one store; each table is read once."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._rows = store.people.rows("labels")
        self._queues = store.people.rows("queues")
        self._conversations: dict[str, dict[CaseKey, tuple[str, str | None]]] = {}
        self._units: dict[str, dict[str, float]] = {}

    @property
    def is_empty(self) -> bool:
        """Whether nobody has labelled anything in this store."""
        return self._rows.is_empty()

    @cached_property
    def _records(self) -> dict[str, RunRecord]:
        labelled = set(self._rows["run_id"])
        stored = self.store.run_index()["run_id"].to_list()
        rows = self.store.rows_of_runs([run_id for run_id in stored if run_id in labelled])
        return {row["run_id"]: RunRecord.of_row(row, {}) for row in rows.iter_rows(named=True)}

    def metrics(self, run_id: str) -> list[str]:
        """The metrics with a label of a case of the run, `verdict` first."""
        held = {case_id for case_id, _ in self._held(run_id)}
        of_case = self._rows.filter(pl.col("case_id").is_in(held))
        return sorted(of_case["metric"].unique(), key=lambda name: (name != VERDICT, name))

    def counting(self, record: RunRecord, metric: str) -> CountingLabels:
        """The labels of a metric that count for a run, and how many do not count, and why."""
        run_id = record.run_id
        rows = self._rows.filter(pl.col("metric") == metric)
        by_run = {
            str(name): self._unchanged(str(name), part)
            for (name,), part in rows.group_by("run_id")
            if str(name) in self._records
        }
        settled = {
            name: settled_labels(part, self._queues.filter(pl.col("run_id") == name))
            for name, part in by_run.items()
        }
        sources = [self._source(run_id, metric, name, settled[name]) for name in sorted(settled)]
        held = {key: digest for key, (digest, _) in self._held(run_id).items()}
        chosen = choose_source(run_id, held, sources)
        if chosen.run_id is None:
            return CountingLabels(settled_labels(rows.clear()), chosen, None)
        counted = _only(settled[chosen.run_id], chosen.labels)
        origin = self._origin(record, chosen, metric, _only(by_run[chosen.run_id], chosen.labels))
        return CountingLabels(counted.with_columns(run_id=pl.lit(run_id)), chosen, origin)

    def _held(self, run_id: str) -> dict[CaseKey, tuple[str, str | None]]:
        """Every case of a run, with its transcript hash and the version of the agent."""
        if run_id not in self._conversations:
            columns = ("case_id", "repetition", "transcript_hash", "agent_version")
            rows = collect_rows(self.store.scan(run_id, "cases").select(columns)).rows()
            self._conversations[run_id] = {
                (case_id, repetition): (digest or "", version)
                for case_id, repetition, digest, version in rows
            }
        return self._conversations[run_id]

    def _unchanged(self, run_id: str, rows: pl.DataFrame) -> pl.DataFrame:
        """The labels whose conversation the run still holds as the rater read it."""
        held = self._held(run_id)
        same = [
            (key := (case_id, repetition)) in held and _hash_shown(shown) in (None, held[key][0])
            for case_id, repetition, shown in rows.select("case_id", "repetition", "shown").rows()
        ]
        return rows.filter(pl.Series(same, dtype=pl.Boolean))

    def _source(
        self, run_id: str, metric: str, of: str, settled: pl.DataFrame
    ) -> LabelledConversations:
        held = {key: digest for key, (digest, _) in self._held(of).items()}
        keys = settled.select("case_id", "repetition").rows()
        return LabelledConversations(
            run_id=of,
            labels={key: held[key] for key in keys},
            same_scale=self._is_same_scale(of, run_id, metric),
            held=held,
        )

    def _is_same_scale(self, first: str, second: str, metric: str) -> bool:
        if metric == VERDICT or first == second:
            return True
        for run_id in (first, second):
            if run_id not in self._units:
                self._units[run_id] = metric_units(self.store, run_id)
        name = metric.rpartition("/")[2]
        units = {self._units[run_id].get(name) for run_id in (first, second)} - {None}
        return len(units) < 2  # a run in which every score is 0 does not tell its unit

    def _origin(
        self, record: RunRecord, chosen: ChosenSource, metric: str, rows: pl.DataFrame
    ) -> LabelOrigin:
        source = self._records[chosen.run_id or ""]
        days = rows["at"].dt.date()
        versions = {self._held(source.run_id)[key][1] for key in chosen.labels}
        is_own = source.run_id == record.run_id
        return LabelOrigin(
            run_id=source.run_id,
            is_own=is_own,
            labels=len(chosen.labels),
            first=days.min(),  # type: ignore[arg-type]  # polars cannot tell that these are dates
            last=days.max(),  # type: ignore[arg-type]
            day=record.day,
            same_judge=is_own
            or verdict_judge(self.store, source) == verdict_judge(self.store, record),
            agent_versions=tuple(sorted(version for version in versions if version)),
        )


def verdict_judge(store: Store, record: RunRecord) -> str:
    """The fingerprint of everything about the judge that decides the verdicts of a run."""
    return judge_fingerprint(record.config, "", VERDICT, answering_models(store, record.run_id))


def _only(rows: pl.DataFrame, keys: frozenset[CaseKey]) -> pl.DataFrame:
    pairs = rows.select("case_id", "repetition").rows()
    return rows.filter(pl.Series([pair in keys for pair in pairs], dtype=pl.Boolean))


def _hash_shown(shown: str | None) -> str | None:
    known: Mapping[str, Any] = json.loads(shown or "{}")
    return known.get(HASH)
