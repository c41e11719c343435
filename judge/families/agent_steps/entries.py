"""The catalogue entries of the agent-step judges (seed 002)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from assizes.judge.families.agent_steps.response import ResponseQualityJudge
from assizes.judge.families.agent_steps.search import SearchJudge, SearchOptions
from assizes.judge.families.agent_steps.sql import SqlJudge, SqlOptions
from assizes.judge.families.agent_steps.step_scores import StepJudge, StepOptions
from assizes.judge.families.agent_steps.trajectory import TrajectoryJudge
from assizes.judge.families.agent_steps.visualization import (
    VisualizationJudge,
    VisualizationOptions,
)
from assizes.judge.families.entry import JudgeEntry


def _entry(kind: type[StepJudge], options: type[StepOptions]) -> JudgeEntry:
    return JudgeEntry(
        description=kind.description,
        needs=("transcript", *kind.needs),
        needs_ground_truth=True,
        create_judge=lambda chosen, _: kind(chosen),
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
