"""Listing transcript objects and getting a local file for each."""

from __future__ import annotations

import datetime as dt
import gzip
import threading
from pathlib import Path

import pytest

from judge.errors import ConfigurationError, DataError, Inconclusive
from tasks.objects import Source, Spool, expand, list_sources

LINES = b'{"a": 1}\n{"a": 2}\n'
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
    assert list_sources("in/b.jsonl", {}) == [Source("in/b.jsonl", LINES_ETAG, len(LINES))]


@pytest.mark.parametrize(
    ("uri", "error", "message"),
    [
        (
            "nowhere/x.jsonl",
            ConfigurationError,
            "[transcripts] uri: 'nowhere/x.jsonl' does not exist; give a file, a folder or a glob",
        ),
        (
            "nowhere/*.jsonl",
            ConfigurationError,
            "[transcripts] uri: 'nowhere' does not exist; give a file, a folder or a glob",
        ),
        (
            "gs://bucket/x",
            ConfigurationError,
            "[transcripts] uri: unknown scheme 'gs://'; known: a plain path, file://, s3://",
        ),
        (
            "s3://",
            ConfigurationError,
            "[transcripts] uri 's3://' names no bucket; use s3://bucket/prefix",
        ),
        (
            "empty",
            Inconclusive,
            "no transcripts under 'empty'; looked for *.jsonl, *.json, *.ndjson, each "
            "also with .gz or .zst, *.parquet, *.eval",
        ),
        (
            "in/*.txt",
            Inconclusive,
            "no transcripts under 'in/*.txt'; looked for *.jsonl, *.json, *.ndjson, each "
            "also with .gz or .zst, *.parquet, *.eval",
        ),
    ],
)
def test_what_cannot_be_listed_is_said_in_one_line(folder, uri, error, message):
    (folder / "empty").mkdir()

    with pytest.raises(error) as raised:
        list_sources(uri, {})

    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("uri", "date", "expanded"),
    [
        ("in/x.jsonl", None, "in/x.jsonl"),
        ("in/{date}.jsonl", DAY, "in/2026-03-09.jsonl"),
        ("s3://b/{date:%Y/%m/%d}/*.gz", DAY, "s3://b/2026/03/09/*.gz"),
        ("{date:%Y}/{date}", DAY, "2026/2026-03-09"),
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
            "[transcripts] uri 'in/{date}' holds {date}, and this run was given no date",
        ),
        (
            "in/{day:%d}",
            DAY,
            "[transcripts] uri 'in/{day:%d}': unknown placeholder '{day:%d}'; "
            "known: {date:%Y/%m/%d}, {date}",
        ),
    ],
)
def test_a_placeholder_that_cannot_be_filled_is_an_error(uri, date, message):
    with pytest.raises(ConfigurationError) as raised:
        expand(uri, date)

    assert str(raised.value) == message


def source_of(path: Path) -> Source:
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


PACKED = gzip.compress(LINES * 100)


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
        read = [spool.parsed(sources[index], records) for index in (0, 1, 0, 2, 0, 1)]

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


def put(s3, bucket: str, key: str, content: bytes = LINES) -> Source:
    answer = s3.client.put_object(Bucket=bucket, Key=key, Body=content)
    return Source(f"s3://{bucket}/{key}", answer["ETag"].strip('"'), len(content))


def test_a_prefix_a_key_and_a_glob_on_s3_give_pinned_objects(s3):
    bucket = s3.bucket()
    a, b, c = (put(s3, bucket, key) for key in ("in/a.jsonl", "in/deep/b.json.gz", "in2/c.jsonl"))
    odd = put(s3, bucket, "in/table.csv")
    for key in ("in/.hidden.jsonl", "in/.cache/e.jsonl", "in/LICENSE", "in/"):
        put(s3, bucket, key)

    found = {
        uri: list_sources(f"s3://{bucket}{uri}", s3.storage_options)
        for uri in ("", "/in", "/in/", "/in/a.jsonl", "/in/table.csv", "/in*", "/**/*.jsonl")
    }

    assert found == {
        "": [a, b, c],
        "/in": [a, b],
        "/in/": [a, b],
        "/in/a.jsonl": [a],
        "/in/table.csv": [odd],
        "/in*": [a, b, c],
        "/**/*.jsonl": [a, c],
    }


def test_an_object_another_client_wrote_meanwhile_is_listed(s3):
    bucket = s3.bucket()
    first = put(s3, bucket, "in/a.jsonl")
    assert list_sources(f"s3://{bucket}/in", s3.storage_options) == [first]

    second = put(s3, bucket, "in/b.jsonl")

    assert list_sources(f"s3://{bucket}/in", s3.storage_options) == [first, second]


