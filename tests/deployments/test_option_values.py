"""Values of options that no command can use: numbers out of bounds, empty places, one file for two."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer.main

from assizes.deployments.cli import app
from assizes.deployments.options import visible_commands
from assizes.deployments.samples import sample_cases
from assizes.judge.config.run import StoreConfig
from assizes.judge.formats import native_line
from assizes.tasks.store import open_store
from tests.command import Answer, assizes
from tests.deployments.test_cells import cells
from tests.tasks.reports.sample import Said, run
from tests.tasks.stored_runs import put

RUN_ID = "nightly-aaaaaaaaaaaa"
HUGE = "9" * 20


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("options")
    with open_store(StoreConfig(uri=f"duckdb:///{place}/assizes.duckdb"), writing=True) as opened:
        put(opened, run([Said("c1", (5, 5)), Said("c2", (1, 1), done=False)]))
    return place


def said(answer: Answer) -> str:
    """The one line of a command that refused what was typed."""
    assert (answer.code, answer.out) == (2, ""), answer
    (line,) = answer.err.splitlines()
    return line


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("runs", "--last", HUGE), "'--last': must be a number between -1,000,000,000 and 1,000,"),
        (("plan", "--limit", HUGE), "'--limit': must be a number between"),
        (("labels", "queue", RUN_ID, "--random-share", "nan"), "(given nan)"),
        (("store", "clean", "--older-than", "nan"), "'--older-than': must be"),
        (("store", "clean", "--older-than", "1e300"), "'--older-than': must be less than or equal"),
        (
            ("align", RUN_ID, "--metric", "task_completion", "--budget", "nan", "--dry-run"),
            "'--budget': must be a number",
        ),
        (("compare", RUN_ID, RUN_ID, "--pairwise", "--budget", "nan"), "'--budget': must be"),
        (("calibrate", "x.csv", "--min-kappa", "-inf"), "'--min-kappa': must be"),
    ],
)
def test_a_number_that_cannot_be_counted_with_is_refused(store: Path, words, text: str):
    assert text in said(assizes(*words, cwd=store))


def test_every_number_of_every_command_has_bounds():
    group: Any = typer.main.get_command(app)
    for name, command in visible_commands(group).items():
        context = command.make_context(name, [], resilient_parsing=True)
        for parameter in command.params:
            assert parameter.callback is not None, (name, parameter.name)
            if "--schema" in parameter.opts:
                continue
            assert parameter.callback(context, parameter, 1.5) == 1.5
            for value in (float("nan"), float("inf"), -float("inf"), 10**10):
                with pytest.raises(typer.BadParameter, match="a number between"):
                    parameter.callback(context, parameter, value)


def test_a_limit_of_the_configuration_has_a_bound_too(store: Path):
    pairs = ("--set", "transcripts.uri=x", "--set", f"transcripts.limit={HUGE}")
    assert "transcripts.limit: must be 1e+09 or less" in said(assizes("plan", *pairs, cwd=store))


@pytest.mark.parametrize(
    "words",
    [
        ("runs", "--store", "ftp://nosuch.invalid/y"),
        ("show", RUN_ID, "--store", "ftp://nosuch.invalid/y"),
    ],
)
def test_a_store_whose_server_has_no_address_is_named(store: Path, words):
    line = said(assizes(*words, cwd=store))
    assert "[store] uri 'ftp://nosuch.invalid/y' cannot be opened" in line


ENDPOINT = "must be an address such as http://127.0.0.1:9000"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("init", "s3://b/x", "-o", "m.toml", "--endpoint-url", "nonsense"), "'--endpoint-url': "),
        (
            ("import", "auto", "s3://b/x", "o.jsonl", "--endpoint-url", "nonsense"),
            "'--endpoint-url'",
        ),
        (
            (
                *("plan", "--set", "transcripts.uri=s3://b/x"),
                *("--set", "transcripts.storage_options.endpoint_url=nonsense"),
            ),
            "endpoint_url",
        ),
        (
            (
                *("plan", "--set", "transcripts.uri=x"),
                *("--set", "store.storage_options.client_kwargs.endpoint_url=http://h:x"),
            ),
            "[store] storage_options",
        ),
    ],
)
def test_an_endpoint_that_is_no_address_is_refused(store: Path, words, text: str):
    line = said(assizes(*words, cwd=store))
    assert ENDPOINT.removeprefix("must be ") in line
    assert text in line
    assert not (store / "m.toml").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("init", "s3://b/x", "-o", "m.toml", "--endpoint-url", "http://my_minio:9000"),
        ("import", "auto", "s3://b/x", "o.jsonl", "--endpoint-url", "http://my_minio:9000"),
        *(
            (
                *("plan", "--set", f"{table}.uri=s3://b/x", "--set", f"transcripts.uri={uri}"),
                *("--set", f"{table}.storage_options.{name}=http://my_minio:9000"),
            )
            for table, uri, name in (
                ("transcripts", "s3://b/x", "endpoint_url"),
                ("store", "x", "client_kwargs.endpoint_url"),
                ("cache", "x", "endpoint_url"),
            )
        ),
    ],
)
def test_a_host_that_no_client_of_s3_takes_is_refused(store: Path, words):
    line = said(assizes(*words, cwd=store))
    assert "no S3 client takes the host 'my_minio', because of its underscore" in line
    assert not (store / "m.toml").exists()


@pytest.mark.parametrize(
    "pair",
    [
        "judge.api_base=http://my_service:8000/v1",
        "transcripts.storage_options.endpoint_url=http://my_service:8000",  # of another scheme
    ],
)
def test_a_host_may_have_an_underscore_elsewhere(store: Path, pair: str):
    (store / "t.jsonl").write_bytes(native_line(sample_cases()[0]))
    answer = assizes("plan", "--set", "transcripts.uri=t.jsonl", "--set", pair, cwd=store)
    assert answer.code == 0, answer


@pytest.mark.parametrize(
    "words",
    [
        ("promote", RUN_ID, "--to", "", "--failed"),
        ("run", "--set", "transcripts.uri=x", "--set", "store.uri="),
        ("plan", "--set", "transcripts.uri=x", "--set", "cache.uri="),
        ("plan", "--set", "transcripts.uri=x", "--set", "report.uri="),
        ("report", RUN_ID, "-o", ""),
        ("runs", "--store", ""),
        ("trends", "--store", ""),
        ("demo", "--folder", ""),
        ("judge-tables", "--out", ""),
    ],
)
def test_an_empty_place_is_not_the_working_folder(store: Path, words):
    before = sorted(store.rglob("*"))
    line = said(assizes(*words, cwd=store))
    assert "empty" in line or "--store ''" in line
    assert sorted(store.rglob("*")) == before


def test_two_tables_are_not_written_to_one_file(store: Path):
    answer = assizes("export", RUN_ID, "--wide", "s.csv", "--scores", "./s.csv", cwd=store)
    assert "export: --scores 's.csv' is the file of --wide too; name another" in said(answer)
    assert not (store / "s.csv").exists()


def test_two_outputs_of_ci_are_not_written_to_one_file(store: Path):
    files = ("--summary", "su.md", "--comment", "su.md")
    line = said(assizes("ci", "x", *files, cwd=store))
    assert "ci: --comment 'su.md' is the file of --summary too; name another" in line


@pytest.mark.parametrize("labels", ["labels.csv", "./labels.csv"])
def test_disagreements_are_not_written_over_what_is_read(store: Path, labels: str):
    text = "case_id,label\nc1,pass\nc2,pass\n"
    (store / "labels.csv").write_text(text, encoding="utf-8")
    (store / "own.toml").write_text("", encoding="utf-8")
    calibrate = ("calibrate", "labels.csv", "--run", RUN_ID, "--disagreements")
    line = said(assizes(*calibrate, labels, cwd=store))
    assert "is the file of labels, which this command reads; name another file" in line
    assert (store / "labels.csv").read_text(encoding="utf-8") == text
    line = said(assizes(*calibrate, "own.toml", "-c", "own.toml", cwd=store))
    assert "'own.toml' is the configuration, which this command reads" in line
    line = said(assizes(*calibrate, "assizes.duckdb", cwd=store))
    assert "--disagreements 'assizes.duckdb': name a .csv file" in line
    for _ in range(2):  # as the files of `assizes export`, one of an earlier call is replaced
        assert assizes(*calibrate, "apart.csv", cwd=store).code == 0
    assert len(cells((store / "apart.csv").read_text(encoding="utf-8"))) == 2


@pytest.mark.parametrize(
    ("words", "typed"),
    [
        (("runs", "--log-format", "json"), "--log-format json runs"),
        (
            ("show", RUN_ID, "--log-format=json", "--json"),
            f"--log-format=json show {RUN_ID} --json",
        ),
        (("runs", "--log-format", "--json"), "--log-format json runs --json"),
    ],
)
def test_the_format_of_the_log_is_placed_before_the_typed_command(store: Path, words, typed: str):
    line = said(assizes(*words, cwd=store))
    assert line.endswith(f"it stands before the command: `assizes {typed}`")


@pytest.mark.parametrize("yes", [(), ("--yes",)])
def test_a_case_that_is_nowhere_is_not_deleted(store: Path, yes):
    line = said(assizes("store", "forget", "nope", *yes, cwd=store))
    assert "no case 'nope' is in any run; nothing was deleted" in line
    line = said(assizes("store", "forget", "--tag", "a=b", "--run-id", RUN_ID, *yes, cwd=store))
    assert f"no case with --tag a=b is in run {RUN_ID}; nothing was deleted" in line
    assert "an empty id is none" in said(assizes("store", "forget", "", *yes, cwd=store))


def test_trends_since_a_day_without_runs_name_the_newest_day(store: Path):
    line = said(assizes("trends", "nightly", "--since", "2099-01-01", cwd=store))
    assert "no complete run named 'nightly' about 2099-01-01 or a later day; the newest is" in line
