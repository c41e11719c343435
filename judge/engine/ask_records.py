"""The record of one ask, as a row of table `asks`, and the replay of a hearing from such rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from assizes.judge.case import Case
from assizes.judge.engine.attempts import AskOutcome, Attempt, read_completion
from assizes.judge.hearing import Hearing
from assizes.judge.models.model import ESTIMATED, OFFLINE_PROVIDER, Completion, Model
from assizes.judge.protocol import NO_SQL_RUNNER, Ask, Judge, NoReply, SqlRunner
from assizes.judge.rows import as_json
from assizes.judge.score import Score

CostSource = Literal["free", "priced", "estimated", "unknown"]

Row = Mapping[str, Any]
"""A row of table `asks`."""


@dataclass(frozen=True, slots=True)
class AskRecord:
    """The record of one ask; the fields are columns of table `asks`.

    A `cached` answer was paid for elsewhere: it has no attempts and no cost, and its tokens and
    latency are those of the original call. A reply that an interrupted execution of the same run
    paid for does not count as cached: it is charged here. A failure that was shared with an
    identical ask in flight is not cached; it has no attempts, no tokens and no cost.

    Tokens and cost are `None` where those of any attempt are not known; a call that the provider
    turned away, or that never reached the provider, took none. `reply` is the raw text. `sample`
    numbers the repeats of an ensemble's model. `cost_source` is `priced`, `estimated` (tokens were
    not metered), `unknown` (no price) or `free`. `waited_ms` counts the waiting for limits and
    pauses. `flags` names everything that was done to get or read the reply. `trail` is JSON with
    one object for each call; it is there when there was more than one call or the last one failed.
    """

    judge: str
    round: int
    index: int
    model: str
    provider: str
    answered_by: str | None
    prompt_hash: str
    cached: bool
    attempts: int
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    latency_ms: float
    error: str | None
    reply: str | None
    sample: int = 0
    fingerprint: str | None = None
    cost_source: CostSource = "free"
    waited_ms: float = 0.0
    flags: tuple[str, ...] = ()
    trail: str | None = None


@dataclass(frozen=True, slots=True)
class HearingResult:
    """The result of a hearing: the scores of the judge and the records of its asks."""

    judge: Judge
    scores: list[Score]
    asks: list[AskRecord]


@dataclass(frozen=True, slots=True)
class AskKey:
    """The place of a question in a hearing: the round, and the index within the round.

    The hash of the prompt is empty for a query, which is put to no model. `cache_key` is `None`
    where the reply is not cached.
    """

    judge: str
    round: int
    index: int
    sample: int
    prompt_hash: str
    cache_key: str | None

    def claim_key(self, case: Case) -> str:
        """A text that identifies the ask in the whole run."""
        parts = [case.case_id, case.repetition, self.judge, self.round, self.index]
        return as_json([*parts, self.sample] if self.sample else parts)


def ask_record(model: Model, answer: AskOutcome, ask_key: AskKey) -> AskRecord:
    """Build the record of an ask that was answered by `model`."""
    completion, reply = answer.completion, answer.reply
    cost_source: CostSource = "estimated" if ESTIMATED in completion.flags else "priced"
    if not completion.cost_usd:
        cost_source = "unknown" if completion.cost_usd is None else "free"
    return AskRecord(
        judge=ask_key.judge,
        round=ask_key.round,
        index=ask_key.index,
        model=model.name,
        provider=model.provider,
        answered_by=completion.answered_by or None,
        prompt_hash=ask_key.prompt_hash,
        cached=answer.cached,
        attempts=answer.attempts,
        input_tokens=completion.input_tokens,
        output_tokens=completion.output_tokens,
        cost_usd=completion.cost_usd,
        latency_ms=completion.latency_ms,
        error=f"{reply.code}: {reply.reason}" if isinstance(reply, NoReply) else None,
        reply=completion.text or None,
        sample=ask_key.sample,
        fingerprint=completion.fingerprint or None,
        cost_source=cost_source,
        # The offline judge has no limits, and its runs must be equal to the last byte.
        waited_ms=0.0 if model.provider == OFFLINE_PROVIDER else answer.waited_ms,
        flags=completion.flags,
        trail=answer.trail,
    )


@dataclass(frozen=True, slots=True)
class ReplayedHearing:
    """One question of a hearing that is over, rendered anew from the case, with its stored row.

    It is `exact` where the hash of the prompt equals that of the prompt that was sent. The attempt
    is the stored reply, read again by today's rules; `None` where no reply came.
    """

    ask: Ask[Any]
    row: Row
    exact: bool
    attempt: Attempt | None


async def replay_hearing(
    judge: Judge, case: Case, rows: Sequence[Row], sql_runner: SqlRunner | None = None
) -> list[ReplayedHearing]:
    """Replay the questions that a judge put for a case, in the order of their rows.

    The judge is as the run had it, and the rows are those of the case and the judge. No model is
    asked; SQL statements are run again where there is a runner. The replay of a model stops at a
    question without a row, because the later questions depend on its reply.
    """
    # A hearing is that of one model and one repeat; its rows are found by round and index.
    lines: dict[tuple[str, int], dict[tuple[int, int], Row]] = {}
    for row in rows:
        line = lines.setdefault((row["model"], row["sample"]), {})
        line[row["round"], row["index"]] = row
    replays: list[ReplayedHearing] = []
    for line in lines.values():
        replays.extend(await _replay_line(Hearing(judge, case), line, sql_runner))
    place = {id(row): number for number, row in enumerate(rows)}
    return sorted(replays, key=lambda replay: place[id(replay.row)])


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
            replay, reply = _replay(question, row)
            replays.append(replay)
            replies.append(reply)
        hearing.answer(replies)
        round_ += 1
    return replays


def _replay(ask: Ask[Any], row: Row) -> tuple[ReplayedHearing, Any]:
    """The replay of a question, and the answer for the judge: a reply, or why there was none."""
    attempt: Attempt | None = None
    if row["reply"] is not None:
        reply_id: str | None = None if row["provider"] == OFFLINE_PROVIDER else ask.reply_id
        if reply_id is not None and ask.prompt_hash[-12:] in row["reply"]:
            # Before version 3 of the conversation judge, the id that a reply repeats was shorter.
            reply_id = ask.prompt_hash[-12:]
        answered_by = row["answered_by"] or row["model"]
        attempt = read_completion(ask, Completion(row["reply"], answered_by, reply_id=reply_id))
    replay = ReplayedHearing(ask, row, row["prompt_hash"] == ask.prompt_hash, attempt)
    if row["error"] is None and attempt is not None:
        return replay, attempt.reply or attempt.failure
    code, _, reason = (row["error"] or "no_reply: none is kept").partition(": ")
    return replay, NoReply(code, reason, row["reply"] or "")
