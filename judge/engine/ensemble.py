"""Who answers a judge when it is more than one model, once: panels, repeats, a senior model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assizes.judge.config.run import OFFLINE_MODEL, JudgeConfig


@dataclass(frozen=True, slots=True)
class Ensemble:
    """The models that all hear a case for one judge.

    Args:
        models: one [judge] table each; a single one where only repeats or escalation are wanted.
        repeats: how often each is asked the same.
        senior: who judges anew what they are unsure of; null for nobody.
    """

    models: tuple[JudgeConfig, ...]
    repeats: int = 1
    senior: JudgeConfig | None = None

    @property
    def is_plain(self) -> bool:
        """One model, asked once: nothing to vote on."""
        return len(self.models) == 1 and self.repeats == 1 and self.senior is None

    @property
    def members(self) -> tuple[JudgeConfig, ...]:
        """Everyone who may be asked, the senior model last."""
        return self.models if self.senior is None else (*self.models, self.senior)


def ensemble_for(
    config: JudgeConfig, model: str | None = None, temperature: float | None = None
) -> Ensemble:
    """Who answers a judge: a model of its own, else the panel, else the run's model.

    Args:
        config: [judge].
        model: the judge's own; with one it leaves the panel, and nobody judges anew.
        temperature: the judge's own, for whoever answers it.
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
    """[judge] with another model; provider and endpoint stay, the offline judge has neither."""
    update: Mapping[str, Any] = {"model": model, **changes}
    if model == OFFLINE_MODEL:
        update = {**update, "provider": None, "api_base": None}
    return config.model_copy(update=update)
