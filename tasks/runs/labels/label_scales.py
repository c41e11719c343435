"""Whether labels are levels of a metric, or say pass (1) and fail (0)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from assizes.judge.calibration.labelled import ItemKey, PeopleGrades, vocabulary
from assizes.judge.config.gates import STORE_LABELS, CalibrationConfig
from assizes.tasks.runs.labels.people_labels import metric_units
from assizes.tasks.store import Store

_PASS_OR_FAIL: Final = {0.0, 1.0}


def known_levels(
    store: Store, run_id: str, metric: str, config: CalibrationConfig
) -> frozenset[float]:
    """Levels that are known to be on the scale of the labels; empty for a file that names none.

    Labels in a store are on the scale of the metric, whose highest level a run shows.
    """
    if config.levels:
        return frozenset(config.levels)
    if config.labels != STORE_LABELS:
        return frozenset()
    return frozenset({metric_units(store, run_id).get(metric.rpartition("/")[2], 1.0)})


def is_pass_or_fail(
    store: Store,
    run_id: str,
    metric: str,
    labels: Mapping[ItemKey, PeopleGrades],
    config: CalibrationConfig,
) -> bool:
    """Whether labels of a metric say pass or fail: neither they nor the scale know other levels."""
    levels = known_levels(store, run_id, metric, config)
    return levels.union(*(people.given for people in labels.values())) <= _PASS_OR_FAIL


def has_words(rows: Iterable[Mapping[str, Any]], config: CalibrationConfig) -> bool:
    """Whether a label of a file is a word, as `pass` is, which is never a level."""
    words, columns = vocabulary(config), config.columns.label
    cells = (str(row.get(column)).strip().casefold() for row in rows for column in columns)
    return any(cell in words for cell in cells)


def ones_warnings(
    store: Store, run_id: str, metric: str, labels: Mapping[ItemKey, PeopleGrades]
) -> tuple[str, ...]:
    """A warning about the numbers of a file for a metric of levels, if all are 1.

    They may be passes, or all the same low level.
    """
    grades = {grade for people in labels.values() for grade in people.given}
    if grades != {1.0} or metric_units(store, run_id).get(metric.rpartition("/")[2], 1.0) == 1:
        return ()
    text = "every label is 1, which is read as a pass; [calibration] levels says that 1 is a level"
    return (text,)
