"""`assizes promote` and `assizes suite ...` as a person runs them: a cause is mended, and comes back."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from tests.command import Answer, assizes
from tests.tasks.suites.clerk import JUDGES, RUDE_AGAIN, judged, write_day

SUITE = "suites/manners"
TOML = """
[judge]
judges = {judges}

[store]
uri = "{store}"
"""
STORES = pytest.mark.parametrize("store", ["duckdb:///rows.duckdb", "lake"])


def write_config(folder: Path, store: str) -> None:
    common = TOML.format(judges=json.dumps(JUDGES), store=store)
    nightly = f'name = "clerk"\n[transcripts]\nuri = "n1"\n{common}'
    (folder / "assizes.toml").write_text(nightly)
    truth = f'[ground_truth]\nuri = "{SUITE}/cases.jsonl"\n'
    (folder / "guard.toml").write_text(
        f'name = "guard"\n[transcripts]\nuri = "n2"\n{truth}{common}'
    )


def ids(numbers: Collection[int]) -> list[str]:
    return [f"c{number:02}" for number in numbers]


def document(answer: Answer, code: int = 0) -> dict[str, Any]:
    assert answer.code == code, answer
    return dict(json.loads(answer.out))


@pytest.mark.full
@pytest.mark.xdist_group("server")
@STORES
def test_a_cause_that_was_mended_is_caught_when_it_comes_back(
    tmp_path: Path, prefect_server: str, store: str
):
    write_config(tmp_path, store)
    write_day(tmp_path / "n1" / "a.jsonl", "v1", rude=range(5), wrong=range(7, 11))

    def command(*words: str) -> Answer:
        return assizes(*words, cwd=tmp_path, env={"PREFECT_API_URL": prefect_server})

    first = document(command("run", "--json"), 1)
    causes = document(command("causes", "latest", "--json"))["causes"]
    (rude,) = [row for row in causes if row["cases"] == 5]
    added = command("promote", "latest", "--cause", rude["name"], "--to", SUITE, "--by", "ann")
    assert (added.code, added.err) == (0, "")
    assert added.out.splitlines()[0] == f"5 cases added to suite 'manners' in {SUITE}"
    again = command("promote", first["run_id"], "--cause", rude["cause_id"], "--to", SUITE)
    assert again.out.splitlines()[0] == f"nothing to add to suite 'manners' in {SUITE}"

    # The agent is mended: new conversations with the same ids, a day later.
    write_day(tmp_path / "n2" / "a.jsonl", "v2", cases=range(8))
    mended = document(command("run", "-c", "guard.toml", "--json"))
    assert (mended["conclusion"], mended["comparison"]) == ("Passed", None)
    status = document(command("suite", "status", SUITE, "--json"))
    assert (status["passing"], status["failing"], status["came_back"]) == (5, 0, [])

    write_day(tmp_path / "n2" / "a.jsonl", "v3", rude=[1, 3], words=RUDE_AGAIN, cases=range(8))
    second = command("run", "-c", "guard.toml")
    assert second.code == 1
    assert "REGRESSION" in second.out
    named = (
        f"cause {rude['cause_id']} ({rude['name']}) of suite 'manners' came back: cases c01, c03"
    )
    assert named in second.out
    assert f"against {mended['run_id']}: 2 cases worse" in second.out
    status = document(command("suite", "status", "-c", "guard.toml", "--json"))
    assert (status["passing"], status["failing"]) == (3, 2)
    assert status["came_back"] == ids([1, 3])
    assert [row["came_back"] for row in status["causes"]] == [2]

    check = command("run", "--set", f"transcripts.uri={SUITE}")
    assert check.code == 1  # the stored conversations fail, as they should
    shown = command("suite", "status", SUITE)
    assert "they fail 5 stored conversations and pass 0" in shown.out


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a run, whose cases 0 to 4 are rude."""
    write_config(tmp_path, "duckdb:///rows.duckdb")
    file = write_day(tmp_path / "n1" / "a.jsonl", "v1", rude=range(5))
    judged(tmp_path, f"duckdb:///{tmp_path}/rows.duckdb", file)
    return tmp_path


def test_what_would_be_promoted_is_said_and_not_written(folder: Path):
    words = ("promote", "latest", "--failed", "--to", SUITE, "--dry-run")
    answer = assizes(*words, cwd=folder)
    assert answer.out.splitlines()[0] == f"5 cases would be added to suite 'manners' in {SUITE}"
    whole = document(assizes(*words, "--json", cwd=folder))
    assert (whole["added"], whole["dry_run"], whole["cases"]) == (ids(range(5)), True, 5)
    assert not (folder / "suites").exists()


