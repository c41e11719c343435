"""Files that cannot be read as they are: counted as rejects, and none ends or hangs a run."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from assizes.deployments.samples import sample_cases
from assizes.judge.config.transcripts import TranscriptsConfig
from assizes.judge.errors import DataError
from assizes.judge.formats import native_line
from assizes.tasks.intake.shards import plan_intake
from assizes.tasks.sources.listing import list_sources
from assizes.tasks.sources.spool import Spool

LINE = native_line(sample_cases()[0])
BAD_NAME = b"caf\xe9.jsonl"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "t"
    place.mkdir()
    (place / "good.jsonl").write_bytes(LINE)
    (place / os.fsdecode(BAD_NAME)).write_bytes(LINE)
    os.mkfifo(place / "pipe.jsonl")
    (place / "nowhere.jsonl").symlink_to("not-there.jsonl")
    (place / "circle.jsonl").symlink_to("circle.jsonl")
    (place / "null.jsonl").symlink_to("/dev/null")
    with socket.socket(socket.AF_UNIX) as listening:
        here = Path.cwd()
        os.chdir(place)  # the address of a socket is short
        try:
            listening.bind("socket.jsonl")
        finally:
            os.chdir(here)
    return place


def test_each_odd_file_is_one_reject_and_the_others_are_read(folder: Path):
    codes: dict[str, str] = {}
    with Spool() as spool:
        for source in list_sources(str(folder), {}):
            source.uri.encode()  # every name can be written down
            try:
                assert spool.path(source).read_bytes() == LINE
                codes[Path(source.uri).name] = "read"
            except DataError as error:
                codes[Path(source.uri).name] = error.code
    assert codes == {
        "good.jsonl": "read",
        "caf\\udce9.jsonl": "name",
        **dict.fromkeys(
            ("pipe.jsonl", "nowhere.jsonl", "circle.jsonl", "null.jsonl", "socket.jsonl"),
            "not_a_file",
        ),
    }


def test_a_plan_over_such_a_folder_counts_what_it_leaves_out(folder: Path):
    config = TranscriptsConfig(uri=str(folder))
    with Spool.of(config) as spool:
        plan = plan_intake(config, 10, spool)
    assert (plan.due, plan.reasons, plan.lost_object_count) == (1, {"name": 1, "not_a_file": 5}, 0)
