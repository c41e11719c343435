"""Cases with extreme values: what can be read can also be summed up, stored and filtered."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from pydantic import ValidationError

from assizes.judge.case import MOST_MS, MOST_TOKENS, MOST_USD, Case, Transcript, Turn, Usage
from assizes.judge.selection import facts
from tests.builders import agent, case

FIRST_OF_ALL = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5)))


def test_tokens_of_many_calls_may_exceed_those_that_one_can_take():
    most = Usage(input_tokens=MOST_TOKENS, output_tokens=1)
    turn = agent("Hi").model_copy(update={"usage": most})
    used = case(turn, turn).transcript.agent_usage()
    assert (used.input_tokens, used.output_tokens) == (2 * MOST_TOKENS, 2)


@pytest.mark.parametrize(
    "turn",
    [
        {"cost_usd": 1e308},
        {"cost_usd": -1e308},
        {"latency_ms": 1e300},
        {"started_at": FIRST_OF_ALL},
    ],
)
def test_a_number_or_a_time_that_nothing_could_be_worked_out_of_is_refused(turn):
    with pytest.raises(ValidationError):
        Turn.model_validate({"role": "assistant", **turn})


@pytest.mark.parametrize(
    "whole",
    [{"agent_cost_usd": 1e308}, {"duration_ms": 1e300}, {"started_at": FIRST_OF_ALL}],
)
def test_a_number_or_a_time_of_the_whole_is_refused_alike(whole):
    with pytest.raises(ValidationError):
        Transcript.model_validate(whole)


def test_what_is_just_accepted_can_be_filtered():
    began = datetime(1, 1, 1, 5, tzinfo=timezone(timedelta(hours=5)))
    whole = {"started_at": began, "duration_ms": MOST_MS, "agent_cost_usd": MOST_USD}
    case_facts = facts(Case(case_id="c", transcript=Transcript.model_validate(whole)))
    assert case_facts["started_at"] == datetime(1, 1, 1, tzinfo=UTC).replace(tzinfo=None)
    assert (case_facts["duration_ms"], case_facts["cost_usd"]) == (MOST_MS, MOST_USD)
