"""A run says what became of everything its transcripts held."""

from __future__ import annotations

import shutil
from pathlib import Path

from assizes.judge.config.run import RunConfig
from assizes.tasks.context.run_context import open_run_context
from assizes.tasks.judge_shard import judge_shard
from assizes.tasks.plan import RunRequest, plan_run
from assizes.tasks.summarise import summarise_run
from tests.judge.formats.foreign import FIXTURES

NAMES = ("openai_chat.jsonl", "anthropic.json", "mlflow.jsonl", "otlp.jsonl", "inspect_ai.eval")


async def test_a_run_over_files_of_many_makers_tells_what_it_kept_and_what_not(tmp_path: Path):
    for name in NAMES:
        (tmp_path / "in").mkdir(exist_ok=True)
        shutil.copy(FIXTURES / name, tmp_path / "in" / name)
    wanted = RunConfig.model_validate(
        {
            "transcripts": {"uri": f"{tmp_path}/in"},
            "store": {"uri": f"duckdb:///{tmp_path}/rows.duckdb"},
            "cache": {"uri": f"{tmp_path}/replies"},
            "limits": {"ledger": f"{tmp_path}/ledger.db"},
        }
    )
    async with open_run_context(wanted) as context:
        run = await plan_run.fn(context, RunRequest())
        for shard in run.intake.shards:
            await judge_shard.fn(context, run.run_id, shard)
        ended, summary = await summarise_run.fn(context, run, has_lost_shards=False)
        rows = context.store.table(run.run_id, "run_metrics")
        cases = context.store.table(run.run_id, "cases")
    assert ended.record.status == "complete"
    assert (summary.counts["read"], summary.counts["judged"]) == (7, 7)
    assert {"a-1", "c-1", "c-9", "s1", "sums/s1"} < set(cases["case_id"])
    told = [one for one in summary.warnings if one.split(":")[0] in ("marked", "aside", "dropped")]
    assert told == [
        "marked: image 1 (a note in the text stands for it)",
        "aside: reasoning 1 (kept in the metadata, which no judge sees)",
        "dropped: span of another kind 2 (a case has no place for it)",
    ]
    numbers = dict(zip(rows["name"], rows["value"], strict=True))
    assert numbers["transcripts/turns"] == sum(cases["turn_count"])
    assert numbers["transcripts/tool_calls"] == numbers["transcripts/tool_results"]
    assert numbers["transcripts/marked image"] == 1
