"""Counts, over a few cases of a run, what the run would ask and cost by other choices."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from assizes.judge.case import Case
from assizes.judge.catalog import JudgePanel, resolve_judges
from assizes.judge.config.run import RunConfig
from assizes.judge.engine.batching import calls_provider, least_batch
from assizes.judge.engine.ensemble_hearing import EnsembleModels
from assizes.judge.forecast.ask_forecast import AskGroup, AskTally, Forecaster
from assizes.judge.forecast.cost_options import (
    CONVERSATION,
    OPTION_CASES,
    CostOption,
    DecidedChoice,
    OptionInputs,
    apart_configs,
    cost_options,
    volumes,
)
from assizes.judge.model_assignment import ModelAssignment
from assizes.judge.models.model import OFFLINE_PROVIDER
from assizes.judge.protocol import SqlRunner
from assizes.tasks.context.hearing import hear_all

_MAX_METRICS: Final = 30  # of the conversation, above which asking apart is not counted


class OptionSample:
    """At most `OPTION_CASES` of the cases that are added: the same ones, in whatever order."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, str, int, Case]] = []  # the greatest hash first

    def add(self, cases: Iterable[Case]) -> None:
        """Add cases, of which those with the least hashes of their ids stay."""
        for case in cases:
            name = case.case_id.encode(errors="replace")
            rank = -int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "big")
            entry = (rank, case.case_id, id(case), case)
            if len(self._heap) < OPTION_CASES:
                heapq.heappush(self._heap, entry)
            else:
                heapq.heappushpop(self._heap, entry)

    @property
    def cases(self) -> list[Case]:
        """The cases that stayed."""
        return [case for *_, case in sorted(self._heap, key=lambda entry: entry[:3])]


class SampledRun(NamedTuple):
    """The cases that the options are scaled up from, and how far the run goes."""

    cases: list[Case]
    due: int  # all cases of the run
    decided: DecidedChoice | None  # `None`: the run cannot stop early


def escalated_shares(
    config: RunConfig, assignment: ModelAssignment
) -> dict[tuple[str, str], float]:
    """By judge and stronger model of a cascade, the share of cases that is escalated, 0..1."""
    cascade = config.judge.cascade
    if cascade is None:
        return {}
    return {
        (judge, own.senior.name): 1.0 if cascade.collect else cascade.thresholds[judge].escalated
        for judge, own in assignment.own.items()
        if isinstance(own, EnsembleModels) and own.senior is not None and own.cascade is not None
    }


async def count_options(
    config: RunConfig,
    judge_panel: JudgePanel,
    assignment: ModelAssignment,
    sample: SampledRun,
    sql_runner: SqlRunner | None,
) -> tuple[CostOption, ...]:
    """What the run would cost by other choices; empty where nothing is paid for."""
    cases, due = sample.cases, sample.due
    if not cases or not assignment.has_paid_calls:
        return ()
    together = Forecaster(assignment, None, sql_runner)
    for case in cases:
        await hear_all(together, judge_panel, case)
    metrics = _conversation_metrics(judge_panel)
    apart = None
    if 1 < len(metrics) <= _MAX_METRICS:
        asked_apart = Forecaster(assignment, None, sql_runner)
        for own in apart_configs(config.judge, metrics):
            panel = resolve_judges(own)
            for case in cases:
                await hear_all(asked_apart, panel, case)
        apart = volumes(paid_tallies(asked_apart.tallies, assignment), len(cases), due)
    inputs = OptionInputs(
        together=volumes(paid_tallies(together.tallies, assignment), len(cases), due),
        apart=apart,
        models={model.name: model for model in assignment.models},
        shares=escalated_shares(config, assignment),
        due=due,
        batch=config.runner.batch,
        batched=batched_models(config, assignment),
        refuses_batch=any(
            calls_provider(model) and least_batch(model, config.runner.bedrock) is None
            for model in assignment.models
        ),
        decided=sample.decided,
    )
    return cost_options(inputs)


def batched_models(config: RunConfig, assignment: ModelAssignment) -> dict[str, int]:
    """The fewest asks of a batch, by model; without models whose asks are always single calls."""
    least = {model.name: least_batch(model, config.runner.bedrock) for model in assignment.models}
    return {name: asks for name, asks in least.items() if asks is not None}


def _conversation_metrics(judge_panel: JudgePanel) -> list[str]:
    """The metrics that the judge of the conversation asks about in one ask."""
    if not any(judge.name == CONVERSATION for judge in judge_panel.judges):
        return []
    return list(judge_panel.weights)


def paid_tallies(
    tallies: Mapping[AskGroup, AskTally], assignment: ModelAssignment
) -> dict[AskGroup, AskTally]:
    """The tallies of models that are called over a network."""
    offline = {model.name for model in assignment.models if model.provider == OFFLINE_PROVIDER}
    return {group: tally for group, tally in tallies.items() if group.model not in offline}
