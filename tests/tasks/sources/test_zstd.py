"""Objects packed with zstd: read as gzip ones are, and broken ones said to be broken."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import pytest
from backports import zstd

from assizes.judge.errors import DataError
from assizes.tasks.sources.unpacking import BOMB_FLOOR_BYTES, unpack
from tests.tasks.intake.intake_files import config, ids, line, written
from tests.tasks.intake.matrix_d import faults, intake

CHECKED = {zstd.CompressionParameter.checksum_flag: 1}


def noise(number: int) -> str:
    """64 KB that cannot be packed."""
    blocks = (hashlib.sha512(f"{number}/{part}".encode()).hexdigest() for part in range(512))
    return "".join(blocks)


LINES = [line(f"case-{number}", noise(number)) + b"\n" for number in range(6)]
PACKED = zstd.compress(b"".join(LINES), options=CHECKED)


@pytest.mark.parametrize("name", ["x.jsonl.zst", "x.jsonl"])
def test_frames_one_after_another_are_one_object_whatever_it_is_called(tmp_path: Path, name: str):
    frames = b"".join(zstd.compress(one) for one in LINES)
    (tmp_path / name).write_bytes(frames)
    whole = (tmp_path / "whole").joinpath("y.json.zst")
    whole.parent.mkdir()
    whole.write_bytes(
        zstd.compress(b'[{"task_id": 1, "traj": [{"role": "user", "content": "x"}]}]')
    )

    plan, read = intake(config(tmp_path))

    assert ids(read) == ["1", *(f"case-{number}" for number in range(6))]
    assert plan.objects["read"] == 2


BROKEN = {
    "cut off": PACKED[:-30_000],
    "flipped": PACKED[:-3] + bytes([PACKED[-3] ^ 1]) + PACKED[-2:],
    "bytes behind it": PACKED + b"rubbish",
    "empty": b"",
    "another thing": b"not packed at all",
}


@pytest.mark.parametrize("kind", BROKEN)
def test_whole_lines_of_a_broken_object_are_judged_unless_it_is_switched_off(
    tmp_path: Path, kind: str
):
    (tmp_path / "x.jsonl.zst").write_bytes(BROKEN[kind])
    written(tmp_path / "y.jsonl", line("y"))

    plan, read = intake(config(tmp_path, salvage=False))
    assert (ids(read), faults(read)) == (["y"], [(0, "zstd_corrupt")])
    assert plan.objects["rejected"] == 1

    _, read = intake(config(tmp_path))
    kept = len(ids(read)) - 1
    assert ids(read) == [*(f"case-{number}" for number in range(kept)), "y"]
    assert faults(read) == [(kept, "zstd_corrupt")]
    assert kept == {"cut off": 3, "flipped": 3, "bytes behind it": 6}.get(kind, 0)


def test_an_object_that_unpacks_to_too_much_is_a_bomb_and_nothing_more_is_unpacked(tmp_path: Path):
    bomb = zstd.compress(b"0" * (BOMB_FLOOR_BYTES + (8 << 20)))
    out = io.BytesIO()

    with pytest.raises(DataError) as raised:
        unpack(io.BytesIO(bomb), out, "zstd", 1 << 30, to_last_byte=False)
    assert raised.value.code == "bomb"
    assert BOMB_FLOOR_BYTES <= out.tell() <= BOMB_FLOOR_BYTES + (1 << 20)

    (tmp_path / "x.jsonl.zst").write_bytes(zstd.compress(b"".join(LINES)))
    written(tmp_path / "y.jsonl", line("y"))
    _, read = intake(config(tmp_path, max_object_mb=0.1))
    assert (ids(read), faults(read)) == (["y"], [(0, "bomb")])
