"""Shared fixtures: where the data of others lies, and what a test may not do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("ASSIZES_DATA", ROOT.parent / "shared" / "data"))


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of data sets made by others; skips where it is absent, unless that is forbidden."""
    if not (DATA / "README.md").exists():
        reason = f"no data sets at {DATA} (set ASSIZES_DATA)"
        if os.environ.get("ASSIZES_REQUIRE_DATA"):
            pytest.fail(reason)
        pytest.skip(reason)
    return DATA
