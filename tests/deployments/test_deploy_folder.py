"""Flows are loaded in the folder of the workers only where a file there could hide an installed module."""

from __future__ import annotations

from pathlib import Path

import pytest

from assizes.deployments.commands.deploy import _holds_modules


@pytest.mark.parametrize(
    ("file", "holds"),
    [
        ("assizes.toml", False),
        ("logs/2026-11-27/part-0.jsonl", False),
        (
            "tasks/notes.py",
            False,
        ),  # without __init__, an installed package of that name comes first
        ("tasks/__init__.py", True),
        ("tasks/__init__.pyc", True),
        ("assizes.py", True),
    ],
)
def test_flows_are_loaded_in_a_folder_that_holds_modules(tmp_path: Path, file: str, holds: bool):
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_bytes(b"")
    assert _holds_modules(tmp_path) is holds
