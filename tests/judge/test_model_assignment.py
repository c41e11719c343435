"""Which model answers which judge: a provider stands before a model."""

from __future__ import annotations

import pytest

from assizes.judge.catalog import resolve_judges
from assizes.judge.config.judging import JudgeConfig
from assizes.judge.config.run import RunConfig
from assizes.judge.config.transcripts import TranscriptsConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.model_assignment import assign_models


def assigned(**judge):
    config = RunConfig(transcripts=TranscriptsConfig(uri="t"), judge=JudgeConfig(**judge))
    return assign_models(config, resolve_judges(config.judge))


@pytest.mark.row("005-08")
def test_a_provider_without_a_model_is_an_error():
    with pytest.raises(ConfigurationError) as caught:
        assigned(provider="openai")
    assert str(caught.value) == (
        "[judge] provider = 'openai' is put before a model, and no model is set: set [judge] model"
    )


@pytest.mark.parametrize(
    "judge",
    [
        {"model": "gpt-4.1"},
        {"panel": ("gpt-4.1", "gpt-4o")},
        {"escalate_to": "gpt-4.1"},
        {"options": {"conversation": {"model": "gpt-4.1"}}},
    ],
    ids=str,
)
def test_a_provider_before_any_model_is_none(judge):
    names = [model.name for model in assigned(provider="openai", **judge).models]
    assert "openai/gpt-4.1" in names
