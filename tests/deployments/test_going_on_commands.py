"""`assizes retry-rejected` and `resume --errors`: judge what a run could not, as a new run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assizes.deployments.samples import sample_cases
from assizes.judge.config.run import StoreConfig
from assizes.judge.formats import native_line
from assizes.tasks.store import open_store
from tests.command import Answer, assizes
from tests.doubles.fixtures import OPENAI_KEY, OpenAIServer

CASES = sample_cases()[:5]
LINES = [native_line(case) for case in CASES]
OTHER = native_line(CASES[3].model_copy(update={"cluster": "another"}))
TABLES = ("scores", "asks", "cases", "rejects")

pytestmark = pytest.mark.xdist_group("server")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Five cases in two files: the third is cut off, the fourth is there twice with two contents."""
    write_lines(tmp_path, LINES[0], LINES[1], LINES[2][:200] + b"\n", LINES[3])
    (tmp_path / "in" / "b.jsonl").write_bytes(OTHER + LINES[4])
    body = (
        '[transcripts]\nuri = "in"\n\n'
        "[thresholds]\nmetrics_pass_threshold = 0\ncases_pass_threshold = 0\n"
    )
    (tmp_path / "assizes.toml").write_text(body)
    return tmp_path


def write_lines(folder: Path, *lines: bytes) -> None:
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in" / "a.jsonl").write_bytes(b"".join(lines))


def answer_of(folder: Path, server: str, *words: str) -> Answer:
    return assizes(*words, cwd=folder, env={"PREFECT_API_URL": server})


def outcome_of(folder: Path, server: str, *words: str) -> dict[str, Any]:
    answer = answer_of(folder, server, *words, "--json")
    assert answer.code in (0, 1, 4), answer
    return dict(json.loads(answer.out))


def tables(folder: Path, run_id: str) -> dict[str, list[dict[str, Any]]]:
    with open_store(StoreConfig(uri=f"duckdb:///{folder}/assizes.duckdb")) as store:
        return {name: store.table(run_id, name).to_dicts() for name in TABLES}


@pytest.mark.full
def test_what_was_mended_is_judged_in_a_run_of_its_own(folder: Path, prefect_server: str):
    first = outcome_of(folder, prefect_server, "run")
    before = tables(folder, first["run_id"])
    assert [row["reason"] for row in before["rejects"]] == ["json", "id_conflict", "id_conflict"]

    nothing = answer_of(folder, prefect_server, "retry-rejected", first["run_id"], "--dry-run")
    assert nothing.code == 4, nothing
    assert "no_data" in nothing.err
    assert "3 rejected (id_conflict 2, json 1)" in nothing.err

    # A line is put in front as well: records stand elsewhere in the mended file.
    write_lines(folder, b"\n{broken\n", *LINES[:3], LINES[3])
    words = ("retry-rejected", first["run_id"], "--dry-run")
    line = answer_of(folder, prefect_server, *words).out.strip()
    assert line == (
        f"run {first['run_id']} rejected 3 records (id_conflict 2, json 1); 1 can be judged now, "
        "3 records (id_conflict 2, json 1) cannot"
    )
    dry = outcome_of(folder, prefect_server, *words)
    assert (dry["sought"], dry["due"], dry["still_quarantined"]) == (3, 1, 3)
    assert dry["reasons"] == {"id_conflict": 2, "json": 1}
    assert dry["of"]["reasons"] == {"id_conflict": 2, "json": 1}

    second = outcome_of(folder, prefect_server, "retry-rejected", first["run_id"])
    counts = second["summary"]["counts"]
    assert (counts["judged"], counts["quarantined"]) == (1, 3)
    assert counts["read"] == sum(counts.values()) - counts["read"]
    assert second["run_id"].startswith("evaluation-rejected-")
    rows = tables(folder, second["run_id"])
    assert [row["case_id"] for row in rows["cases"]] == [CASES[2].case_id]
    assert tables(folder, first["run_id"]) == before
    with open_store(StoreConfig(uri=f"duckdb:///{folder}/assizes.duckdb")) as store:
        again = store.run(second["run_id"]).config["transcripts"]["again"]
    assert again == {"run": first["run_id"], "only": "quarantined"}


@pytest.mark.full
def test_a_mended_copy_of_what_was_judged_is_in_conflict_and_never_wins(
    folder: Path, prefect_server: str
):
    first = outcome_of(folder, prefect_server, "run")
    changed = native_line(CASES[0].model_copy(update={"cluster": "another"}))
    write_lines(folder, *LINES[:2], changed, LINES[3])

    answer = answer_of(folder, prefect_server, "retry-rejected", first["run_id"][:14], "--dry-run")

    assert answer.code == 4, answer
    assert "3 rejected (id_conflict 3)" in answer.err


@pytest.mark.full
def test_a_run_without_rejects_and_an_unknown_one_are_one_line(folder: Path, prefect_server: str):
    (folder / "in" / "a.jsonl").write_bytes(LINES[0])
    (folder / "in" / "b.jsonl").unlink()
    first = outcome_of(folder, prefect_server, "run")

    for words, reason in (
        (
            ("retry-rejected", first["run_id"]),
            "rejected no record, so there is nothing to retry; `assizes show",
        ),
        (("run", "--only-errors", "--run-id", first["run_id"]), "has no case with an error"),
        (("resume", first["run_id"], "--errors"), "has no case with an error"),
        (("run", "--only-errors"), "--only-errors: use `assizes resume RUN --errors`"),
        (
            ("run", "--only-errors", "--run-id", first["run_id"], "--no-batch"),
            "the run keeps its own configuration",
        ),
        (("retry-rejected", "nobody"), "no run 'nobody' in duckdb:///assizes.duckdb"),
        (
            ("plan", "--set", "transcripts.again={run='x',only='errored'}"),
            "no run 'x' in duckdb:///",
        ),
    ):
        answer = answer_of(folder, prefect_server, *words)
        assert answer.code == 2, answer
        assert reason in answer.err
        assert len(answer.err.splitlines()) == 1


@pytest.mark.full
def test_cases_with_errors_are_judged_in_a_run_of_their_own(
    folder: Path, prefect_server: str, judge_server: OpenAIServer
):
    write_lines(folder, *LINES[:3])
    (folder / "in" / "b.jsonl").unlink()
    api = f"judge.api_base={judge_server.api_base}"
    env = {"PREFECT_API_URL": prefect_server, "OPENAI_API_KEY": OPENAI_KEY}
    model = ("--set", "judge.model=openai/stub-invalid", "--set", api)
    first = assizes("run", *model, "--json", cwd=folder, env=env)
    run_id = json.loads(first.out)["run_id"]
    before = tables(folder, run_id)
    assert [row["status"] for row in before["cases"]] == ["errored"] * 3
    shown = assizes("resume", run_id, cwd=folder, env=env)
    hint = f"`assizes resume {run_id} --errors` judges them anew"
    assert f"nothing was judged now; 3 cases with an error: {hint}" in shown.out

    better = ("--set", "judge.model=openai/stub")
    second = assizes("resume", run_id, "--errors", *better, "--json", cwd=folder, env=env)

    assert f"run {run_id} has 3 cases with an error; 3 can be judged now" in second.err
    outcome = json.loads(second.out)
    assert outcome["run_id"].startswith("evaluation-errors-")
    assert outcome["summary"]["counts"]["judged"] == 3
    assert tables(folder, run_id) == before
