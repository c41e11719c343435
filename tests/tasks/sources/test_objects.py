"""Listing transcript objects and getting a local file for each."""

from __future__ import annotations

import datetime as dt
import gzip
import threading
from pathlib import Path

import pytest

from assizes.judge.errors import ConfigurationError, DataError, Inconclusive
from assizes.tasks.intake.run_sources import expand
from assizes.tasks.sources.listing import TranscriptSource, list_sources
from assizes.tasks.sources.spool import Spool
from tests.tasks.sources.listed_objects import LINES, OURS, PACKED, THEIRS

LINES_ETAG = "3e91133d8bd8f00b3d06fa60a9953506"
DAY = dt.date(2026, 3, 9)


def written(path: Path, content: bytes = LINES) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in (
        "in/b.jsonl",
        "in/a.json",
        "in/deep/c.ndjson",
        "in/deep/d.jsonl.gz",
        "in/.hidden.jsonl",
        "in/.cache/e.jsonl",
        "in/LICENSE",
        "in/SOURCE.md",
        "in/table.csv",
    ):
        written(tmp_path / name)
    return tmp_path


def uris(uri: str) -> list[str]:
    return [source.uri for source in list_sources(uri, {})]


@pytest.mark.parametrize(
    ("uri", "found"),
    [
        ("in", ["in/a.json", "in/b.jsonl", "in/deep/c.ndjson", "in/deep/d.jsonl.gz"]),
        ("./in/", ["in/a.json", "in/b.jsonl", "in/deep/c.ndjson", "in/deep/d.jsonl.gz"]),
        ("in/*.jsonl", ["in/b.jsonl"]),
        ("in/*", ["in/a.json", "in/b.jsonl", "in/deep/c.ndjson", "in/deep/d.jsonl.gz"]),
        ("in/**/*.gz", ["in/deep/d.jsonl.gz"]),
        ("i?/d*p", ["in/deep/c.ndjson", "in/deep/d.jsonl.gz"]),
        ("in/table.csv", ["in/table.csv"]),
        ("in/.hidden.jsonl", ["in/.hidden.jsonl"]),
        ("in/.cache", ["in/.cache/e.jsonl"]),
    ],
)
def test_a_file_a_folder_and_a_glob_give_paths_as_they_were_given(folder, uri, found):
    assert uris(uri) == found


def test_a_file_uri_is_the_path_behind_it(folder):
    assert uris(f"file://{folder}/in/b.jsonl") == [f"{folder}/in/b.jsonl"]


def test_a_file_whose_name_looks_like_a_glob_is_found(folder):
    written(folder / "run[1].jsonl")

    assert uris("run[1].jsonl") == ["run[1].jsonl"]


def test_a_local_source_is_pinned_by_its_content(folder):
    assert list_sources("in/b.jsonl", {}) == [
        TranscriptSource("in/b.jsonl", LINES_ETAG, len(LINES))
    ]


@pytest.mark.parametrize(
    ("uri", "error", "message"),
    [
        (
            "nowhere/x.jsonl",
            ConfigurationError,
            "[transcripts] uri: 'nowhere/x.jsonl' does not exist in FOLDER; give a file, a folder or a glob",
        ),
        (
            "nowhere/*.jsonl",
            ConfigurationError,
            "[transcripts] uri: 'nowhere' does not exist in FOLDER; give a file, a folder or a glob",
        ),
        (
            "sftp://bucket/x",
            ConfigurationError,
            "[transcripts] uri: unknown scheme 'sftp://'; known: a plain path, abfs://, az://, "
            "file://, gcs://, gs://, http://, https://, langfuse://, mlflow://, phoenix://, s3://; "
            "did you mean 'http://'?",
        ),
        (
            "",
            ConfigurationError,
            "[transcripts] uri is ''; give a file, a folder, a glob or s3://bucket/prefix",
        ),
        (
            "~/logs",
            ConfigurationError,
            "[transcripts] uri: '~/logs' begins with a ~, which only a shell knows; write 'HOME/logs'",
        ),
        (
            "s3://",
            ConfigurationError,
            "[transcripts] uri 's3://' names no bucket; use s3://bucket/prefix",
        ),
        (
            "empty",
            Inconclusive,
            "no transcripts under 'empty'; looked for *.jsonl, *.json, *.ndjson, *.csv, "
            "*.tsv, each also with .gz or .zst, *.parquet, *.eval; [transcripts] uri may name a "
            "single file of any ending",
        ),
        (
            "in/*.txt",
            Inconclusive,
            "no transcripts under 'in/*.txt'; looked for *.jsonl, *.json, *.ndjson, *.csv, "
            "*.tsv, each also with .gz or .zst, *.parquet, *.eval; [transcripts] uri may name a "
            "single file of any ending",
        ),
    ],
)
def test_what_cannot_be_listed_is_said_in_one_line(folder, uri, error, message):
    (folder / "empty").mkdir()

    with pytest.raises(error) as raised:
        list_sources(uri, {})

    shown = message.replace("FOLDER", str(Path.cwd())).replace("HOME", str(Path.home()))
    assert str(raised.value) == shown


@pytest.mark.parametrize(
    ("uri", "date", "expanded"),
    [
        ("in/x.jsonl", None, "in/x.jsonl"),
        ("in/{date}.jsonl", DAY, "in/2026-03-09.jsonl"),
        ("s3://b/{date:%Y/%m/%d}/*.gz", DAY, "s3://b/2026/03/09/*.gz"),
        ("{date:%Y}/{date}", DAY, "2026/2026-03-09"),
        ("in/{date:%G-W%V}/{date:%-d%b}{date:%j}%%", DAY, "in/2026-W11/9Mar068%%"),
        ("in/{date:}.jsonl", DAY, "in/2026-03-09.jsonl"),
    ],
)
def test_date_placeholders_are_filled_in(uri, date, expanded):
    assert expand(uri, date) == expanded


