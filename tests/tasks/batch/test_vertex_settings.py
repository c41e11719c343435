"""Which settings and models batches of Vertex AI take."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest
from pydantic import ValidationError

from assizes.judge.catalog import resolve_judges
from assizes.judge.config.judging import JudgeConfig, LimitsConfig
from assizes.judge.config.run import RunConfig
from assizes.judge.config.runner import RunnerConfig
from assizes.judge.config.vertex import VertexConfig
from assizes.judge.engine.batching import batches_of
from assizes.judge.errors import ConfigurationError
from assizes.judge.model_assignment import assign_models
from assizes.judge.model_factory import model_for
from assizes.judge.models.vertex_jobs import storage_address, vertex_place
from tests.tasks.batch.provider_process import MODELS

GEMINI = MODELS["vertex"]
SET = VertexConfig(uri="gs://bucket/batches")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VERTEXAI_CREDENTIALS", "VERTEX_LOCATION", "STORAGE_EMULATOR_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("VERTEXAI_PROJECT", "my-project")
    monkeypatch.setenv("VERTEXAI_LOCATION", "europe-west4")


def model_of(name: str, **judge: Any) -> Any:
    return model_for(JudgeConfig(model=name, **judge), LimitsConfig())


def taken_location(asked: str | None, _: str) -> str:
    return asked or "us-central1"


@pytest.mark.parametrize("config", [None, VertexConfig()])
def test_a_missing_bucket_is_named(config: VertexConfig | None):
    with pytest.raises(ConfigurationError, match=r"need a bucket: set uri in \[runner.vertex\]"):
        batches_of(model_of(GEMINI), None, config)


@pytest.mark.parametrize(
    ("variable", "value", "why"),
    [
        ("VERTEXAI_PROJECT", "", "set VERTEXAI_PROJECT in the environment"),
        ("VERTEXAI_PROJECT", "a/../b", "set VERTEXAI_PROJECT in the environment"),
        ("VERTEXAI_LOCATION", "evil.example/", "accepted is global or a region"),
        ("VERTEXAI_CREDENTIALS", "no/such/file.json", "accepted is the path of a JSON file"),
        ("VERTEXAI_CREDENTIALS", "{", "accepted is the path of a JSON file"),
    ],
)
def test_a_variable_that_cannot_be_used_is_named(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, why: str
):
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigurationError, match=why):
        batches_of(model_of(GEMINI), None, SET)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ConfigurationError, match=r"google-auth: install assizes\[vertex\]"):
        vertex_place(GEMINI, "gemini-2.5-flash", None, taken_location)


@pytest.mark.parametrize(
    ("location", "api_base", "address"),
    [
        ("us-central1", None, "https://us-central1-aiplatform.googleapis.com"),
        ("global", None, "https://aiplatform.googleapis.com"),
        ("eu", None, "https://aiplatform.eu.rep.googleapis.com"),
        ("eu", "https://proxy.example:8443/v1/", "https://proxy.example:8443"),
        ("eu", "http://proxy.example", "http://proxy.example"),
    ],
)
def test_a_location_has_an_address(
    monkeypatch: pytest.MonkeyPatch, location: str, api_base: str | None, address: str
):
    monkeypatch.setenv("VERTEXAI_LOCATION", location)
    assert vertex_place(GEMINI, "g", api_base, taken_location).address == address


@pytest.mark.parametrize(
    ("own", "address"),
    [
        ("", "https://storage.googleapis.com"),
        ("localhost:4443", "http://localhost:4443"),
        ("https://gcs.example/", "https://gcs.example"),
    ],
)
def test_cloud_storage_may_be_a_server_of_the_users_own(
    monkeypatch: pytest.MonkeyPatch, own: str, address: str
):
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", own)
    assert storage_address() == address


@pytest.mark.parametrize(
    ("name", "judge", "why"),
    [
        ("vertex_ai/meta/llama-3.1-405b-instruct-maas", {}, "accepted is vertex_ai/gemini-"),
        ("vertex_ai/gemini/1234567890", {}, "accepted is vertex_ai/gemini-"),
        (GEMINI, {"api_base": "https://gateway.example/google"}, "an address without a path"),
    ],
)
def test_a_model_that_a_batch_cannot_ask_is_refused(name: str, judge: dict[str, Any], why: str):
    with pytest.raises(ConfigurationError, match=why):
        batches_of(model_of(name, **judge), None, SET)


@pytest.mark.parametrize("value", ["s3://bucket/x", "gs://bucket/a b", "gs://b/" + "a" * 900])
def test_a_place_that_is_no_bucket_is_refused(value: str):
    with pytest.raises(ValidationError, match="accepted: gs://bucket/prefix"):
        VertexConfig.model_validate({"uri": value})


def test_the_new_setting_changes_no_hash_of_a_configuration():
    run = RunConfig.model_validate({"transcripts": {"uri": "t.jsonl"}})
    other = run.model_copy(update={"runner": RunnerConfig(vertex=SET)})
    assert run.config_hash() == other.config_hash()


def test_a_plan_needs_the_setting_too_but_no_key(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("VERTEXAI_PROJECT")
    tables: dict[str, Any] = {
        "transcripts": {"uri": "t.jsonl"},
        "judge": {"model": GEMINI},
        "runner": {"batch": True},
    }
    config = RunConfig.model_validate(tables)
    with pytest.raises(ConfigurationError, match=r"\[runner.vertex\]"):
        assign_models(config, resolve_judges(config.judge))
    tables["runner"]["vertex"] = {"uri": "gs://bucket"}
    config = RunConfig.model_validate(tables)
    assert assign_models(config, resolve_judges(config.judge)).has_paid_calls
