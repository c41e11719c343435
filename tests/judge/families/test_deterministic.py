from __future__ import annotations

import pytest

from assizes.judge.families.deterministic import RecordedJudge
from assizes.judge.hearing import Hearing
from assizes.judge.score import Score
from tests.builders import agent, case, user


def heard(**labels: float) -> list[Score]:
    hearing = Hearing(RecordedJudge(), case(user("Hi"), agent("Hello"), labels=labels))
    assert hearing.asks == ()
    return hearing.scores


@pytest.mark.parametrize(
    ("reward", "passed"), [(1.0, True), (0.0, False), (0.99, False), (1 - 1e-12, True)]
)
def test_the_recorded_reward_passes_when_it_is_one(reward: float, passed: bool):
    assert heard(reward=reward) == [
        Score("recorded_reward", value=reward, raw=reward, passed=passed)
    ]


def test_other_labels_become_parts_by_name():
    assert heard(reward=1.0, nl=0.5, db=1.0) == [
        Score("recorded_reward", value=1.0, raw=1.0, passed=True),
        Score("recorded_reward", part="label:db", value=1.0, raw=1.0, passed=True),
        Score("recorded_reward", part="label:nl", value=0.5, raw=0.5, passed=False),
    ]


def test_a_case_without_labels_is_skipped():
    assert heard() == [Score.skipped("recorded_reward", "no recorded label")]


def test_labels_without_a_reward_are_kept_as_parts():
    assert heard(nl=1.0) == [
        Score.skipped("recorded_reward", "no recorded label"),
        Score("recorded_reward", part="label:nl", value=1.0, raw=1.0, passed=True),
    ]


@pytest.mark.parametrize("reward", [7.0, -0.1])
def test_a_label_outside_zero_to_one_is_a_failed_score(reward: float):
    assert heard(reward=reward) == [
        Score.failed(
            "recorded_reward", f"label 'reward' is {reward!r}, wanted 0 to 1", "invalid_label"
        )
    ]
