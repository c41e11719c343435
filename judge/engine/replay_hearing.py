"""Replays a hearing from its rows: each question as it was put, with the reply that came."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assizes.judge.case import Case
from assizes.judge.engine.attempts import Attempt, read_completion
from assizes.judge.hearing import Hearing
from assizes.judge.models.model import OFFLINE_PROVIDER, Completion
from assizes.judge.protocol import NO_SQL_RUNNER, Ask, Judge, NoReply, SqlRunner

Row = Mapping[str, Any]
"""A row of table `asks`."""


@dataclass(frozen=True, slots=True)
class ReplayedHearing:
    """One question of a hearing that is over, with its reply.

    Attributes:
        ask: the question, rendered anew from the case.
        row: the stored row of the ask.
        exact: whether the hash of the prompt equals that of the prompt that was sent.
        attempt: the stored reply, read again by today's rules; `None` where no reply came.
    """

    ask: Ask[Any]
    row: Row
    exact: bool
    attempt: Attempt | None


async def replay_hearing(
    judge: Judge, case: Case, rows: Sequence[Row], sql_runner: SqlRunner | None = None
) -> list[ReplayedHearing]:
    """Replay the questions that a judge put for a case, in the order of their rows.

    No model is asked. The replay of a model stops at a question without a row, because the later
    questions depend on its reply.

    Args:
        judge: the judge as the run had it.
        case: the case, read again.
        rows: the rows of table `asks` for this case and this judge.
        sql_runner: runs SQL statements again, for judges that use a database.
    """
    replays: list[ReplayedHearing] = []
    for line in _lines(rows):
        replays.extend(await _replay_line(Hearing(judge, case), line, sql_runner))
    place = {id(row): number for number, row in enumerate(rows)}
    return sorted(replays, key=lambda replay: place[id(replay.row)])


def _lines(rows: Iterable[Row]) -> list[dict[tuple[int, int], Row]]:
    """Group the rows by hearing (a model and a repeat), each group by (round, index)."""
    lines: dict[tuple[str, int], dict[tuple[int, int], Row]] = {}
    for row in rows:
        line = lines.setdefault((row["model"], row["sample"]), {})
        line[row["round"], row["index"]] = row
    return list(lines.values())


async def _replay_line(
    hearing: Hearing, rows: Mapping[tuple[int, int], Row], sql_runner: SqlRunner | None
) -> list[ReplayedHearing]:
    replays: list[ReplayedHearing] = []
    round_ = 0
    while hearing.asks:
        replies: list[Any] = []
        for index, question in enumerate(hearing.asks):
            if not isinstance(question, Ask):
                replies.append(await sql_runner.look_up(question) if sql_runner else NO_SQL_RUNNER)
                continue
            row = rows.get((round_, index))
            if row is None:
                return replays
            exact = row["prompt_hash"] == question.prompt_hash
            replay = ReplayedHearing(question, row, exact, _attempt(question, row))
            replays.append(replay)
            replies.append(_reply(replay))
        hearing.answer(replies)
        round_ += 1
    return replays


def _attempt(ask: Ask[Any], row: Row) -> Attempt | None:
    if row["reply"] is None:
        return None
    reply_id: str | None = ask.reply_id
    if row["provider"] == OFFLINE_PROVIDER:
        reply_id = None
    elif ask.prompt_hash[-12:] in row["reply"]:
        # Before version 3 of the conversation judge, the id that a reply repeats was shorter.
        reply_id = ask.prompt_hash[-12:]
    completion = Completion(row["reply"], row["answered_by"] or row["model"], reply_id=reply_id)
    return read_completion(ask, completion)


def _reply(replay: ReplayedHearing) -> Any:
    """The answer for the judge: the reply, read by today's rules, or the reason why there was none."""
    if replay.row["error"] is None and replay.attempt is not None:
        return replay.attempt.reply or replay.attempt.failure
    code, _, reason = (replay.row["error"] or "no_reply: none is kept").partition(": ")
    return NoReply(code, reason, replay.row["reply"] or "")
