"""A configuration that names code of the current folder says so before that code runs, once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from assizes.deployments.samples import sample_cases
from assizes.judge.formats import native_line

_JUDGE = """
import sys
from assizes import Score
sys.stderr.write("the code runs\\n")
def polite(case):
    return [Score("polite", 1.0)]
def hide(case):
    return case
"""


@pytest.mark.parametrize(
    ("file", "setting", "said"),
    [
        ("mine.py", '[judge]\njudges = ["mine:polite"]', "mine.py"),
        ("own/mine.py", '[judge]\njudges = ["own.mine:polite"]', "own/mine.py"),
        ("mine.py", '[transcripts]\nredact = "mine:hide"', "mine.py"),
    ],
)
def test_plan_names_code_of_the_current_folder_before_it_runs(
    tmp_path: Path, file: str, setting: str, said: str
):
    (tmp_path / "in.jsonl").write_bytes(b"".join(map(native_line, sample_cases()[:2])))
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(_JUDGE)
    uri = 'uri = "in.jsonl"'
    if "[transcripts]" in setting:
        setting = f"{setting}\n{uri}"
    else:
        setting = f"[transcripts]\n{uri}\n{setting}"
    (tmp_path / "assizes.toml").write_text(setting)

    result = subprocess.run(
        [sys.executable, "-m", "assizes.deployments.cli", "plan"],
        cwd=tmp_path,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=False,
    )

    assert result.returncode == 0, result.stderr
    lines = result.stderr.splitlines()
    notice = [line for line in lines if "runs code of the current folder" in line]
    assert len(notice) == 1
    assert notice[0].endswith(f"runs code of the current folder: {said}")
    assert lines.index(notice[0]) < lines.index("the code runs")
    assert "UserWarning" not in result.stderr
