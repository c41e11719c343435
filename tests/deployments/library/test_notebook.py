"""The first lines of docs/python.md in the kernel of a notebook, with its running event loop."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.deployments.library.logs import logs
from tests.outward import PYTHONPATH

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")

CELLS = (
    "import json, assizes\nlogs = [json.loads(line) for line in open('logs.jsonl')]",
    "result = assizes.evaluate(logs, model='openai/stub', api_base='{api_base}')\nresult",
    "result.to_polars().height",
    "result.case('c1').explain('tool_routing')",
    "result.compare(await assizes.aevaluate(logs)).verdict",
    "assizes.judges.safety('Hi', 'Hello', model='openai/stub', api_base='{api_base}').rating",
)


@pytest.mark.full
def test_a_notebook_shows_progress_results_and_explanations(
    tmp_path: Path, judge_server, monkeypatch: pytest.MonkeyPatch
):
    paths = (PYTHONPATH, os.environ.get("PYTHONPATH", ""))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    (tmp_path / "logs.jsonl").write_text("".join(json.dumps(log) + "\n" for log in logs()))
    cells = [
        nbformat.v4.new_code_cell(cell.replace("{api_base}", judge_server.api_base))
        for cell in CELLS
    ]
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(
        notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    _, evaluated, height, explained, verdict, safety = (cell.outputs for cell in notebook.cells)
    htmls = [output["data"].get("text/html", "") for output in evaluated if "data" in output]
    assert "judging: 30 of 30 cases" in htmls[0]
    assert "tool_routing" in htmls[-1]
    assert height[-1]["data"]["text/plain"].isdigit()
    assert "---- reply" in explained[-1]["data"]["text/plain"]
    assert "not comparable" in verdict[-1]["data"]["text/html"]
    assert safety[-1]["data"]["text/plain"] == "'yes'"
