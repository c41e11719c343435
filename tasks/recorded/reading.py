"""Reads the files of recorded sets, by the readers of label files, into graded_items items."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from assizes.judge.calibration import measures
from assizes.judge.calibration.labelled import RatedItem, judgements, labels_by_metric
from assizes.judge.config.gates import CalibrationConfig, LabelColumns
from assizes.judge.errors import ConfigurationError
from assizes.tasks.runs.calibrations import rated_items
from assizes.tasks.runs.labels.labels_and_grades import read_labels

Rows = Sequence[Mapping[str, Any]]

VARIABLE: Final = "ASSIZES_DATA"
DEFAULT: Final = Path("..") / "shared" / "data"

BINARY: Final = CalibrationConfig(levels=(0.0, 1.0))
"""Yes or no, with 0 as the failing class."""


def data_folder() -> Path:
    """The folder of the recorded sets, from the environment or beside the working folder.

    Raises:
        ConfigurationError: there is no such folder.
    """
    folder = Path(os.environ.get(VARIABLE) or DEFAULT)
    if not folder.is_dir():
        raise ConfigurationError(
            f"recorded judgements: no folder {str(folder)!r}; set {VARIABLE} to the folder that "
            "holds llmjudge_dl23, pandalm, devai and the other sets"
        )
    return folder


def set_folder(folder: Path, name: str) -> Path:
    """The folder of one set.

    Raises:
        ConfigurationError: it is not there.
    """
    if not (folder / name).is_dir():
        raise ConfigurationError(
            f"recorded judgements: no folder {name!r} in {str(folder)!r}; {VARIABLE} names the "
            "folder that holds all sets"
        )
    return folder / name


def rows_of(file: Path, columns: LabelColumns | None = None) -> Rows:
    """The rows of a file; the columns of a TREC file get the names of `columns`.

    Raises:
        ConfigurationError: the file is missing, or cannot be read.
    """
    return read_labels(str(file), {}, columns or LabelColumns(), VARIABLE).rows


def graded_items(
    labels: Rows, judged: Rows, config: CalibrationConfig, where: str
) -> list[RatedItem]:
    """Items from rows of people's labels and rows of a judge, as `assizes calibrate` reads both."""
    ((_, people),) = labels_by_metric(labels, config, where).items()
    return rated_items(people, judgements(judged, config, where), {})


def yes_no(rows: Iterable[tuple[str, str, bool, bool]]) -> list[RatedItem]:
    """Items of (id, cluster, people say yes, the judge says yes)."""
    return [
        RatedItem(case, cluster, {"people": float(people)}, float(judge))
        for case, cluster, people, judge in rows
    ]


@dataclass(frozen=True, slots=True)
class PlainAgreement:
    """Agreement without intervals, over the items that both sides graded_items."""

    items: int
    accuracy: float
    kappa: float


def agreement(pairs: Sequence[tuple[float, float]]) -> PlainAgreement:
    """Agreement over pairs of grades of two raters."""
    levels = sorted({grade for pair in pairs for grade in pair})
    whole = measures.confusions((("all", *pair) for pair in pairs), levels).whole[None]
    return PlainAgreement(
        len(pairs), float(measures.accuracy(whole)[0]), float(measures.kappa(whole)[0])
    )


def pairs_of(items: Sequence[RatedItem], config: CalibrationConfig) -> list[tuple[float, float]]:
    """(grade of people, grade of the judge) of the items that have both."""
    ordered = config.scale == "ordinal"
    settled = [(item.settled_grade(ordered=ordered), item.judged) for item in items]
    return [
        (people, judge) for people, judge in settled if people is not None and judge is not None
    ]
