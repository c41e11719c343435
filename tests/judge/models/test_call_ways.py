"""When calls are made from templates, and when by litellm's function."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import pytest

from assizes.judge.errors import ConfigurationError
from assizes.judge.models import litellm_direct
from assizes.judge.models.litellm_library import configure_litellm, litellm


@pytest.mark.parametrize("name", litellm_direct._LISTS)
def test_each_setting_that_litellms_function_acts_on_is_noticed(name, monkeypatch):
    monkeypatch.setattr(litellm, name, [object()])
    assert litellm_direct.needed_hook() == f"litellm.{name} is set"
    monkeypatch.setattr(litellm, name, ["cache"])  # litellm does so on the way to Gemini
    assert litellm_direct.needed_hook() is None


def test_the_way_is_chosen_by_facts(monkeypatch):
    configure_litellm()

    def reason(provider: str, **rest: Any) -> str | None:
        return litellm_direct.reason_for_plain(
            provider, **{"has_format": True, "api_base": None} | rest
        )

    assert reason("openai") is None
    assert reason("cohere") == "litellm calls cohere in a way of its own"
    assert reason("vertex_ai") == "litellm calls vertex_ai in a way of its own"
    assert reason("openai", has_format=False) == "litellm calls openai in a way of its own"
    with monkeypatch.context() as patch:
        patch.setenv(litellm_direct.ROUTE, "false")  # OpenAI's SDK takes no other client
        assert reason("openai") == "litellm calls openai in a way of its own"
        assert reason("mistral") is None
    for name in ("AZURE_API_KEY", "AZURE_OPENAI_API_KEY", "AZURE_API_BASE", "AZURE_AD_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    assert reason("azure", api_base="https://x.openai.azure.com").startswith("no key for Azure")
    monkeypatch.setenv("AZURE_API_KEY", "x")
    assert reason("azure", api_base="https://x.openai.azure.com") is None
    monkeypatch.setenv("AZURE_AD_TOKEN", "x")
    assert reason("azure", api_base="https://x.openai.azure.com").startswith("no key for Azure")
    with monkeypatch.context() as patch:
        patch.setenv("LITELLM_LOG", "debug")
        assert reason("openai") == "LITELLM_LOG is DEBUG"
    monkeypatch.setenv(litellm_direct.CALLS, "plain")
    assert reason("openai") == "ASSIZES_LITELLM_CALLS is plain"
    monkeypatch.setenv(litellm_direct.CALLS, "fast")
    with pytest.raises(ConfigurationError, match="'fast' is neither direct nor plain"):
        reason("openai")


def test_another_release_of_litellm_is_called_by_its_function_and_the_log_says_so_once(
    monkeypatch, caplog
):
    monkeypatch.setattr(litellm_direct, "TESTED_VERSIONS", frozenset({"0.1"}))
    litellm_direct._tell_once.cache_clear()
    for _ in range(2):
        reason = litellm_direct.reason_for_plain("openai", has_format=True, api_base=None)
        assert reason is not None
        assert reason.endswith("is not among the tested releases")
    assert caplog.text.count("calls take more CPU than with a tested release (0.1)") == 1
    litellm_direct._tell_once.cache_clear()


def test_the_tested_release_is_the_locked_one():
    assert version("litellm") in litellm_direct.TESTED_VERSIONS
