"""`assizes results`: the wide table of a run, on the terminal, as JSON and as CSV."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command import assizes
from tests.deployments.test_cells import cells

ROWS = [
    {
        "request_id": f"q{number}",
        "request": "What does a checked bag cost?",
        "response": answer,
        "retrieved_context": [{"content": "A checked bag costs 50 dollars.", "doc_uri": "fees.md"}],
        "expected_retrieved_context": [{"doc_uri": "fees.md"}],
    }
    for number, answer in enumerate(["A checked bag costs 50 dollars.", "Ask a penguin."])
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("results")
    (place / "rows.jsonl").write_text("\n".join(map(json.dumps, ROWS)), "utf-8")
    (place / "assizes.toml").write_text(
        'name = "qa"\n[transcripts]\nuri = "rows.jsonl"\n'
        '[judge]\njudges = ["groundedness", "document_recall"]\n'
        '[store]\nuri = "duckdb:///s.duckdb"\n',
        "utf-8",
    )
    assert assizes("run", "-c", "assizes.toml", "--run-id", "r1", cwd=place).code in (0, 1)
    return place


@pytest.mark.row("005-19")
def test_the_table_of_a_run_has_a_row_for_each_request(folder: Path):
    rows = json.loads(assizes("results", "r1", "--json", cwd=folder).out)
    assert [row["request_id"] for row in rows] == ["q0", "q1"]
    assert [row["response/llm_judged/groundedness/rating"] for row in rows] == ["yes", "no"]
    assert [row["retrieval/ground_truth/document_recall"] for row in rows] == [1.0, 1.0]
    (head, *lines) = cells(assizes("results", "r1", "--csv", cwd=folder).out)
    assert (head[:2], [line[0] for line in lines]) == (["request_id", "repetition"], ["q0", "q1"])


def test_two_shapes_at_once_are_refused(folder: Path):
    assert assizes("results", "r1", "--csv", "--json", cwd=folder).code == 2
