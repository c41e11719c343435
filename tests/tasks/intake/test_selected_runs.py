"""A run over a sample with truth from a file: what its summary says of both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from assizes.judge.config.gates import ComparisonConfig
from assizes.judge.config.run import RunConfig
from assizes.judge.config.transcripts import TranscriptsConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.formats import native_line
from assizes.judge.summary.run_summary import RunSummary
from assizes.tasks.context.run_context import open_run_context
from assizes.tasks.judge_shard import judge_shard
from assizes.tasks.plan import RunRequest, plan_run
from assizes.tasks.runs.anchor_runs import anchor_config
from assizes.tasks.runs.stored_comparison import compare_stored
from assizes.tasks.store import open_store
from assizes.tasks.summarise import summarise_run
from tests.builders import agent, case, user


def config(folder: Path, **tables: Any) -> RunConfig:
    cases = [
        case(
            user("Is my seat booked?"),
            agent("Your seat 12A is booked." if n % 4 else "Sorry, I cannot help."),
            case_id=f"c{n}",
            tags={"channel": "voice" if n % 5 == 0 else "chat"},
        )
        for n in range(50)
    ]
    (folder / "t.jsonl").write_bytes(b"".join(native_line(one) for one in cases))
    body = {
        "transcripts": {"uri": f"{folder}/t.jsonl"},
        "store": {"uri": f"duckdb:///{folder}/rows.duckdb"},
        "cache": {"uri": f"{folder}/replies"},
        "limits": {"ledger": f"{folder}/ledger.db"},
    }
    return RunConfig.model_validate(
        {**body, **tables, "transcripts": {**body["transcripts"], **tables.get("transcripts", {})}}
    )


async def run(wanted: RunConfig, request: RunRequest = RunRequest()) -> tuple[str, RunSummary]:  # noqa: B008
    async with open_run_context(wanted) as context:
        planned = await plan_run.fn(context, request)
        for shard in planned.intake.shards:
            await judge_shard.fn(context, planned.run_id, shard)
        _, summary = await summarise_run.fn(context, planned, has_lost_shards=False)
        return planned.run_id, summary


async def test_a_sample_says_what_it_was_drawn_from_and_what_it_means_for_all(tmp_path: Path):
    selection = {"number": 20, "stratify_by": ["channel"], "always": ["c1"]}
    _, summary = await run(config(tmp_path, transcripts=selection))
    assert (summary.counts["read"], summary.counts["judged"]) == (50, 21)
    assert summary.counts["skipped"] == 29  # not drawn: still counted
    rate = summary.population["pass_rate"]
    assert (rate.cases, rate.population) == (21, 50)
    assert rate.low <= rate.value <= rate.high
    assert rate.low < rate.high
    (line,) = [line for line in summary.warnings if line.startswith("sampled: ")]
    assert line.startswith("sampled: 21 of 50 cases were drawn; pass_rate of all ")
    whole = config(tmp_path)
    assert (await run(whole))[1].population == {}


async def test_truth_from_a_file_is_what_a_case_is_judged_by(tmp_path: Path):
    rows = [{"case_id": f"c{n}", "outcomes": "The seat 12A is booked"} for n in (1, 2, 4, 99)]
    pl.DataFrame(rows).write_csv(tmp_path / "truth.csv")
    wanted = config(tmp_path, ground_truth={"uri": f"{tmp_path}/truth.csv"})
    run_id, summary = await run(wanted)
    with open_store(wanted.store) as store:
        scores = store.table(run_id, "scores")
    found = scores.filter(pl.col("metric") == "expected_outcomes", pl.col("part") == "")
    judged = found.filter(pl.col("status") == "scored").sort("case_id")
    assert judged["case_id"].to_list() == ["c1", "c2", "c4"]
    assert [line for line in summary.warnings if line.startswith("ground_truth")] == [
        "ground_truth: 1 of 4 rows name no case that was read",
        "ground_truth: 47 cases that were read have no row",
    ]

    (tmp_path / "truth.csv").write_text("case_id,outcomes\nc1,Another\n")
    with pytest.raises(ConfigurationError, match="is another file than when run .* was planned"):
        await run(wanted, RunRequest(run_id=run_id, manner="resume"))
    other, _ = await run(wanted)
    assert other != run_id
    with open_store(wanted.store, writing=True) as store:
        told = compare_stored(store, run_id, other, ComparisonConfig()).verdict
    assert told.ending == "not_comparable"  # no change of the agent's
    assert [one.field for one in told.mismatches] == ["ground_truth_digest"]


async def test_what_was_left_of_a_conversation_is_counted(tmp_path: Path):
    options = {"conversation": {"context_tokens": 3000}}
    wanted = config(tmp_path, judge={"options": options}, transcripts={"number": 2})
    long = case(user("Hi"), *[agent("word " * 400) for _ in range(30)], case_id="long")
    (tmp_path / "t.jsonl").write_bytes(native_line(long) + native_line(case(user("a"), agent("b"))))
    _, summary = await run(wanted)
    assert "truncated_input: 1 conversations were shortened, or read in windows of turns" in (
        summary.warnings
    )


def test_anchors_are_judged_whole_and_by_their_own_truth(tmp_path: Path):
    selection = {"number": 2, "stratify_by": ["channel"], "filter": "true", "always": ["c1"]}
    tables = {
        "ground_truth": {"uri": "t.csv"},
        "anchors": {"uri": "golden/"},
        "privacy": {"redact": []},
    }
    anchors = anchor_config(config(tmp_path, transcripts=selection, **tables))
    assert anchors.transcripts.model_copy(update={"uri": ""}) == TranscriptsConfig(uri="")
    assert anchors.ground_truth.uri is None
    assert anchors.privacy.redact == ()
