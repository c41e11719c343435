"""How many processes judge a run, and what share of the limits each has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from assizes.judge.config.judging import LimitsConfig
from assizes.judge.config.run import RunConfig
from assizes.judge.config.runner import RunnerConfig
from assizes.tasks.distribute import processes
from assizes.tasks.distribute.processes import (
    MIN_CASES,
    MIN_IN_FLIGHT,
    divided_limits,
    process_count,
    shards_of_process,
    usable_cores,
)


def config(runner: dict[str, Any], **limits: Any) -> RunConfig:
    return RunConfig.model_validate(
        {"transcripts": {"uri": "t.jsonl"}, "runner": runner, "limits": limits}
    )


@pytest.fixture
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "usable_cores", lambda: 8)


@pytest.mark.usefixtures("eight_cores")
@pytest.mark.parametrize(
    ("cases", "in_flight", "wanted"),
    [
        (MIN_CASES, 512, 1),
        (2 * MIN_CASES - 1, 512, 1),
        (2 * MIN_CASES, 512, 2),
        (100 * MIN_CASES, 512, 8),
        (100 * MIN_CASES, 2 * MIN_IN_FLIGHT, 2),
        (100 * MIN_CASES, MIN_IN_FLIGHT, 1),
    ],
)
def test_auto_begins_processes_only_where_they_are_worth_their_start(cases, in_flight, wanted):
    assert process_count(config({"processes": "auto"}, max_in_flight=in_flight), cases) == wanted


@pytest.mark.usefixtures("eight_cores")
@pytest.mark.parametrize("runner", [{}, {"kind": "workers"}, {"kind": "dask"}, {"batch": True}])
def test_one_process_is_the_default_and_the_rule_elsewhere(runner):
    assert process_count(config(runner, max_in_flight=512), 10**6) == 1
    auto = config({**runner, "processes": "auto"}, max_in_flight=512)
    assert process_count(auto, 10**6) == (1 if runner else 8)


def test_no_process_is_without_a_call_or_a_request():
    assert process_count(config({"processes": 6}, max_in_flight=4), 100) == 4
    slow = config({"processes": 6}, max_in_flight=64, requests_per_minute=3)
    assert process_count(slow, 100) == 3
    assert process_count(config({"processes": 6}, max_in_flight=64), 2) == 2
    assert process_count(config({"processes": 6}), 0) == 1


def test_the_shares_add_up_to_the_limits_and_budgets_stay_whole():
    limits = LimitsConfig(
        max_in_flight=10, requests_per_minute=100, tokens_per_minute=1001, budget_usd=5, max_asks=7
    )
    parts = divided_limits(limits, 3)
    for name in ("max_in_flight", "requests_per_minute", "tokens_per_minute"):
        found = [getattr(part, name) for part in parts]
        assert sum(found) == getattr(limits, name)
        assert max(found) - min(found) <= 1
    assert {(part.budget_usd, part.max_asks) for part in parts} == {(5, 7)}
    shared = LimitsConfig(max_in_flight=10, requests_per_minute=100, shared="openai")
    assert [part.requests_per_minute for part in divided_limits(shared, 2)] == [100, 100]


@pytest.mark.parametrize("runner", [{"kind": "workers"}, {"kind": "dask"}, {"batch": True}])
def test_a_number_of_processes_is_refused_where_it_means_nothing(runner):
    with pytest.raises(ValidationError, match="processes: "):
        RunnerConfig.model_validate({**runner, "processes": 2})


@pytest.mark.parametrize("wrong", [0, -1, 257, "all", 1.5])
def test_other_values_are_refused(wrong):
    with pytest.raises(ValidationError):
        RunnerConfig.model_validate({"processes": wrong})


def test_a_run_keeps_its_id_whatever_the_number_of_processes():
    hashes = {config({"processes": value}).config_hash() for value in (1, 4, "auto")}
    assert hashes == {config({}).config_hash()}


def test_the_quota_of_a_container_counts(tmp_path: Path):
    quota = tmp_path / "cpu.max"
    cores = usable_cores(tmp_path / "none")
    assert cores >= 1
    for text, wanted in (("50000 100000", 1), ("100000 100000", 1), ("max 100000", cores)):
        quota.write_text(text, "ascii")
        assert usable_cores(quota) == wanted


@pytest.mark.parametrize(
    ("runner", "slots", "shards"),
    [
        ({}, 0, 0),
        ({}, 256, 3),
        ({}, 512, 4),  # the process of the run, before the other has started
        ({"shards_in_flight": 12}, 256, 6),  # a setting is not lost
        ({"shard_size": 1024}, 256, 2),
        ({"shard_size": 1024, "shards_in_flight": 9}, 256, 5),
    ],
)
def test_a_process_has_the_shards_that_its_calls_need_and_its_part_of_those_asked_for(
    runner: dict[str, Any], slots: int, shards: int
):
    given = config({"processes": 2, **runner}, max_in_flight=512)
    assert shards_of_process(given, 2, slots) == shards
