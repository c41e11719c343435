"""Incremental intake: what earlier runs judged, what may go on, what a manifest names."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from assizes.judge.case import Case
from assizes.judge.catalog import resolve_judges
from assizes.judge.config.run import RunConfig
from assizes.judge.config.transcripts import RerunConfig, TranscriptsConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.formats import native_line
from assizes.tasks.context.run_context import open_run_context
from assizes.tasks.forecasts.run_forecast import forecast
from assizes.tasks.intake.plan import NothingDue, Plan, RecordSelector, ScanPolicy
from assizes.tasks.intake.scan import TranscriptCounter
from assizes.tasks.intake.shards import plan_intake, read_shard
from assizes.tasks.plan import RunRequest, plan_run
from assizes.tasks.runs.record_selectors import (
    IncrementalSelector,
    ended_at,
    record_selector,
    rerun_selector,
)
from assizes.tasks.sources.spool import Spool
from assizes.tasks.store import open_store
from tests.builders import agent, case, user
from tests.tasks.intake.test_selected_runs import run

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def spoken(case_id: str, said: str = "Seat 12A is booked.", **rest: Any) -> Case:
    return case(user("Is my seat booked?"), agent(said), case_id=case_id, **rest)


def written(path: Path, *cases: Case, age_minutes: float | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(native_line(one) for one in cases))
    if age_minutes is not None:
        moment = (NOW - timedelta(minutes=age_minutes)).timestamp()
        os.utime(path, (moment, moment))
    return path


def config(folder: Path, since_last: bool = True, **tables: Any) -> RunConfig:
    transcripts = {"uri": f"{folder}/in", "since_last": since_last, **tables.pop("transcripts", {})}
    return RunConfig.model_validate(
        {
            "transcripts": transcripts,
            "store": {"uri": f"duckdb:///{folder}/rows.duckdb"},
            "cache": {"uri": f"{folder}/replies"},
            "limits": {"ledger": f"{folder}/ledger.db"},
            **tables,
        }
    )


def judged(wanted: RunConfig, run_id: str) -> list[str]:
    with open_store(wanted.store) as store:
        return store.table(run_id, "cases")["case_id"].to_list()


def planned(
    wanted: TranscriptsConfig, choice: RecordSelector | None = None
) -> tuple[Plan, list[str]]:
    """A plan at noon, and the ids of the cases that its shards hold."""
    with Spool.of(wanted) as spool:
        plan = plan_intake(wanted, 2, spool, policy=ScanPolicy(choice))
        records = [one for shard in plan.shards for one in read_shard(shard, wanted, spool)]
    assert Plan.from_dict(json.loads(json.dumps(plan.as_dict()))).passed == plan.passed
    return plan, [one.case.case_id for one in records if one.case is not None]


async def test_of_overlapping_inputs_each_case_is_judged_once_and_the_rest_is_counted(
    tmp_path: Path,
):
    written(tmp_path / "in/a.jsonl", spoken("c1"), spoken("c2"))
    first, _ = await run(config(tmp_path))
    written(tmp_path / "in/b.jsonl", spoken("c2"), spoken("c3"))
    second, summary = await run(config(tmp_path))
    assert judged(config(tmp_path), first) == ["c1", "c2"]
    assert judged(config(tmp_path), second) == ["c3"]
    counts = summary.counts
    assert (counts["read"], counts["judged"], counts["skipped"]) == (4, 1, 3)
    told = "since_last: 3 records that were read are cases which earlier runs have judged"
    assert told in summary.warnings
    with open_store(config(tmp_path).store) as store:
        metrics = dict(store.table(second, "run_metrics").select("name", "value").iter_rows())
    assert metrics["transcripts/judged_before"] == 3
    with pytest.raises(NothingDue, match="4 not selected, 4 of them judged_before"):
        await run(config(tmp_path))


async def test_a_conversation_that_went_on_is_judged_anew_and_no_conflict(tmp_path: Path):
    written(tmp_path / "in/a.jsonl", spoken("c1"))
    await run(config(tmp_path))
    longer = case(user("Is my seat booked?"), agent("Yes."), user("And the bag?"), case_id="c1")
    written(tmp_path / "in/b.jsonl", longer)
    again, summary = await run(config(tmp_path))
    assert judged(config(tmp_path), again) == ["c1"]
    assert (summary.counts["quarantined"], summary.counts["skipped"]) == (0, 1)


@pytest.mark.parametrize(
    "tables",
    [
        {"name": "another"},
        {"judge": {"pass_threshold": 60}},
        {"judge": {"judges": ["conversation", "trajectory"]}},
        {"transcripts": {"since_last": False}},
    ],
)
async def test_what_another_name_or_other_judges_judged_is_still_to_be_judged(
    tmp_path: Path, tables: dict[str, Any]
):
    written(tmp_path / "in/a.jsonl", spoken("c1"), spoken("c2"))
    await run(config(tmp_path))
    wanted = config(tmp_path, **tables)
    assert judged(wanted, (await run(wanted))[0]) == ["c1", "c2"]


async def test_a_run_that_did_not_end_counts_for_nothing_and_is_gone_on_with(tmp_path: Path):
    written(tmp_path / "in/a.jsonl", spoken("c1"), spoken("c2"))
    async with open_run_context(config(tmp_path)) as room:
        begun = await plan_run.fn(room, RunRequest())
    ended, summary = await run(config(tmp_path))
    assert (ended, summary.counts["judged"]) == (begun.run_id, 2)


async def test_a_day_that_was_judged_is_the_same_run_again_and_its_overlap_is_left_out(
    tmp_path: Path,
):
    wanted = config(tmp_path, transcripts={"uri": f"{tmp_path}/in/{{date}}.jsonl"})
    days = [datetime(2026, 11, n, tzinfo=UTC).date() for n in (18, 19)]
    written(tmp_path / f"in/{days[0]}.jsonl", spoken("c1"), spoken("c2"))
    written(tmp_path / f"in/{days[1]}.jsonl", spoken("c2"), spoken("c3"))
    first, _ = await run(wanted, RunRequest("nightly", date=days[0]))
    second, _ = await run(wanted, RunRequest("nightly", date=days[1]))
    assert (judged(wanted, first), judged(wanted, second)) == (["c1", "c2"], ["c3"])
    for day, run_id in zip(days, (first, second), strict=True):
        async with open_run_context(wanted) as room:
            again = await plan_run.fn(room, RunRequest("nightly", date=day))
        assert (again.run_id, again.is_finished) == (run_id, True)


async def test_a_mended_record_is_taken_up_without_what_was_judged_before(tmp_path: Path):
    written(tmp_path / "in/a.jsonl", spoken("c1"))
    await run(config(tmp_path))
    lines = [native_line(spoken("c2")), b"{broken\n", native_line(spoken("c1"))]
    (tmp_path / "in/b.jsonl").write_bytes(b"".join(lines))
    second, summary = await run(config(tmp_path))
    assert (summary.counts["judged"], summary.counts["quarantined"]) == (1, 1)
    written(tmp_path / "in/b.jsonl", spoken("c2"), spoken("c3"), spoken("c1"))
    with open_store(config(tmp_path).store) as store:
        choice = rerun_selector(store, RerunConfig(run=second, only="quarantined"))
    _, found = planned(config(tmp_path).transcripts, choice)
    assert found == ["c3"]


async def test_a_forecast_foresees_what_is_left(tmp_path: Path):
    written(tmp_path / "in/a.jsonl", spoken("c1"), spoken("c2"))
    foreseen = await forecast(config(tmp_path))
    assert foreseen.transcripts["due"] == 2  # there is no store yet
    await run(config(tmp_path))
    written(tmp_path / "in/b.jsonl", spoken("c3"))
    later = await forecast(config(tmp_path))
    assert (later.transcripts["due"], later.transcripts["unselected"]) == (1, 2)
    assert later.run_id == (await run(config(tmp_path)))[0]


def test_planning_without_the_earlier_runs_is_refused_not_guessed(tmp_path: Path):
    wanted = config(tmp_path)
    bench = resolve_judges(wanted.judge)
    assert record_selector(None, config(tmp_path, since_last=False), bench, None) is None
    choice = record_selector(None, wanted, bench, None)
    assert choice == IncrementalSelector(frozenset())
    with pytest.raises(ConfigurationError, match="since_last, quiet_minutes: need the earlier"):
        planned(wanted.transcripts)


def test_only_conversations_that_are_quiet_are_judged(tmp_path: Path):
    early, late = NOW - timedelta(minutes=90), NOW - timedelta(minutes=40)
    last = agent("Done.").model_copy(update={"started_at": NOW - timedelta(minutes=5)})
    cases = [
        spoken("whole", started_at=early, duration_ms=60_000.0),
        spoken("long", started_at=early, duration_ms=80 * 60_000.0),
        case(user("Hi"), last, case_id="turns", started_at=early, duration_ms=1.0),
        spoken("begun", started_at=late),  # nobody knows when it ended: the object's time counts
        spoken("untimed"),
    ]
    written(tmp_path / "in/old.jsonl", *cases, age_minutes=31)
    written(tmp_path / "in/new.jsonl", spoken("fresh"), age_minutes=29)
    with (tmp_path / "in/growing.jsonl").open("wb") as out:
        out.write(native_line(spoken("first", started_at=early, duration_ms=1.0)) + b'{"case_i')
    wanted = TranscriptsConfig(uri=f"{tmp_path}/in", quiet_minutes=30)
    choice = IncrementalSelector(frozenset(), NOW - timedelta(minutes=30))
    plan, found = planned(wanted, choice)
    assert sorted(found) == ["begun", "first", "untimed", "whole"]
    assert (plan.read, plan.due, plan.unselected, plan.rejected) == (8, 4, 4, 0)
    assert plan.passed == {"not_quiet": 4}  # the half line of the growing object with them
    plan, found = planned(wanted, IncrementalSelector(frozenset(), NOW + timedelta(days=10_000)))
    assert (len(found), plan.rejected, plan.passed) == (7, 1, {})


def test_a_case_says_when_it_ended_in_any_zone_and_far_off(tmp_path: Path):
    begun = datetime(9999, 12, 31, tzinfo=UTC)
    assert ended_at(spoken("c", started_at=begun, duration_ms=1e12).transcript) == begun
    assert ended_at(case(case_id="c").transcript) is None


async def test_what_was_not_quiet_is_judged_by_a_later_run(tmp_path: Path):
    old, new = datetime.now(UTC) - timedelta(hours=2), datetime.now(UTC)
    written(
        tmp_path / "in/a.jsonl",
        spoken("old", started_at=old, duration_ms=1.0),
        spoken("new", started_at=new, duration_ms=1.0),
    )
    wanted = config(tmp_path, transcripts={"quiet_minutes": 60})
    first, summary = await run(wanted)
    assert "quiet_minutes: 1 records are not quiet yet and left to a later run" in summary.warnings
    second, _ = await run(config(tmp_path))
    assert (judged(wanted, first), judged(wanted, second)) == (["old"], ["new"])


@pytest.mark.parametrize(
    "text",
    [
        "{0}/in/b.jsonl\r\n\r\nmore/c.jsonl\nmore/c.jsonl\n",
        "\ufeff" + '["file://{0}/in/b.jsonl", "more/c.jsonl"]',
    ],
)
def test_a_manifest_names_the_objects_that_are_read(tmp_path: Path, text: str):
    for name in ("a", "b", "more/c"):
        written(tmp_path / f"in/{name}.jsonl", spoken(name[-1]))
    manifest = tmp_path / "in/wanted.txt"
    manifest.write_text(text.replace("{0}", str(tmp_path)))
    wanted = TranscriptsConfig(uri=str(manifest), manifest=True)
    plan, found = planned(wanted)
    assert (found, plan.objects["listed"]) == (["b", "c"], 2)
    assert TranscriptCounter(wanted).count_cases() == 2


def test_only_an_end_of_line_ends_a_name_in_a_manifest(tmp_path: Path):
    written(tmp_path / "in/a\u2028b.jsonl", spoken("a"))
    (tmp_path / "in/wanted.txt").write_text("a\u2028b.jsonl\n", encoding="utf-8")
    plan, found = planned(TranscriptsConfig(uri=f"{tmp_path}/in/wanted.txt", manifest=True))
    assert (found, plan.objects["listed"]) == (["a"], 1)


def test_an_object_that_a_manifest_names_and_that_is_not_there_is_a_named_reject(tmp_path: Path):
    written(tmp_path / "in/a.jsonl", spoken("a"))
    (tmp_path / "in/list.json").write_text('["a.jsonl", "gone.jsonl"]')
    wanted = TranscriptsConfig(uri=f"{tmp_path}/in/list.json", manifest=True)
    plan, found = planned(wanted)
    assert (found, plan.due, plan.reasons, plan.lost_object_count) == (["a"], 1, {"vanished": 1}, 1)
    (shard,) = [one for one in plan.shards if one.failure is not None]
    assert shard.uri == f"{tmp_path}/in/gone.jsonl"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"objects": []}', "is a JSON object; wanted one URI a line, or a JSON list of them"),
        ('["a.jsonl", 7]', "entry 2 is no text; wanted one URI a line"),
        ('["a.jsonl"', "not JSON: EOF.*wanted one URI a line"),
        ("a.jsonl\ngs://b/c.jsonl", "unknown scheme 'gs://'; known: file://, s3://"),
    ],
)
def test_what_is_no_manifest_is_refused_in_one_line(tmp_path: Path, text: str, said: str):
    (tmp_path / "list.json").write_text(text)
    wanted = TranscriptsConfig(uri=f"{tmp_path}/list.json", manifest=True)
    with pytest.raises(ConfigurationError, match=said) as refused:
        planned(wanted)
    assert "list.json" in str(refused.value)


def test_an_empty_manifest_is_no_data(tmp_path: Path):
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(NothingDue, match="names no object"):
        planned(TranscriptsConfig(uri=f"{tmp_path}/list.json", manifest=True))


def test_a_manifest_on_s3_and_the_time_of_its_objects(s3):
    bucket = s3.bucket()
    for key in ("a", "day/b"):
        body = native_line(spoken(key[-1]))
        s3.client.put_object(Bucket=bucket, Key=f"in/{key}.jsonl", Body=body)
    lines = f"day/b.jsonl\ns3://{bucket}/in/a.jsonl\nnone.jsonl\n"
    s3.client.put_object(Bucket=bucket, Key="in/list.txt", Body=lines.encode())
    wanted = TranscriptsConfig(
        uri=f"s3://{bucket}/in/list.txt", manifest=True, storage_options=s3.storage_options
    )
    plan, found = planned(wanted)
    assert (sorted(found), plan.reasons) == (["a", "b"], {"vanished": 1})
    waiting = IncrementalSelector(frozenset(), datetime.now(UTC) - timedelta(hours=1))
    with pytest.raises(NothingDue, match="2 not selected, 2 of them not_quiet"):
        planned(wanted, waiting)


def test_settings_that_are_not_used_change_no_run_id():
    plain = RunConfig.model_validate({"transcripts": {"uri": "in"}})
    assert (
        not {"since_last", "quiet_minutes", "manifest"}
        & plain.result_settings()["transcripts"].keys()
    )
    other = RunConfig.model_validate({"transcripts": {"uri": "in", "since_last": True}})
    assert other.config_hash() != plain.config_hash()
