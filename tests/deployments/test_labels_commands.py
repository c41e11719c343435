"""`assizes labels ...` as a person runs it."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from assizes.judge.config.run import StoreConfig
from assizes.judge.labels.current import settled_labels
from assizes.tasks.store import open_store
from tests.command import assizes
from tests.tasks.reports.sample import BEGUN, Said, run
from tests.tasks.stored_runs import put

RUN_ID = "nightly-aaaaaaaaaaaa"
CASES = [(f"c{n}", n % 3 > 0, n % 7 == 0) for n in range(60)]
"""Case id, whether people pass the case, whether the judge disagrees with them."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    said = [
        Said(case, (5, 5) if good != errs else (1, 1), done=good != errs)
        for case, good, errs in CASES
    ]
    with open_store(StoreConfig(uri=f"duckdb:///{tmp_path}/assizes.duckdb"), writing=True) as store:
        put(store, run(said))
    lines = [f"{case},{'pass' if good else 'fail'},ann,so it is" for case, good, _ in CASES[:40]]
    text = "case_id,label,rater,note\n" + "\n".join(lines)
    (tmp_path / "labels.csv").write_text(text, encoding="utf-8")
    return tmp_path


def test_labels_are_imported_once_listed_and_exported_as_they_came(folder: Path):
    words = ("labels", "import", "labels.csv", "--run", RUN_ID)
    assert f"{RUN_ID}: 40 labels read, 40 of them new" in assizes(*words, cwd=folder).out
    assert f"{RUN_ID}: 40 labels read, 0 of them new" in assizes(*words, cwd=folder).out
    listed = json.loads(assizes("labels", "list", RUN_ID, "--json", cwd=folder).out)
    assert {(row["case_id"], row["value"]) for row in listed} == {
        (case, float(good)) for case, good, _ in CASES[:40]
    }
    assert {row["note"] for row in listed} == {"so it is"}
    answer = assizes("labels", "export", RUN_ID, "--to", "out.parquet", cwd=folder)
    assert answer.out == f"{RUN_ID}: 40 labels in out.parquet\n"
    assert pl.read_parquet(folder / "out.parquet")["rater"].unique().to_list() == ["ann"]
    again = assizes("labels", "import", "out.parquet", "--run", RUN_ID, cwd=folder)
    assert f"{RUN_ID}: 40 labels read, 0 of them new" in again.out


def test_roles_and_chances_survive_a_file(folder: Path):
    lines = "case_id,label,rater,role,probability,queue_id"
    rows = [
        "c0,fail,ann,rater,0.25,q1",
        "c0,pass,bob,rater,0.25,q1",
        "c0,fail,eve,adjudicator,0.25,q1",
    ]
    (folder / "roles.csv").write_text("\n".join([lines, *rows]), encoding="utf-8")
    words = ("labels", "import", "roles.csv", "--run", RUN_ID)
    assert f"{RUN_ID}: 3 labels read, 3 of them new" in assizes(*words, cwd=folder).out
    assizes("labels", "export", RUN_ID, "--to", "out.csv", cwd=folder)
    again = assizes("labels", "import", "out.csv", "--run", RUN_ID, cwd=folder)
    assert f"{RUN_ID}: 3 labels read, 0 of them new" in again.out
    listed = json.loads(assizes("labels", "list", "--rater", "eve", "--json", cwd=folder).out)
    assert [(row["role"], row["probability"], row["queue_id"]) for row in listed] == [
        ("adjudicator", 0.25, "q1")
    ]
    table = assizes("labels", "list", "--case", "c0", cwd=folder).out
    assert RUN_ID in table
    assert "3 labels" in table


def test_a_list_is_empty_only_where_what_is_named_is_known(folder: Path):
    assizes("labels", "import", "labels.csv", "--run", RUN_ID, cwd=folder)
    for words in (("--metric", "tool_routing"), ("--case", "c59"), ("--metric", "verdict")):
        answer = assizes("labels", "list", *words, "--json", cwd=folder)
        assert (answer.code, answer.err) == (0, "")
        assert len(json.loads(answer.out)) == (40 if "verdict" in words else 0)
    answer = assizes("labels", "list", "--rater", "amn", cwd=folder)
    assert (answer.code, answer.out) == (2, "")
    assert "--rater 'amn': no label has it; there are ann; did you mean 'ann'?" in answer.err
    assert assizes("labels", "list", "--case", "nope", cwd=folder).code == 2