@pytest.mark.parametrize(
    ("uri", "date", "message"),
    [
        (
            "in/x.jsonl",
            DAY,
            "[transcripts] uri 'in/x.jsonl' has no place for the date 2026-03-09; put {date} or "
            "{date:%Y/%m/%d} into it, or leave the date out",
        ),
        (
            "in/{date}",
            None,
            "[transcripts] uri 'in/{date}' holds {date}, and this run was given no day; give one, "
            "e.g. --date 2026-11-21",
        ),
        (
            "in/{day:%d}",
            DAY,
            "[transcripts] uri 'in/{day:%d}': unknown placeholder '{day:%d}'; "
            "known: {date:%Y/%m/%d}, {date}; did you mean '{date:%Y/%m/%d}'?",
        ),
        *(
            (
                f"in/{place}",
                day,
                f"[transcripts] uri 'in/{place}': {place} holds {fault}; accepted: %Y, %m, %d, %y, "
                "%b, %B, %j, %G, %V, %u and others of strftime, as in {date:%Y/%m/%d}",
            )
            for day in (DAY, None)
            for place, fault in (
                ("{date:%Q}", "'%Q', which is no part of a date"),
                ("{date:%Y-%}", "'%', which is no part of a date"),
                ("{date:YYYY-MM-DD}", "no part of a date"),
            )
        ),
    ],
)
def test_a_placeholder_that_cannot_be_filled_is_an_error(uri, date, message):
    with pytest.raises(ConfigurationError) as raised:
        expand(uri, date)

    assert str(raised.value) == message


def source_of(path: Path) -> TranscriptSource:
    (source,) = list_sources(str(path), {})
    return source


def test_a_plain_local_file_is_used_where_it_lies(tmp_path):
    path = written(tmp_path / "x.jsonl")

    with Spool() as spool:
        assert spool.path(source_of(path)) == path


@pytest.mark.parametrize("name", ["x.jsonl.gz", "gzip-by-content.jsonl"])
def test_gzip_is_unpacked_once_and_goes_with_the_spool(tmp_path, name):
    source = source_of(written(tmp_path / name, gzip.compress(b"one\n") + gzip.compress(b"two\n")))

    with Spool() as spool:
        unpacked = spool.path(source)
        assert unpacked.read_bytes() == b"one\ntwo\n"
        assert spool.path(source) == unpacked
    assert not unpacked.exists()


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(PACKED[:-9], id="truncated"),
        pytest.param(PACKED[:-8] + b"\0\0\0\0" + PACKED[-4:], id="wrong checksum"),
        pytest.param(PACKED + b"rubbish", id="trailing bytes"),
        pytest.param(PACKED[:20] + b"\xff" * 8 + PACKED[28:], id="broken stream"),
        pytest.param(LINES, id="not gzip at all"),
        pytest.param(b"", id="empty"),
    ],
)
def test_a_broken_gzip_object_is_refused_as_a_whole(tmp_path, content):
    source = source_of(written(tmp_path / "x.jsonl.gz", content))

    with Spool() as spool, pytest.raises(DataError) as raised:
        spool.path(source)

    assert raised.value.code == "gzip_corrupt"


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz"])
def test_a_local_file_that_was_rewritten_after_the_listing_is_changed(tmp_path, name):
    path = written(tmp_path / name, gzip.compress(LINES, mtime=0))
    source = source_of(path)
    written(path, gzip.compress(LINES + LINES))

    with Spool() as spool, pytest.raises(DataError) as raised:
        spool.path(source)

    assert raised.value.code == "changed"


def test_a_local_file_that_is_gone_has_vanished(tmp_path):
    path = written(tmp_path / "x.jsonl")
    source = source_of(path)
    path.unlink()

    with Spool() as spool, pytest.raises(DataError) as raised:
        spool.path(source)

    assert raised.value.code == "vanished"


def test_a_spool_keeps_the_last_two_parsed_documents(tmp_path):
    sources = [
        source_of(written(tmp_path / f"{n}.json", b"\xef\xbb\xbf" + n.encode())) for n in "abc"
    ]
    parsed: list[bytes] = []

    def records(document: bytes) -> list[str]:
        parsed.append(document)
        return [document.decode()]

    with Spool() as spool:
        read = [spool.document_records(sources[index], records) for index in (0, 1, 0, 2, 0, 1)]

    assert read == [["a"], ["b"], ["a"], ["c"], ["a"], ["b"]]
    assert parsed == [b"a", b"b", b"c", b"b"]


def test_threads_share_one_unpacked_file(tmp_path):
    source = source_of(written(tmp_path / "x.jsonl.gz", gzip.compress(LINES * 20_000)))
    found: list[bytes] = []

    with Spool() as spool:
        threads = [
            threading.Thread(target=lambda: found.append(spool.path(source).read_bytes()))
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert found == [LINES * 20_000] * 8


@pytest.mark.parametrize(
    ("uri", "found"),
    [
        (".", sorted(THEIRS)),
        ("**/*.json", ["report.json", "reports/nightly-1/more.json"]),
        ("r*", ["report.json", "reports/nightly-1/more.json", "rows/mine.jsonl"]),
        ("reports/nightly-1/report.json", ["reports/nightly-1/report.json"]),
    ],
)
def test_our_own_stores_and_reports_are_no_transcripts(tmp_path, monkeypatch, uri, found):
    monkeypatch.chdir(tmp_path)
    for name in (*OURS, *THEIRS):
        written(tmp_path / name)

    assert uris(uri) == found
