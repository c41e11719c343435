"""Cases judged anew by a changed rubric: the judge of the run in all else, and its engine."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from assizes.judge.alignment.labelled_cases import LabelledCase
from assizes.judge.alignment.proposer import PROPOSER, ProposalTask, Proposer, ProposerAsJudge
from assizes.judge.alignment.rubric_files import RubricFile
from assizes.judge.case import Case, Transcript, Turn
from assizes.judge.catalog import resolve_judges
from assizes.judge.config.judging import JudgeConfig
from assizes.judge.engine.hearings import Engine
from assizes.judge.errors import ConfigurationError, Inconclusive, OverBudget
from assizes.judge.protocol import Judge
from assizes.judge.rubrics.guidance import Guideline
from assizes.judge.score import ACCEPTABLE, Score

MAX_ERROR_SHARE: Final = 0.2
"""The share of cases without a verdict above which a judge counts as unavailable."""

_BUDGET: Final = "budget"  # failure code of an ask that the ledger refused


def judge_of(config: JudgeConfig, rubric: RubricFile | None, metric: str) -> Judge:
    """The judge of a metric, with a rubric in the place of the one it has; `None`: as it is.

    Raises:
        ConfigurationError: the rubric cannot be used, or no judge of the run gives the metric.
    """
    with tempfile.TemporaryDirectory(prefix="assizes-align-") as folder:
        folders = list(config.rubrics)
        if rubric is not None:
            Path(folder, f"{metric}.toml").write_text(rubric.text, encoding="utf-8")
            folders.append(folder)
        judges = resolve_judges(config.model_copy(update={"rubrics": folders})).judges
    for judge in judges:
        if any(each.name == metric for each in judge.metrics):
            return judge
    names = sorted({each.name for judge in judges for each in judge.metrics})
    raise ConfigurationError.unknown("metric", metric, names, "--metric")


def rubric_hash(judge: Judge, metric: str) -> str:
    """The hash of the text by which a judge gives a metric."""
    return next(each.rubric_hash for each in judge.metrics if each.name == metric)


def rubric_text(judge: Judge, metric: str) -> str:
    """The text by which a judge gives a metric, as a proposer reads it."""
    return next(
        f"{each.description}\n{each.rubric}" for each in judge.metrics if each.name == metric
    )


def is_passed(score: Score) -> bool | None:
    """Whether a score passes; levels pass from 3 on. `None` without a number or a mark."""
    if score.status != "scored":
        return None
    if score.passed is not None:
        return score.passed
    return None if score.raw is None or score.label is None else score.raw >= ACCEPTABLE


class Rejudging:
    """Hears cases by any judge of one metric, and asks proposers, through one engine."""

    def __init__(self, engine: Engine, metric: str, note: Callable[[int], None]) -> None:
        """Keep the engine; `note` is called with the number of hearings that have ended."""
        self._engine, self._metric, self._note = engine, metric, note

    async def scores(self, judge: Judge, cases: Sequence[Case]) -> list[Score]:
        """The headline score of each case.

        Raises:
            OverBudget: the budget was spent.
            Inconclusive: too many cases got no score.
        """

        async def hear(case: Case) -> Score:
            result = await self._engine.hear(judge, case)
            self._note(1)
            return next(s for s in result.scores if s.metric == self._metric and not s.part)

        scores = await asyncio.gather(*map(hear, cases))
        _check_failures(scores)
        return scores

    async def verdicts(self, judge: Judge, items: Sequence[LabelledCase]) -> list[bool | None]:
        """Whether each labelled case passes; `None` for one without a verdict."""
        return [is_passed(score) for score in await self.scores(judge, [i.case for i in items])]

    async def proposal(self, proposer: Proposer, task: ProposalTask) -> list[Guideline]:
        """The guidelines of a proposer.

        Raises:
            OverBudget: the budget was spent.
            Inconclusive: no usable reply came.
        """
        turn = Turn(role="user", text=task.metric)
        case = Case(case_id=PROPOSER, transcript=Transcript(turns=(turn,)))
        result = await self._engine.hear(ProposerAsJudge(proposer, task), case)
        self._note(1)
        (score,) = result.scores
        if score.status != "scored":
            _check_failures([score])
        return [Guideline.model_validate(item) for item in score.details["guidelines"]]


def _check_failures(scores: Sequence[Score]) -> None:
    failed = [score for score in scores if score.status == "failed"]
    codes = Counter(score.details.get("error") for score in failed)
    if codes[_BUDGET]:
        raise OverBudget("the budget is spent; nothing is written. Replies are kept in the cache")
    if len(failed) > MAX_ERROR_SHARE * len(scores):
        raise Inconclusive(
            f"{len(failed)} of {len(scores)} asks were not answered: {failed[0].reason}"
        )
