"""Runs that stop once they are decided: what they judge, say, keep and compare."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from assizes.flows.in_process import evaluate_in_process
from assizes.flows.outcome import RunOutcome
from assizes.judge.config.run import RunConfig
from assizes.tasks.context import looks
from assizes.tasks.store import open_store
from assizes.tasks.store.record import is_look
from tests.flows.decided_runs import JUDGED, decided_config, transcripts_file

CASES = 400
STATISTICS = {"baseline": "latest", "mode": "statistics", "margin": 5.0}


def passes(seed: int, share: float = 0.8, cases: int = CASES) -> list[float]:
    rng = random.Random(seed)
    return [float(rng.random() < share) for _ in range(cases)]


@pytest.fixture(params=["duckdb:///{}/s.duckdb", "{}/lake"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    return {"uri": request.param.format(tmp_path)}


async def outcome_of_run(config: RunConfig, **more: Any) -> RunOutcome:
    JUDGED.clear()
    return await evaluate_in_process(config, **more)


async def baseline(folder: Path, **tables: Any) -> RunOutcome:
    file = transcripts_file(folder / "before.jsonl", passes(1))
    return await outcome_of_run(decided_config(folder, file, sampling={"until": "all"}, **tables))


async def test_a_large_drop_is_decided_by_a_part_of_the_cases(
    tmp_path: Path, store: dict[str, Any]
):
    await baseline(tmp_path, store=store)
    worse = [value * chance for value, chance in zip(passes(1), passes(2, 0.6), strict=True)]
    file = transcripts_file(tmp_path / "after.jsonl", worse, rejects=2)
    config = decided_config(tmp_path, file, comparison=STATISTICS, store=store)
    outcome = await outcome_of_run(config)
    stop = outcome.summary.early_stop
    assert stop is not None
    assert (outcome.conclusion, stop.comparison) == ("Regression", "regressed")
    counts = outcome.summary.counts
    assert counts["judged"] == len(set(JUDGED)) == stop.cases < CASES / 2
    assert counts["not_needed"] == CASES - stop.cases
    assert counts["read"] == sum(counts.values()) - counts["read"] == CASES + 2
    assert stop.line in outcome.summary.warnings
    passed = outcome.summary.passed_count
    assert stop.pass_rate_pct.worst == pytest.approx(100 * passed / CASES)
    assert stop.pass_rate_pct.best == pytest.approx(100 * (passed + CASES - stop.cases) / CASES)
    assert outcome.comparison is not None
    assert not outcome.comparison.verdict.mismatches
    again = await outcome_of_run(config)
    assert (JUDGED, again.summary) == ([], outcome.summary)


async def test_the_rest_can_be_judged_later_and_a_run_before_it_may_have_stopped(tmp_path: Path):
    stopped = await outcome_of_run(
        decided_config(tmp_path, transcripts_file(tmp_path / "before.jsonl", passes(1)))
    )
    assert stopped.summary.counts["judged"] == 40  # no gate is open, and there is no baseline
    file = transcripts_file(tmp_path / "after.jsonl", passes(1))
    config = decided_config(tmp_path, file, sampling={"until": "all"}, comparison=STATISTICS)
    whole = await outcome_of_run(config)
    assert whole.summary.early_stop is None
    assert whole.summary.counts["judged"] == CASES
    assert "not_needed" not in whole.summary.counts
    assert whole.comparison is not None  # over the cases that both hold
    assert whole.comparison.verdict.mismatches == ()
    assert whole.comparison.case_counts.matched == 40


async def test_a_resumed_run_repeats_no_look_and_asks_nothing_twice(tmp_path: Path, monkeypatch):
    await baseline(tmp_path)
    file = transcripts_file(tmp_path / "after.jsonl", passes(1))
    config = decided_config(tmp_path, file, comparison=STATISTICS | {"margin": 8.0})
    seen: list[int] = []
    real = looks._look

    def killed_at_the_second(*given: Any) -> Any:
        seen.append(given[-2])
        if len(seen) == 2:
            raise KeyboardInterrupt
        return real(*given)

    monkeypatch.setattr(looks, "_look", killed_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        await outcome_of_run(config)
    before = list(JUDGED)
    outcome = await outcome_of_run(config)
    assert seen[:3] == [1, 2, 2]  # the first look was kept, the second was not made
    assert set(before).isdisjoint(JUDGED)
    assert outcome.summary.counts["judged"] == len(before) + len(JUDGED)
    with open_store(config.store) as opened:
        kept = {name for name in opened.shard_counts(outcome.run_id) if is_look(name)}
    stop = outcome.summary.early_stop
    assert stop is not None
    assert kept == {f"look-{number:02d}" for number in range(1, stop.look + 1)}


async def test_clusters_stay_together_and_duplicates_and_rejects_are_counted_once(tmp_path: Path):
    file = transcripts_file(tmp_path / "t.jsonl", passes(1), cluster=8, rejects=3)
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines, lines[0]]) + "\n")  # a duplicate
    outcome = await outcome_of_run(decided_config(tmp_path, file))
    counts = outcome.summary.counts
    assert (counts["quarantined"], counts["duplicate"], counts["read"]) == (3, 1, CASES + 4)
    numbers = {int(case_id[1:]) for case_id in JUDGED}
    assert len(numbers) == 8 * len({number // 8 for number in numbers}) < CASES


async def test_a_run_too_small_for_a_look_judges_all(tmp_path: Path):
    file = transcripts_file(tmp_path / "t.jsonl", passes(1, cases=30))
    outcome = await outcome_of_run(decided_config(tmp_path, file))
    assert outcome.summary.counts["judged"] == 30
    assert outcome.summary.early_stop is None


async def test_near_its_threshold_a_gate_takes_most_of_the_cases(tmp_path: Path):
    values = passes(4)
    file = transcripts_file(tmp_path / "t.jsonl", values)
    thresholds = {"cases_pass_threshold": 100 * sum(values) / CASES}
    outcome = await outcome_of_run(decided_config(tmp_path, file, thresholds=thresholds))
    assert outcome.summary.counts["judged"] > CASES / 2


async def test_one_failure_could_still_come_where_every_case_must_pass(tmp_path: Path):
    file = transcripts_file(tmp_path / "t.jsonl", [1.0] * 700)
    thresholds = {"cases_pass_threshold": 100}
    outcome = await outcome_of_run(decided_config(tmp_path, file, thresholds=thresholds))
    assert (outcome.conclusion, outcome.summary.counts["judged"]) == ("Passed", 700)


async def test_a_critical_case_is_judged_first_and_its_flip_decides(tmp_path: Path):
    await baseline(tmp_path)
    values = passes(1)
    critical = values.index(1.0, 200)
    values[critical] = 0.0
    file = transcripts_file(tmp_path / "after.jsonl", values)
    comparison = STATISTICS | {"critical_cases": [f"c{critical:04}"]}
    outcome = await outcome_of_run(decided_config(tmp_path, file, comparison=comparison))
    assert f"c{critical:04}" in JUDGED
    assert len(JUDGED) == CASES / 10 + (0 if len(JUDGED) == CASES / 10 else 1)
    assert outcome.conclusion == "Regression"