def test_nobody_is_missed_where_nobody_has_labelled_yet(folder: Path):
    answer = assizes("labels", "list", "--rater", "ann", cwd=folder)
    assert (answer.code, answer.out.splitlines()[-1]) == (0, "0 labels")


def test_levels_are_exported_as_levels(folder: Path):
    rows = [{"case_id": f"c{n}", "label": n % 6, "metric": "tool_routing"} for n in range(12)]
    (folder / "levels.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    words = ("labels", "import", "levels.jsonl", "--run", RUN_ID, "--rater", "bob")
    assert assizes(*words, cwd=folder).code == 0
    listed = json.loads(assizes("labels", "list", RUN_ID, "--json", cwd=folder).out)
    assert {(row["case_id"], row["label"], row["value"]) for row in listed} == {
        (f"c{n}", n % 6, n % 6 / 5) for n in range(12)
    }
    answer = assizes("calibrate", "store:", "--run", RUN_ID, "--json", cwd=folder)
    (calibration,) = json.loads(answer.out)["calibrations"]
    assert (calibration["metric"], calibration["labelled"]) == ("tool_routing", 12)
    assert set(calibration["levels"]) >= {0.0, 1.0, 2.0, 3.0, 4.0, 5.0}


def test_the_store_calibrates_as_the_file_does(folder: Path):
    assizes("labels", "import", "labels.csv", "--run", RUN_ID, cwd=folder)
    answers = [
        json.loads(assizes("calibrate", labels, "--run", RUN_ID, "--json", cwd=folder).out)
        for labels in ("labels.csv", "store:")
    ]
    (by_file,), (by_store,) = (answer["calibrations"] for answer in answers)
    assert by_store["agreement"] == by_file["agreement"]
    assert by_store["confusion"] == by_file["confusion"]
    assert answers[1]["disagreements"][0]["listed"][0]["notes"] == {"ann": "so it is"}


def test_a_queue_is_drawn_once_and_its_labels_correct_the_pass_rate(folder: Path):
    words = ("labels", "queue", RUN_ID, "--size", "30")
    drawn = json.loads(assizes(*words, "--json", cwd=folder).out)
    assert len(drawn["cases"]) == 30
    assert all(0 < row["probability"] <= 1 for row in drawn["cases"])
    answer = assizes(*words, cwd=folder)  # the same words, the same queue
    assert f"queue {drawn['queue_id']}: 30 cases of run {RUN_ID}, verdict" in answer.out
    queried = assizes("sql", RUN_ID, "select count(*) as n from queues", "--json", cwd=folder)
    assert json.loads(queried.out) == [{"n": 30}]
    assizes("labels", "import", "labels.csv", "--run", RUN_ID, cwd=folder)
    status = assizes("labels", "status", RUN_ID, cwd=folder)
    assert "pass rate corrected by 40 labels: " in status.out
    assert "if the labelled cases were chosen at random; the judge says 61.7 %" in status.out
    assert "verdict: no number of labels would halve that interval" in status.out  # of 60 cases
    assert f"queue {drawn['queue_id']} of verdict: " in status.out
    shown = assizes("show", RUN_ID, cwd=folder)
    assert "pass rate corrected by 40 labels: " in shown.out


def test_two_labelled_runs_differ_by_what_people_say_of_them(folder: Path):
    with open_store(f"duckdb:///{folder}/assizes.duckdb", writing=True) as store:
        said = [Said(case, (5, 5)) for case, _, _ in CASES]  # this judge passes everything
        put(store, run(said, run_id="nightly-bbbbbbbbbbbb"))
    for run_id in (RUN_ID, "nightly-bbbbbbbbbbbb"):
        assizes("labels", "import", "labels.csv", "--run", run_id, cwd=folder)
    words = ("labels", "status", "nightly-bbbbbbbbbbbb", "--against", RUN_ID)
    document = json.loads(assizes(*words, "--json", cwd=folder).out)
    change = document["differences"]["verdict"]
    assert change["low"] < 0 < change["high"]  # people say the same of both
    (number,) = document["numbers"]
    assert number["raw"] == 1.0
    assert number["estimate"]["value"] == pytest.approx(2 / 3, abs=0.05)  # not the judge's 1
    assert f"verdict, minus {RUN_ID}: " in assizes(*words, cwd=folder).out


def test_without_labels_status_says_how_to_get_some(folder: Path):
    answer = assizes("labels", "status", RUN_ID, cwd=folder)
    assert answer.code == 0
    assert f"no labels yet; `assizes labels queue {RUN_ID}` draws cases" in answer.out


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["import", "none.csv", "--run", RUN_ID], "none.csv"),
        (["import", "other.csv", "--run", RUN_ID], "has no case 'z' with repetition 0"),
        (["import", "labels.csv", "--run", RUN_ID, "--metric", "tone"], "unknown metric 'tone'"),
        (["import", "labels.csv", "--run", "x"], "no run 'x'"),
        (["queue", RUN_ID, "--size", "0"], "a queue has 1 to 100000 cases, not 0"),
        (["queue", RUN_ID, "--random-share", "2"], "the random share is above 0 to 1, not 2"),
        (["queue", RUN_ID, "--metric", "tone"], "--metric 'tone': no judged case"),
        (["export", RUN_ID, "--to", "out.xlsx"], ".xlsx"),
        (
            ["list", RUN_ID, "--metric", "tone"],
            "--metric 'tone': neither a label nor a run has it; there are ",
        ),
        (
            ["list", RUN_ID, "--metric", "tool_routin"],
            "tool_routing, verdict; did you mean 'tool_routing'?",
        ),
        (
            ["list", RUN_ID, "--case", "c599"],
            "--case 'c599': neither a label nor a run has it; there are c0, c1, c10, c11, c12 and 55 "
            "more; did you mean 'c59'?",
        ),
        (["import", "chance.csv", "--run", RUN_ID], "probability '2'; accepted: above 0 to 1"),
        (["import", "role.csv", "--run", RUN_ID], "column `role` holds rater or adjudicator"),
    ],
)
def test_what_cannot_be_used_is_one_line_and_exit_code_2(
    words: list[str], reason: str, folder: Path
):
    (folder / "other.csv").write_text("case_id,label\nz,pass", encoding="utf-8")
    (folder / "chance.csv").write_text("case_id,label,probability\nc1,pass,2", encoding="utf-8")
    roles = "case_id,label,role\nc0,pass,rater\nc1,pass,judge"
    (folder / "role.csv").write_text(roles, encoding="utf-8")
    answer = assizes("labels", *words, cwd=folder)
    assert answer.code == 2, answer
    assert reason in answer.err
    assert answer.err.count("\n") == 1
    assert answer.out == ""