def test_what_cannot_be_promoted_is_one_line(folder: Path):
    (folder / "file").write_text("")
    to = ("--to", SUITE)
    refused = {
        ("promote", "latest", *to): "no case is chosen",
        ("promote", "nobody", "--failed", *to): "no run 'nobody'",
        ("promote", "latest", "--case", "c77", *to): "has no case 'c77'",
        ("promote", "latest", "--cause", "slow", *to): "no cause is named 'slow'; the run has ",
        ("promote", "latest", "--failed", "--to", "file"): "'file' is a file; a suite is a folder",
        ("promote", "latest", "--failed", "--to", "s3://b/s"): "a suite is a folder on disk",
        ("promote", "latest", "--failed", "--to", "file/below"): "cannot be written to",
        ("suite", "status", "n1"): "'n1' is no suite: it has no suite.toml",
        ("suite", "status"): "the configuration names no suite; give its folder",
        ("suite", "retire", "n1"): "give --case CASE or --retirable",
    }
    for words, message in refused.items():
        answer = assizes(*words, cwd=folder)
        assert (answer.code, answer.out) == (2, ""), answer
        assert message in answer.err
        assert answer.err.count("\n") == 1
    assert not (folder / "suites").exists()


def test_a_suite_is_not_written_among_the_transcripts(folder: Path):
    body = TOML.format(judges=json.dumps(JUDGES), store="duckdb:///rows.duckdb")
    (folder / "other.toml").write_text(f'[transcripts]\nuri = "else/*"\n{body}')
    judged(folder, f"duckdb:///{folder}/rows.duckdb", folder / "n1")
    other = ("-c", "other.toml", "--to")
    refused = {
        ("--to", "n1"): "--to 'n1' lies in 'n1', which [transcripts] uri names: the suite would be",
        ("--dry-run", "--to", "n1/kept"): "--to 'n1/kept' lies in 'n1', which [transcripts] uri",
        (*other, "else/kept"): "--to 'else/kept' lies in 'else/*', which [transcripts] uri names",
        (*other, "n1"): f"--to 'n1' lies in '{folder}/n1', which run clerk-",
    }
    for words, message in refused.items():
        answer = assizes("promote", "latest", "--failed", *words, cwd=folder)
        assert (answer.code, answer.out) == (2, ""), answer
        assert message in answer.err
        assert answer.err.count("\n") == 1
    assert [path.name for path in (folder / "n1").iterdir()] == ["a.jsonl"]
    assert not (folder / "else").exists()


def test_what_changed_since_is_left_out_and_the_command_fails(folder: Path):
    file = folder / "n1" / "a.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines).replace(b"flight 3", b"flight 7"))
    answer = assizes("promote", "latest", "--failed", "--to", SUITE, cwd=folder)
    assert answer.code == 2
    assert "5 of 5 cases were left out: case 'c00': changed" in answer.err
    assert not (folder / "suites").exists()


@pytest.mark.full
def test_cases_that_passed_often_enough_retire(folder: Path):
    assizes("promote", "latest", "--failed", "--to", SUITE, cwd=folder)
    truth = {"uri": str(folder / SUITE / "cases.jsonl")}
    for number in (2, 3):
        file = write_day(folder / f"n{number}" / "a.jsonl", f"v{number}", rude=[0])
        judged(folder, f"duckdb:///{folder}/rows.duckdb", file, ground_truth=truth)
    shown = assizes("suite", "status", SUITE, "--passes", "2", cwd=folder)
    assert "4 can be retired: they passed 2 times in a row or more" in shown.out
    assert "0 never judged" in shown.out
    none = assizes("suite", "retire", SUITE, "--retirable", cwd=folder)
    assert none.out.splitlines()[0] == "0 cases retired from suite 'manners'"
    words = ("suite", "retire", SUITE, "--retirable", "--passes", "2", "--case", "c00", "--json")
    retired = document(assizes(*words, cwd=folder))
    assert retired["retired"] == ids(range(5))
    assert (folder / SUITE / "cases.jsonl").read_text() == ""
    assert (folder / SUITE / "retired.txt").read_text().count("\n") == 5
    unknown = assizes("suite", "retire", SUITE, "--case", "c00", cwd=folder)
    assert "suite 'manners' has no case 'c00'" in unknown.err
    status = document(assizes("suite", "status", SUITE, "--json", cwd=folder))
    assert (status["cases"], status["retired"]) == (0, 5)


def test_a_suite_can_be_shown_without_a_store(folder: Path, tmp_path_factory):
    assizes("promote", "latest", "--failed", "--to", SUITE, cwd=folder)
    empty = tmp_path_factory.mktemp("empty")
    answer = assizes("suite", "status", str(folder / SUITE), cwd=empty)
    assert answer.code == 0
    assert "5 never judged" in answer.out
    asked = assizes("suite", "status", str(folder / SUITE), "--store", "no.duckdb", cwd=empty)
    assert asked.code == 2
