"""LLMJudge: relevance of passages, graded_items by people and by recorded language models."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from assizes.judge.calibration import measures
from assizes.judge.calibration.labelled import RatedItem
from assizes.judge.config.gates import CalibrationConfig
from assizes.tasks.recorded.reading import agreement, graded_items, pairs_of, rows_of, set_folder
from assizes.tasks.recorded.values import JudgedItems, RecordedSet

FOLDER: Final = "llmjudge_dl23"
LEVELS: Final = (0.0, 1.0, 2.0, 3.0)
CONFIG: Final = CalibrationConfig(levels=LEVELS, clip=True, pass_from=2)


def read(folder: Path) -> RecordedSet:
    """The recorded runs over the test pairs; a pair is relevant from grade 2, clusters are queries."""
    here = set_folder(folder, FOLDER)
    labels = rows_of(here / "llmjudge_test_qrel_idx.txt")
    judged, figures = [], dict[str, float | str]()
    for path in sorted((here / "runs").glob("*.txt.gz")):
        run = path.name.removesuffix(".txt.gz")
        items = graded_items(labels, rows_of(path), CONFIG, path.name)
        judged.append(JudgedItems("LLMJudge", "relevance of a passage, 0..3", run, items, CONFIG))
        figures[f"{run}: kappa"] = agreement(pairs_of(items, CONFIG)).kappa
        figures[f"{run}: alpha"] = _alpha(items)
    development = rows_of(here / "llm4eval_dev_qrel_2024.txt")
    for name, rows in (("test", labels), ("development", development)):
        figures[f"{name} pairs"] = len(rows)
        figures[f"{name} queries"] = len({row["cluster"] for row in rows})
    figures["runs"] = len(judged)
    return RecordedSet("LLMJudge", judged, figures)


def _alpha(items: list[RatedItem]) -> float:
    grades = (
        (item.cluster, pair) for item, pair in zip(items, pairs_of(items, CONFIG), strict=True)
    )
    whole = measures.coincidences(grades, LEVELS).whole[None]
    return float(measures.alpha("ordinal")(whole)[0])