ODD_IDS = ("-5", "+49123", "=1+1", "@cmd", " lead", "tab\tid", "zero\u200bwidth", "rtl\u202eabc")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_an_exported_file_names_its_cases_whatever_their_ids(tmp_path: Path, suffix: str):
    with open_store(StoreConfig(uri=f"duckdb:///{tmp_path}/assizes.duckdb"), writing=True) as store:
        put(store, run([Said(case_id, (5, 5)) for case_id in (*ODD_IDS, "plain")]))
    rows = [{"case_id": case_id, "label": "pass", "note": "- fine"} for case_id in ODD_IDS]
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    words = ("labels", "import", "in.jsonl", "--run", RUN_ID, "--rater", "@ann")
    assert f"{RUN_ID}: 8 labels read, 8 of them new" in assizes(*words, cwd=tmp_path).out
    file = f"out.{suffix}"
    assert assizes("labels", "export", RUN_ID, "--to", file, cwd=tmp_path).code == 0
    again = assizes("labels", "import", file, "--run", RUN_ID, cwd=tmp_path)
    assert f"{RUN_ID}: 8 labels read, 0 of them new" in again.out
    answer = assizes("calibrate", file, "--run", RUN_ID, "--json", cwd=tmp_path)
    (calibration,) = json.loads(answer.out)["calibrations"]
    assert (calibration["labelled"], calibration["missing"]) == (8, 0)


def given(case_id: str, minute: int, **more: Any) -> dict[str, Any]:
    """A label as the desk stores it."""
    return {
        **{"label_id": f"{case_id}-{minute}", "run_id": RUN_ID, "case_id": case_id},
        **{"repetition": 0, "metric": "verdict", "rater": "ann", "role": "rater", "kind": "label"},
        **{"value": 1.0, "note": "", "shown": "{}", "at": BEGUN + timedelta(minutes=minute)},
        **{"queue_id": "", "probability": None, **more},
    }


