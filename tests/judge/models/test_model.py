"""The model of a run, and the checks before any call."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from assizes.judge.config.judging import JudgeConfig, LimitsConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.evidence.tool_calls import ConversationEvidence, tool_evidence
from assizes.judge.families.conversation import ConversationJudge
from assizes.judge.heuristic.answers import HeuristicModel
from assizes.judge.model_factory import check_model, model_for
from assizes.judge.models.model import Completion
from assizes.judge.protocol import Ask, Prompt
from assizes.judge.rubrics.rubric import built_in_rubrics
from tests.builders import agent, case, user
from tests.doubles.fixtures import OPENAI_KEY
from tests.judge.engine.calls import ASK, LIMITS, Reply, config


@pytest.mark.row("000-37", "000-38")
@pytest.mark.parametrize(
    ("given", "name", "called"),
    [
        ({"model": "gpt-4o"}, "gpt-4o", "gpt-4o"),
        ({"model": "openai/m"}, "openai/m", "m"),
        ({"provider": "openai", "model": "m"}, "openai/m", "m"),
    ],
)
async def test_litellm_is_called_with_the_model_and_the_provider_as_given(
    judge_server, given, name, called
):
    model = model_for(JudgeConfig(api_base=judge_server.api_base, **given), LIMITS)

    await model.complete(ASK)

    assert (model.name, model.provider) == (name, "openai")
    assert judge_server.stats()["models"] == {called: 1}


@pytest.mark.row("000-37")
def test_without_a_model_the_offline_judge_answers():
    model = model_for(JudgeConfig(), LIMITS)

    assert isinstance(model, HeuristicModel)
    assert (model.name, model.provider, model.cache_key) == ("offline/lexical", "offline", None)
    check_model(JudgeConfig())


async def test_the_offline_judge_answers_for_nothing():
    one = case(user("hello"), agent("hi"))
    judge = ConversationJudge(built_in_rubrics()[:2])
    evidence = ConversationEvidence(one, tool_evidence(one), judge.rubric_metrics)

    completion = await HeuristicModel().complete(Ask(Prompt("", ""), Reply, evidence))

    assert completion == Completion(completion.text, "offline/lexical", cost_usd=0.0)


@pytest.mark.parametrize(
    "other",
    [
        {"model": "openai/other"},
        {"temperature": 0.3},
        {"max_output_tokens": 99},
        {"api_base": "http://127.0.0.1:1/v1"},
        {"api_base": None},
    ],
)
def test_whatever_can_change_an_answer_changes_the_cache_key(judge_server, other):
    given = {"model": "openai/stub", "api_base": judge_server.api_base}

    def key(**fields):
        return model_for(JudgeConfig(**given | fields), LIMITS).cache_key

    assert key() == key()
    assert key(**other) != key()


def test_how_fast_a_model_is_pressed_does_not_change_the_cache_key(judge_server):
    keys = {
        model_for(config(judge_server), limits).cache_key for limits in (LIMITS, LimitsConfig())
    }

    assert len(keys) == 1


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({"model": "openai/gpt-4.1"}, ["OPENAI_API_KEY"]),
        ({"model": "gpt-4.1"}, ["OPENAI_API_KEY"]),
        ({"provider": "anthropic", "model": "claude-sonnet-4-5"}, ["ANTHROPIC_API_KEY"]),
        ({"model": "azure/x"}, ["AZURE_API_BASE", "AZURE_API_VERSION", "AZURE_API_KEY"]),
    ],
)
def test_a_missing_key_is_named_before_any_call(given, missing, monkeypatch):
    for name in (*missing, "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)

    with pytest.raises(ConfigurationError) as caught:
        check_model(JudgeConfig(**given))

    model = JudgeConfig(**given).model_id
    assert str(caught.value) == (
        f"[judge] model {model!r}: set {' and '.join(missing)} in the environment"
    )


def test_a_missing_key_for_an_endpoint_of_ones_own_may_be_any(judge_server, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")

    with pytest.raises(ConfigurationError, match="any value if the endpoint asks for no key"):
        check_model(config(judge_server))


def test_an_empty_key_is_missing_and_stays_as_it_is(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "")
    with pytest.raises(ConfigurationError, match="set OPENAI_API_KEY in the environment"):
        check_model(JudgeConfig(model="openai/gpt-4.1"))
    assert os.environ["OPENAI_API_KEY"] == ""


@pytest.mark.parametrize("use", [check_model, lambda given: model_for(given, LIMITS)])
def test_a_model_whose_provider_is_unknown_is_refused(use):
    with pytest.raises(ConfigurationError) as caught:
        use(JudgeConfig(model="foo"))

    assert str(caught.value) == (
        "[judge] model 'foo': litellm does not know its provider; "
        "write provider/model, e.g. openai/gpt-4.1"
    )


@pytest.mark.parametrize("use", [check_model, lambda given: model_for(given, LIMITS)])
@pytest.mark.parametrize(
    "given",
    [{"model": "openai/"}, {"model": "openai/ "}, {"model": "bedrock/"}, {"provider": "openai"}],
)
def test_a_provider_without_a_model_is_refused(use, given):
    judge = JudgeConfig(**({"model": ""} | given))
    with pytest.raises(ConfigurationError) as caught:
        use(judge)

    assert str(caught.value) == (
        f"[judge] model {judge.model_id!r}: names no model after the provider; "
        "write provider/model, e.g. openai/gpt-4.1"
    )


def test_a_model_whose_name_ends_with_a_slash_has_a_name():
    # vLLM serves a model from a folder under the name of that folder, as it was typed.
    judge = JudgeConfig(model="hosted_vllm//models/llama/", api_base="http://127.0.0.1:8000/v1")
    assert model_for(judge, LIMITS).name == "hosted_vllm//models/llama/"


def test_a_temperature_the_model_does_not_take_is_refused_before_any_call(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", OPENAI_KEY)
    check_model(JudgeConfig(model="openai/o3", temperature=1))
    check_model(JudgeConfig(model="openai/o3"))

    with pytest.raises(ConfigurationError, match=r"^.judge. model 'openai/o3', temperature 0.2: "):
        check_model(JudgeConfig(model="openai/o3", temperature=0.2))


def test_a_model_that_can_be_called_is_checked_without_a_call(judge_server):
    check_model(config(judge_server))

    assert judge_server.stats()["requests"] == 0


@pytest.mark.promised
def test_litellm_is_imported_only_for_a_model_that_needs_it_and_fetches_no_prices():
    program = (
        "import sys; from assizes.judge.model_factory import check_model, model_for;"
        "from assizes.judge.config.judging import JudgeConfig;"
        "from assizes.judge.config.judging import LimitsConfig;"
        "check_model(JudgeConfig()); model_for(JudgeConfig(), LimitsConfig());"
        "print('litellm' in sys.modules);"
        "import assizes.judge.models.litellm_model, litellm, os;"
        "print('LITELLM_LOCAL_MODEL_COST_MAP' in os.environ);"
        "assizes.judge.models.litellm_model.configure_litellm();"
        "print(litellm.telemetry, litellm.drop_params)"
    )
    clean = {k: v for k, v in os.environ.items() if not k.startswith("LITELLM")}
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env=clean,
    )
    assert (ran.stdout.split(), ran.stderr) == (["False", "False", "False", "False"], "")
