"""Labels that people made in a trace store, as rows of table labels; the same label comes once."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from assizes.judge.config.gates import VERDICT
from assizes.judge.labels.current import LABEL
from assizes.judge.privacy.secret_masking import mask
from assizes.judge.rows import as_json
from assizes.judge.score import ACCEPTABLE, LABELS
from assizes.judge.verdicts.executions import collect_rows
from assizes.tasks.publishing.destination import Destination
from assizes.tasks.publishing.entry import LabelThere, TraceTarget, traces_of
from assizes.tasks.publishing.places import given_target
from assizes.tasks.runs.labels.people_labels import MAX_RATER_CHARS
from assizes.tasks.store import RunRecord, Store

PULLED_FROM: Final = "pulled_from"
"""The key in column `shown` of a label that says from where it was pulled."""

_MAX_NOTE: Final = 4_000  # characters
_MAX_ID: Final = 200  # characters of an id there that is kept
_WORDS: Final = {
    **dict.fromkeys(("pass", "passed", "yes", "true", "correct", "thumbs-up"), 1.0),
    **dict.fromkeys(("fail", "failed", "no", "false", "incorrect", "thumbs-down"), 0.0),
}


@dataclass
class LabelPull:
    """The labels of a store that belong to a run."""

    rows: list[dict[str, Any]] = field(default_factory=list)  # of table labels
    read: int = 0
    elsewhere: int = 0  # about a trace or session that is no case of the run
    unknown_names: Counter[str] = field(default_factory=Counter)  # no metric of the run
    unusable: int = 0  # a value that is no pass or fail, and no number 0..1


def pull_labels(
    store: Store, record: RunRecord, place: Destination, names: Mapping[str, str]
) -> LabelPull:
    """The labels of a place as rows; `names` says which metric a name there means.

    Raises:
        TraceStoreError: the place cannot be reached.
    """
    targets, by_id = _cases_there(store, record, place)
    known = {**_known_names(store, record), **names}
    pulled = LabelPull()
    for label in place.labels(targets):
        pulled.read += 1
        case = next((by_id[own_id] for own_id in _ids(label.target) if own_id in by_id), None)
        metric = known.get(label.name)
        value = None if metric is None else _value(label.value, metric)
        if case is None:
            pulled.elsewhere += 1
        elif metric is None:
            pulled.unknown_names[label.name] += 1
        elif value is None:
            pulled.unusable += 1
        else:
            pulled.rows.append(_row(record.run_id, case, place.uri, label, metric, value))
    return pulled


def _cases_there(
    store: Store, record: RunRecord, place: Destination
) -> tuple[list[TraceTarget], dict[str, dict[str, Any]]]:
    """What the cases of a run are at a place, and the cases by each of these ids."""
    columns = ("case_id", "repetition", "tags", "transcript_hash", "turn_spans")
    cases = collect_rows(store.scan(record.run_id, "cases").select(columns))
    by_id: dict[str, dict[str, Any]] = {}
    targets: list[TraceTarget] = []
    for case in cases.sort("case_id", "repetition").iter_rows(named=True):
        target = place.target(case, given_target(case))
        if target is not None:
            targets.append(target)
            for own_id in _ids(target):
                by_id.setdefault(own_id, case)
        for trace_id in traces_of(case):  # people label traces of a session, too
            if trace_id not in by_id:
                by_id[trace_id] = case
                targets.append(TraceTarget(trace_id=trace_id))
    return targets, by_id


def _known_names(store: Store, record: RunRecord) -> dict[str, str]:
    """The metrics of a run, by the names under which they are published."""
    pairs = collect_rows(store.scan(record.run_id, "scores").select("judge", "metric").unique())
    known = {VERDICT: VERDICT}
    for judge, metric in pairs.rows():
        known |= dict.fromkeys((metric, metric.replace(".", "_")), metric)  # MLflow allows no dot
        known[f"{judge}/{metric}"] = f"{judge}/{metric}"
    return known


def _ids(target: TraceTarget) -> Iterator[str]:
    """The ids of a target, the narrowest first."""
    return (own for own in (target.span_id, target.trace_id, target.session_id) if own)


def _value(value: float | str | bool | None, metric: str) -> float | None:
    """The value of a label, 0..1; None where it cannot be read."""
    if isinstance(value, str):
        word = value.strip().casefold().replace(" ", "_")
        if word in _WORDS:
            return _WORDS[word]
        if word not in LABELS:
            return None
        level = LABELS.index(word)
        return float(level >= ACCEPTABLE) if metric == VERDICT else level / 5
    if value is None or not 0 <= value <= 1 or (metric == VERDICT and value not in (0, 1)):
        return None
    return float(value)


def _row(
    run_id: str, case: Mapping[str, Any], place: str, label: LabelThere, metric: str, value: float
) -> dict[str, Any]:
    note = str(mask(label.note))[:_MAX_NOTE]
    rater = (label.rater or "unknown")[:MAX_RATER_CHARS]
    # Another answer of the same person is another row, which replaces the older one by its time.
    key = [run_id, place, label.remote_id, metric, value, note]
    shown = {
        "transcript_hash": case["transcript_hash"],
        PULLED_FROM: place,
        "remote_id": label.remote_id[:_MAX_ID],
    }
    return {
        "label_id": hashlib.sha256(as_json(key).encode()).hexdigest()[:32],
        "run_id": run_id,
        "case_id": case["case_id"],
        "repetition": case["repetition"],
        "metric": metric,
        "rater": rater,
        "role": "rater",
        "kind": LABEL,
        "value": value,
        "note": note,
        "at": label.at,
        "seconds": None,
        "blind": False,  # nobody knows what the rater saw
        "shown": as_json(shown),
        "probability": None,
        "queue_id": "",
        "supersedes": None,
    }


def is_pulled(shown: str | None) -> bool:
    """Whether a label, by its column `shown`, was pulled from a trace store."""
    return PULLED_FROM in json.loads(shown or "{}")
