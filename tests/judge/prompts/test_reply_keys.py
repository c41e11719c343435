"""Keys of the reply cache: every setting that changes a reply is part of the key of its reply."""

from __future__ import annotations

import json

import pytest

from assizes.judge.config.judging import JudgeConfig, LimitsConfig
from assizes.judge.engine import hearings
from assizes.judge.engine.hearings import reply_key
from assizes.judge.models.litellm_model import LiteLLM
from assizes.judge.protocol import Ask, Prompt
from tests.judge.engine.calls import Reply

MODEL = {
    "model": {"model": "openai/other"},
    "provider": {"model": "llama", "provider": "groq"},
    "api_base": {"api_base": "http://127.0.0.1:9/v1"},
    "temperature": {"temperature": 0.9},
    "max_output_tokens": {"max_output_tokens": 77},
    "reply_format": {"reply_format": "words"},
}
"""Fields of [judge] that are part of a model's key."""

ASKED = {"metrics", "judges", "rubrics", "options", "second_look"}
"""Fields that decide what is asked: they are in the prompt, whose hash is part of the key."""

SAMPLES = {"panel", "repeats", "escalate_to", "cascade"}
"""Fields that choose models and samples; each of these has a key of its own."""

AFTER = {"pass_threshold", "floors", "flagged_passes"}
"""Fields that only decide how replies are used."""


class Other(Reply):
    """Another schema."""

    more: str


def of(**fields: object) -> str:
    settings = {"model": "openai/stub", "temperature": 0.2, "api_base": "http://127.0.0.1:1/v1"}
    if "provider" in fields:
        settings.pop("api_base")
    model = LiteLLM(JudgeConfig.model_validate(settings | fields), LimitsConfig())
    key = reply_key(model, ask().prompt_hash, 0)
    assert key is not None
    return key


def ask(system: str = "s", user: str = "u", reply: type[Reply] = Reply) -> Ask[Reply]:
    return Ask(Prompt(system, user), reply, "evidence")


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "GROQ_API_KEY"):
        monkeypatch.setenv(name, "sk-none")


def test_every_setting_of_a_judge_is_known_for_what_it_does_to_a_reply():
    assert set(JudgeConfig.model_fields) == {*MODEL, *ASKED, *SAMPLES, *AFTER}


@pytest.mark.parametrize("field", MODEL)
def test_a_setting_that_decides_the_reply_changes_the_key(field: str):
    assert of() == of()
    assert of(**MODEL[field]) != of()


def test_two_providers_of_one_model_have_two_keys():
    groq = of(model="llama", provider="groq")
    assert groq != of(model="llama", provider="openai")


def test_how_hard_a_model_is_pressed_changes_no_key(monkeypatch: pytest.MonkeyPatch):
    config = JudgeConfig(model="openai/stub")
    base = LiteLLM(config, LimitsConfig()).cache_key
    changed = LimitsConfig(max_in_flight=2, requests_per_minute=5, timeout_s=9, max_attempts=1)
    assert LiteLLM(config, changed).cache_key == base


@pytest.mark.parametrize(
    "other",
    [
        ask(system="s "), ask(user="u "), ask(reply=Other), ask(system="su", user=""),
        ask(system="", user="su"), ask(user="u\x00"), ask(system="s\x00u", user=""),
    ],
)  # fmt: skip
def test_another_prompt_or_schema_is_another_question(other: Ask[Reply]):
    assert other.prompt_hash != ask().prompt_hash


def test_another_sample_and_another_reader_are_other_keys(monkeypatch: pytest.MonkeyPatch):
    model = LiteLLM(JudgeConfig(model="openai/stub"), LimitsConfig())
    key = reply_key(model, "0" * 32, 0)
    assert len({key, *(reply_key(model, "0" * 32, sample) for sample in range(1, 9))}) == 9
    monkeypatch.setattr(hearings, "PARSER_VERSION", hearings.PARSER_VERSION + 1)
    assert reply_key(model, "0" * 32, 0) != key


def test_the_key_of_a_model_says_what_it_is_made_of():
    model = LiteLLM(JudgeConfig(model="openai/stub"), LimitsConfig())
    assert set(json.loads(model.cache_key or "")) == {
        *("model", "provider", "temperature", "max_output_tokens", "response_mode", "api_base")
    }
