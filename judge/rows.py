"""The public tables, column by column; the same names in Parquet and DuckDB (docs/rows.md)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final

import orjson
import polars as pl

SCHEMA_VERSION: Final = 2
"""The version of these tables. A store refuses to read tables of another version."""

COMPLETE: Final = "complete"
"""The status of a run that has nothing left to do; only complete runs are final and compared."""

_TIME: Final = pl.Datetime("us", "UTC")  # microseconds, as DuckDB's TIMESTAMPTZ


def _columns(dtype: Any, *names: str) -> dict[str, Any]:
    return dict.fromkeys(names, dtype)


_ID: Final = {"run_id": pl.String, "case_id": pl.String, "repetition": pl.Int32}

SCORES: Final[dict[str, Any]] = {
    **_ID,
    **_columns(pl.String, "judge", "metric", "part"),  # part: empty on headlines
    **_columns(pl.Float64, "value", "raw"),  # 0..1; in the metric's own unit
    "label": pl.String,
    "passed": pl.Boolean,  # NULL: the metric has no threshold
    "weight": pl.Float64,  # share in the overall score, 0..1; NULL: none
    **_columns(pl.String, "tier", "status", "reason", "failure_code"),
    "turns": pl.List(pl.Int32),  # indexes from 0
    **_columns(pl.String, "details", "judge_version", "rubric_hash"),  # details: JSON
}

ASKS: Final[dict[str, Any]] = {
    **_ID,
    "judge": pl.String,
    **_columns(pl.Int32, "round", "index"),  # of the hearing; of the ask in the round; from 0
    **_columns(pl.String, "model", "provider", "answered_by", "prompt_hash"),
    "cached": pl.Boolean,  # paid for earlier: the cost is 0
    "attempts": pl.Int32,
    **_columns(pl.Int64, "input_tokens", "output_tokens"),  # NULL: not known, never 0
    **_columns(pl.Float64, "cost_usd", "latency_ms"),  # of all attempts
    **_columns(pl.String, "error", "reply"),  # `code: reason`; the text as it came
    "sample": pl.Int32,  # which repeat of its model, from 0
    **_columns(pl.String, "fingerprint", "cost_source"),
    "waited_ms": pl.Float64,  # for limits, slots and pauses
    "flags": pl.List(pl.String),
    "trail": pl.String,  # JSON: one object a call
    # Of `input_tokens`, by the provider's prompt cache; NULL: it does not tell, or older.
    **_columns(pl.Int64, "cached_tokens", "cache_write_tokens"),
}

CASES: Final[dict[str, Any]] = {
    **_ID,
    "transcript_uri": pl.String,
    "position": pl.Int64,  # of the record in the object, from 0
    **_columns(pl.String, "transcript_hash", "agent", "agent_version", "tags", "cluster"),
    "started_at": _TIME,
    "overall_score": pl.Float64,  # 0..100; NULL: no score
    **_columns(pl.Boolean, "score_passed", "passed"),  # the threshold is reached; the verdict
    **_columns(pl.String, "gate", "root_cause", "summary", "status", "error"),
    "turn_count": pl.Int32,  # the system prompt is no turn
    **_columns(pl.Float64, "agent_latency_ms", "duration_ms"),  # median of turns; wall clock
    **_columns(pl.Int64, "agent_tokens", "agent_input_tokens", "agent_output_tokens"),
    "agent_cost_usd": pl.Float64,
    **_columns(pl.List(pl.String), "tools", "flags"),  # NULL: older than the column
    "system_prompt_hash": pl.String,  # of the agent; NULL: none is known, or older
    "turn_spans": pl.List(pl.String),  # `trace/span` of each turn; NULL: not known, or older
}

_RUNS: Final[dict[str, Any]] = {
    **_columns(pl.String, "run_id", "name", "trigger", "status"),
    **_columns(pl.String, "config", "config_hash", "judge_model"),  # config: JSON
    **_columns(_TIME, "started_at", "finished_at"),
    **_columns(pl.String, "counts", "summary"),  # JSON
    "day": pl.Date,  # that the run is about; NULL: older than the column
}

_REJECTS: Final[dict[str, Any]] = {
    **_columns(pl.String, "run_id", "uri"),
    **_columns(pl.Int64, "position", "byte_offset"),  # offset in the unpacked object
    **_columns(pl.String, "reason", "detail", "sha256", "excerpt"),
}

TABLES: Final[dict[str, dict[str, Any]]] = {
    "scores": SCORES,  # one row a finding
    "asks": ASKS,  # one row a question to a model
    "cases": CASES,  # one row a judged conversation
    "runs": _RUNS,
    "run_metrics": {**_columns(pl.String, "run_id", "name"), "value": pl.Float64},
    "rejects": _REJECTS,
    "comparisons": {
        **_columns(pl.String, "baseline", "candidate"),
        "at": _TIME,
        **_columns(pl.String, "verdict", "thresholds"),  # JSON
    },
    "calibrations": {
        **_columns(pl.String, "fingerprint", "metric", "labels_hash", "run_id"),
        "at": _TIME,
        "record": pl.String,
    },
}

KEYS: Final[dict[str, tuple[str, ...]]] = {  # table -> columns that name a row
    "scores": ("run_id", "case_id", "repetition", "judge", "metric", "part"),
    "asks": ("run_id", "case_id", "repetition", "judge", "round", "index"),
    "cases": ("run_id", "case_id", "repetition"),
    "runs": ("run_id",),
    "run_metrics": ("run_id", "name"),
    "rejects": ("run_id", "uri", "position"),
    "comparisons": ("baseline", "candidate", "at"),
    "calibrations": ("at", "fingerprint", "metric", "labels_hash"),
}

PEOPLE_TABLES: Final[dict[str, dict[str, Any]]] = {
    "labels": {
        "label_id": pl.String,
        **_ID,
        **_columns(pl.String, "metric", "rater", "role", "kind"),  # metric: or `verdict`
        "value": pl.Float64,  # of a verdict 1 or 0; NULL: skipped or withdrawn
        "note": pl.String,
        "at": _TIME,
        "seconds": pl.Float64,  # that the answer took; NULL: not known
        "blind": pl.Boolean,  # the judge's score was hidden until the answer
        "shown": pl.String,  # JSON: what the rater saw
        "probability": pl.Float64,  # of inclusion, 0..1; NULL: chosen by hand
        **_columns(pl.String, "queue_id", "supersedes"),
    },
    "annotations": {
        "annotation_id": pl.String,
        **_ID,  # case_id: empty where it is about the run
        "kind": pl.String,
        "turn": pl.Int64,  # from 0; NULL: about no turn
        "metric": pl.String,
        "value": pl.Float64,  # of an override: 1 or 0
        **_columns(pl.String, "text", "author"),
        "at": _TIME,
        "supersedes": pl.String,
    },
    "queues": {
        "queue_id": pl.String,
        "position": pl.Int64,  # from 0
        "run_id": pl.String,
        "metric": pl.String,
        "case_id": pl.String,
        "repetition": pl.Int32,
        **_columns(pl.String, "part", "reason", "stratum"),
        "probability": pl.Float64,
        "at": _TIME,
        "drawn_by": pl.String,
    },
    "cause_edits": {
        **_columns(pl.String, "edit_id", "run_id", "cause_id"),  # run_id: where a person saw it
        "case_id": pl.String,  # of a split: a row for each case; else empty
        **_columns(pl.String, "kind", "value", "author"),  # value: a name, a sentence, ...
        "at": _TIME,
        **_columns(pl.String, "note", "supersedes"),
    },
}
"""What people say about runs. These rows belong to no shard and no run's commit: they are written
at any time, and none is ever changed (`tasks/store/people.py`)."""

PEOPLE_KEYS: Final[dict[str, tuple[str, ...]]] = {
    "labels": ("label_id",),
    "annotations": ("annotation_id",),
    "queues": ("queue_id", "position"),
    "cause_edits": ("edit_id", "case_id"),
}

CAUSE_TABLES: Final[dict[str, dict[str, Any]]] = {
    "causes": {
        **_columns(pl.String, "run_id", "cause_id", "name", "state", "merged_into"),
        "cases": pl.Int64,  # that show the cause in this run
        **_columns(pl.Float64, "share", "share_low", "share_high"),  # of the judged cases, 0..1
        "points": pl.Float64,  # that the cause takes from the average score, 0..100
        **_columns(pl.String, "baseline", "first_run"),  # run ids
        **_columns(pl.Float64, "baseline_share", "change_low", "change_high"),  # -1..1
        "sentence": pl.String,  # what a judge said about `examples[0]`, or what an edit says
        "examples": pl.List(pl.String),  # ids of the cases that show the cause best
        "owner": pl.String,  # that a person named; NULL: nobody
        "muted": pl.Boolean,  # nobody is told about the cause
        "p_value": pl.Float64,  # of the change since the baseline; NULL: no baseline, or older
        "related": pl.String,  # JSON: what its cases have in common; NULL: nothing, or older
        "described_by": pl.String,  # who wrote the sentence; NULL: a judge said it about a case
    },
    "case_causes": {**_ID, **_columns(pl.String, "metric", "cause_id")},
}
"""What the failures of a run have in common. These rows are derived from the others: they are
written when somebody asks for the causes of a run (`tasks/store/cause_tables.py`)."""

DELIVERIES: Final[dict[str, Any]] = {
    "delivery_id": pl.String,  # made from run, case, kind, name and destination
    **_ID,
    **_columns(pl.String, "destination", "kind", "name"),  # kind: score, verdict, cause, label
    "target": pl.String,  # JSON: the ids of trace, span, session or response there
    **_columns(pl.String, "content_hash", "state"),  # state: sending, sent, refused, withdrawn
    **_columns(pl.String, "remote_id", "detail"),  # detail: why it was refused
    "at": _TIME,
}
"""Table deliveries: what was sent to other places, a row for each change of state. No row is ever
changed (`tasks/publishing/deliveries.py`)."""

LATER_COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "asks": ("cached_tokens", "cache_write_tokens"),
    "cases": ("tools", "flags", "system_prompt_hash", "turn_spans"),
    "runs": ("day",),
}
"""Columns added later; in older rows they are read as NULL.

