"""A hearing told again from its rows: each question as it was put, beside the reply that came."""

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
"""A row of table asks."""


@dataclass(frozen=True, slots=True)
class ReplayedHearing:
    """One question of a hearing that is over.

    Attributes:
        ask: the question, rendered anew from the case.
        row: what the run kept of it.
        exact: whether the prompt is the one that was sent, by its hash.
        attempt: how the kept reply reads today; null where none came.
    """

    ask: Ask[Any]
    row: Row
    exact: bool
    attempt: Attempt | None


async def replay_hearing(
    judge: Judge, case: Case, rows: Sequence[Row], sql_runner: SqlRunner | None = None
) -> list[ReplayedHearing]:
    """The questions a judge put for a case, in the order of their rows; no model is asked.

    A question that has no row any more ends its line: what follows from it cannot be told.

    Args:
        judge: as the run had it.
        case: read again.
        rows: of table asks, for this case and this judge.
        sql_runner: runs statements on databases again, for judges that look things up.
    """
    replays: list[ReplayedHearing] = []
    for line in _lines(rows):
        replays.extend(await _replay_line(Hearing(judge, case), line, sql_runner))
    place = {id(row): number for number, row in enumerate(rows)}
    return sorted(replays, key=lambda replay: place[id(replay.row)])


def _lines(rows: Iterable[Row]) -> list[dict[tuple[int, int], Row]]:
    """The rows of one model's one hearing each, by round and index."""
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
            replay = _replay_ask(question, row)
            replays.append(replay)
            replies.append(_reply(replay))
        hearing.answer(replies)
        round_ += 1
    return replays


def _replay_ask(ask: Ask[Any], row: Row) -> ReplayedHearing:
    return ReplayedHearing(ask, row, row["prompt_hash"] == ask.prompt_hash, _attempt(ask, row))


def _attempt(ask: Ask[Any], row: Row) -> Attempt | None:
    if row["reply"] is None:
        return None
    reply_id = None if row["provider"] == OFFLINE_PROVIDER else _expected_id(ask, row["reply"])
    completion = Completion(row["reply"], row["answered_by"] or row["model"], reply_id=reply_id)
    return read_completion(ask, completion)


def _expected_id(ask: Ask[Any], reply: str) -> str:
    """The id that the model was told to repeat, which was a shorter one before version 3 of the
    conversation judge.
    """
    former = ask.prompt_hash[-12:]
    return former if former in reply else ask.reply_id


def _reply(replay: ReplayedHearing) -> Any:
    """What the judge was told: the reply as it reads today, or why there was none."""
    if replay.row["error"] is None and replay.attempt is not None:
        return replay.attempt.reply or replay.attempt.failure
    code, _, reason = (replay.row["error"] or "no_reply: none is kept").partition(": ")
    return NoReply(code, reason, replay.row["reply"] or "")
