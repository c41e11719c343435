"""How to get a run again."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

import pytest

from assizes.judge.config.run import RunConfig
from assizes.tasks.reports.data.report import reproduction
from tests.tasks.reports.render.hostile import PAYLOADS
from tests.tasks.reports.sample import Said, config, run


def settings(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """What a reader of the written file gets."""
    return tomllib.loads(reproduction("x", snapshot).toml)


@pytest.mark.row("001-43", "001-44")
def test_the_file_loads_to_the_configuration_the_run_was_begun_with():
    chosen = config(
        thresholds={"metrics_pass_threshold": 95},
        comparison={"baseline": "latest", "max_latency_increase_pct": "35%"},
        store={"uri": "s3://rows/here", "storage_options": {"endpoint_url": "http://127.0.0.1:9"}},
    )
    record = run([Said("a", (5, 5))], thresholds={"metrics_pass_threshold": 95}).record
    assert RunConfig.model_validate(settings(chosen.model_dump(mode="json"))) == chosen
    snapshot = settings(record.config)
    assert snapshot["thresholds"]["metrics_pass_threshold"] == 95.0


@pytest.mark.parametrize(
    "text", [text for text in PAYLOADS if "\x00" not in text] + ["\x7f", "\x1f"]
)
def test_any_text_survives_the_file(text: str):
    tables = {"uri": text, "where": {text: text}, "writes": [text]}
    chosen = config(transcripts=tables)
    assert RunConfig.model_validate(settings(chosen.model_dump(mode="json"))) == chosen


def test_what_was_never_configuration_is_left_out():
    snapshot = {"name": "x", "fingerprints": {"judge:conversation": "1"}}
    assert reproduction("x", snapshot).toml == 'name = "x"\n'


def test_the_commands_name_the_run():
    assert reproduction("nightly-1", {"name": "nightly"}).commands == [
        "assizes run -c assizes.toml",
        "assizes show nightly-1",
        "assizes report nightly-1",
    ]
