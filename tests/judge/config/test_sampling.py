"""[sampling]: what may stop early, and which run it is then."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from assizes.judge.config.run import RunConfig


def config(**tables: Any) -> RunConfig:
    return RunConfig.model_validate({"transcripts": {"uri": "t.jsonl"}, **tables})


DECIDED = {"until": "decided"}
STATISTICS = {"baseline": "latest", "mode": "statistics"}


def test_a_run_over_all_cases_is_the_run_it_always_was():
    plain = config()
    assert "sampling" not in plain.result_settings()
    assert config(sampling={"min_cases": 400}).config_hash() == plain.config_hash()


def test_a_run_that_may_stop_is_another_run():
    decided = config(sampling=DECIDED)
    assert decided.config_hash() != config().config_hash()
    assert decided.config_hash() != config(sampling=DECIDED | {"looks": 5}).config_hash()


@pytest.mark.parametrize(
    ("tables", "why"),
    [
        ({"comparison": {"baseline": "latest"}}, 'mode = "statistics"'),
        ({"comparison": STATISTICS | {"verdict": "corrected"}}, 'verdict = "raw"'),
        ({"comparison": STATISTICS | {"mix_by": "topic"}}, "mix_by"),
        ({"runner": {"batch": True}}, "batch"),
        ({"transcripts": {"uri": "t.jsonl", "since_last": True}}, "since_last"),
    ],
)
def test_what_cannot_be_decided_early_is_refused(tables: dict[str, Any], why: str):
    config(**tables)
    with pytest.raises(ValidationError, match=why):
        config(sampling=DECIDED, **tables)


@pytest.mark.parametrize("bad", [{"looks": 1}, {"looks": 11}, {"min_cases": 5}, {"certainty": 1}])
def test_bounds_of_the_settings(bad: dict[str, Any]):
    with pytest.raises(ValidationError):
        config(sampling=DECIDED | bad)


def test_statistics_gates_and_no_baseline_may_stop():
    assert config(sampling=DECIDED, comparison=STATISTICS).sampling.stops
    assert config(sampling=DECIDED).sampling.stops
