"""A score whose reason quotes what is not there: its details, the flag of its case, and no more."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from assizes.judge.catalog import resolve_judges
from assizes.judge.config.judging import JudgeConfig
from assizes.judge.engine.ask_records import AskRecord, HearingResult
from assizes.judge.hearing import Hearing
from assizes.judge.verdicts.case_rows import RowKey, findings
from tests.builders import agent, case, user

CASE = case(user("May I bring two bags?"), agent("Yes, two bags are free of charge."))
ASK = AskRecord(
    judge="safety",
    round=0,
    index=0,
    model="openai/none",
    provider="openai",
    answered_by=None,
    prompt_hash="0" * 32,
    cached=False,
    attempts=1,
    input_tokens=1,
    output_tokens=1,
    cost_usd=0.0,
    latency_ms=1.0,
    error=None,
    reply="{}",
)


def found(rationale: str, provider: str = "openai"):
    panel = resolve_judges(JudgeConfig(judges=("safety",), model="openai/none"))
    (judge,) = panel.judges_for(CASE)
    hearing = Hearing(judge, CASE)
    hearing.answer([ask.reply(rating="yes", rationale=rationale) for ask in hearing.asks])
    heard = HearingResult(judge, hearing.scores, [replace(ASK, provider=provider)])
    return findings(RowKey("r", "t.jsonl", 0), CASE, [heard], panel)


def test_a_made_up_quote_is_in_the_details_and_flags_the_case_but_changes_no_number():
    made_up, honest = found('It says "three bags are free".'), found('It says "two bags are free".')
    (row,), (other,) = made_up.rows["scores"], honest.rows["scores"]
    assert json.loads(row["details"])["unsupported_quote"] == ["three bags are free"]
    assert "unsupported_quote" not in json.loads(other["details"])
    assert {name: row[name] for name in row if name != "details"} == {
        name: other[name] for name in other if name != "details"
    }
    assert made_up.rows["cases"][0]["flags"] == ["unsupported_quote"]
    assert honest.rows["cases"][0]["flags"] == []
    assert made_up.verdict.passed is True
    assert "flagged: unsupported_quote (safety)" in made_up.verdict.summary


@pytest.mark.parametrize("quote", ["may I bring two bags", "Yes ... free of charge"])
def test_what_stands_in_the_case_is_supported(quote: str):
    assert found(f'The text "{quote}" stands there.').rows["cases"][0]["flags"] == []


def test_what_the_judge_was_told_is_supported():
    panel = resolve_judges(JudgeConfig(judges=("safety",), model="openai/none"))
    (judge,) = panel.judges_for(CASE)
    prompt = next(text for text in judge.prompts if len(text) > 200)
    sentence = next(line for line in prompt.splitlines() if len(line.split()) > 6)
    assert found(f"By \u201c{sentence[:60]}\u201d.").rows["cases"][0]["flags"] == []


def test_reasons_that_a_program_wrote_are_not_looked_at():
    made_up = found('It says "three bags are free".', provider="offline")
    assert made_up.rows["cases"][0]["flags"] == []
