"""The replay of a hearing: the same questions, from the rows that the hearing left."""

from __future__ import annotations

import pytest

from assizes.judge.catalog import resolve_judges
from assizes.judge.config.judging import JudgeConfig, LimitsConfig
from assizes.judge.engine.ask_records import replay_hearing
from assizes.judge.engine.hearings import Engine
from assizes.judge.heuristic.answers import HeuristicModel
from tests.builders import agent, case, user

CASE = case(user("Book a table for two."), agent("It is booked."))
CONFIG = JudgeConfig()


async def rows_of(one=CASE) -> list[dict]:
    (judge,) = resolve_judges(CONFIG).judges
    heard = await Engine(HeuristicModel(), LimitsConfig()).hear(judge, one)
    return [{name: getattr(ask, name) for name in ask.__dataclass_fields__} for ask in heard.asks]


async def test_a_prompt_that_was_sent_is_rendered_to_the_letter():
    (judge,) = resolve_judges(CONFIG).judges
    rows = await rows_of()
    (told,) = await replay_hearing(judge, CASE, rows)
    assert told.exact
    assert "Book a table for two." in told.ask.prompt.user
    assert told.attempt is not None
    assert told.attempt.reply is not None


async def test_another_transcript_does_not_pass_for_the_one_that_was_sent():
    (judge,) = resolve_judges(CONFIG).judges
    rows = await rows_of()
    (told,) = await replay_hearing(judge, case(user("Something else."), agent("Yes.")), rows)
    assert not told.exact


@pytest.mark.parametrize("reply", [None, "no JSON at all"])
async def test_a_question_without_a_usable_reply_is_told_as_such(reply):
    (judge,) = resolve_judges(CONFIG).judges
    (row,) = await rows_of()
    error = "timeout: no answer" if reply is None else None
    (told,) = await replay_hearing(judge, CASE, [{**row, "reply": reply, "error": error}])
    assert told.exact
    assert (told.attempt is None) == (reply is None)
    assert told.attempt is None or told.attempt.reply is None


async def test_a_question_that_left_no_row_ends_the_telling():
    (judge,) = resolve_judges(CONFIG).judges
    (row,) = await rows_of()
    assert await replay_hearing(judge, CASE, [{**row, "round": 7}]) == []
