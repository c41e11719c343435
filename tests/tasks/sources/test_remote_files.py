"""Transcripts on the web, and on services whose packages are extras."""

from __future__ import annotations

import gzip
import json

import fsspec
import pytest

from assizes.judge.config.transcripts import TranscriptsConfig
from assizes.judge.errors import ConfigurationError, DataError
from assizes.tasks.intake.shards import plan_intake, read_shard
from assizes.tasks.sources import remote_files
from assizes.tasks.sources.listing import list_sources
from assizes.tasks.sources.spool import Spool
from assizes.tasks.sources.unpacking import ObjectBounds
from tests.doubles.json_server import Reply, json_server

LINES = "".join(
    json.dumps(
        {"messages": [{"role": "user", "content": f"{n}"}, {"role": "assistant", "content": "a"}]}
    )
    + "\n"
    for n in range(3)
).encode()


class Web:
    """One file with an ETag; ranges are not served."""

    def __init__(self):
        self.body, self.etag, self.status = LINES, '"v1"', 200

    def answer(self, request):
        headers = {"etag": self.etag} if self.etag else {}
        return Reply(self.status, self.body, headers)


@pytest.fixture
def web():
    return Web()


@pytest.fixture
def url(web):
    with json_server(web.answer) as server:
        yield f"{server.url}/logs/day.jsonl"


def cases_at(uri):
    config = TranscriptsConfig(uri=uri)
    with Spool.of(config) as spool:
        plan = plan_intake(config, 10, spool)
        return [record.case for shard in plan.shards for record in read_shard(shard, config, spool)]


def test_a_file_on_the_web_is_read(url, web):
    assert len(cases_at(url)) == 3
    web.body = gzip.compress(LINES)
    assert len(cases_at(url)) == 3


def test_it_is_pinned_by_its_etag(url, web):
    (source,) = list_sources(url, {})
    assert (source.uri, source.etag) == (url, "v1")
    web.etag = '"v2"'
    with Spool() as spool, pytest.raises(DataError, match="no longer as it was listed"):
        spool.path(source)
    web.etag, web.status = '"v1"', 404
    with Spool() as spool, pytest.raises(DataError, match="deleted after it was listed"):
        spool.path(source)


def test_what_cannot_be_pinned_or_is_not_there_is_refused(url, web):
    web.etag = None
    with pytest.raises(ConfigurationError, match="has no ETag"):
        list_sources(url, {})
    web.status = 404
    with pytest.raises(ConfigurationError, match="is not there"):
        list_sources(url, {})
    web.status = 500
    with pytest.raises(ConfigurationError, match="cannot be read"):
        list_sources(url, {})


def test_no_more_than_the_bound_is_fetched(url, web):
    (source,) = list_sources(url, {})
    spool = Spool(bounds=ObjectBounds(object_bytes=10))
    with spool, pytest.raises(DataError, match="max_object_mb"):
        spool.path(source)


@pytest.mark.parametrize(
    ("uri", "extra"), [("gs://b/x", "gcs"), ("az://c/x", "azure"), ("abfs://c/x", "azure")]
)
def test_a_missing_package_is_named(uri, extra, monkeypatch):
    monkeypatch.setattr(remote_files.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ConfigurationError, match=rf"pip install 'assizes\[{extra}\]'"):
        list_sources(uri, {})


@pytest.mark.parametrize("uri", ["https://", "gs://", "az:///"])
def test_a_place_without_a_name_is_refused(uri):
    with pytest.raises(ConfigurationError, match=r"give a file|names no"):
        list_sources(uri, {})


def test_a_prefix_of_a_service_is_listed_and_read(monkeypatch):
    # fsspec's file system in memory takes the place of a service, which has etags.
    memory = fsspec.filesystem("memory")
    memory.pipe({"/bucket/logs/a.jsonl": LINES, "/bucket/logs/b.txt": b"no"})

    class Service(type(memory)):
        protocol = "gs"

        def info(self, path, **more):
            return {**super().info(path.removeprefix("gs:/"), **more), "etag": "e1"}

        def find(self, path, **more):
            found = super().find(f"/{path}", **more)
            return {name.lstrip("/"): {**info, "etag": "e1"} for name, info in found.items()}

        def open(self, path, mode="rb", **more):
            return memory.open(path.removeprefix("gs:/"), mode)

    monkeypatch.setattr(remote_files.importlib.util, "find_spec", lambda _: object())
    monkeypatch.setattr(remote_files.fsspec, "filesystem", lambda *_, **__: Service())
    (source,) = list_sources("gs://bucket/logs", {})
    assert (source.uri, source.etag, source.size) == ("gs://bucket/logs/a.jsonl", "e1", len(LINES))
    assert len(cases_at("gs://bucket/logs")) == 3
