"""A run in few tokens: one line a step, and the spans that were asked for."""

from __future__ import annotations

import pytest

from assizes.judge.case import Transcript, Turn
from assizes.judge.config.judging import estimated_tokens
from assizes.judge.excerpts.run_digest import digest_text, shorten_middle, spans_text
from tests.builders import agent, user


def run(steps: int, words: int = 300) -> Transcript:
    turns: list[Turn] = [user("Count the rows of the sheet.")]
    turns += [agent(f"step {number}: " + "word " * words) for number in range(1, steps)]
    return Transcript(turns=tuple(turns))


@pytest.mark.parametrize("steps", [3, 10, 130, 2000])
@pytest.mark.parametrize("most", [60, 500, 3000])
def test_a_digest_keeps_to_its_tokens_however_long_the_run_is(steps: int, most: int):
    assert 0 < estimated_tokens(digest_text(run(steps), most)) <= most


def test_a_digest_has_a_line_a_step_that_shows_its_beginning_and_its_end():
    lines = digest_text(run(40), 3000).splitlines()
    assert [line.partition("]")[0] for line in lines] == [f"[{number}" for number in range(40)]
    assert lines[0] == "[0] user: Count the rows of the sheet."
    assert "step 7: word" in lines[7]
    assert lines[7].endswith("word")


def test_a_very_long_run_is_folded_in_its_middle_and_leaves_no_step_out():
    lines = digest_text(run(1000), 2000).splitlines()
    assert lines[0].startswith("[0] user")
    assert lines[-1].startswith("[999] assistant")
    ends = [line[1:].partition("]")[0].split("-") for line in lines]
    covered = [step for end in ends for step in range(int(end[0]), int(end[-1]) + 1)]
    assert covered == list(range(1000))


@pytest.mark.parametrize("most", [0, 100, 900, 5000])
def test_spans_keep_to_their_tokens(most: int):
    shown = spans_text(run(40), range(10, 20), most)
    assert not shown or estimated_tokens(shown) <= most
    if most >= 900:
        assert "[10] assistant: step 10" in shown
        assert "[20]" not in shown


def test_a_text_is_shortened_in_its_middle():
    assert shorten_middle("short", 10) == "short"
    shown = shorten_middle("a" * 100 + "b" * 100, 50)
    assert len(shown) == 50
    assert shown.startswith("aaa")
    assert shown.endswith("bbb")
