"""Bad input gets one clear line and the right exit code; no server is started for it."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest

from deployments.samples import sample_cases
from judge.formats import native_line
from tests.command import Answer, assizes


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines = [native_line(case) for case in sample_cases()[:3]]
    (tmp_path / "t.jsonl").write_bytes(b"".join(lines))
    (tmp_path / "assizes.toml").write_text('[transcripts]\nuri = "t.jsonl"\n')
    return tmp_path


def refused(answer: Answer, code: int, *said: str) -> None:
    assert answer.code == code, answer
    lines = answer.err.strip().splitlines()
    assert len(lines) == 1, answer.err
    assert lines[0].startswith("assizes: ")
    for word in said:
        assert word in lines[0]
    assert answer.out == ""


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        (['judge.metrics=["nope"]'], ("nope", "tool_routing")),
        (['judge.metrics=[{metric="tool_routing",weight=0}]'], ("sum",)),
        (['judge.metrics=["task_completion"]'], ("task_completion", "weight")),
        (['judge.metrics=["tool_routing","tool_routing"]'], ("tool_routing", "twice")),
        (['judge.judges=["magistrate"]'], ("magistrate", "conversation")),
        (["transcripts.uri=nowhere.jsonl"], ("nowhere.jsonl",)),
        (["judge.model=openai/gpt-4.1"], ("OPENAI_API_KEY",)),
        (["judge.model=somewhere-unknown"], ("somewhere-unknown", "provider/model")),
        (["judge.colour=red"], ("colour", "no such setting")),
        (["judge.pass_threshold=101"], ("pass_threshold", "101")),
        (["comparison.baseline=never-run"], ("never-run",)),
    ],
)
def test_a_wrong_setting_stops_the_run_before_it_begins(
    folder: Path, pairs: list[str], said: tuple[str, ...]
):
    sets = [part for pair in pairs for part in ("--set", pair)]
    refused(assizes("run", *sets, cwd=folder), 2, *said)


def test_an_empty_folder_is_no_data_not_a_pass(folder: Path):
    (folder / "empty").mkdir()
    answer = assizes("run", "--set", "transcripts.uri=empty", cwd=folder)
    refused(answer, 4, "empty")


def test_a_bucket_that_is_not_there_is_named(folder: Path, s3):
    options = f'transcripts.storage_options={{endpoint_url="{s3.endpoint_url}"}}'
    answer = assizes(
        "run", "--set", "transcripts.uri=s3://no-such-bucket/x", "--set", options, cwd=folder
    )
    refused(answer, 2, "no-such-bucket")


def test_a_configuration_that_is_not_there_is_named(folder: Path):
    refused(assizes("run", "-c", "other.toml", cwd=folder), 2, "other.toml", "assizes init")


def test_unreadable_toml_is_named(folder: Path):
    (folder / "assizes.toml").write_text("[judge\n")
    refused(assizes("run", cwd=folder), 2, "assizes.toml", "TOML")


@pytest.mark.parametrize("command", [["show"], ["report"], ["case"]])
def test_a_store_that_is_not_there_is_named(folder: Path, command: list[str]):
    args = [*command, "nightly-1", *(["c"] if command == ["case"] else [])]
    refused(assizes(*args, cwd=folder), 2, "assizes.duckdb", "assizes run")


def test_a_store_of_another_schema_version_is_refused(folder: Path):
    assert assizes("doctor", cwd=folder).code == 0  # opens the store for writing, so makes it
    with duckdb.connect(str(folder / "assizes.duckdb")) as connection:
        connection.execute("update _meta set schema_version = 99")
    refused(assizes("runs", cwd=folder), 2, "99", "version")


def test_an_unknown_run_is_named_with_those_there_are(folder: Path):
    assizes("doctor", cwd=folder)
    refused(assizes("show", "nightly-1", cwd=folder), 2, "nightly-1")


def test_a_store_that_is_no_database_is_refused(folder: Path):
    (folder / "assizes.duckdb").write_text("not a database, only text of some length" * 50)
    refused(assizes("runs", cwd=folder), 2, "assizes.duckdb")


def test_an_existing_configuration_is_not_overwritten(folder: Path):
    refused(assizes("init", "t.jsonl", cwd=folder), 2, "assizes.toml", "--force")


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
