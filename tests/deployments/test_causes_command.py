"""`assizes causes`: what failures have in common, what became of it, and which cases show it."""

from __future__ import annotations

import json
import tomllib
from datetime import UTC, datetime
from pathlib import Path

import pytest

from assizes.judge.config.run import StoreConfig
from assizes.tasks.store import open_store
from assizes.tasks.store.people import people_tables
from tests.command import assizes
from tests.tasks.store.failing_nights import RUDE, RUDE_CASES, WRONG, WRONG_CASES, night


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    config = StoreConfig(uri=f"duckdb:///{tmp_path}/assizes.duckdb")
    with open_store(config, writing=True) as store:
        night(store, 1, RUDE_CASES | {39: "Something that no other case has."})
        night(store, 2, RUDE_CASES | WRONG_CASES)
        night(store, 3, {})
        night(store, 4, RUDE_CASES, complete=False)
    return tmp_path


def test_causes_are_printed_with_their_state_and_cases(folder: Path):
    answer = assizes("causes", "night-2", cwd=folder)
    assert (answer.code, answer.err) == (0, "")
    assert "persisting" in answer.out
    assert "new" in answer.out
    assert RUDE in answer.out
    assert "cases c0, c1, c2" in answer.out
    first = assizes("causes", "night-1", cwd=folder)
    assert first.out.splitlines()[-1] == "1 failed cases are in no cause"


def test_a_cause_is_printed_with_the_version_that_shows_it(tmp_path: Path):
    config = StoreConfig(uri=f"duckdb:///{tmp_path}/assizes.duckdb")
    with open_store(config, writing=True) as store:
        night(store, 1, RUDE_CASES, versions=lambda case: "14" if case < 10 else "13")
    answer = assizes("causes", "night-1", cwd=tmp_path)
    assert "more often with agent_version 14: 8 of 10 cases of it, 0 of 30 others" in answer.out


def test_causes_are_one_json_document(folder: Path):
    answer = assizes("causes", "night-2", "--json", cwd=folder)
    document = json.loads(answer.out)
    assert document["failed_cases_without_cause"] == 0
    states = {row["state"]: (row["cases"], row["share"]) for row in document["causes"]}
    assert states == {"new": (10, 0.25), "persisting": (8, 0.2)}
    again = assizes("causes", "night-2", "--json", cwd=folder)
    assert json.loads(again.out) == document


def test_what_is_gone_is_named_and_a_run_that_has_not_ended_is_refused(folder: Path):
    document = json.loads(assizes("causes", "night-3", "--json", cwd=folder).out)
    assert {row["state"] for row in document["causes"]} == {"gone"}
    refused = assizes("causes", "night-4", cwd=folder)
    assert refused.code == 2
    assert refused.err.startswith(
        "assizes: run night-4 is running; causes are found in complete runs;"
    )


def causes(folder: Path, run_id: str = "night-2") -> dict[str, dict]:
    """The causes of a run, by name."""
    document = json.loads(assizes("causes", run_id, "--json", cwd=folder).out)
    return {row["name"]: row for row in document["causes"]}


def test_a_cause_is_renamed_assigned_muted_and_the_next_night_knows_it(folder: Path):
    tone = next(row for row in causes(folder).values() if row["state"] == "persisting")
    for words in (
        ("rename", "night-2", tone["cause_id"][:6], "bad manners", "--by", "Ada"),
        ("assign", "night-2", "bad manners", "tone team", "--note", "theirs"),
        ("mute", "night-2", "bad manners"),
    ):
        answer = assizes("causes", *words, cwd=folder)
        assert (answer.code, answer.err) == (0, ""), answer
        assert words[0] in answer.out
    row = causes(folder, "night-3")["bad manners"]
    assert (row["owner"], row["muted"], row["state"]) == ("tone team", True, "gone")
    assert "gone, muted" in assizes("causes", "night-3", cwd=folder).out
    history = json.loads(
        assizes("causes", "history", "night-3", "bad manners", "--json", cwd=folder).out
    )["edits"]
    assert [(edit["kind"], edit["author"], edit["note"]) for edit in history] == [
        ("rename", "Ada", ""),
        ("assign", "", "theirs"),
        ("mute", "", ""),
    ]
    undone = assizes("causes", "undo", history[0]["edit_id"][:8], "--by", "Bo", cwd=folder)
    assert (undone.code, "undone" in undone.out) == (0, True)
    assert tone["name"] in causes(folder)
    assizes("causes", "unmute", "night-2", tone["name"], cwd=folder)
    assert not causes(folder)[tone["name"]]["muted"]


@pytest.mark.full
def test_causes_are_merged_and_split(folder: Path):
    before = {row["state"]: row for row in causes(folder).values()}
    tone, total = before["persisting"], before["new"]
    cases = [f"--case=c{number}" for number in range(20, 23)]
    split = ("split", "night-2", total["cause_id"], "--name", "wrong sums", *cases)
    assert assizes("causes", *split, cwd=folder).code == 0
    assert causes(folder)["wrong sums"]["cases"] == 3
    merge = ("merge", "night-2", "wrong sums", tone["name"])
    assert assizes("causes", *merge, cwd=folder).code == 0
    after = causes(folder)
    assert (after[tone["name"]]["cases"], after[total["name"]]["cases"]) == (11, 7)
    assert "wrong sums" not in after
    history = assizes("causes", "history", "night-2", tone["name"], cwd=folder)
    assert "merge" in history.out