@pytest.mark.parametrize("rest", ["", "/none", "/none.jsonl", "/none/*.jsonl"])
def test_a_bucket_without_transcripts_is_inconclusive(s3, rest):
    uri = f"s3://{s3.bucket()}{rest}"

    with pytest.raises(Inconclusive) as raised:
        list_sources(uri, s3.storage_options)

    assert str(raised.value).startswith(f"no transcripts under {uri!r}; looked for *.jsonl, ")


@pytest.mark.parametrize("rest", ["", "/in", "/in/a.jsonl", "/in/*.jsonl"])
def test_a_bucket_that_is_not_there_is_named_with_its_endpoint(s3, rest):
    with pytest.raises(ConfigurationError) as raised:
        list_sources(f"s3://no-such-bucket{rest}", s3.storage_options)

    endpoint = s3.endpoint_url.removeprefix("http://")
    assert str(raised.value) == f"bucket 'no-such-bucket' at {endpoint} does not exist"


@pytest.mark.parametrize(
    ("endpoint", "failure"),
    [
        ("http://127.0.0.1:9", "EndpointConnectionError"),
        ("http://me:hidden@127.0.0.1:9", "HTTPClientError"),
    ],
)
def test_an_endpoint_that_cannot_be_reached_is_named_without_a_password(s3, endpoint, failure):
    options = {
        "client_kwargs": {"endpoint_url": endpoint},
        "config_kwargs": {"retries": {"total_max_attempts": 1}},
    }

    with pytest.raises(ConfigurationError) as raised:
        list_sources("s3://bucket/in", options)

    message = f"bucket 'bucket' at 127.0.0.1:9 cannot be reached ({failure})"
    assert str(raised.value) == message


def test_missing_credentials_are_said(s3, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")

    with pytest.raises(ConfigurationError) as raised:
        list_sources("s3://bucket/in", {**s3.storage_options, "skip_instance_cache": True})

    endpoint = s3.endpoint_url.removeprefix("http://")
    assert str(raised.value) == (
        f"bucket 'bucket' at {endpoint}: no credentials; "
        "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    )


@pytest.mark.parametrize("content", [LINES, gzip.compress(LINES, mtime=0)])
def test_an_object_on_s3_becomes_a_local_plain_file(s3, content):
    source = put(s3, s3.bucket(), "in/a.jsonl", content)

    with Spool(s3.storage_options) as spool:
        path = spool.path(source)
        assert path.read_bytes() == LINES
        s3.client.delete_object(Bucket=source.uri.split("/")[2], Key="in/a.jsonl")
        assert spool.path(source) == path


def test_a_broken_gzip_object_on_s3_is_refused(s3):
    source = put(s3, s3.bucket(), "in/a.jsonl.gz", PACKED[:-9])

    with Spool(s3.storage_options) as spool, pytest.raises(DataError) as raised:
        spool.path(source)

    assert raised.value.code == "gzip_corrupt"


def test_an_object_overwritten_on_s3_after_the_listing_is_changed(s3):
    bucket = s3.bucket()
    source = put(s3, bucket, "in/a.jsonl")
    put(s3, bucket, "in/a.jsonl", LINES + LINES)

    with Spool(s3.storage_options) as spool, pytest.raises(DataError) as raised:
        spool.path(source)

    assert raised.value.code == "changed"


def test_an_object_deleted_on_s3_after_the_listing_has_vanished(s3):
    bucket = s3.bucket()
    source = put(s3, bucket, "in/a.jsonl")
    s3.client.delete_object(Bucket=bucket, Key="in/a.jsonl")

    with Spool(s3.storage_options) as spool, pytest.raises(DataError) as raised:
        spool.path(source)

    assert raised.value.code == "vanished"


OURS = (
    "rows/_assizes.json",
    "rows/runs/nightly-1/run.json",
    "rows/runs/nightly-1/commits/s0.json",
    "rows/comparisons/a..b-0.json",
    "reports/nightly-1/report.json",
    "reports/nightly-1/report.html",
    "reports/nightly-1/report.md",
)
THEIRS = ("deep/runs/a.jsonl", "report.json", "reports/nightly-1/more.json", "rows/mine.jsonl")


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


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("", sorted(THEIRS)),
        ("/**/*.json", ["report.json", "reports/nightly-1/more.json"]),
    ],
)
def test_our_own_stores_and_reports_in_a_bucket_are_no_transcripts(s3, pattern, found):
    bucket = s3.bucket()
    for name in (*OURS, *THEIRS):
        s3.client.put_object(Bucket=bucket, Key=f"in/{name}", Body=LINES)
    sources = list_sources(f"s3://{bucket}/in{pattern}", s3.storage_options)

    assert [source.uri.removeprefix(f"s3://{bucket}/in/") for source in sources] == found
