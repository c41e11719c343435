"""Turns and findings that are too long by themselves: cut where it is marked, and no further."""

from __future__ import annotations

import pytest

from assizes.judge.config.judging import estimated_tokens
from assizes.judge.families.conversation_parts import (
    ReadingOptions,
    TranscriptView,
    findings_so_far,
    transcript_view,
)
from assizes.judge.score import Metric, Scale, Score
from tests.builders import agent, call, case, result, user

LEVEL = Metric("level", scale=Scale.SCORED)


def seen(turns: int, findings_tokens: int) -> TranscriptView:
    said = case(*(user(f"turn {n}") for n in range(turns)))
    ranges = tuple(range(n, n + 2) for n in range(0, turns, 2))
    return TranscriptView(said.transcript, ranges, findings_tokens=findings_tokens)


def finding(said: str, raw: int = 3) -> list[Score]:
    return [Score.of(LEVEL, raw, details={"justification": said})]


def test_findings_that_fit_are_told_whole_and_those_that_do_not_only_as_far_as_there_is_room():
    found = [finding("first " * 60, raw=1), finding("second " * 60), finding("third " * 60)]
    whole = findings_so_far(seen(8, 2_000), found)
    assert whole.count("first") == 60
    assert whole.count("second") == 60

    worst_and_last = findings_so_far(seen(8, estimated_tokens(whole) - 1), found)
    assert "second" not in worst_and_last
    assert "first first" in worst_and_last
    assert "third third" in worst_and_last

    for room in range(20, 120):
        told = findings_so_far(seen(8, room), found)
        assert estimated_tokens(told) <= room
    assert findings_so_far(seen(8, 20), found).endswith("[...]")


def test_a_long_text_between_short_ones_is_the_only_one_that_is_cut():
    talk = case(*(user(f"{n} hello") for n in range(300)), agent("begin " + "x" * 90_000 + " end"))
    found = transcript_view(talk.transcript, ReadingOptions(context_tokens=3_000), 500)
    cut = [turn for turn, was in zip(found.transcript.turns, talk.transcript.turns, strict=True)
           if turn is not was]  # fmt: skip
    (text,) = [turn.text for turn in cut]
    assert text.startswith("begin xxx")
    assert text.endswith("xxx end")
    assert found.cut_chars > 80_000
    assert len(found.windows) > 1


@pytest.mark.parametrize("room", [1_000, 2_000])
def test_a_call_that_no_window_holds_is_shown_in_a_window_of_its_own(room):
    talk = case(user("Hi"), agent(calls=[call("f", text="y" * 60_000)]), result("ok"), agent("Bye"))
    found = transcript_view(
        talk.transcript, ReadingOptions(context_tokens=room, window_overlap=0), 0
    )
    assert [list(window) for window in found.windows if 1 in window] == [[1]]
    assert found.transcript.turns[1] == talk.transcript.turns[1]