def settled(folder: Path) -> set[tuple[Any, ...]]:
    with open_store(f"duckdb:///{folder}/assizes.duckdb") as store:
        found = settled_labels(store.people.rows("labels"), store.people.rows("queues"))
    return set(found.select("case_id", "value", "probability").rows())


@pytest.fixture
def answered(folder: Path) -> Path:
    """The store of a desk: two queues; answers in them, given again, and settled outside them."""
    drawn = [{"queue_id": "q1", "probability": 0.5}, {"queue_id": "q2", "probability": 0.25}]
    labels = [
        *(given(f"c{n}", n, **drawn[0]) for n in (0, 1, 2)),
        given("c0", 10, value=0.0, note="looked again"),
        given("c1", 11, value=0.0, rater="bob"),
        given("c1", 12, value=0.0, role="adjudicator"),
        given("c3", 13, **drawn[1]),
        given("c4", 14),  # by hand
    ]
    queue = {"run_id": RUN_ID, "repetition": 0, "metric": "verdict", "drawn_by": "ann"}
    queues = [
        {**queue, **drawn[place], "case_id": f"c{n}", "position": position, "at": BEGUN}
        for place, cases in ((0, (0, 1, 2, 9)), (1, (2, 3, 8)))
        for position, n in enumerate(cases)
    ]
    with open_store(f"duckdb:///{folder}/assizes.duckdb", writing=True) as store:
        store.people.add("labels", labels)
        store.people.add("queues", queues)
    return folder


def test_an_export_keeps_chances_and_what_was_settled_in_another_store(
    answered: Path, tmp_path_factory: pytest.TempPathFactory
):
    assizes("labels", "export", RUN_ID, "--to", "out.csv", cwd=answered)
    other = tmp_path_factory.mktemp("other")
    with open_store(f"duckdb:///{other}/assizes.duckdb", writing=True) as store:
        put(store, run([Said(case, (5, 5)) for case, _, _ in CASES]))
    words = ("labels", "import", str(answered / "out.csv"), "--run", RUN_ID)
    assert "7 labels read, 7 of them new" in assizes(*words, cwd=other).out
    kept = settled(answered)
    # Three of the five labels in queues are of q1: a case of q1 alone weighs 3/5 x 1 / 0.5.
    chances = {"c0": 5 / 6, "c1": 5 / 6, "c2": 5 / 14, "c3": 5 / 8, "c4": None}
    assert {case_id: chance for case_id, _, chance in kept} == pytest.approx(chances)
    assert settled(other) == kept


def test_an_export_says_nothing_new_to_the_store_that_it_came_from(answered: Path):
    assizes("labels", "export", RUN_ID, "--to", "out.parquet", cwd=answered)
    words = ("labels", "import", "out.parquet", "--run", RUN_ID)
    assert f"{RUN_ID}: 7 labels read, 0 of them new" in assizes(*words, cwd=answered).out
    (answered / "more.csv").write_text("case_id,label,rater\nc0,pass,ann\n", encoding="utf-8")
    more = assizes("labels", "import", "more.csv", "--run", RUN_ID, cwd=answered)
    assert f"{RUN_ID}: 1 labels read, 1 of them new" in more.out
    assert ("c0", 1.0) in {(case_id, value) for case_id, value, _ in settled(answered)}


def test_an_exported_file_calibrates_by_what_was_settled(answered: Path):
    assizes("labels", "export", RUN_ID, "--to", "out.csv", cwd=answered)
    (by_file,), (by_store,) = (
        json.loads(assizes("calibrate", source, "--run", RUN_ID, "--json", cwd=answered).out)[
            "calibrations"
        ]
        for source in ("out.csv", "store:")
    )
    assert by_file["confusion"] == by_store["confusion"]
    assert by_file["disputed"] == by_store["disputed"] == 0


def test_a_label_file_that_is_not_there_is_named_as_the_command_names_it(folder: Path):
    answer = assizes("labels", "import", "nofile.csv", "--run", RUN_ID, cwd=folder)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("assizes: labels import: FILE 'nofile.csv': no such file; ")
