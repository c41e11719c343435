"""Budgets on the command line: refusals before a server starts, and how a stopped run ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from assizes.deployments.samples import sample_cases
from assizes.judge.formats import native_line
from tests.command import Answer, assizes
from tests.doubles.fixtures import OPENAI_KEY

CASES = 6


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines = [native_line(case) for case in sample_cases()[:CASES]]
    (tmp_path / "t.jsonl").write_bytes(b"".join(lines))
    return tmp_path


def run(folder: Path, *args: str, env: dict[str, str] | None = None, **settings: object) -> Answer:
    pairs = {"transcripts.uri": "t.jsonl", "judge.model": "openai/gpt-4o-mini"}
    pairs |= {name.replace("__", "."): str(value) for name, value in settings.items()}
    words = [word for name, value in pairs.items() for word in ("--set", f"{name}={value}")]
    return assizes(
        "run", *words, *args, cwd=folder, env={"OPENAI_API_KEY": OPENAI_KEY, **(env or {})}
    )


def refusal(answer: Answer) -> str:
    assert answer.code == 2, answer
    (line,) = answer.err.splitlines()
    return line


def test_a_budget_for_a_model_of_unknown_price_says_what_to_give(folder: Path):
    line = refusal(run(folder, judge__model="openai/nobody-knows", limits__budget_usd=1))
    assert '[limits.prices."openai/nobody-knows"]' in line
    assert "input_usd_per_million and output_usd_per_million" in line
    assert not (folder / "assizes.duckdb").exists()


def test_a_ledger_that_cannot_be_written_is_one_line(folder: Path):
    (folder / "in-the-way").write_text("")
    assert "[limits] ledger in 'in-the-way'" in refusal(
        run(folder, limits__ledger="in-the-way/ledger.db")
    )
    assert "is no ledger of assizes" in refusal(run(folder, limits__ledger="t.jsonl"))


def test_a_run_cannot_ask_anew_and_not_at_all(folder: Path):
    answer = run(folder, "--refresh", "--replay-only")
    assert refusal(answer) == ("assizes: --refresh asks anew, --replay-only asks nothing: give one")


def test_a_run_over_its_budget_exits_with_5_and_says_how_to_go_on(
    folder: Path, judge_server, prefect_server: str
):
    env = {"PREFECT_API_URL": prefect_server}
    place = {"judge__api_base": judge_server.api_base, "runner__shard_size": 2}
    answer = run(folder, env=env, limits__max_asks=3, **place)
    assert answer.code == 5, answer
    assert "OVERBUDGET" in answer.out
    assert "[limits] max_asks = 3: 3 calls were made" in answer.out
    assert "with a larger limit (--set) judges them" in answer.out
    assert "spent over all sessions of the run: 0." in answer.out
    assert judge_server.stats()["requests"] == 3

    whole = run(folder, env=env, **place)
    assert whole.code in (0, 1), whole
    assert judge_server.stats()["requests"] == CASES