To add a column to `cases`: make it the last of `CASES` and name it here. Fill it in `_case_row` of
`judge/verdicts/case_rows.py`, or as a field of `CaseVerdict`, whose fields become columns. If it
holds text, name it in `QUOTES_TRANSCRIPT` or `QUOTES_NOTHING`. Describe it in docs/rows.md. A
column that nothing fills stays NULL, and a key that is no column is dropped, both silently.
"""

QUOTES_TRANSCRIPT: Final[dict[str, tuple[str, ...]]] = {
    "scores": ("label", "reason", "failure_code", "details"),
    "asks": ("error", "reply", "trail"),
    "cases": ("agent", "agent_version", "tags", "summary", "error", "tools", "turn_spans"),
}
"""Texts, and lists of texts, that can quote a transcript or hold what a model says about one.

In these columns secrets of the process are masked, and the rows of a case that was sent raw are
redacted before they are stored (`tasks/intake/preprocessing.py`).
"""

QUOTES_NOTHING: Final[dict[str, tuple[str, ...]]] = {
    "scores": ("judge", "metric", "part", "tier", "status", "judge_version", "rubric_hash"),
    "asks": (
        *("judge", "model", "provider", "answered_by", "prompt_hash", "fingerprint"),
        *("cost_source", "flags"),
    ),
    "cases": (
        *("transcript_uri", "transcript_hash", "gate", "root_cause", "status", "flags"),
        "system_prompt_hash",
    ),
}
"""Texts that are stored as they are: names of our own or of the configuration, codes, hashes, URIs.

