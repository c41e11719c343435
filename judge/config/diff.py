"""The settings in which the configurations of two runs differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

TABLES = ("name", "transcripts", "judge", "thresholds")
"""The tables of a configuration snapshot that can change a result."""

FINGERPRINTS = "fingerprints"
"""The key under which a snapshot stores the versions of judges and the hashes of rubrics."""

PRIVACY = "privacy"
"""The key of the table of hidden data; snapshots of older versions lack it."""

TRUTH = "ground_truth_digest"
"""The key of the hash of the file with expected values; its value is `None` without such a file."""

_WHERE_BOTH = (FINGERPRINTS, PRIVACY, TRUTH)
_NOT_A_SETTING = "transcripts.storage_options"


class FieldChange(BaseModel):
    """One setting that differs; a value is `None` where that side lacks the setting."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    field: str
    baseline: Any
    candidate: Any


def config_diff(baseline: Mapping[str, Any], candidate: Mapping[str, Any]) -> list[FieldChange]:
    """The settings that differ between two configuration snapshots, by dotted name.

    Each chosen metric counts as one setting (`judge.metrics.tool_routing`) whose value is its
    weight, or `default` where the metric's own weight is used. Fingerprints, privacy and the hash
    of the ground truth count only where both snapshots have them.
    """
    tables = list(TABLES)
    tables += [key for key in _WHERE_BOTH if key in baseline and key in candidate]
    sides = [
        dict(_fields({table: side[table] for table in tables if table in side}))
        for side in (baseline, candidate)
    ]
    return [
        FieldChange(field=name, baseline=sides[0].get(name), candidate=sides[1].get(name))
        for name in sorted(sides[0].keys() | sides[1].keys())
        if sides[0].get(name) != sides[1].get(name)
    ]


def judge_changes(changes: list[FieldChange]) -> list[str]:
    """The names of the changed settings that change how the judge scores."""
    return [
        change.field
        for change in changes
        if change.field.partition(".")[0] in ("judge", FINGERPRINTS, PRIVACY)
    ]


def _fields(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if path == _NOT_A_SETTING:
        return
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _fields(inner, f"{path}.{name}" if path else str(name))
    elif path == "judge.metrics" and isinstance(value, list | tuple) and value:
        for selection in value:
            weight = selection["weight"]
            yield f"{path}.{selection['metric']}", "default" if weight is None else weight
    else:
        yield path, value
