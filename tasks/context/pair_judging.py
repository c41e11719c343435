"""What a pairwise comparison works with: runs, question, judge settings, and the engine if needed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import combinations
from typing import Any, Final

from assizes.judge.catalog import CONVERSATION, resolve_judges
from assizes.judge.config.judging import JudgeConfig
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.families.conversation_parts import ReadingOptions
from assizes.judge.families.pairwise.rubric import pair_rubric
from assizes.judge.families.pairwise.verdict import PairVerdict
from assizes.judge.model_assignment import assign_callable_models
from assizes.judge.pairs.ranking import MOST_RUNS
from assizes.judge.pairs.result import PairwiseRequest
from assizes.tasks.context.run_context import RunContext, progress_reporter
from assizes.tasks.intake.preprocessing import CasePreprocessor
from assizes.tasks.runs.pair_verdicts import (
    ExecutionKey,
    PairedRows,
    pair_key,
    paired_rows,
    stored_verdicts,
)
from assizes.tasks.runs.stored_cases import run_config
from assizes.tasks.store import RunRecord, Store

_LEDGER_NAME: Final = "pairwise"


class RunPair:
    """Two runs whose cases are compared, with the verdicts that are stored."""

    def __init__(
        self,
        runs: tuple[RunRecord, RunRecord],
        key: str,
        rows: PairedRows,
        stored: dict[ExecutionKey, PairVerdict],
    ) -> None:
        self.runs, self.key, self.rows, self.stored = runs, key, rows, stored

    @property
    def names(self) -> tuple[str, str]:
        """The ids of the baseline and the candidate."""
        return self.runs[0].run_id, self.runs[1].run_id

    def pending(self) -> PairedRows:
        """The pairs without a stored verdict."""
        places = [
            place
            for place, row in enumerate(self.rows.baseline)
            if (row["case_id"], row["repetition"]) not in self.stored
        ]
        return PairedRows(
            [self.rows.baseline[place] for place in places],
            [self.rows.candidate[place] for place in places],
            self.rows.unmatched,
        )

    def verdicts(self, more: Sequence[PairVerdict] = ()) -> list[PairVerdict]:
        """The stored verdicts on the pairs that were asked for, and further ones."""
        keys = [(row["case_id"], row["repetition"]) for row in self.rows.baseline]
        return [*(self.stored[key] for key in keys if key in self.stored), *more]


class PairJudging:
    """The runs of a request, its question and its judge; no model is asked and no key needed.

    A plain class on purpose, as `RunContext`.
    """

    def __init__(self, store: Store, config: RunConfig, request: PairwiseRequest) -> None:
        """Find the runs, their pairs and the stored verdicts.

        Raises:
            ConfigurationError: the rubric or the model cannot be used, or a run is named twice.
            UnknownRun: the store has no such run.
        """
        self.store, self.request = store, request
        if len(request.runs) > MOST_RUNS:
            raise ConfigurationError(f"{len(request.runs)} runs; at most {MOST_RUNS} are compared")
        self.records = [store.run(name) for name in request.runs]
        ids = [record.run_id for record in self.records]
        if twice := [run_id for run_id in ids if ids.count(run_id) > 1]:
            raise ConfigurationError(f"run {twice[0]} is named twice; name each run once")
        self.config = _config(config, request, self.records[-1])
        self.rubric = pair_rubric(request.rubric, self.config.judge.rubrics)
        self.reading = _reading(run_config(self.records[-1]).judge)
        self.pairs = [self._pair(*couple) for couple in combinations(self.records, 2)]

    @property
    def run_ids(self) -> tuple[str, ...]:
        """The full ids of the runs, in the order of the request."""
        return tuple(record.run_id for record in self.records)

    @property
    def is_complete(self) -> bool:
        """Whether every pair has a stored verdict."""
        return not any(pair.pending().baseline for pair in self.pairs)

    @property
    def ledger_id(self) -> str:
        """The name under which the ledger and the reply cache count this comparison."""
        return f"{_LEDGER_NAME}-{self.pairs[0].key}"

    def _pair(self, baseline: RunRecord, candidate: RunRecord) -> RunPair:
        runs = (baseline, candidate)
        key = pair_key(runs, self.rubric, self.config.judge, self.reading)
        rows = paired_rows(self.store, runs, self.request.limit)
        stored = stored_verdicts(self.store, candidate, key, rows)
        return RunPair(runs, key, rows, stored)


@asynccontextmanager
async def open_pair_context(judging: PairJudging) -> AsyncIterator[RunContext]:
    """Open the engine, the cache and the ledger for the pairs that have no verdict.

    Raises:
        ConfigurationError: for an API key or a price that is missing.
    """
    config = judging.config
    panel = resolve_judges(config.judge)
    assignment = await asyncio.to_thread(assign_callable_models, config, panel)
    preprocessor = await asyncio.to_thread(CasePreprocessor.from_config, config)
    context = RunContext(
        config, panel, judging.store, assignment, preprocessor, progress_reporter.get()
    )
    try:
        yield context
    finally:
        await context.aclose()


def _config(config: RunConfig, request: PairwiseRequest, record: RunRecord) -> RunConfig:
    """The judge's settings are those of the last run, all else is as configured now."""
    stored = run_config(record)
    limits = config.limits
    if request.budget_usd is not None:
        limits = limits.model_copy(update={"budget_usd": request.budget_usd})
    cache = config.cache
    if request.replay_only:
        cache = cache.model_copy(update={"use": "replay_only"})
    return stored.model_copy(
        update={
            "judge": _judge(stored.judge, config.judge, request),
            "limits": limits,
            "cache": cache,
            "store": config.store,
            "runner": config.runner.model_copy(update={"batch": False}),
        }
    )


def _judge(stored: JudgeConfig, configured: JudgeConfig, request: PairwiseRequest) -> JudgeConfig:
    """The model that compares: a single one, without the other judges of the run."""
    if stored.panel and request.model is None:
        raise ConfigurationError(
            "the run was judged by a panel of models, and pairs are put to one: name it with --model"
        )
    folders = (
        *stored.rubrics,
        *(each for each in configured.rubrics if each not in stored.rubrics),
    )
    update: dict[str, Any] = {
        **{"judges": (CONVERSATION,), "metrics": None, "floors": {}, "options": {}},
        **{"panel": (), "repeats": 1, "escalate_to": None, "cascade": None},
        "rubrics": folders,
    }
    if request.model is not None:
        update |= {"model": request.model, "provider": configured.provider}
        # The endpoint of the run serves the run's own model, and perhaps no other.
        if configured.api_base is not None or request.model != stored.model:
            update["api_base"] = configured.api_base
    return stored.model_copy(update=update)


def _reading(judge: JudgeConfig) -> ReadingOptions:
    """How much of a conversation a prompt holds, by the options of the run's conversation judge."""
    options = judge.options.get(CONVERSATION, {})
    return ReadingOptions(context_tokens=options.get("context_tokens"))
