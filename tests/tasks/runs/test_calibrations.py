"""A stored run beside label files of every kind; what is kept, and what later runs cite."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from assizes.judge.config.gates import CalibrationConfig
from assizes.judge.errors import ConfigurationError
from assizes.tasks.reports.render.html import html_report
from assizes.tasks.reports.render.markdown import markdown_report
from assizes.tasks.reports.stored import stored_report_data
from assizes.tasks.runs.calibrations import (
    calibrate_run,
    citation_lines,
    citations,
    stored_calibrations,
)
from assizes.tasks.runs.labels.labels_and_grades import read_labels
from assizes.tasks.store import Store
from tests.tasks.reports.sample import BEGUN, Said, run
from tests.tasks.stored_runs import put

PEOPLE = {"a": "pass", "b": "fail", "c": "pass", "d": "fail", "e": "pass", "f": "fail"}
ROWS = [{"case_id": case, "label": label} for case, label in PEOPLE.items()]
SAID = [
    Said("a", (5, 5)),
    Said("b", (1, 1), done=False),
    Said("c", (5, 4)),
    Said("d", (5, 5)),
    Said("e", (0, 0), error="timeout: no answer in 120 s"),
]
"""One fail that the judge passes, one case it could not be had for, and f is not in the run."""


def written_csv(file: Path, rows: list[dict[str, Any]]) -> Path:
    pl.DataFrame(rows).write_csv(file)
    return file


def written_lines(file: Path, rows: list[dict[str, Any]]) -> Path:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    file.write_bytes(gzip.compress(text.encode()) if file.suffix == ".gz" else text.encode())
    return file


def written_json(file: Path, rows: list[dict[str, Any]]) -> Path:
    file.write_text(json.dumps(rows), encoding="utf-8")
    return file


def written_parquet(file: Path, rows: list[dict[str, Any]]) -> Path:
    pl.DataFrame(rows).write_parquet(file)
    return file


def written_tabs(file: Path, rows: list[dict[str, Any]]) -> Path:
    pl.DataFrame(rows).write_csv(file, separator="\t")
    return file


@pytest.fixture
def labels(tmp_path: Path) -> CalibrationConfig:
    return CalibrationConfig(labels=str(written_csv(tmp_path / "labels.csv", ROWS)))


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("l.csv", written_csv),
        ("l.tsv", written_tabs),
        ("l.jsonl", written_lines),
        ("l.jsonl.gz", written_lines),
        ("l.json", written_json),
        ("l.parquet", written_parquet),
    ],
)
def test_the_verdict_beside_labels_of_every_format(
    name: str, write: Callable[[Path, list], Path], tmp_path: Path, store: Store
):
    file = write(tmp_path / name, ROWS)
    run_id = put(store, run(SAID))
    (found,) = calibrate_run(store, run_id, CalibrationConfig(labels=str(file))).calibrations
    assert found.confusion == ((1, 1), (0, 2))
    assert (found.labelled, found.missing, found.judge_errors) == (6, 1, 1)
    assert found.run_id == run_id
    assert found.observed_pass_rate == 0.75
    assert found.judge == "offline/lexical answered by offline/lexical"


@pytest.mark.parametrize("sign", ["\u2028", "\u2029", "\x85"])
def test_a_text_may_hold_what_ends_a_line_elsewhere(tmp_path: Path, sign: str):
    row = {"case_id": "a", "label": "pass", "rater": f"Ada{sign}Byron"}
    file = tmp_path / "l.jsonl"
    line = json.dumps(row, ensure_ascii=False)
    file.write_bytes(f"\ufeff{line}\r\n\r\n{line}".encode())
    found = read_labels(str(file), {}, CalibrationConfig().columns, "[calibration] labels")
    assert found.rows == [row, row]


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_the_first_topic_of_a_trec_file_is_read_without_a_byte_order_mark(
    tmp_path: Path, mark: str
):
    file = tmp_path / "l.qrels"
    file.write_text(f"{mark}1 0 d 1\n2 0 e 0\n", encoding="utf-8")
    columns = CalibrationConfig().columns
    rows = read_labels(str(file), {}, columns, "[calibration] labels").rows
    assert [(row[columns.case], row[columns.cluster]) for row in rows] == [
        ("1/d", "1"),
        ("2/e", "2"),
    ]


def test_a_metric_of_levels_is_held_against_levels_or_against_pass_and_fail(
    tmp_path: Path, store: Store
):
    run_id = put(store, run(SAID))
    levels = {"a": 5, "b": 2, "c": 5, "d": 1}
    rows = [
        *(
            {"case_id": case, "label": level, "metric": "tool_routing"}
            for case, level in levels.items()
        ),
        *(
            {"case_id": case, "label": PEOPLE[case], "metric": "response_delivery"}
            for case in "abcd"
        ),
    ]
    file = written_lines(tmp_path / "l.jsonl", rows)
    found = {
        one.metric: one
        for one in calibrate_run(store, run_id, CalibrationConfig(labels=str(file))).calibrations
    }
    assert found["tool_routing"].levels == (1.0, 2.0, 5.0)
    assert found["tool_routing"].confusion == ((0, 0, 1), (1, 0, 0), (0, 0, 2))
    assert found["response_delivery"].confusion == ((1, 1), (0, 2))
    assert found["tool_routing"].fingerprint != found["response_delivery"].fingerprint


def test_levels_that_an_adjudicator_alone_gave_are_held_against_levels(store: Store):
    run_id = put(store, run(SAID))
    levels = {"a": 5, "b": 2, "c": 4, "d": 1}
    rows = [
        {
            **{"label_id": case, "run_id": run_id, "case_id": case, "repetition": 0},
            **{"metric": "tool_routing", "rater": "eve", "role": "adjudicator", "kind": "label"},
            **{"value": level / 5, "at": BEGUN, "shown": "{}"},
        }
        for case, level in levels.items()
    ]
    store.people.add("labels", rows)
    (found,) = calibrate_run(store, run_id, CalibrationConfig(labels="store:")).calibrations
    assert found.levels == (1.0, 2.0, 4.0, 5.0)
    assert found.confusion == ((0, 0, 0, 1), (1, 0, 0, 0), (0, 0, 0, 1), (0, 0, 0, 1))


def test_repetitions_must_be_told_apart_by_the_labels(tmp_path: Path, store: Store):
    said = [Said("a", (5, 5)), Said("a", (1, 1), done=False, repetition=1), *SAID[1:]]
    run_id = put(store, run(said))
    bare = written_csv(tmp_path / "bare.csv", ROWS)
    with pytest.raises(ConfigurationError, match=r"case 'a' was judged in 2 repetitions"):
        calibrate_run(store, run_id, CalibrationConfig(labels=str(bare)))
    told = [{**row, "repetition": 1 if row["case_id"] == "a" else 0} for row in ROWS]
    file = written_csv(tmp_path / "told.csv", told)
    (found,) = calibrate_run(store, run_id, CalibrationConfig(labels=str(file))).calibrations
    assert found.confusion == ((1, 1), (1, 1))


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        (
            "tone",
            "unknown metric 'tone'; known: response_delivery, task_completion, tool_routing, ver",
        ),
        ("verdict", "not one labelled case was judged in run nightly-aaaaaaaaaaaa"),
    ],
)
def test_labels_of_another_run_are_refused(metric: str, said: str, tmp_path: Path, store: Store):
    run_id = put(store, run(SAID))
    file = written_csv(tmp_path / "l.csv", [{"case_id": "z", "label": 1}])
    with pytest.raises(ConfigurationError) as caught:
        calibrate_run(store, run_id, CalibrationConfig(labels=str(file), metric=metric))
    assert said in str(caught.value)
    assert stored_calibrations(store) == []


def test_a_later_run_of_the_same_judge_cites_what_was_found(labels, store: Store):
    first = put(store, run(SAID))
    found = calibrate_run(store, first, labels).calibrations[0]
    assert calibrate_run(store, first, labels).calibrations == (found,)
    assert stored_calibrations(store) == [found]
    later = put(store, run([Said("x", (5, 5))], run_id="nightly-bbbbbbbbbbbb"))
    lines = citation_lines(citations(store, store.run(later)))
    assert lines == [
        "verdict: kappa 0.50 on 4 labels",
        "not calibrated: response_delivery, task_completion, tool_routing",
    ]


def test_another_judge_is_not_calibrated_by_it(labels, store: Store):
    calibrate_run(store, put(store, run(SAID)), labels)
    judge = {"metrics": ["tool_routing"], "model": "gpt-4.1", "provider": "openai"}
    other = put(store, run(SAID, run_id="nightly-cccccccccccc", judge=judge))
    lines = citation_lines(citations(store, store.run(other)))
    assert lines == ["not calibrated"]


def test_reports_say_how_far_the_judge_agrees_with_people(labels, store: Store):
    run_id = put(store, run(SAID))
    calibrate_run(store, run_id, labels)
    data = stored_report_data(store, store.run(run_id), None)
    assert data["calibration"][0] == "verdict: kappa 0.50 on 4 labels"
    assert "Judge compared with people: verdict: kappa 0.50 on 4 labels" in markdown_report(data)
    assert "Judge compared with people: verdict: kappa 0.50 on 4 labels" in html_report(data)


def test_the_new_judge_is_held_against_the_one_before(labels, store: Store):
    calibrate_run(store, put(store, run(SAID)), labels)
    judge = {"metrics": ["tool_routing"], "model": "gpt-4.1", "provider": "openai"}
    worse = [Said("a", (1, 1), done=False), Said("b", (5, 5)), *SAID[2:]]
    other = put(store, run(worse, run_id="nightly-cccccccccccc", judge=judge))
    gated = labels.model_copy(update={"max_kappa_drop": 0.1})
    (why,) = calibrate_run(store, other, gated).shortfalls
    assert "1.00 under the former judge's 0.50 (offline/lexical answered by" in why


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("l.xlsx", b"", "unknown ending; accepted: .csv, .tsv, .parquet"),
        ("l.json", b'{"a": 1}', "cannot be read as .json: wanted a list of objects"),
        ("l.jsonl", b"[1]\n", "cannot be read as .jsonl: wanted a list of objects"),
        ("l.jsonl", b"{", "cannot be read as .jsonl: line 1: not JSON: EOF"),
        ("l.parquet", b"no parquet", "cannot be read as .parquet"),
        ("l.csv.gz", b"no gzip", "cannot be read: gzip_corrupt: "),
        ("l.txt", b"q1 0 p1\n", "line 1: wanted topic, 0, document, grade"),
        ("l.csv", b"", "cannot be read as .csv"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(name: str, content: bytes, said: str, tmp_path: Path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigurationError) as caught:
        read_labels(str(tmp_path / name), {}, CalibrationConfig().columns, "[calibration] labels")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_labels_may_lie_in_a_bucket(s3, tmp_path: Path, store: Store):
    import s3fs

    bucket = s3.bucket()
    files = s3fs.S3FileSystem(**s3.storage_options)
    files.pipe_file(f"{bucket}/labels.csv", written_csv(tmp_path / "l.csv", ROWS).read_bytes())
    config = CalibrationConfig(
        labels=f"s3://{bucket}/labels.csv", storage_options=s3.storage_options
    )
    (found,) = calibrate_run(store, put(store, run(SAID)), config).calibrations
    assert found.agreement.items == 4


def test_disagreements_have_the_judges_reason_of_the_verdict_and_of_a_metric(
    labels, store: Store, tmp_path: Path
):
    run_id = put(store, run(SAID))
    result = calibrate_run(store, run_id, labels)
    (apart,) = result.disagreements
    (item,) = apart.listed  # people fail d, the judge passes it
    assert (item.case_id, item.people, item.judge) == ("d", 0.0, 1.0)
    cases = store.table(run_id, "cases").filter(pl.col("case_id") == "d")
    assert item.reason == cases["summary"].item()
    rows = [{**row, "metric": "tool_routing"} for row in ROWS]
    file = written_lines(tmp_path / "m.jsonl", rows)
    (apart,) = calibrate_run(store, run_id, CalibrationConfig(labels=str(file))).disagreements
    (item,) = apart.listed
    scores = store.table(run_id, "scores").filter(
        (pl.col("case_id") == "d") & (pl.col("metric") == "tool_routing") & (pl.col("part") == "")
    )
    details = json.loads(scores["details"].item() or "{}")
    assert item.reason in {*map(str, details.values()), ""}


def test_calibrations_before_are_listed_the_newest_first(labels, store: Store):
    first = calibrate_run(store, put(store, run(SAID)), labels)
    assert first.earlier == ()
    assert (
        calibrate_run(store, "nightly-aaaaaaaaaaaa", labels).earlier == ()
    )  # itself is not before
    judge = {"metrics": ["tool_routing"], "model": "gpt-4.1", "provider": "openai"}
    other = put(store, run(SAID, run_id="nightly-cccccccccccc", judge=judge))
    (before,) = calibrate_run(store, other, labels).earlier
    assert before.judge == first.calibrations[0].judge
    assert before.kappa == first.calibrations[0].cited_kappa
