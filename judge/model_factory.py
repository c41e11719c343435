"""From the configured name of a model to an object that answers asks."""

from __future__ import annotations

from assizes.judge.config.judging import OFFLINE_MODEL, JudgeConfig, LimitsConfig
from assizes.judge.heuristic.answers import HeuristicModel
from assizes.judge.models.model import Model


def check_model(config: JudgeConfig) -> None:
    """Check that the model of a run can be called, without calling it.

    Raises:
        ConfigurationError: when its provider is unknown or a key is not in the environment.
    """
    if config.model_id == OFFLINE_MODEL:
        return
    from assizes.judge.models.litellm_model import check  # imports litellm: seconds (decision 7)

    check(config)


def model_for(config: JudgeConfig, limits: LimitsConfig) -> Model:
    """The model of a run: `HeuristicModel` for `offline/lexical`, else `LiteLLM`.

    Raises:
        ConfigurationError: when the model's provider is unknown.
    """
    if config.model_id == OFFLINE_MODEL:
        return HeuristicModel()
    from assizes.judge.models.litellm_model import LiteLLM

    return LiteLLM(config, limits)
