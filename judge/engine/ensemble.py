"""Ensembles of models: the models, repeats and senior model that answer one judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assizes.judge.config.judging import OFFLINE_MODEL, JudgeConfig


@dataclass(frozen=True, slots=True)
class Ensemble:
    """The models that all answer one judge.

    Args:
        models: the [judge] settings of each model; a single one where only repeats or escalation
            are wanted.
        repeats: how many times each model is asked the same.
        senior: the [judge] settings of the model that judges again where the others are unsure;
            `None` for no such model.
    """

    models: tuple[JudgeConfig, ...]
    repeats: int = 1
    senior: JudgeConfig | None = None

    @property
    def is_plain(self) -> bool:
        """Whether there is one model that is asked once, so that there is nothing to vote on."""
        return len(self.models) == 1 and self.repeats == 1 and self.senior is None

    @property
    def members(self) -> tuple[JudgeConfig, ...]:
        """All models that may be asked, the senior model last."""
        return self.models if self.senior is None else (*self.models, self.senior)


def ensemble_for(
    config: JudgeConfig, model: str | None = None, temperature: float | None = None
) -> Ensemble:
    """The ensemble that answers a judge: its own model, else the panel, else the run's model.

    Args:
        config: the settings of [judge].
        model: the judge's own model; with one, neither the panel nor the senior model is asked.
        temperature: the judge's own temperature, for every model that answers it.
    """
    if temperature is not None:
        config = config.model_copy(update={"temperature": temperature})
    if model is not None and model != config.model:
        own = with_model(config, model, panel=(), escalate_to=None)
        return Ensemble((own,), config.repeats)
    models = tuple(with_model(config, model) for model in config.panel) or (config,)
    senior = with_model(config, config.escalate_to) if config.escalate_to else None
    return Ensemble(models, config.repeats, senior)


def with_model(config: JudgeConfig, model: str, **changes: Any) -> JudgeConfig:
    """The settings of [judge] with another model.

    Provider and endpoint stay as they are, but the offline judge has neither.
    """
    update: Mapping[str, Any] = {"model": model, **changes}
    if model == OFFLINE_MODEL:
        update = {**update, "provider": None, "api_base": None}
    return config.model_copy(update=update)
