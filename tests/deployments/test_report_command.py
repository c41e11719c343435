"""`assizes report` and the page of a run: the store is free while transcripts are fetched."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from assizes.deployments.commands.report import ReportOptions, write_stored_report
from assizes.deployments.web import pages
from assizes.deployments.web.read_routes import StoreReader
from assizes.judge.config.run import StoreConfig
from assizes.tasks.reports.data.case_rows import MAX_OBJECT_BYTES
from assizes.tasks.store import open_store
from tests.command import ROOT, assizes
from tests.tasks.reports.sample import Run, Said, run
from tests.tasks.stored_runs import put

WRITE = """
import sys
from assizes.judge.config.run import StoreConfig
from assizes.tasks.store import open_store
open_store(StoreConfig(uri=sys.argv[1]), writing=True).__enter__().close()
"""
SHARD = {
    "shard_id": "s0",
    "uri": "s3://transcripts/2026-03-01/part-0.jsonl",
    "etag": "e",
    "size": 10,
    "format": "native",
    "start": 0,
    "stop": 9,
    "byte_start": 0,
    "byte_stop": 10,
    "take": None,
    "duplicates": [],
    "duplicate_of": [],
    "unselected": 0,
    "failure": None,
}


class Bucket(ThreadingHTTPServer):
    """An empty bucket; at every request to it another process tries to write to a store."""

    def __init__(self, store: str) -> None:
        super().__init__(("127.0.0.1", 0), WritingHandler)
        self.store = store
        self.wrote: list[int] = []
        self.faults: list[str] = []

    @property
    def options(self) -> dict[str, str]:
        return {"endpoint_url": f"http://127.0.0.1:{self.server_address[1]}"}


class WritingHandler(BaseHTTPRequestHandler):
    def do_HEAD(self) -> None:
        bucket = self.server
        assert isinstance(bucket, Bucket)
        if not bucket.wrote:
            command = [sys.executable, "-c", WRITE, bucket.store]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
            bucket.wrote.append(done.returncode)
            bucket.faults.append(done.stderr)
        self.send_response(404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_HEAD  # noqa: N815  # the library's name

    def log_message(self, *_args: object) -> None:
        pass


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    with Bucket(f"duckdb:///{tmp_path}/s.duckdb") as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def stored_run(uri: str, options: dict[str, str] | None = None, size: int = 10) -> Run:
    """A stored run whose only failed case lies in an object of a bucket."""
    made = run([Said("bad", (1, 2), done=False), Said("good", (5, 5))])
    shards = [{**SHARD, "size": size}]
    shown = {**made.record.config}
    shown["transcripts"] = {**shown["transcripts"], "storage_options": options or {}}
    made = replace(made, record=replace(made.record, plan={"shards": shards}, config=shown))
    with open_store(StoreConfig(uri=uri), writing=True) as store:
        put(store, made)
    return made


def test_a_run_may_write_while_a_page_fetches_transcripts(bucket: Bucket):
    made = stored_run(bucket.store, bucket.options)
    shown = pages.run(StoreReader(StoreConfig(uri=bucket.store)), made.record.run_id)
    assert b"The conversation is not shown" in shown.body
    assert bucket.wrote == [0], bucket.faults


def test_a_run_may_write_while_a_report_fetches_transcripts(bucket: Bucket, tmp_path: Path):
    made = stored_run(bucket.store, bucket.options)
    wanted = ReportOptions(output=str(tmp_path / "out"))
    write_stored_report(made.record.run_id, wanted, None, bucket.store, as_json=True)
    assert (tmp_path / "out" / made.record.run_id / "report.html").exists()
    assert bucket.wrote == [0], bucket.faults


def test_what_is_written_for_ci_fetches_no_transcript(bucket: Bucket, tmp_path: Path):
    made = stored_run(bucket.store, bucket.options)
    wanted = ReportOptions(junit=tmp_path / "r.xml", brief=True)
    write_stored_report(made.record.run_id, wanted, None, bucket.store, as_json=False)
    assert "<testsuites" in (tmp_path / "r.xml").read_text(encoding="utf-8")
    assert bucket.wrote == []


@pytest.mark.parametrize("page", ["case", "explain", "run"])
def test_no_page_fetches_an_object_without_bounds(bucket: Bucket, page: str):
    made = stored_run(bucket.store, bucket.options, size=MAX_OBJECT_BYTES + 1)
    books, run_id = StoreReader(StoreConfig(uri=bucket.store)), made.record.run_id
    if page == "case":
        shown = pages.case(books, run_id, "bad", pages.ExecutionQuery())
    elif page == "explain":
        shown = pages.explain(books, run_id, "bad", "tool_routing")
    else:
        shown = pages.run(books, run_id)
    assert b"has 268,435,457 bytes" in shown.body
    assert bucket.wrote == []


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--junit", "r.xml", "--json"), "--json"),
        (("--brief", "--json"), "--json"),
        (("--junit", "r.xml", "-o", "out"), "--output"),
        (("--brief", "-o", "out"), "--output"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    tmp_path: Path, options: tuple[str, ...], named: str
):
    made = stored_run(f"duckdb:///{tmp_path}/s.duckdb")
    store = ("--store", "duckdb:///s.duckdb")
    answer = assizes("report", made.record.run_id, *options, *store, cwd=tmp_path)
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
    assert f"{named} goes with the three files of a report" in answer.err
    assert not (tmp_path / "r.xml").exists()


def test_a_report_for_ci_ends_with_0_whatever_the_run_came_to(tmp_path: Path):
    made = stored_run(f"duckdb:///{tmp_path}/s.duckdb")
    args = ("--junit", "r.xml", "--brief", "--store", "duckdb:///s.duckdb")
    answer = assizes("report", made.record.run_id, *args, cwd=tmp_path)
    assert (answer.code, answer.out.splitlines()[0]) == (0, "## FAILED: nightly")
    assert 'classname="verdict"' in (tmp_path / "r.xml").read_text(encoding="utf-8")
