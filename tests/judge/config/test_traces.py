"""[transcripts.traces] and what the hash of a configuration counts of it."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from assizes.judge.config.run import RunConfig
from assizes.judge.config.traces import TracesConfig
from assizes.judge.config.transcripts import TranscriptsConfig


def test_a_path_of_otlp_files_is_a_path_with_its_format():
    config = TranscriptsConfig(uri="otlp-file://logs/spans.jsonl")
    assert (config.uri, config.format) == ("logs/spans.jsonl", "otel")
    with pytest.raises(ValidationError, match="leave the format out"):
        TranscriptsConfig(uri="otlp-file://logs", format="mlflow")


def test_filters_of_traces_count_only_where_they_are_set():
    plain = TranscriptsConfig(uri="langfuse://support")
    assert "traces" not in plain.counted()
    place = TranscriptsConfig(uri="langfuse://support", traces={"copies": "/x", "use": "copies"})
    assert place.counted() == TranscriptsConfig(uri="langfuse://support", traces=None).counted()
    chosen = TranscriptsConfig(uri="langfuse://support", traces={"tags": ["vip"]})
    assert chosen.counted()["traces"]["tags"] == ["vip"]


def test_the_hash_of_a_configuration_without_traces_is_that_of_older_versions():
    config = RunConfig(transcripts={"uri": "logs", "sample": 0.5})
    assert config.config_hash() == "62a2aaea356e8a8a"


@pytest.mark.parametrize("bound", ["0.5", "<", "=> 1", "< x", "< 1e400"])
def test_a_bound_of_a_score_is_checked(bound):
    with pytest.raises(ValidationError, match="is no bound"):
        TranscriptsConfig(uri="langfuse://p", traces={"scores": {"quality": bound}})


@pytest.mark.parametrize(
    ("bound", "kept"),
    [("< 0.5", False), ("<= 0.5", True), (">0.5", False), (">= 0.5", True), ("= 0.5", True)],
)
def test_bounds_of_scores(bound, kept):
    config = TracesConfig(scores={"quality": bound})
    assert config.keeps_scores({"quality": [0.5]}) is kept
    assert not config.keeps_scores({"other": [0.5]})


def test_a_range_that_ends_before_it_begins_is_refused():
    with pytest.raises(ValidationError, match="is not before until"):
        TracesConfig(since="2026-11-02", until="2026-11-01T00:00:00Z")
