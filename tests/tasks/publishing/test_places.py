"""Where the scores of a case belong: what its tags, its traces and its id say."""

from __future__ import annotations

import json
from typing import Any

import pytest

from assizes.judge.config.publishing import PublishConfig
from assizes.judge.errors import ConfigurationError
from assizes.tasks.publishing.entry import TraceTarget, traces_of
from assizes.tasks.publishing.langfuse import Langfuse
from assizes.tasks.publishing.mlflow import Mlflow
from assizes.tasks.publishing.phoenix import Phoenix
from assizes.tasks.publishing.places import given_target, open_place, place_of
from assizes.tasks.trace_stores.connection import ServerConnection
from assizes.tasks.trace_stores.http_client import JsonClient
from tests.tasks.publishing.sample import traced_run

A, B = "a" * 32, "b" * 32
CLIENT = JsonClient(ServerConnection("mlflow", "http://127.0.0.1:9", {}))


def case(case_id: str = "conv", spans: list[str] | None = None, **tags: str) -> dict[str, Any]:
    return {"case_id": case_id, "turn_spans": spans, "tags": json.dumps(tags)}


def test_tags_go_before_traces_and_traces_before_the_form_of_the_id():
    assert given_target(case(A, [f"{B}/s1"], trace_id="t", span_id="s")) == TraceTarget("t", "s")
    assert given_target(case(A, [f"{B}/s1", f"{B}/", ""])) == TraceTarget(trace_id=B)
    assert given_target(case("conv", [f"{A}/s1", f"{B}/s2"])) == TraceTarget(session_id="conv")
    assert given_target(case(A)) == TraceTarget()


def test_a_trace_id_with_a_slash_keeps_it():
    assert traces_of(case(spans=["a/b/s1", "a/b/", "c/s"])) == ["a/b", "c"]
    assert traces_of(case()) == []


@pytest.mark.parametrize("place", [Langfuse(CLIENT), Phoenix("p", CLIENT)])
def test_an_id_that_has_no_form_of_a_trace_is_a_session(place: Any):
    assert place.target(case(A), TraceTarget()) == TraceTarget(trace_id=A)
    assert place.target(case("conv"), TraceTarget()) == TraceTarget(session_id="conv")


def test_mlflow_takes_traces_only_and_of_a_session_the_last_one():
    place, traced = Mlflow("e", CLIENT), case("conv", [f"tr-{A}/s1", f"tr-{B}/s2"])
    assert place.target(case(A), TraceTarget()) == TraceTarget(trace_id=f"tr-{A}")
    assert place.target(traced, given_target(traced)) == TraceTarget(trace_id=f"tr-{B}")


def test_the_place_is_the_configured_one_else_where_the_transcripts_are():
    record = traced_run().record
    assert place_of(PublishConfig(to="otlp"), record) == "otlp"
    with pytest.raises(ConfigurationError, match=r"\[publish\] to: not set"):
        place_of(PublishConfig(), record)
    record.config["transcripts"]["uri"] = "phoenix://desk"
    assert place_of(PublishConfig(), record) == "phoenix://desk"


@pytest.mark.parametrize("place", ["otlp://x", "s3://x", "langfuse://a/b", ""])
def test_a_place_that_takes_no_scores_is_named(place: str):
    with pytest.raises(ConfigurationError, match=r"\[publish\] to"):
        open_place(place)