def test_faults_of_edits_are_one_line(folder: Path):
    first = next(iter(causes(folder)))
    for words, fault in (
        (("mute", "night-2", "nope"), "assizes: no cause is named 'nope'; the run has "),
        (("merge", "night-2", first, first), "a merge cannot lead back"),
        (("rename", "night-2", first, ""), "assizes: a cause has a name; give one"),
        (("split", "night-2", first, "--name", "x", "--case", "c39"), "does not show cause"),
        (("undo", "nope"), "0 edits of causes have an id that begins 'nope'"),
        (("mute", "night-4", "x"), "run night-4 is running"),
    ):
        refused = assizes("causes", *words, cwd=folder)
        assert (refused.code, fault in refused.err) == (2, True), refused
        assert len(refused.err.splitlines()) == 1


def test_who_may_only_read_sees_causes_that_are_not_stored(folder: Path):
    place = folder / "assizes.duckdb.causes" / "causes"
    (place / "causes").mkdir(parents=True)
    (place / "case_causes").write_text("a file where a folder would be")
    answer = assizes("causes", "night-2", "--json", cwd=folder)
    assert answer.code == 0
    states = {row["state"] for row in json.loads(answer.out)["causes"]}
    assert states == {"new", "persisting"}
    assert "the causes of run night-2 are not stored: " in answer.err


def test_a_codebook_is_written_and_keeps_what_people_edit(folder: Path):
    first = assizes("causes", "codebook", "night-1", "--to", "codes.toml", cwd=folder)
    assert (first.code, first.err) == (0, "")
    assert first.out.startswith("codes.toml: 1 new codes, 0 kept as they were\n")
    path = folder / "codes.toml"
    (code,) = tomllib.loads(path.read_text())["codes"]
    assert (code["definition"], code["examples"]) == (RUDE, [RUDE])
    edited = path.read_text().replace(code["code"], "rude") + "# A remark.\n"
    path.write_text(edited)
    second = assizes("causes", "codebook", "night-2", "--to", "codes.toml", "--json", cwd=folder)
    assert [new["examples"] for new in json.loads(second.out)["new"]] == [[WRONG]]
    assert path.read_text().startswith(edited)
    assert len(tomllib.loads(path.read_text())["codes"]) == 2
    again = assizes("causes", "codebook", "night-2", "--to", "codes.toml", cwd=folder)
    assert again.out == "codes.toml: 0 new codes, 2 kept as they were\n"


def test_a_file_that_is_no_codebook_is_left_alone(folder: Path):
    (folder / "codes.toml").write_text("[judge]\n")
    refused = assizes("causes", "codebook", "night-1", "--to", "codes.toml", cwd=folder)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith("assizes: codes.toml: judge: no such key; accepted: ")
    assert refused.err.endswith("; `assizes causes codebook --help` shows its usage\n")
    assert (folder / "codes.toml").read_text() == "[judge]\n"


def test_codes_of_people_are_compared_with_those_of_the_judge(folder: Path):
    rows = "".join(f"c{n},{'rude' if n < 4 else ''}\n" for n in range(40))
    (folder / "codes.csv").write_text(f"case_id,code\n{rows}")
    words = ("causes", "agreement", "night-3", "codes.csv", "--metric", "accuracy")
    answer = assizes(*words, cwd=folder)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("40 items: kappa 0.00")
    document = json.loads(assizes(*words, "--json", cwd=folder).out)
    assert document["codes"] == [
        {"code": "none", "people": 36, "judge": 40, "both": 36},
        {"code": "rude", "people": 4, "judge": 0, "both": 0},
    ]
    wrong = {
        "case_id,label\nc1,a\n": "no column 'code'",
        "case_id,code\nc1,a\nc1,b\n": "case 'c1' has two codes",
        "case_id,code\nzz,a\n": "for none of its 1 items",
        "case_id,code,repetition\nc1,a,x\n": "repetition: accepted are",
    }
    for text, reason in wrong.items():
        (folder / "codes.csv").write_text(text)
        refused = assizes(*words, cwd=folder)
        assert (refused.code, reason in refused.err) == (2, True), refused


def test_codes_that_people_gave_on_pages_are_compared_where_they_agree(folder: Path):
    words = ("causes", "agreement", "night-3", "--metric", "accuracy")
    refused = assizes(*words, cwd=folder)
    assert refused.code == 2
    assert "nobody gave a failure code for 'accuracy' in run night-3" in refused.err
    given = [("c1", "ann", "rude"), ("c1", "ben", "rude"), ("c2", "ann", ""), ("c2", "ben", "rude")]
    rows = [
        {
            **{"annotation_id": f"a{number}", "run_id": "night-3", "case_id": case_id},
            **{"repetition": 0, "kind": "code", "metric": "accuracy", "text": code},
            **{"author": author, "at": datetime(2026, 9, 1, tzinfo=UTC), "supersedes": None},
        }
        for number, (case_id, author, code) in enumerate([*given, ("c3", "ann", "")])
    ]
    config = StoreConfig(uri=f"duckdb:///{folder}/assizes.duckdb")
    people_tables(config).add("annotations", rows)
    document = json.loads(assizes(*words, "--json", cwd=folder).out)
    assert document["items"] == 2  # of c2 they say different things
    assert {row["code"]: row["people"] for row in document["codes"]} == {"none": 1, "rude": 1}
