"""The quick tier of the kill harness; `make soak-quick` and `make soak` are the longer ones."""

from __future__ import annotations

import pytest

from tests.soak.__main__ import TIERS, soak

pytestmark = pytest.mark.full


def test_killed_writers_lose_nothing_and_write_nothing_twice(tmp_path, s3):
    said: list[str] = []
    assert soak(TIERS["quick"], tmp_path, s3, said.append), said
    assert [line.partition(":")[0] for line in said] == [
        "folder",
        "s3",
        "duckdb",
        "s3, lost acknowledgements",
        "clean",
    ]
