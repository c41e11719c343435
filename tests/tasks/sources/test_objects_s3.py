"""Transcript objects on S3: listing them, getting them, and buckets that fail."""

from __future__ import annotations

import gzip

import pytest

from assizes.judge.errors import ConfigurationError, DataError, Inconclusive
from assizes.tasks.sources.listing import TranscriptSource, list_sources, refresh_source
from assizes.tasks.sources.spool import Spool
from tests.tasks.sources.listed_objects import LINES, OURS, PACKED, THEIRS


def put(s3, bucket: str, key: str, content: bytes = LINES) -> TranscriptSource:
    answer = s3.client.put_object(Bucket=bucket, Key=key, Body=content)
    return TranscriptSource(f"s3://{bucket}/{key}", answer["ETag"].strip('"'), len(content))


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


@pytest.mark.parametrize("key", ["in/run[1].jsonl", "in/run?.jsonl", "in/run*.jsonl"])
def test_a_key_on_s3_that_reads_as_a_pattern_is_that_object_first(s3, key: str):
    bucket = s3.bucket()
    put(s3, bucket, "in/run1.jsonl")
    odd = put(s3, bucket, key)

    assert list_sources(odd.uri, s3.storage_options) == [odd]
    assert refresh_source(odd, s3.storage_options) == odd


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
    assert str(raised.value) == (
        f"bucket 'no-such-bucket' at {endpoint} does not exist; [transcripts] uri names the bucket, "
        "[transcripts.storage_options] endpoint_url the service"
    )


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

    assert str(raised.value) == (
        f"bucket 'bucket' at 127.0.0.1:9 cannot be reached ({failure}); "
        "[transcripts.storage_options] endpoint_url names another service than AWS"
    )


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