The ids are among them in every table. `cases.cluster` stands in neither list: where the case was
sent raw, it becomes a pseudonym.
"""

SHARD_TABLES: Final = ("scores", "asks", "cases", "rejects")
"""The tables to which each shard writes; the others are written once per run."""


def frame(table: str, rows: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """The rows of a public table as a frame with the schema of the table, sorted by its keys.

    Raises:
        KeyError: for a name that is not among `TABLES`.
    """
    # With the schema: types guessed from rows would differ where a column is empty in a shard.
    # Sorted, so that equal rows give equal bytes, whatever the order of judging.
    schema = TABLES[table]
    listed = rows if isinstance(rows, list) else list(rows)
    columns: dict[str, Any] = {name: [row.get(name) for row in listed] for name in schema}
    for name, dtype in schema.items():
        if isinstance(dtype, pl.List):
            columns[name] = _list_column(name, columns[name], dtype)
    return pl.DataFrame(columns, schema=schema).sort(KEYS[table])


def _list_column(name: str, lists: Sequence[Sequence[Any] | None], dtype: pl.List) -> pl.Series:
    """A column of lists; polars itself would make a column of each of them, at ten times the cost."""
    # Of dictionaries polars also takes members of another type; a column of the members does not.
    pl.Series(name, list(chain.from_iterable(filter(None, lists))), dtype=dtype.inner)
    return pl.from_dicts([{name: each} for each in lists], schema={name: dtype})[name]


def missing_columns(table: str, columns: Iterable[str]) -> dict[str, Any]:
    """The later columns of a table that `columns` lacks, with their types."""
    held = set(columns)
    return {name: TABLES[table][name] for name in LATER_COLUMNS.get(table, ()) if name not in held}


def add_later_columns(table: str, rows: pl.DataFrame) -> pl.DataFrame:
    """Stored rows with all later columns of their table; a column that was missing holds NULL."""
    missing = missing_columns(table, rows.columns)
    return rows.with_columns(pl.lit(None, dtype).alias(name) for name, dtype in missing.items())


def as_json(value: object) -> str:
    """Canonical JSON, as every JSON column holds it: sorted keys, no spaces, no NaN."""
    # The details of most scores are a few texts, which orjson writes to the same bytes.
    if type(value) is dict and all(type(each) is str for each in value.values()):
        try:
            return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
        except TypeError:  # a key that is no text, or a lone surrogate
            pass
    return _ENCODER.encode(value)


_ENCODER: Final = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
)
