"""The models of a court: who answers which judge, and what that may cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from assizes.judge.catalog import JudgePanel
from assizes.judge.config.run import JudgeConfig, LimitsConfig, RunConfig
from assizes.judge.engine.batching import batches_of
from assizes.judge.engine.ensemble import Ensemble
from assizes.judge.engine.ensemble_hearing import EnsembleModels
from assizes.judge.engine.ensemble_hearing import members as members_of
from assizes.judge.errors import ConfigurationError
from assizes.judge.model_factory import (
    check_model,
    model_for,
)
from assizes.judge.models.model import (
    OFFLINE_PROVIDER,
    Model,
)
from assizes.judge.models.replayed import ReplayOnlyModel, is_offline_model


@dataclass(frozen=True)
class ModelAssignment:
    """`shared` answers all judges but those that `own` names."""

    shared: Model
    own: Mapping[str, Model | EnsembleModels]

    @property
    def models(self) -> tuple[Model, ...]:
        """Each of them once, the shared one first."""
        each = {id(model): model for model in (self.shared, *members_of(self.own.values()))}
        return tuple(each.values())

    @property
    def has_cacheable_replies(self) -> bool:
        """Whether any reply is worth keeping."""
        return any(model.cache_key for model in self.models)

    @property
    def has_paid_calls(self) -> bool:
        """Whether any model is called somewhere: its calls are counted in the ledger."""
        return not all(map(is_offline_model, self.models))


def assign_models(config: RunConfig, judge_panel: JudgePanel) -> ModelAssignment:
    """The models of a configuration; with `[cache] use = "replay_only"` none that calls anyone.

    Raises:
        ConfigurationError: when a model's provider is unknown.
    """
    models_by_key: dict[str, Model] = {}

    def model(judge: JudgeConfig) -> Model:
        key = judge.model_dump_json()
        if key not in models_by_key:
            candidate = model_for(judge, config.limits)
            replayed = config.cache.use == "replay_only" and candidate.provider != OFFLINE_PROVIDER
            models_by_key[key] = ReplayOnlyModel(candidate) if replayed else candidate
        return models_by_key[key]

    def ensemble_models(ensemble: Ensemble) -> Model | EnsembleModels:
        if ensemble.is_plain:
            return model(ensemble.models[0])
        senior = None if ensemble.senior is None else model(ensemble.senior)
        return EnsembleModels(tuple(map(model, ensemble.models)), ensemble.repeats, senior)

    own = {name: ensemble_models(ensemble) for name, ensemble in judge_panel.ensembles.items()}
    return ModelAssignment(model(config.judge), own)


def assign_callable_models(config: RunConfig, judge_panel: JudgePanel) -> ModelAssignment:
    """The models of a run, every one of which can be called and paid for.

    Raises:
        ConfigurationError: when one cannot be called, e.g. for want of a key, or not by batch where
            that is wanted, or when a budget is set and the price of one is not known.
    """
    if config.cache.use != "replay_only":
        members = [
            member for ensemble in judge_panel.ensembles.values() for member in ensemble.members
        ]
        for judge in {
            judge_config.model_dump_json(): judge_config
            for judge_config in (config.judge, *members)
        }.values():
            check_model(judge)
    assignment = assign_models(config, judge_panel)
    check_prices(assignment, config.limits)
    if config.runner.batch:
        for model in assignment.models:
            batches_of(model)
    return assignment


def check_prices(assignment: ModelAssignment, limits: LimitsConfig) -> None:
    """See that a budget in dollars can be kept.

    Raises:
        ConfigurationError: naming the table that gives a model its price.
    """
    if not limits.spending_is_limited:
        return
    for model in assignment.models:
        if model.price is None:
            budget = "budget_usd" if limits.budget_usd is not None else "budget_usd_per_day"
            raise ConfigurationError(
                f"[limits] {budget} is set, but no price is known for {model.name!r}; give it in "
                f'[limits.prices."{model.name}"] as input_usd_per_million and '
                "output_usd_per_million (USD for a million tokens)"
            )
