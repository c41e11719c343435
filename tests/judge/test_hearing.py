"""Which cases are heard at all: `status` decides that, `finished` says how a heard one ended."""

from __future__ import annotations

import pytest

from assizes.judge.families.conversation import ConversationJudge
from assizes.judge.hearing import Hearing
from assizes.judge.rubrics.rubric import built_in_rubrics
from tests.builders import agent, case, user

TURNS = (user("Cancel order 7 please."), agent("Done, order 7 is cancelled."))


def opened(**rest):
    return Hearing(ConversationJudge(built_in_rubrics()), case(*TURNS, **rest))


@pytest.mark.parametrize("finished", [True, False, None])
def test_another_status_than_completed_skips_a_case_whatever_finished_says(finished):
    hearing = opened(status="failed", finished=finished)
    assert not hearing.asks
    assert {(score.status, score.reason) for score in hearing.scores} == {
        ("skipped", "conversation status is 'failed', only completed ones are judged")
    }


@pytest.mark.parametrize(
    ("finished", "line"),
    [
        (True, "Conversation came to its end: yes"),
        (False, "Conversation came to its end: no, it was cut off"),
        (None, None),
    ],
)
def test_a_completed_case_is_judged_and_the_judge_is_told_how_it_ended(finished, line):
    (ask,) = opened(finished=finished).asks
    lines = [text for text in ask.prompt.user.splitlines() if "came to its end" in text]
    assert lines == ([line] if line else [])
