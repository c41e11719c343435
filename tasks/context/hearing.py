"""Lets every judge hear one case; a defect of a judge costs its scores and nothing else.

Nothing here needs Prefect: a forecast hears cases, too, and `assizes plan` starts in less time.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Awaitable
from typing import Final, Protocol, TypeVar

from assizes.judge.case import Case
from assizes.judge.catalog import JudgePanel
from assizes.judge.engine.ask_records import AskRecord, HearingResult
from assizes.judge.engine.ensemble_hearing import with_own_places
from assizes.judge.errors import Halted, Inconclusive, LedgerBusy, OverBudget, StoreError
from assizes.judge.privacy.secret_masking import mask
from assizes.judge.protocol import Judge
from assizes.judge.score import Score

log = logging.getLogger(__name__)

T = TypeVar("T")

OF_THE_RUN: Final = (StoreError, LedgerBusy, OverBudget, Halted, Inconclusive)
"""Errors that say nothing about a case: the shard is judged again when the run is resumed."""


class HearingEngine(Protocol):
    """An engine that asks models, or the estimator of a forecast that asks none."""

    async def hear(
        self, judge: Judge, case: Case, answered: list[AskRecord] | None = None
    ) -> HearingResult:
        """Let one judge hear one case to the end; `answered` gets the records of its asks as well."""


async def hear_all(
    engine: HearingEngine, judge_panel: JudgePanel, case: Case
) -> list[HearingResult]:
    """Let every judge hear one case, one by one.

    A judge that raises gets failed scores, and keeps the records of the asks that it had answered.
    """
    results = []
    for judge in judge_panel.judges_for(case):
        answered: list[AskRecord] = []
        result = await caught(engine.hear(judge, case, answered))
        if isinstance(result, Exception):
            reason = described_fault(f"judge {judge.name} broke on a case", result)
            failed = failed_scores(judge, reason, "judge_bug")
            result = HearingResult(judge=judge, scores=failed, asks=with_own_places(answered))
        results.append(result)
    return results


async def caught(work: Awaitable[T]) -> T | Exception:
    """The result of some work, or the error that it raised, unless that error is the run's."""
    try:
        return await work
    except OF_THE_RUN:
        raise
    except Exception as error:  # noqa: BLE001  # the one place: a defect costs one judge, or one case
        return error


def described_fault(what: str, error: Exception) -> str:
    """Log a defect, without the words of a case, and describe it for the rows of the case."""
    at = traceback.extract_tb(error.__traceback__)[-1]
    kind = type(error).__name__
    log.error("%s: %s at %s:%d", what, kind, at.filename, at.lineno)  # the text may quote the case
    log.debug("%s", what, exc_info=error)
    return mask(f"{kind}: {error}")[:300]


def failed_scores(judge: Judge, reason: str, code: str) -> list[Score]:
    """A failed score for each metric of a judge; `code` says why in a word, `reason` in a sentence."""
    return [Score.failed(metric.name, reason, code) for metric in judge.metrics]
