"""PandaLM: which of two responses is better, by three people and two recorded judges."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Final

from assizes.judge.config.gates import CalibrationConfig, LabelColumns
from assizes.tasks.recorded.reading import agreement, graded_items, rows_of, set_folder
from assizes.tasks.recorded.values import JudgedItems, RecordedSet

RATERS: Final = ("annotator1", "annotator2", "annotator3")
JUDGES: Final = {"gpt-3.5-turbo": "gpt_result", "pandalm-7b": "pandalm_result"}


def read(folder: Path) -> RecordedSet:
    """The test pairs in one order; every pair is a cluster of its own, a tie is a grade."""
    here = set_folder(folder, "pandalm")
    labels = rows_of(here / "testset-v1.json.gz")
    judged = []
    for judge, column in JUDGES.items():
        columns = LabelColumns(case="idx", label=RATERS, judge=column)
        config = CalibrationConfig(
            columns=columns, levels=(0, 1, 2), scale="nominal", words={"tie": 0}
        )
        file = here / f"{judge}-testset-v1.json.gz"
        items = graded_items(labels, rows_of(file), config, file.name)
        judged.append(
            JudgedItems("PandaLM", "better of two responses, or a tie", judge, items, config)
        )
    figures: dict[str, float | str] = {"items": len(labels)}
    for first, second in combinations(RATERS, 2):
        pairs = [(float(row[first]), float(row[second])) for row in labels]
        figures[f"kappa of {first} and {second}"] = agreement(pairs).kappa
    settled = Counter(item.settled_grade(ordered=False) for item in judged[0].items)
    for grade in (0, 1, 2):
        figures[f"label {grade}"] = settled[grade]
    return RecordedSet("PandaLM", judged, figures)
