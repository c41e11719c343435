"""What `assizes plan` says of a run that stops when it is decided, beside what the run then judges."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from assizes.flows.in_process import evaluate_in_process
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.forecast.cost_options import CostOption
from assizes.judge.forecast.run_forecast import RunForecast
from assizes.tasks.forecasts.run_forecast import forecast
from tests.flows.decided_runs import decided_config, transcripts_file

PRICES = {"openai/gpt-4o-mini": {"input_usd_per_million": 0.15, "output_usd_per_million": 0.6}}
CASES = 400
STATISTICS = {"baseline": "latest", "mode": "statistics", "margin": 10.0}


def passes(seed: int, share: float = 0.8) -> list[float]:
    rng = random.Random(seed)
    return [float(rng.random() < share) for _ in range(CASES)]


def paid(folder: Path, file: Path, **tables: Any) -> RunConfig:
    """As `decided_config`, with a judge that would ask a model."""
    judge = {"judges": ["conversation"], "model": "openai/gpt-4o-mini"}
    limits = {"prices": PRICES, "ledger": f"{folder}/ledger.db"}
    body = decided_config(folder, file, **{"limits": limits, **tables}).model_dump(mode="json")
    return RunConfig.model_validate(body | {"judge": {**judge, **tables.get("judge", {})}})


def rows(found: RunForecast) -> dict[str, CostOption]:
    return {option.name: option for option in found.options}


@pytest.mark.promised
async def test_the_least_and_the_most_are_counted_and_what_is_likely_comes_from_the_last_run(
    tmp_path: Path,
):
    before = transcripts_file(tmp_path / "before.jsonl", passes(1))
    file = transcripts_file(tmp_path / "after.jsonl", passes(2), cluster=3)
    await evaluate_in_process(decided_config(tmp_path, before, sampling={"until": "all"}))
    found = rows(await forecast(paid(tmp_path, file, comparison=STATISTICS)))
    assert found["configured"].calls == CASES
    least = found["until_decided_least"].calls
    assert least == pytest.approx(CASES / 10, abs=3)  # whole clusters
    likely = found["until_decided"]
    assert likely.low_calls is not None
    assert least - 3 <= likely.low_calls <= likely.calls
    assert likely.high_calls is not None
    assert likely.calls <= likely.high_calls <= CASES
    assert "estimate from 400 cases of decided-" in likely.what
    real = decided_config(tmp_path, file, comparison=STATISTICS)
    judged = (await evaluate_in_process(real)).summary.counts["judged"]
    assert likely.low_calls - 3 <= judged <= likely.high_calls + 3


async def test_a_run_over_all_cases_is_shown_what_stopping_would_save(tmp_path: Path):
    file = transcripts_file(tmp_path / "t.jsonl", passes(1))
    config = paid(tmp_path, file, sampling={"until": "all"})
    found = rows(await forecast(config))
    assert found["configured"].what == "as configured"
    assert "until_decided" not in found  # no run to estimate from
    assert found["until_decided_least"].calls == CASES / 10
    assert "about the least" in found["until_decided_least"].what
    for tables in (
        {"comparison": {"baseline": "latest"}},
        {"transcripts": {"uri": str(file), "since_last": True}},
    ):
        other = await forecast(paid(tmp_path, file, sampling={"until": "all"}, **tables))
        assert "until_decided_least" not in rows(other)


async def test_the_first_run_of_a_series_and_a_small_run_judge_every_case(tmp_path: Path):
    file = transcripts_file(tmp_path / "t.jsonl", passes(1))
    first = await forecast(paid(tmp_path, file, comparison=STATISTICS))
    assert any("first run of a series judges every case" in line for line in first.assumptions)
    file = transcripts_file(tmp_path / "few.jsonl", passes(1)[:25])
    small = await forecast(paid(tmp_path, file))
    assert any("25 cases are too few for a look" in line for line in small.assumptions)
    for found in (first, small):
        assert not {"until_decided", "until_decided_least"} & rows(found).keys()


async def test_a_batch_that_no_provider_takes_is_refused_when_it_is_planned(tmp_path: Path):
    file = transcripts_file(tmp_path / "t.jsonl", passes(1))
    mistral = {"judge": {"model": "mistral/mistral-small-latest"}, "sampling": {"until": "all"}}
    config = paid(tmp_path, file, runner={"batch": True}, **mistral)
    with pytest.raises(ConfigurationError, match=r"\[runner\] batch: no batches for 'mistral/"):
        await forecast(config)
    assert "batch" not in rows(await forecast(paid(tmp_path, file, **mistral)))
    assert "batch" in rows(await forecast(paid(tmp_path, file, sampling={"until": "all"})))
