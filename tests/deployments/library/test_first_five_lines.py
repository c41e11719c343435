"""The first five lines of a newcomer, in an empty environment that has the wheel alone."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from tests.deployments.library.logs import COLUMNS, COUNT, logs, turn_rows
from tests.deployments.test_installed_wheel import archives, python, run
from tests.doubles.fixtures import OPENAI_KEY

__all__ = ["archives", "python"]  # the fixtures that build and install the wheel

BEGIN = "import assizes, json, polars"
END = (
    "print(result.to_polars().filter(status='scored').height)",
    "print(result.summary.unique_test_case_count)",
    "print(result.case('c1').explain('tool_routing').prompts[0].count('Where is order 1?'))",
)
MODEL = "model='openai/stub', api_base='{api_base}', metrics=['tool_routing', 'task_completion']"
INPUTS = {
    "logs": "[json.loads(line) for line in open('logs.jsonl')]",
    "path": "'logs.jsonl'",
    "csv": f"'chats.csv', columns={COLUMNS}",
    "frame": f"polars.read_parquet('chats.parquet'), columns={COLUMNS}",
}


@pytest.mark.parametrize(
    "cases",
    [
        pytest.param(text, id=name, marks=pytest.mark.full if name != "path" else ())
        for name, text in INPUTS.items()
    ],
)
def test_five_lines_judge_thirty_conversations(
    python: Path, tmp_path: Path, judge_server, cases: str
):
    (tmp_path / "logs.jsonl").write_text("".join(json.dumps(log) + "\n" for log in logs()))
    pl.DataFrame(turn_rows()).write_csv(tmp_path / "chats.csv")
    pl.DataFrame(turn_rows()).write_parquet(tmp_path / "chats.parquet")
    settings = MODEL.format(api_base=judge_server.api_base)
    lines = [BEGIN, f"result = assizes.evaluate({cases}, {settings})", *END]
    assert len(lines) == 5
    done = run(python, tmp_path, "-c", "\n".join(lines), OPENAI_API_KEY=OPENAI_KEY)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(2 * COUNT), str(COUNT), "1"]
    assert judge_server.stats()["requests"] == COUNT
