"""Can a place be written to, and what is said where it cannot."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from assizes.judge.errors import ConfigurationError
from assizes.tasks.runtime.places import write_probe


def test_a_probe_leaves_a_place_as_it_was(tmp_path: Path):
    (tmp_path / "there").mkdir()
    for place in ("there", "there/new/deep", "other/new"):
        write_probe(str(tmp_path / place), {}, "[report] uri")
    assert sorted(tmp_path.rglob("*")) == [tmp_path / "there"]


def test_probes_of_several_processes_do_not_take_each_other_s_away(tmp_path: Path):
    def probe(_: int) -> None:
        write_probe(str(tmp_path / "new" / "deep"), {}, "[limits] ledger in")

    with ThreadPoolExecutor(4) as threads:
        assert len(list(threads.map(probe, range(400)))) == 400
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("/proc/x", "No such file"),
        ("nosuch://x", "Protocol not known"),
        ("gs://x", "gcsfs"),
    ],
)
def test_a_place_that_cannot_be_written_is_named_with_the_reason(uri: str, why: str):
    with pytest.raises(ConfigurationError) as raised:
        write_probe(uri, {}, "[cache] uri")
    assert str(raised.value).startswith(f"[cache] uri {uri!r} cannot be written: ")
    assert why in str(raised.value)
    assert "\n" not in str(raised.value)


def test_credentials_in_a_uri_are_not_told():
    with pytest.raises(ConfigurationError) as raised:
        write_probe("nosuch://user:secret@host/x", {}, "[cache] uri")
    assert "'nosuch://***@host/x'" in str(raised.value)
    assert "secret" not in str(raised.value)


def test_a_bucket_can_be_written_and_one_that_is_not_there_cannot(s3):
    write_probe(f"s3://{s3.bucket()}/x", s3.storage_options, "[report] uri")
    with pytest.raises(ConfigurationError, match="no-such-bucket"):
        write_probe("s3://no-such-bucket/x", s3.storage_options, "[report] uri")
