"""The agent-step judges of seed 002, as the catalogue lists them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from judge.entry import JudgeEntry
from judge.families.step_scores import StepJudge, StepOptions
from judge.families.steps_response import ResponseQualityJudge
from judge.families.steps_search import SearchJudge, SearchOptions
from judge.families.steps_sql import SqlJudge, SqlOptions
from judge.families.steps_trajectory import TrajectoryJudge
from judge.families.steps_visualization import VisualizationJudge, VisualizationOptions


def _entry(kind: type[StepJudge], options: type[StepOptions]) -> JudgeEntry:
    return JudgeEntry(
        description=kind.description,
        needs=("transcript", *kind.needs),
        needs_ground_truth=True,
        made=lambda chosen, _: kind(chosen),
        options=options,
        asks=kind is not TrajectoryJudge,
    )


ENTRIES: Final[Mapping[str, JudgeEntry]] = {
    SqlJudge.name: _entry(SqlJudge, SqlOptions),
    SearchJudge.name: _entry(SearchJudge, SearchOptions),
    VisualizationJudge.name: _entry(VisualizationJudge, VisualizationOptions),
    ResponseQualityJudge.name: _entry(ResponseQualityJudge, StepOptions),
    TrajectoryJudge.name: _entry(TrajectoryJudge, StepOptions),
}
