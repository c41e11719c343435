"""Small files, whole: labels and ground truth."""

from __future__ import annotations

import gzip
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from assizes.judge.errors import ConfigurationError
from assizes.tasks.sources.spool import read_whole_file

WHERE = "[calibration] labels"


def test_a_file_is_read_from_a_folder_and_from_a_bucket_and_unpacked(tmp_path: Path, s3):
    (tmp_path / "labels.csv.gz").write_bytes(gzip.compress(b"case_id,label"))
    bucket = s3.bucket()
    s3.client.put_object(Bucket=bucket, Key="labels.csv", Body=b"case_id,label")
    assert read_whole_file(str(tmp_path / "labels.csv.gz"), {}, WHERE) == b"case_id,label"
    assert (
        read_whole_file(f"s3://{bucket}/labels.csv", s3.storage_options, WHERE) == b"case_id,label"
    )


def test_a_bucket_for_which_there_are_no_keys_is_one_line(monkeypatch: pytest.MonkeyPatch, s3):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    options = {**s3.storage_options, "key": None, "secret": None, "skip_instance_cache": True}
    with pytest.raises(ConfigurationError) as raised:
        read_whole_file("s3://bucket/labels.csv", options, WHERE)
    assert str(raised.value).startswith(f"{WHERE} 's3://bucket/labels.csv': cannot be read: ")
    assert "\n" not in str(raised.value)


class Refuses(BaseHTTPRequestHandler):
    def do_GET(self) -> None:  # the name http.server looks for
        self.send_error(403)

    def do_HEAD(self) -> None:  # the same
        self.send_error(403)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


def test_a_server_that_refuses_is_one_line():
    with ThreadingHTTPServer(("127.0.0.1", 0), Refuses) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        uri = f"http://127.0.0.1:{server.server_port}/l.csv?token=abc"
        with pytest.raises(ConfigurationError, match=r"token=\*\*\* cannot be read: 403"):
            read_whole_file(uri, {}, WHERE)
        server.shutdown()


@pytest.mark.parametrize(
    ("uri", "options", "said"),
    [
        ("s3://bucket/l.csv", {"client_kwargs": {"nonsense": 1}}, "cannot be read: .*nonsense"),
        (
            "simplecache::s3://bucket/l.csv",
            {"s3": {"endpoint_url": "http://127.0.0.1:9", "key": "k", "secret": "s"}},
            "cannot be read: .*127.0.0.1:9",
        ),
    ],
)
def test_options_that_do_not_fit_are_one_line(uri: str, options: dict, said: str):
    with pytest.raises(ConfigurationError, match=said):
        read_whole_file(uri, options, WHERE)


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("none.csv", "'none.csv': no such file"),
        ("nosuch://ada:secret@host/x.csv", "'nosuch://***@host/x.csv': cannot be read: "),
    ],
)
def test_a_file_that_cannot_be_had_is_named_without_credentials(uri: str, said: str):
    with pytest.raises(ConfigurationError) as raised:
        read_whole_file(uri, {}, WHERE)
    assert str(raised.value).startswith(f"{WHERE} {said}")
    assert "secret" not in str(raised.value)
