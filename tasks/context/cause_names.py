"""Names, sentences and merges of causes by a model, stored as edits that people can undo."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import polars as pl

from assizes.judge.catalog import resolve_judges
from assizes.judge.causes.edits import MODEL_AUTHOR, CauseEdit, EditKind, current_edits
from assizes.judge.causes.grouping import near_pairs
from assizes.judge.causes.meanings import SentenceEncoder
from assizes.judge.causes.model_naming import (
    NAMER,
    CauseNamer,
    GivenMerge,
    GivenName,
    QuotedCause,
    given,
    stand_in_case,
)
from assizes.judge.causes.naming import typical_failures
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import ConfigurationError, OverBudget
from assizes.judge.model_assignment import ModelAssignment
from assizes.judge.model_factory import check_model, model_for
from assizes.judge.models.model import Model
from assizes.tasks.context.run_context import RunContext, progress_reporter
from assizes.tasks.embedding.sentence_encoder import encoder_of_run
from assizes.tasks.intake.preprocessing import CasePreprocessor
from assizes.tasks.runs.edits.cause_edits import TABLE, add_cause_edit
from assizes.tasks.runs.run_causes import causes_of_run
from assizes.tasks.store import Store
from assizes.tasks.store.cause_tables import RunCauses

MAX_CAUSES: Final = 30
"""The most causes that are named in one call: those that take most points."""


class NamedCauses(NamedTuple):
    """What a model said about the causes of a run, and what that cost."""

    asked: int  # causes that had no name of a person or a model
    edits: list[dict[str, Any]]  # those that were stored
    failed: list[str]  # codes of asks that got no reply
    cost_usd: float


async def name_causes(
    config: RunConfig, store: Store, run_id: str, model: Model | None = None
) -> NamedCauses:
    """Ask a model for names of the causes of a run, and for merges of causes that are alike.

    A cause that a person or a model has named keeps its name and is not asked about. With its name
    a cause gets a sentence, unless a person wrote one. A reply in the cache is not paid for again.

    Args:
        config: `[judge] model` is the one that names; its limits, prices and cache count.
        store: open for writing.
        run_id: the run, by its id or another name.
        model: answers in place of the configured model.

    Raises:
        ConfigurationError: the model cannot be asked, or the run is not complete.
        OverBudget: the budget is spent; names that came before it are stored.
        UnknownRun: the store has no such run.
    """
    found, full_id = causes_of_run(store, run_id), store.full_id(run_id)
    namer, asked = _namer(store, found, encoder_of_run(store.run(full_id).config))
    context = await asyncio.to_thread(_context, config, store, model)
    try:
        engine = context.engine_for(f"causes-{full_id}")
        result = await engine.hear(namer, stand_in_case())
        cost = engine.cost_usd
    finally:
        await context.aclose()
    (score,) = result.scores
    names, merges = given(score)
    author = f"{MODEL_AUTHOR}{_name_of(context)}"
    stored: list[dict[str, Any]] = []
    for cause_id, kind, value, quotes in _wanted_edits(store, names, merges):
        edit = CauseEdit(cause_id, kind, value, author=author, note=_note(quotes))
        try:
            row = add_cause_edit(store, full_id, found, edit)
            stored.append({**row, "quotes": list(quotes)})
        except ConfigurationError:
            continue  # the name is taken: the cause keeps the one it has
        found = causes_of_run(store, full_id)
    failed = list(score.details.get("failed", ()))
    if "budget" in failed:
        raise OverBudget(f"the budget is spent; {len(stored)} edits by the model are stored")
    return NamedCauses(asked, stored, failed, cost)


def _wanted_edits(
    store: Store, names: Sequence[GivenName], merges: Sequence[GivenMerge]
) -> Iterator[tuple[str, EditKind, str, Sequence[str]]]:
    """What the model wants: the cause, the kind and the value of each edit, and the reasons."""
    described = current_edits(store.people.rows(TABLE)).sentences
    for each in names:
        yield each.cause_id, "rename", each.name, each.quotes
        if each.sentence and each.cause_id not in described:
            yield each.cause_id, "describe", each.sentence, each.quotes
    for merge in merges:
        yield merge.cause_id, "merge", merge.into, merge.quotes


def _namer(
    store: Store, found: RunCauses, encoder: SentenceEncoder | None
) -> tuple[CauseNamer, int]:
    shown = found.causes.filter(pl.col("cases") > 0, pl.col("merged_into").is_null())
    by_model = pl.col("author").str.starts_with(MODEL_AUTHOR).fill_null(value=False)
    is_settled = by_model | pl.col("kind").is_in(["rename", "merge", "split"])
    edits = store.people.rows(TABLE).filter(is_settled)
    # Also an edit that was undone: who took a model's name away does not want it again.
    unnamed = shown.filter(~pl.col("cause_id").is_in(edits["cause_id"].implode())).head(MAX_CAUSES)
    quoted = {
        cause_id: QuotedCause.of(cause_id, _reasons(found.remembered, cause_id))
        for cause_id in shown["cause_id"]
    }
    memory = found.remembered.filter(pl.col("cause_id").is_in(shown["cause_id"].implode()))
    unedited = set(unnamed["cause_id"])
    pairs = [
        (quoted[older], quoted[younger])
        for older, younger in near_pairs(memory, encoder=encoder)
        if older in quoted and younger in unedited
    ]
    return CauseNamer([quoted[each] for each in unnamed["cause_id"]], pairs), unnamed.height


def _reasons(remembered: pl.DataFrame, cause_id: str) -> list[str]:
    failures = remembered.filter(pl.col("cause_id") == cause_id)
    return typical_failures(failures)["reason"].to_list()


def _context(config: RunConfig, store: Store, model: Model | None) -> RunContext:
    judge = config.judge.model_copy(update={"panel": (), "repeats": 1, "escalate_to": None})
    if model is None:
        check_model(judge)
        model = model_for(judge, config.limits)
    if model.price is None:
        raise ConfigurationError(
            f"--budget-usd: no price is known for {model.name!r}; give it in "
            f'[limits.prices."{model.name}"] as input_usd_per_million and output_usd_per_million'
        )
    panel = resolve_judges(config.judge.model_copy(update={"cascade": None}))
    preprocessor = CasePreprocessor.from_config(config)
    assignment = ModelAssignment(model, {NAMER: model})
    return RunContext(config, panel, store, assignment, preprocessor, progress_reporter.get())


def _name_of(context: RunContext) -> str:
    return context.assignment.shared.name


def _note(quotes: Sequence[str]) -> str:
    # Without the quotes: this row outlives the cases, which `assizes store forget` may delete.
    return f"rests on {len(quotes)} reasons"
