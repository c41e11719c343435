"""What is kept of a cut object: pieces of conversations only on demand; the default keeps its hash."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import pytest

from assizes.judge.config.run import RunConfig
from tests.tasks.intake.intake_files import config, ids
from tests.tasks.intake.matrix_d import faults, intake


@pytest.mark.parametrize(("salvage", "kept"), [(None, ["y"]), (True, ["t1", "y"])])
def test_pieces_of_conversations_are_salvaged_only_where_that_is_configured(
    tmp_path: Path, salvage: bool | None, kept: list[str]
):
    observations = [
        {"id": f"{trace}-{number}", "traceId": trace, "type": "GENERATION", "input": "hi"}
        | {"output": "yes", "startTime": f"2026-01-01T00:00:0{number}Z"}
        for trace in ("t1", "t2", "y")
        for number in range(3)
    ]
    lines = b"".join(json.dumps(each).encode() + b"\n" for each in observations[:6])
    (tmp_path / "y.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in observations[6:]))
    packer = zlib.compressobj(wbits=31)
    first = packer.compress(lines[: len(lines) // 2]) + packer.flush(zlib.Z_FULL_FLUSH)
    (tmp_path / "x.jsonl.gz").write_bytes(first)

    _, read = intake(config(tmp_path, salvage=salvage, format="langfuse"))

    assert ids(read) == kept
    assert {code for _, code in faults(read)} == {"gzip_corrupt"}


def test_the_hash_of_the_default_is_that_of_versions_that_salvaged_nothing_by_default():
    hashes = [
        RunConfig.model_validate({"transcripts": {"uri": "in", "salvage": salvage}}).config_hash()
        for salvage in (None, True, False)
    ]
    assert hashes[0] == "c7bee126eed860d3"
    assert len(set(hashes)) == 3
