"""A run whose counts do not add up is never called complete."""

from __future__ import annotations

from pathlib import Path

import pytest

from assizes.flows.outcome import to_state
from assizes.flows.shards import ShardFailures
from assizes.judge.config.run import RunConfig
from assizes.judge.config.transcripts import RerunConfig
from assizes.judge.errors import Unreconciled
from assizes.judge.formats import native_line
from assizes.judge.rows import SHARD_TABLES, frame
from assizes.tasks.context.run_context import open_run_context
from assizes.tasks.forecasts.run_forecast import forecast
from assizes.tasks.judge_shard import judge_shard
from assizes.tasks.plan import RunRequest, plan_run
from assizes.tasks.store import open_store
from assizes.tasks.summarise import BaselineResult, summarise_run
from tests.builders import agent, case, user

CASES = [case(user("Hi"), agent("Hello"), case_id=name) for name in "abc"]


@pytest.fixture
def wanted(tmp_path: Path) -> RunConfig:
    """Three cases and a record that cannot be read."""
    lines = [*map(native_line, CASES), b"{broken\n"]
    (tmp_path / "t.jsonl").write_bytes(b"".join(lines))
    return RunConfig.model_validate(
        {
            "transcripts": {"uri": f"{tmp_path}/t.jsonl"},
            "store": {"uri": f"duckdb:///{tmp_path}/rows.duckdb"},
            "cache": {"uri": f"{tmp_path}/replies"},
            "limits": {"ledger": f"{tmp_path}/ledger.db"},
        }
    )


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ({"judged": 2, "quarantined": 1}, r"3 cases due, but 2 judged"),
        ({"judged": 3}, r"1 records rejected, but 0 quarantined"),
        ({"judged": 4, "quarantined": 1}, r"3 cases due, but 4 judged"),
    ],
)
async def test_a_run_with_a_shard_that_lost_a_record_stays_running(wanted, counts, said):
    async with open_run_context(wanted) as context:
        run = await plan_run.fn(context, RunRequest())
        (shard,) = run.intake.shards
        empty = {table: frame(table, []) for table in SHARD_TABLES}
        context.store.commit_shard(run.run_id, shard.shard_id, empty, counts)
        with pytest.raises(Unreconciled, match=said):
            await summarise_run.fn(context, run, has_lost_shards=False)
    with open_store(wanted.store) as store:
        assert store.run(run.run_id).status == "running"


async def test_a_run_over_objects_of_which_one_was_gone_before_it_was_read_is_not_complete(
    wanted: RunConfig, tmp_path: Path
):
    gone = tmp_path / "in" / "u.jsonl"
    gone.parent.mkdir()
    (gone.parent / "t.jsonl").write_bytes(b"".join(map(native_line, CASES)))
    gone.write_bytes(native_line(CASES[0]))
    over = wanted.transcripts.model_copy(update={"uri": str(gone.parent)})
    async with open_run_context(wanted.model_copy(update={"transcripts": over})) as context:
        shown, context.progress = context.progress, lambda *_: gone.unlink(missing_ok=True)
        run = await plan_run.fn(context, RunRequest())
        context.progress = shown
        for shard in run.intake.shards:
            await judge_shard.fn(context, run.run_id, shard)
        ended, summary = await summarise_run.fn(context, run, has_lost_shards=False)

    assert (summary.counts["judged"], summary.counts["quarantined"]) == (3, 1)
    assert (ended.intake.reasons, ended.record.status) == ({"vanished": 1}, "incomplete")
    assert summary.warnings[0].startswith("vanished: 1 of the objects were deleted or changed")
    outcome = to_state(ended.record, summary, BaselineResult(), ShardFailures(), {}, fail=False)
    assert outcome.name == "Incomplete"
    assert (outcome.message or "").startswith("vanished: 1 of the objects")


async def test_what_a_run_left_is_foreseen_as_it_would_be_taken_up(wanted: RunConfig):
    async with open_run_context(wanted) as context:
        run = await plan_run.fn(context, RunRequest())
        for shard in run.intake.shards:
            await judge_shard.fn(context, run.run_id, shard)
        await summarise_run.fn(context, run, has_lost_shards=False)
    path = Path(wanted.transcripts.uri)
    mended = native_line(CASES[0].model_copy(update={"case_id": "d"}))
    path.write_bytes(path.read_bytes().replace(b"{broken\n", mended))
    again = RerunConfig(run=run.run_id, only="quarantined")
    left = wanted.transcripts.model_copy(update={"again": again})

    found = await forecast(wanted.model_copy(update={"transcripts": left}), None)

    assert (found.transcripts["due"], found.transcripts["unselected"]) == (1, 3)


async def test_what_is_odd_about_records_is_told_with_the_summary(wanted: RunConfig):
    silent = case(user("Hi"), user("Anybody?"), case_id="d")
    path = Path(wanted.transcripts.uri)
    path.write_bytes(path.read_bytes() + native_line(silent))
    async with open_run_context(wanted) as context:
        run = await plan_run.fn(context, RunRequest())
        counts = [await judge_shard.fn(context, run.run_id, shard) for shard in run.intake.shards]
        ended, summary = await summarise_run.fn(context, run, has_lost_shards=False)

    assert counts == [{"judged": 4, "quarantined": 1}]
    assert summary.warnings == ("no_agent_turn: 1 record in which the agent never speaks",)
    assert ended.record.status == "complete"
    assert (summary.counts["read"], summary.counts["quarantined"]) == (5, 1)
