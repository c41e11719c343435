"""Which settings and models batches of Amazon Bedrock take."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from assizes.judge.catalog import resolve_judges
from assizes.judge.config.bedrock import BedrockConfig
from assizes.judge.config.judging import JudgeConfig, LimitsConfig
from assizes.judge.config.run import RunConfig
from assizes.judge.config.runner import RunnerConfig
from assizes.judge.engine.batching import batches_of
from assizes.judge.errors import ConfigurationError
from assizes.judge.model_assignment import assign_models
from assizes.judge.model_factory import model_for
from tests.doubles.s3 import S3
from tests.tasks.batch.provider_process import MODELS

ROLE = "arn:aws:iam::123456789012:role/batches"
CLAUDE = MODELS["bedrock"]


def model_of(name: str, **judge: Any) -> Any:
    return model_for(JudgeConfig(model=name, **judge), LimitsConfig())


SET = BedrockConfig(uri="s3://bucket/batches", role_arn=ROLE)


@pytest.mark.parametrize(
    ("config", "missing"),
    [
        (None, "set uri and role_arn in"),
        (BedrockConfig(uri="s3://bucket"), "set role_arn in"),
        (BedrockConfig(role_arn=ROLE), "set uri in"),
    ],
)
def test_a_missing_setting_is_named(s3: S3, config: BedrockConfig | None, missing: str):
    with pytest.raises(ConfigurationError, match=rf"{missing} \[runner.bedrock\]"):
        batches_of(model_of(CLAUDE), config)


def test_a_missing_region_is_named(s3: S3, monkeypatch: pytest.MonkeyPatch):
    model = model_of(CLAUDE)
    for name in ("AWS_REGION_NAME", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigurationError, match="set AWS_REGION in the environment"):
        batches_of(model, SET)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("bedrock/anthropic.claude-v2", "Claude from version 3"),
        ("bedrock/amazon.titan-text-express-v1", "Converse interface"),
        ("bedrock/us-west-2/anthropic.claude-v2", "accepted is bedrock/ID"),
        ("bedrock/amazon.nova-lite-v1:0", 'set reply_format = "words"'),
    ],
)
def test_a_model_that_a_batch_cannot_ask_is_refused(s3: S3, name: str, why: str):
    with pytest.raises(ConfigurationError, match=why):
        batches_of(model_of(name), SET)


def test_a_model_without_tools_is_taken(s3: S3):
    assert batches_of(model_of("bedrock/amazon.nova-lite-v1:0", reply_format="words"), SET)


@pytest.mark.parametrize(
    ("setting", "value", "accepted"),
    [
        ("uri", "gs://bucket/x", "accepted: s3://bucket/prefix"),
        ("uri", "s3://bucket/a b", "accepted: s3://bucket/prefix"),
        ("uri", "s3://bucket/" + "a" * 900, "at most 900 characters"),
        ("role_arn", "batches", "accepted: the ARN of a role"),
        ("timeout_hours", 23, "greater than or equal to 24"),
        ("min_records", 50_001, "less than or equal to 50000"),
    ],
)
def test_a_setting_that_amazon_bedrock_would_refuse_is_refused(
    setting: str, value: object, accepted: str
):
    with pytest.raises(ValidationError, match=accepted):
        BedrockConfig.model_validate({setting: value})


def test_the_new_settings_change_no_hash_of_a_configuration():
    run = RunConfig.model_validate({"transcripts": {"uri": "t.jsonl"}})
    other = run.model_copy(update={"runner": RunnerConfig(bedrock=SET)})
    assert run.config_hash() == other.config_hash()


@pytest.mark.parametrize(
    ("judge_model", "uri"), [(CLAUDE, None), ("bedrock/anthropic.claude-v2", "s3://bucket")]
)
def test_a_plan_needs_the_settings_too_but_no_key(
    monkeypatch: pytest.MonkeyPatch, judge_model: str, uri: str | None
):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    tables: dict[str, Any] = {
        "transcripts": {"uri": "t.jsonl"},
        "judge": {"model": judge_model},
        "runner": {"batch": True, "bedrock": {"uri": uri, "role_arn": ROLE}},
    }
    config = RunConfig.model_validate(tables)
    with pytest.raises(ConfigurationError, match=r"\[runner\] batch: "):
        assign_models(config, resolve_judges(config.judge))
    tables["judge"]["model"], tables["runner"]["bedrock"]["uri"] = CLAUDE, "s3://bucket"
    config = RunConfig.model_validate(tables)
    assert assign_models(config, resolve_judges(config.judge)).has_paid_calls
