"""`assizes calibrate` as a person runs it."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest

from assizes.deployments.samples import sample_cases
from assizes.judge.config.run import StoreConfig
from assizes.judge.formats import native_line
from assizes.tasks.store import open_store
from tests.command import assizes
from tests.tasks.reports.sample import Said, run
from tests.tasks.stored_runs import put

RUN_ID = "nightly-aaaaaaaaaaaa"
ROWS = [(f"c{n}", n % 3 > 0, n % 7 == 0) for n in range(60)]
"""Case id, whether people pass the case, whether the judge disagrees with them."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("labelled")
    cases = [
        Said(case, (5, 5) if good != errs else (1, 1), done=good != errs)
        for case, good, errs in ROWS
    ]
    with open_store(StoreConfig(uri=f"duckdb:///{place}/assizes.duckdb"), writing=True) as store:
        put(store, run(cases))
    lines = [f"{case},{'pass' if good else 'fail'}" for case, good, _ in ROWS]
    (place / "labels.csv").write_text("case_id,label\n" + "\n".join(lines), encoding="utf-8")
    return place


def test_the_judge_beside_people_as_a_table_and_as_json(folder: Path):
    answer = assizes("calibrate", "labels.csv", "--run", RUN_ID, cwd=folder)
    assert answer.code == 0, answer
    first = answer.out.splitlines()[0]
    assert first.startswith("verdict: kappa 0.67 [0.46, 0.85")
    assert first.endswith("on 60 labels")
    assert "F1 of fail" in answer.out
    assert "people say fail" in answer.out
    assert "disagreements: 9" in answer.out
    whole = assizes("calibrate", "labels.csv", "--run", RUN_ID, "--json", cwd=folder)
    (calibration,) = json.loads(whole.out)["calibrations"]
    assert calibration["confusion"] == [[17, 3], [6, 34]]
    assert calibration["failing"]["errors"] == {
        "passes": 40,
        "passes_right": 34,
        "fails": 20,
        "fails_right": 17,
    }


def test_disagreements_are_listed_with_both_reasons(folder: Path, tmp_path: Path):
    lines = [f"{case},{'pass' if good else 'fail'},=the order is late" for case, good, _ in ROWS]
    labels = tmp_path / "noted.csv"
    labels.write_text("case_id,label,note\n" + "\n".join(lines), encoding="utf-8")
    out = tmp_path / "apart.csv"
    words = ("calibrate", str(labels), "--run", RUN_ID, "--disagreements", str(out), "--json")
    answer = assizes(*words, cwd=folder)
    assert answer.code == 0, answer
    (apart,) = json.loads(answer.out)["disagreements"]
    wrong = {case: good for case, good, errs in ROWS if errs}
    assert apart["total"] == len(wrong) == len(apart["listed"])
    for item in apart["listed"]:
        people = wrong.pop(item["case_id"])
        assert (item["people"], item["judge"]) == (float(people), float(not people))
        assert item["notes"] == {"label": "=the order is late"}
        assert item["reason"]  # the summary of the case
    assert not wrong
    with out.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["case_id"] for row in rows] == [item["case_id"] for item in apart["listed"]]
    assert all(json.loads(row["notes"]) for row in rows)


def test_a_file_of_disagreements_that_cannot_be_written_is_one_line(folder: Path):
    words = ("calibrate", "labels.csv", "--run", RUN_ID, "--disagreements", "none/apart.csv")
    answer = assizes(*words, cwd=folder)
    assert answer.code == 2
    assert answer.err.count("\n") == 1
    assert "--disagreements 'none/apart.csv' cannot be written: No such file" in answer.err


def test_a_run_that_is_named_goes_before_judgements_of_the_file(folder: Path, tmp_path: Path):
    file = tmp_path / "assizes.toml"
    file.write_text('[transcripts]\nuri = ""\n[calibration]\njudgements = "none.csv"\n')
    answer = assizes("calibrate", "labels.csv", "--run", RUN_ID, "-c", str(file), cwd=folder)
    assert answer.code == 0, answer
    assert "on 60 labels" in answer.out


def test_show_cites_the_calibration(folder: Path):
    assert assizes("calibrate", "labels.csv", "--run", RUN_ID, cwd=folder).code == 0
    shown = assizes("show", RUN_ID, cwd=folder)
    assert "judge compared with people: verdict: kappa 0.67 [" in shown.out
    cited = json.loads(assizes("show", RUN_ID, "--json", cwd=folder).out)["calibration"]
    assert cited[0].endswith("on 60 labels")


def test_a_kappa_under_its_floor_is_exit_code_1(folder: Path):
    arguments = ("calibrate", "labels.csv", "--run", RUN_ID, "--min-kappa")
    assert assizes(*arguments, "0.6", cwd=folder).code == 0
    answer = assizes(*arguments, "0.9", cwd=folder)
    assert answer.code == 1
    assert "FALLS SHORT: verdict: kappa 0.67" in answer.out


