"""Which model answers which judge of a run, and whether the models can be called and paid for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from assizes.judge.catalog import JudgePanel
from assizes.judge.config.judging import JudgeConfig
from assizes.judge.config.run import RunConfig
from assizes.judge.engine.batching import batches_of, check_batch_settings
from assizes.judge.engine.ensemble_hearing import EnsembleModels
from assizes.judge.engine.ensemble_hearing import members as members_of
from assizes.judge.errors import ConfigurationError
from assizes.judge.model_factory import check_model, model_for
from assizes.judge.models.model import OFFLINE_PROVIDER, Model, ReplayOnlyModel, is_offline_model


@dataclass(frozen=True)
class ModelAssignment:
    """The models of a run: `shared` answers every judge that has no model of its own in `own`."""

    shared: Model
    own: Mapping[str, Model | EnsembleModels]  # by name of the judge

    @property
    def models(self) -> tuple[Model, ...]:
        """Every model once, the shared model first."""
        # By identity: models have no equality, and equal settings share one object.
        each = {id(model): model for model in (self.shared, *members_of(self.own.values()))}
        return tuple(each.values())

    @property
    def has_cacheable_replies(self) -> bool:
        """Whether any model gives replies that the reply cache stores."""
        return any(model.cache_key for model in self.models)

    @property
    def has_paid_calls(self) -> bool:
        """Whether any model is called over a network, so that the ledger counts its calls."""
        return not all(map(is_offline_model, self.models))


def assign_models(config: RunConfig, judge_panel: JudgePanel) -> ModelAssignment:
    """The models of a configuration; `[cache] use = "replay_only"` gives models that only replay.

    Raises:
        ConfigurationError: when a model's provider is unknown, a provider has no model, or a setting
            is missing that the model's batches need.
    """
    judge = config.judge
    others = (judge.panel, judge.escalate_to, *(own.get("model") for own in judge.options.values()))
    if judge.provider and not judge.model and not any(others):  # else the offline judge would judge
        raise ConfigurationError(
            f"[judge] provider = {judge.provider!r} is put before a model, and no model is set: "
            "set [judge] model"
        )
    models_by_key: dict[str, Model] = {}

    def model(judge: JudgeConfig) -> Model:
        # Equal settings share a model, and with it one circuit breaker and one count of its calls.
        key = judge.model_dump_json()
        if key not in models_by_key:
            candidate = model_for(judge, config.limits)
            # The offline model's answers are in no cache: they are worked out again, at no cost.
            replayed = config.cache.use == "replay_only" and candidate.provider != OFFLINE_PROVIDER
            models_by_key[key] = ReplayOnlyModel(candidate) if replayed else candidate
        return models_by_key[key]

    own: dict[str, Model | EnsembleModels] = {}
    for name, ensemble in judge_panel.ensembles.items():
        models = tuple(map(model, ensemble.models))
        senior = None if ensemble.senior is None else model(ensemble.senior)
        voting = EnsembleModels(models, ensemble.repeats, senior, ensemble.cascade)
        own[name] = models[0] if ensemble.is_plain else voting  # one vote needs no reduction
    assignment = ModelAssignment(model(config.judge), own)
    if config.runner.batch:
        for assigned in assignment.models:
            check_batch_settings(assigned, config.runner.bedrock, config.runner.vertex)
    return assignment


def assign_callable_models(config: RunConfig, judge_panel: JudgePanel) -> ModelAssignment:
    """The models of a run, after a check that each can be called, batched and paid for.

    Raises:
        ConfigurationError: for an API key, a batch endpoint or a price that is missing.
    """
    if config.cache.use != "replay_only":  # replays need no key
        ensembles = judge_panel.ensembles.values()
        judges = (config.judge, *(member for each in ensembles for member in each.members))
        for judge in {judge.model_dump_json(): judge for judge in judges}.values():
            check_model(judge)
    assignment = assign_models(config, judge_panel)
    for model in assignment.models:
        if config.limits.spending_is_limited and model.price is None:  # no budget holds then
            budget = "budget_usd" if config.limits.budget_usd is not None else "budget_usd_per_day"
            raise ConfigurationError(
                f"[limits] {budget} is set, but no price is known for {model.name!r}; give it in "
                f'[limits.prices."{model.name}"] as input_usd_per_million and '
                "output_usd_per_million (USD for a million tokens)"
            )
    if config.runner.batch:
        for model in assignment.models:
            batches_of(
                model, config.runner.bedrock, config.runner.vertex
            )  # raises without endpoint
    return assignment
