"""The models of a court: who answers which judge, and what that may cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from assizes.judge.catalog import Court
from assizes.judge.config.run import JudgeConfig, LimitsConfig, RunConfig
from assizes.judge.engine.batching import batches_of
from assizes.judge.engine.ensemble import Jury
from assizes.judge.engine.ensemble_hearing import Panel
from assizes.judge.engine.ensemble_hearing import members as members_of
from assizes.judge.errors import ConfigurationError
from assizes.judge.models.model import OFFLINE_PROVIDER, Model, check_model, model_for
from assizes.judge.models.replayed import Replayed, calls_nobody


@dataclass(frozen=True)
class Seats:
    """`shared` answers all judges but those that `own` names."""

    shared: Model
    own: Mapping[str, Model | Panel]

    @property
    def models(self) -> tuple[Model, ...]:
        """Each of them once, the shared one first."""
        each = {id(model): model for model in (self.shared, *members_of(self.own.values()))}
        return tuple(each.values())

    @property
    def keeps(self) -> bool:
        """Whether any reply is worth keeping."""
        return any(model.cache_key for model in self.models)

    @property
    def costs(self) -> bool:
        """Whether any model is called somewhere: its calls are counted in the ledger."""
        return not all(map(calls_nobody, self.models))


def seats(config: RunConfig, bench: Court) -> Seats:
    """The models of a configuration; with `[cache] use = "replay_only"` none that calls anyone.

    Raises:
        ConfigurationError: when a model's provider is unknown.
    """
    made: dict[str, Model] = {}

    def model(judge: JudgeConfig) -> Model:
        key = judge.model_dump_json()
        if key not in made:
            one = model_for(judge, config.limits)
            replayed = config.cache.use == "replay_only" and one.provider != OFFLINE_PROVIDER
            made[key] = Replayed(one) if replayed else one
        return made[key]

    def panel(jury: Jury) -> Model | Panel:
        if jury.is_plain:
            return model(jury.models[0])
        senior = None if jury.senior is None else model(jury.senior)
        return Panel(tuple(map(model, jury.models)), jury.repeats, senior)

    own = {name: panel(jury) for name, jury in bench.juries.items()}
    return Seats(model(config.judge), own)


def callable_seats(config: RunConfig, bench: Court) -> Seats:
    """The models of a run, every one of which can be called and paid for.

    Raises:
        ConfigurationError: when one cannot be called, e.g. for want of a key, or not by batch where
            that is wanted, or when a budget is set and the price of one is not known.
    """
    if config.cache.use != "replay_only":
        members = [one for jury in bench.juries.values() for one in jury.members]
        for judge in {one.model_dump_json(): one for one in (config.judge, *members)}.values():
            check_model(judge)
    found = seats(config, bench)
    check_prices(found, config.limits)
    if config.runner.batch:
        for model in found.models:
            batches_of(model)
    return found


def check_prices(found: Seats, limits: LimitsConfig) -> None:
    """See that a budget in dollars can be kept.

    Raises:
        ConfigurationError: naming the table that gives a model its price.
    """
    if not limits.spending_is_limited:
        return
    for model in found.models:
        if model.price is None:
            budget = "budget_usd" if limits.budget_usd is not None else "budget_usd_per_day"
            raise ConfigurationError(
                f"[limits] {budget} is set, but no price is known for {model.name!r}; give it in "
                f'[limits.prices."{model.name}"] as input_usd_per_million and '
                "output_usd_per_million (USD for a million tokens)"
            )
