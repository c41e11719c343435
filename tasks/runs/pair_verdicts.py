"""Verdicts on pairs as they are stored: rows of table annotations, written by no person.

A verdict belongs to the candidate's case, so that forgetting a case forgets its verdicts as well. It
stands under a key of the runs, the question and the model: the same comparison finds it again, and
any other does not.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import polars as pl

from assizes.judge.case import Case
from assizes.judge.config.judging import JudgeConfig
from assizes.judge.errors import DataError
from assizes.judge.families.conversation_parts import ReadingOptions
from assizes.judge.families.pairwise.judge import PAIRWISE, PairJudge
from assizes.judge.families.pairwise.rubric import PairRubric
from assizes.judge.families.pairwise.verdict import PairVerdict
from assizes.judge.rows import as_json
from assizes.judge.verdicts.executions import collect_rows
from assizes.tasks.runs.stored_cases import sent_and_shown_cases
from assizes.tasks.store import RunRecord, Store

REASON_CHARS: Final = 500
"""The most characters that are stored of what a judge says about one order."""

_AUTHOR: Final = "assizes compare --pairwise"
_KEY: Final = ("case_id", "repetition")
_STORED: Final = ("as_given", "swapped", "identical", "baseline_chars", "candidate_chars")

ExecutionKey = tuple[str, int]
"""A case and its repetition."""


class PairedRows(NamedTuple):
    """The rows of table cases of two runs for the executions that both hold, in one order."""

    baseline: list[dict[str, Any]]
    candidate: list[dict[str, Any]]
    unmatched: tuple[int, int]  # executions that only one of the two holds


def pair_key(
    runs: tuple[RunRecord, RunRecord],
    rubric: PairRubric,
    judge: JudgeConfig,
    reading: ReadingOptions,
) -> str:
    """16 hex digits of all on which the verdicts on the pairs of two runs depend."""
    parts = {
        "runs": [run.run_id for run in runs],
        "rubric": rubric.content_hash(),
        "judge": PairJudge.version,
        "model": judge.model_id,
        "temperature": judge.temperature,
        "context_tokens": reading.context_tokens,
    }
    return hashlib.sha256(as_json(parts).encode()).hexdigest()[:16]


def paired_rows(store: Store, runs: tuple[RunRecord, RunRecord], limit: int | None) -> PairedRows:
    """The executions of two runs in pairs; with a limit, whole clusters in a random order first.

    The order depends on the clusters alone, so that a higher limit only adds pairs.
    """
    sides = []
    for run in runs:
        columns = (*_KEY, "cluster", "transcript_uri", "transcript_hash", "position")
        rows = collect_rows(store.scan(run.run_id, "cases").select(*columns))
        sides.append({(row["case_id"], row["repetition"]): row for row in rows.to_dicts()})
    before, after = sides
    keys = sorted(before.keys() & after.keys(), key=lambda key: _draw_order(before[key]))
    keys = keys if limit is None else keys[:limit]
    alone = (len(before.keys() - after.keys()), len(after.keys() - before.keys()))
    return PairedRows([before[key] for key in keys], [after[key] for key in keys], alone)


def _draw_order(row: Mapping[str, Any]) -> tuple[str, str, int]:
    cluster = hashlib.sha256(_cluster(row).encode("utf-8", "surrogatepass")).hexdigest()
    return cluster, row["case_id"], row["repetition"]


def _cluster(row: Mapping[str, Any]) -> str:
    return str(row["cluster"] or row["case_id"])


def read_sides(
    runs: tuple[RunRecord, RunRecord], pairs: PairedRows
) -> list[tuple[Case, Case] | None]:
    """Both conversations of each pair as judges are sent them; `None` where one cannot be read.

    Raises:
        ConfigurationError: the ground truth of a run is gone.
    """
    before, after = (
        sent_and_shown_cases(run, rows)
        for run, rows in zip(runs, (pairs.baseline, pairs.candidate), strict=True)
    )
    return [
        None if isinstance(one, DataError) or isinstance(other, DataError) else (one[0], other[0])
        for one, other in zip(before, after, strict=True)
    ]


def stored_verdicts(
    store: Store, run: RunRecord, key: str, pairs: PairedRows
) -> dict[ExecutionKey, PairVerdict]:
    """The verdicts that are stored under a key of a candidate, by execution."""
    rows = store.people.rows("annotations").filter(
        (pl.col("run_id") == run.run_id)
        & (pl.col("kind") == PAIRWISE)
        & pl.col("annotation_id").str.starts_with(f"{PAIRWISE}-{key}-")
    )
    clusters = {(row["case_id"], row["repetition"]): _cluster(row) for row in pairs.baseline}
    verdicts = {}
    for row in rows.iter_rows(named=True):
        execution = (row["case_id"], row["repetition"])
        body = json.loads(row["text"])
        verdicts[execution] = PairVerdict(
            case_id=row["case_id"],
            repetition=row["repetition"],
            cluster=clusters.get(execution, ""),
            reasons=tuple(body["reasons"]),
            **{name: body[name] for name in _STORED},
        )
    return verdicts


def store_verdicts(
    store: Store,
    runs: tuple[RunRecord, RunRecord],
    key: str,
    rubric: PairRubric,
    verdicts: Sequence[PairVerdict],
) -> None:
    """Store verdicts; those without a reply are not stored, so that they are asked again."""
    judged = [verdict for verdict in verdicts if verdict.winner is not None]
    store.people.add("annotations", [_row(runs, key, rubric, each) for each in judged])


def _row(
    runs: tuple[RunRecord, RunRecord], key: str, rubric: PairRubric, verdict: PairVerdict
) -> dict[str, Any]:
    execution = as_json([verdict.case_id, verdict.repetition]).encode("utf-8", "surrogatepass")
    body = {name: getattr(verdict, name) for name in _STORED}
    body |= {
        "baseline": runs[0].run_id,
        "rubric": rubric.content_hash(),
        "reasons": [reason[:REASON_CHARS] for reason in verdict.reasons],
    }
    return {
        "annotation_id": f"{PAIRWISE}-{key}-{hashlib.sha256(execution).hexdigest()[:24]}",
        "run_id": runs[1].run_id,
        "case_id": verdict.case_id,
        "repetition": verdict.repetition,
        "kind": PAIRWISE,
        "turn": None,
        "metric": rubric.name,
        "value": verdict.points,
        "text": as_json(body),
        "author": _AUTHOR,
        "at": datetime.now(UTC),
        "supersedes": None,
    }
