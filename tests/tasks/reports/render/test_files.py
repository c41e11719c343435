"""Reports as files, on disk and in an object store."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assizes.judge.errors import ConfigurationError, StoreError
from assizes.tasks.reports import html_report, json_report, markdown_report, write_report
from tests.doubles.s3 import S3
from tests.tasks.reports.sample import Said, run

DATA = run([Said("a", (5, 5)), Said("b", (1, 2), done=False)]).data()
NAMES = ["report.html", "report.json", "report.md"]


def test_three_files_are_written_into_a_folder_of_the_run(tmp_path: Path):
    links = write_report(DATA, str(tmp_path / "reports"))
    folder = tmp_path / "reports" / "nightly-aaaaaaaaaaaa"
    assert links == {suffix: str(folder / f"report.{suffix}") for suffix in ("html", "md", "json")}
    assert sorted(path.name for path in folder.iterdir()) == NAMES
    assert (folder / "report.html").read_text("utf-8") == html_report(DATA)
    assert (folder / "report.md").read_text("utf-8") == markdown_report(DATA)
    assert json.loads((folder / "report.json").read_text("utf-8")) == DATA


def test_a_file_uri_names_a_folder(tmp_path: Path):
    links = write_report(DATA, f"file://{tmp_path}/my%20reports")
    assert links["md"] == str(tmp_path / "my reports" / "nightly-aaaaaaaaaaaa" / "report.md")


def test_writing_again_gives_the_same_bytes_and_leaves_nothing_else(tmp_path: Path):
    links = write_report(DATA, str(tmp_path))
    first = {suffix: Path(path).read_bytes() for suffix, path in links.items()}
    assert write_report(DATA, str(tmp_path)) == links
    assert {suffix: Path(path).read_bytes() for suffix, path in links.items()} == first
    assert sorted(path.name for path in Path(links["md"]).parent.iterdir()) == NAMES


def test_a_report_that_cannot_be_put_in_place_leaves_nothing_behind(tmp_path: Path):
    folder = tmp_path / "nightly-aaaaaaaaaaaa"
    (folder / "report.html" / "in the way").mkdir(parents=True)
    with pytest.raises(ConfigurationError, match="Is a directory"):
        write_report(DATA, str(tmp_path))
    assert [path.name for path in folder.iterdir()] == ["report.html"]


def test_reports_are_written_to_an_object_store(s3: S3):
    bucket = s3.bucket()
    links = write_report(DATA, f"s3://{bucket}/reports/", s3.storage_options)
    assert links["json"] == f"s3://{bucket}/reports/nightly-aaaaaaaaaaaa/report.json"
    body = s3.client.get_object(Bucket=bucket, Key="reports/nightly-aaaaaaaaaaaa/report.json")
    assert body["Body"].read().decode() == json_report(DATA)


@pytest.mark.parametrize("run_id", ["../elsewhere", "a/b", "", ".hidden", "/etc/x", "a\x00b"])
def test_a_run_id_never_becomes_a_path(tmp_path: Path, run_id: str):
    with pytest.raises(StoreError, match="run id"):
        write_report({**DATA, "run": {**DATA["run"], "run_id": run_id}}, str(tmp_path))
    assert list(tmp_path.iterdir()) == []