def test_recorded_judgements_need_no_store(folder: Path, tmp_path: Path):
    lines = [f"{case},{int(good != errs)}" for case, good, errs in ROWS]
    (tmp_path / "said.csv").write_text("case_id,judge\n" + "\n".join(lines), encoding="utf-8")
    labels = str(folder / "labels.csv")
    answer = assizes("calibrate", labels, "--judgements", "said.csv", "--json", cwd=tmp_path)
    (calibration,) = json.loads(answer.out)["calibrations"]
    assert calibration["confusion"] == [[17, 3], [6, 34]]
    assert [file.name for file in tmp_path.iterdir()] == ["said.csv"]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--run", RUN_ID], "name a file, cases:NAME or store:, or set [calibration] labels"),
        (["none.csv", "--run", RUN_ID], "'none.csv': no such file"),
        (["labels.csv", "--run", "x"], "no run 'x'"),
        (
            ["labels.csv", "--run", "x", "--judgements", "y"],
            "--run and --judgements: give one of them",
        ),
        (
            ["labels.csv", "--run", RUN_ID, "--column", "label"],
            "--column 'label': write NAME=VALUE",
        ),
        (
            ["labels.csv", "--run", RUN_ID, "--column", "rating=x"],
            "--column rating: no such setting",
        ),
        (["labels.csv", "--run", RUN_ID, "--word", "tie=x"], "--word tie: must be a number"),
        (["labels.csv", "--run", RUN_ID, "--levels", "0,a"], "--levels: must be a number"),
        (["cases:reward", "--run", RUN_ID], "holds no such label; the judge `recorded` repeats"),
        (["cases:reward", "--judgements", "labels.csv"], "needs a run, not judgements"),
    ],
)
def test_what_cannot_be_used_is_one_line_and_exit_code_2(
    words: list[str], reason: str, folder: Path
):
    answer = assizes("calibrate", *words, cwd=folder)
    assert answer.code == 2, answer
    assert reason in answer.err
    assert answer.err.count("\n") == 1
    assert answer.out == ""


def test_several_people_are_the_ceiling_of_a_judge_of_grades(tmp_path: Path):
    grades = [(f"c{n}", n % 4, (n + (n % 5 == 0)) % 4, (n + (n % 6 == 0)) % 4) for n in range(60)]
    labels = [f"{case},{ann},{bob}" for case, ann, bob, _ in grades]
    grades_by_judge = [f"{case},{judge}" for case, *_, judge in grades]
    (tmp_path / "labels.csv").write_text("case_id,ann,bob\n" + "\n".join(labels))
    (tmp_path / "said.csv").write_text("case_id,judge\n" + "\n".join(grades_by_judge))
    columns = ("--column", "label=ann", "--column", "label=bob")
    words = ("labels.csv", "--judgements", "said.csv", *columns, "--levels", "0,1,2,3")
    answer = assizes("calibrate", *words, cwd=tmp_path)
    assert answer.code == 0, answer
    assert "by 2 raters" in answer.out
    assert "kappa, quadratic" in answer.out
    assert "Krippendorff's alpha, ordinal" in answer.out
    assert "ann and bob" in answer.out
    assert "ceiling: mean kappa of people 0." in answer.out


def test_without_a_run_the_configured_transcripts_are_judged_and_attacked(
    tmp_path: Path, prefect_server: str
):
    cases = sample_cases()
    (tmp_path / "t.jsonl").write_bytes(b"".join(map(native_line, cases)))
    labels = [
        f"{case.case_id},{'pass' if n < 20 and n % 2 else 'fail'}" for n, case in enumerate(cases)
    ]
    (tmp_path / "labels.csv").write_text("case_id,label\n" + "\n".join(labels))
    tables = '[transcripts]\nuri = "t.jsonl"\n[calibration]\ncanaries = 3\n'
    (tmp_path / "assizes.toml").write_text('name = "trusted"\n' + tables)
    env = {"PREFECT_API_URL": prefect_server}
    answer = assizes("calibrate", "labels.csv", cwd=tmp_path, env=env)
    assert answer.code == 0, answer
    assert answer.out.startswith("verdict: kappa")
    assert "canaries: 0 of 2 took the judge over, 2 were flagged" in answer.out


def test_a_lowest_passing_grade_outside_the_grades_is_refused(folder: Path):
    answer = assizes("calibrate", "labels.csv", "--run", RUN_ID, "--pass-from", "99", cwd=folder)
    assert (answer.code, answer.out) == (2, "")
    assert "pass_from) 99 is outside the grades, which are 0, 1" in answer.err


def test_only_the_labels_of_the_metric_that_is_named_count(folder: Path, tmp_path: Path):
    labels = tmp_path / "metrics.csv"
    rows = [f"{case},{metric},1" for case, _, _ in ROWS for metric in ("verdict", "tool_routing")]
    labels.write_text("case_id,metric,label\n" + "\n".join(rows), encoding="utf-8")
    calibrate = ("calibrate", str(labels), "--run", RUN_ID, "--json", "--metric")
    folder = shutil.copytree(folder, tmp_path / "own")  # a calibration is stored
    answer = assizes(*calibrate, "verdict", cwd=folder)
    assert [each["metric"] for each in json.loads(answer.out)["calibrations"]] == ["verdict"]
    answer = assizes(*calibrate, "nope", cwd=folder)
    assert (answer.code, answer.out) == (2, "")
    assert "unknown metric 'nope'; known: tool_routing, verdict" in answer.err
