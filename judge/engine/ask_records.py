"""The record of one ask, as a row of table `asks`, and the replay of a hearing from such rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from assizes.judge.case import Case
from assizes.judge.engine.attempts import WITHOUT_ID, AskOutcome, Attempt, read_completion
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

    Figures cover all calls of the ask, and are `None` where those of any call are not known; a call
    that the provider turned away, or that never reached the provider, took none. A failure shared
    with an identical ask in flight is not `cached`; it has no attempts, no tokens and no cost.
    """

    judge: str
    round: int  # from 0; the asks of a round are put together
    index: int  # from 0 within the round, over all hearings of an ensemble
    model: str  # as the configuration names it
    provider: str  # `offline` where nothing was sent
    answered_by: str | None  # the model as the provider names it
    prompt_hash: str  # 32 hex digits, over both messages and the reply schema
    cached: bool  # paid for elsewhere; what this run paid before an interruption is charged here
    attempts: int  # model calls; 0 where cached
    input_tokens: int | None  # those of the original call where cached
    output_tokens: int | None
    cost_usd: float | None  # 0 where cached
    latency_ms: float  # sum over the calls; that of the original call where cached
    error: str | None  # "code: reason"; `None` where a reply came
    reply: str | None  # the raw text, also of a reply that could not be used
    sample: int = 0  # number of the repeat with this model
    fingerprint: str | None = None  # the provider's mark of the system that answered
    cost_source: CostSource = "free"  # estimated: tokens not metered; unknown: no price
    waited_ms: float = 0.0  # for limits and pauses
    flags: tuple[str, ...] = ()  # what was done to get or read the reply
    trail: str | None = None  # JSON, an object for each call; `None` where the first was good
    cached_tokens: int | None = None  # of `input_tokens`, by the provider's prompt cache
    cache_write_tokens: int | None = None  # of `input_tokens`, put into that cache


@dataclass(frozen=True, slots=True)
class HearingResult:
    """The result of a hearing: the scores of the judge and the records of its asks."""

    judge: Judge
    scores: list[Score]
    asks: list[AskRecord]


@dataclass(frozen=True, slots=True)
class AskKey:
    """The place of a question in a hearing, with the keys of its prompt and its reply."""

    judge: str
    round: int  # from 0
    index: int  # from 0, within the round
    sample: int  # number of the repeat, from 0
    prompt_hash: str  # empty for a query, which is put to no model
    cache_key: str | None  # `None`: the reply is not cached

    def ask_id(self, case: Case) -> str:
        """A text that identifies the ask in the whole run."""
        parts = [case.case_id, case.repetition, self.judge, self.round, self.index]
        # Sample 0 is left out, as in `reply_key`: the claims of older ledgers still hold.
        return as_json([*parts, self.sample] if self.sample else parts)


def ask_record(model: Model, answer: AskOutcome, ask_key: AskKey) -> AskRecord:
    """Build the record of an ask that was answered by `model`."""
    completion, reply = answer.completion, answer.reply
    # A cost of 0 is free however its tokens were counted; without a price the cost is unknown.
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
        cached_tokens=completion.cached_tokens,
        cache_write_tokens=completion.cache_write_tokens,
    )


@dataclass(frozen=True, slots=True)
class ReplayedHearing:
    """One question of a hearing that is over, rendered anew from the case, with its stored row."""

    ask: Ask[Any]
    row: Row
    exact: bool  # the rendered prompt has the hash of the prompt that was sent
    attempt: Attempt | None  # the stored reply, read by today's rules; `None` where none came


async def replay_hearing(
    judge: Judge, case: Case, rows: Sequence[Row], sql_runner: SqlRunner | None = None
) -> list[ReplayedHearing]:
    """Replay the questions that a judge put for a case, in the order of their rows.

    The judge is as the run had it, and the rows are those of the case and the judge. No model is
    asked; SQL statements are run again where there is a runner. The replay of a model stops at a
    question without a row, because the later questions depend on its reply.
    """
    # A hearing is that of one model and one repeat.
    lines: dict[tuple[str, int], dict[tuple[int, int], Row]] = {}  # (round, index) -> row
    for row in rows:
        line = lines.setdefault((row["model"], row["sample"]), {})
        line[row["round"], row["index"]] = row
    replays: list[ReplayedHearing] = []
    for line in lines.values():
        replays.extend(await _replay_line(Hearing(judge, case), line, sql_runner))
    place = {id(row): number for number, row in enumerate(rows)}  # by identity: a row has no hash
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
    """Replay a question; the second value is the judge's answer: a reply or a `NoReply`."""
    attempt: Attempt | None = None
    if row["reply"] is not None:
        is_offline = row["provider"] == OFFLINE_PROVIDER
        needs_no_id = is_offline or WITHOUT_ID in (row["flags"] or ())
        reply_id = None if needs_no_id else ask.repeated_id(row["reply"])
        completion = Completion(row["reply"], row["answered_by"] or row["model"], reply_id=reply_id)
        attempt = read_completion(ask.read_offline() if is_offline else ask, completion)
    replay = ReplayedHearing(ask, row, row["prompt_hash"] == ask.prompt_hash, attempt)
    # An ask that failed fails again, even where today's rules could read its text.
    if row["error"] is None and attempt is not None:
        return replay, attempt.reply or attempt.failure
    code, _, reason = (row["error"] or "no_reply: none is kept").partition(": ")
    return replay, NoReply(code, reason, row["reply"] or "")
