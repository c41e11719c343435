"""`assizes.evaluate`: conversations in, a frame of scores out, no server and no configuration."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

import assizes
from assizes.deployments.library.inputs import conversation_case
from assizes.judge.case import Turn
from assizes.judge.config.run import RunConfig, StoreConfig
from assizes.judge.errors import ConfigurationError, Inconclusive
from tests import builders
from tests.deployments.library.logs import COLUMNS, COUNT, logs, messages, turn_rows


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    return tmp_path


def scores_of(result: assizes.Evaluation) -> list[tuple]:
    frame = result.to_polars().filter(status="scored")
    return frame.select("case_id", "metric", "raw", "label").sort("case_id", "metric").rows()


def test_thirty_logs_are_judged_by_a_model_that_is_served_here(judge_server):
    result = assizes.evaluate(
        logs(),
        model="openai/stub",
        api_base=judge_server.api_base,
        metrics=["tool_routing", "task_completion"],
    )
    scores = result.to_polars()
    assert (result.summary.total_executions, result.record.judge_model) == (COUNT, "openai/stub")
    assert scores.filter(status="scored")["metric"].unique().sort().to_list() == [
        "task_completion",
        "tool_routing",
    ]
    assert scores["explanation"].null_count() == 0
    assert judge_server.stats()["requests"] == COUNT
    assert "Where is order 1?" in result.case("c1").explain("tool_routing").prompts[0]
    assert not list(Path().rglob("*.duckdb"))


def test_a_second_call_is_answered_by_the_reply_cache(judge_server):
    wanted = {"model": "openai/stub", "api_base": judge_server.api_base}
    before = assizes.evaluate(logs(5), **wanted)
    after = assizes.evaluate(logs(5), **wanted)
    assert judge_server.stats()["requests"] == 5
    assert (before.run_id, scores_of(before)) == (after.run_id, scores_of(after))


@pytest.mark.full
def test_a_csv_a_frame_and_logs_of_one_content_get_the_same_scores(folder: Path):
    rows = pl.DataFrame(turn_rows())
    rows.write_csv(folder / "chats.csv")
    rows.write_parquet(folder / "chats.parquet")
    wanted = scores_of(assizes.evaluate(logs()))
    assert len({case_id for case_id, *_ in wanted}) == COUNT
    for cases in ("chats.csv", folder / "chats.parquet", rows, rows.lazy(), turn_rows()):
        assert scores_of(assizes.evaluate(cases, columns=COLUMNS)) == wanted


@pytest.mark.full
def test_rows_are_recognised_by_their_columns_and_named_by_their_place():
    rows = pl.DataFrame(
        {
            "question": ["Is the shop open?", "When do you close?"],
            "answer": ["It is open now.", "We close at six."],
        }
    )
    result = assizes.evaluate(rows, judges=["relevance_to_query"])
    assert result.case("1").conversation().transcript.request() == "When do you close?"
    named = assizes.evaluate(rows, columns={"request": "question", "response": "answer"})
    assert named.case_ids == ["0", "1"]
    assert assizes.evaluate(pl.DataFrame(logs(2))).case_ids == ["c0", "c1"]
    turns = [{"chat": "c0", **message} for message in messages(0)]
    columns = {"id": "chat", "role": "role", "text": "content"}
    assert assizes.evaluate(turns, columns=columns).case_ids == ["c0"]


def test_cases_and_dicts_and_lists_of_messages_can_stand_in_one_list():
    case = builders.case(builders.user("Hi"), builders.agent("Hello"), case_id="own")
    later = {"id": "dated", "created_at": datetime(2026, 1, 1, tzinfo=UTC), "messages": messages(1)}
    row = {"request": "2 + 2?", "response": "4"}
    result = assizes.evaluate([case, later, messages(2)])
    assert result.case_ids == ["2", "dated", "own"]
    assert result.case("dated").conversation().transcript.started_at == later["created_at"]
    assert assizes.evaluate(case).case_ids == ["own"]
    assert assizes.evaluate(messages(2)).case_ids == ["0"]
    assert assizes.evaluate([row, row | {"response": "5"}], judges=["safety"]).case_ids == [
        "0",
        "1",
    ]


def test_a_path_is_judged_where_it_lies(folder: Path):
    lines = "".join(json.dumps(log) + "\n" for log in logs(3))
    (folder / "logs.jsonl").write_text(lines)
    result = assizes.evaluate(folder / "logs.jsonl", limit=2)
    assert result.to_polars("cases")["transcript_uri"].unique().to_list() == [
        f"{folder}/logs.jsonl"
    ]
    assert result.summary.total_executions == 2


async def test_it_runs_inside_a_running_event_loop_as_in_a_notebook():
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.001)

    ticking = asyncio.create_task(tick())
    awaited = await assizes.aevaluate(logs(5))
    ticking.cancel()
    assert ticks > 1
    blocking = assizes.evaluate(logs(5))
    assert scores_of(blocking) == scores_of(awaited)
    assert blocking.case("c1").explain("response_delivery").prompts


def test_rows_are_kept_in_a_store_that_is_given(folder: Path):
    result = assizes.evaluate(logs(3), store="kept.duckdb", name="desk")
    with assizes.open_store(StoreConfig(uri="duckdb:///kept.duckdb")) as store:
        assert store.runs()["run_id"].to_list() == [result.run_id]
    loaded = assizes.load_run("desk", "kept.duckdb")
    assert (loaded.run_id, scores_of(loaded)) == (result.run_id, scores_of(result))
    assert loaded.case("c1").conversation().transcript.request() == "Where is order 1?"
    again = assizes.evaluate(logs(3), store=folder / "kept.duckdb", name="desk")
    assert again.run_id == result.run_id


def test_a_configuration_is_judged_as_it_stands(folder: Path):
    (folder / "logs.jsonl").write_text("".join(json.dumps(log) + "\n" for log in logs(3)))
    config = RunConfig.model_validate({"transcripts": {"uri": "logs.jsonl"}, "name": "whole"})
    result = assizes.evaluate(config)
    assert result.run_id.startswith("whole-")
    assert (folder / "assizes.duckdb").exists()
    (folder / "a.toml").write_text('name = "base"\n[transcripts]\nuri = ""\nlimit = 1\n')
    assert assizes.evaluate(logs(3), config="a.toml").summary.total_executions == 1
    tables = {"thresholds": {"cases_pass_threshold": 0}}
    assert assizes.evaluate(logs(3), config=tables).summary.cases_pass_threshold == 0


def test_metrics_without_a_weight_of_their_own_weigh_as_much_as_the_others():
    chosen = assizes.evaluate(logs(1), metrics=["task_completion"]).record.config["judge"]
    assert chosen["metrics"] == [{"metric": "task_completion", "weight": 1.0}]
    result = assizes.evaluate(logs(1), metrics={"response_delivery": 3, "task_completion": 1})
    weights = {row["metric"]: row["weight"] for row in result.to_polars().to_dicts()}
    assert weights["response_delivery"] == 0.75


def polite(case: assizes.Case) -> list[assizes.Score]:
    says_sorry = "sorry" in (case.transcript.response() or "")
    value = float(says_sorry)
    return [assizes.Score(metric="polite", value=value, raw=value, passed=says_sorry)]


def test_a_function_of_the_caller_is_a_judge():
    rows = assizes.evaluate(logs(2), judges=[polite]).to_polars()
    assert rows.select("metric", "value").unique().rows() == [("polite", 0.0)]


def test_a_name_alone_is_as_good_as_a_list_of_it():
    result = assizes.evaluate(logs(1), metrics="response_delivery", judges=polite)
    scored = result.to_polars().filter(pl.col("metric") != "expected_outcomes")["metric"]
    assert sorted(scored) == ["polite", "response_delivery"]


def test_a_result_without_a_verdict_names_a_case_that_says_why():
    row = {"request_id": "q0", "request": "2 + 2?", "response": "4"}
    result = assizes.evaluate([row], judges="correctness")
    assert ".case('q0') shows why a case has no verdict" in repr(result)
    assert "expected" in repr(result.case("q0"))


def test_records_that_cannot_be_read_are_counted_and_named():
    broken = {"id": "x", "messages": [{"role": "anna", "content": "Hi"}]}
    result = assizes.evaluate([*logs(2), broken])
    assert result.summary.counts["quarantined"] == 1
    assert "1 record could not be read; .to_polars('rejects')" in repr(result)
    assert "anna" in result.to_polars("rejects")["detail"][0]
    with pytest.raises(Inconclusive, match=r"records\[0\]: schema: messages.0.role: found 'anna'"):
        assizes.evaluate([broken])
    with pytest.raises(Inconclusive, match=r"not recognised .*; a conversation is a list of mess"):
        assizes.evaluate([{"question": "2 + 2?", "answer": "4"}])


def test_a_case_with_half_a_surrogate_pair_is_rejected_as_the_same_dict_is():
    said = [("user", "a\ud800b"), ("assistant", "ok")]
    broken = builders.case(*(Turn(role=role, text=text) for role, text in said))
    record = {"messages": [{"role": role, "content": text} for role, text in said]}
    result = assizes.evaluate([*logs(1), broken, record])
    assert result.summary.counts["quarantined"] == 2
    assert set(result.to_polars("rejects")["reason"]) == {"encoding"}
    with pytest.raises(Inconclusive, match=r"cases\[0\]: encoding: "):
        assizes.evaluate(broken)
    with pytest.raises(ConfigurationError, match="judge: no conversation: encoding: "):
        conversation_case(broken, "a")


def test_a_case_with_a_value_that_is_no_json_is_named_in_one_line():
    odd = builders.case(builders.agent(calls=[builders.call("pay", order=object())]), case_id="c7")
    with pytest.raises(
        ConfigurationError, match="the case 'c7' cannot be written as JSON"
    ) as found:
        assizes.evaluate([odd])
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(
    ("cases", "settings", "text"),
    [
        ([], {}, "cases: there are none; give a path or URI, a list of Cases"),
        (7, {}, "cases: int given; give a path or URI"),
        (["c1"], {}, r"cases\[0\]: str given; wanted a Case, a dict, or a list of messages"),
        ("none.jsonl", {}, r"'none.jsonl' does not exist in \S+; give a file, a folder or a glob"),
        ("none.csv", {}, r"'none.csv' does not exist in \S+; give a file, a folder or a glob"),
        (turn_rows(1), {"columns": {"id": "chatt"}}, "columns: unknown column 'chatt'; known: "),
        (turn_rows(1), {"columns": {"id": "chat", "ident": "n"}}, "unknown setting 'ident'"),
        (pl.DataFrame({"a": [1], "b": [2]}), {}, "cases: the columns a, b are not recognised"),
        ([builders.case()], {"columns": COLUMNS}, "the cases are no rows of a table"),
        (logs(1), {"metrics": ["correctness"]}, r"write judges=\['correctness'\]"),
        (logs(1), {"judges": ["tool_routing"]}, r"write metrics=\['tool_routing'\]"),
        (logs(1), {"metrics": ["tool_routin"]}, "unknown metric 'tool_routin'; known: conv"),
        (logs(1), {"api_bse": "x"}, "evaluate: unknown setting 'api_bse'; known: api_base"),
        (logs(1), {"model": "openai/gpt-4.1"}, "set OPENAI_API_KEY in the environment"),
        (logs(1), {"judges": [lambda case: []]}, "define the judge at the top of a module"),
        (logs(1), {"config": {"runner": {"kind": "dask"}}}, "start this run with `assizes run`"),
        (logs(1), {"config": "none.toml"}, "none.toml: no such file; `assizes init FOLDER -o none"),
    ],
)
def test_a_mistake_gets_one_line_that_names_the_way_out(cases, settings, text, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ConfigurationError, match=text) as caught:
        assizes.evaluate(cases, **settings)
    assert "\n" not in str(caught.value)


def test_a_model_that_cannot_be_reached_is_an_error_and_leaves_nothing(monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", "unused")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    settings = {"config": {"limits": {"max_attempts": 1}}}
    text = "1 case could not be judged; the same call judges them; openai/stub: "
    with pytest.raises(Inconclusive, match=text):
        assizes.evaluate(logs(1), model="openai/stub", api_base="http://127.0.0.1:9/v1", **settings)
    assert not list(tmp_path.glob("assizes-*"))
