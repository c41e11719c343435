"""Where a log of batches may lie."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["path", "s3"])
def place(request, tmp_path):
    if request.param == "path":
        return str(tmp_path / "replies"), {}
    s3 = request.getfixturevalue("s3")
    return f"s3://{s3.bucket()}/replies", s3.storage_options
