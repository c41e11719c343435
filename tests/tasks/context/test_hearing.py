"""A judge that breaks costs its scores, and what its asks have cost is still in their records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from assizes.judge.catalog import JudgePanel
from assizes.judge.config.judging import LimitsConfig
from assizes.judge.engine.ensemble_hearing import EnsembleModels
from assizes.judge.engine.hearings import Engine
from assizes.judge.models.model import ScriptedModel
from assizes.tasks.context.hearing import hear_all
from tests.judge.engine.levels import CASE, Asking, priced


class Breaking(Asking):
    """A judge that raises when its second round has been answered."""

    def judge(self, case: Any) -> Iterator[Any]:
        yield from super().judge(case)
        raise KeyError("a defect")


@pytest.mark.parametrize("repeats", [1, 3])
async def test_a_judge_that_breaks_keeps_the_records_of_its_answered_asks(repeats: int):
    judge = Breaking(["first", "other"], ["second"])
    replies = [priced(4, 0.25) for _ in range(3 * repeats)]
    model = ScriptedModel(replies)
    asked = Engine(model, LimitsConfig(), models={"asking": EnsembleModels((model,), repeats)})
    (result,) = await hear_all(asked, JudgePanel((judge,), {}, (), 75.0), CASE)

    assert [(score.status, score.details["error"]) for score in result.scores] == [
        ("failed", "judge_bug")
    ]
    places = sorted((ask.round, ask.index) for ask in result.asks)
    assert places == [
        *((0, index) for index in range(2 * repeats)),
        *((1, index) for index in range(repeats)),
    ]
    assert sum(ask.cost_usd or 0.0 for ask in result.asks) == asked.cost_usd == 0.25 * len(replies)
