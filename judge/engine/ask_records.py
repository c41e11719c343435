"""The record of one ask, as a row of table `asks`, and the result of a hearing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from assizes.judge.case import Case
from assizes.judge.engine.ask_state import AskOutcome
from assizes.judge.models.model import ESTIMATED, OFFLINE_PROVIDER, Completion, Model
from assizes.judge.protocol import Judge
from assizes.judge.rows import as_json
from assizes.judge.score import Score

CostSource = Literal["free", "priced", "estimated", "unknown"]


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
    """The place of an ask in a hearing: the round, and the index within the round."""

    judge: str
    round: int
    index: int
    sample: int = 0

    def claim_key(self, case: Case) -> str:
        """A text that identifies the ask in the whole run."""
        parts = [case.case_id, case.repetition, self.judge, self.round, self.index]
        return as_json([*parts, self.sample] if self.sample else parts)


def ask_record(model: Model, answer: AskOutcome, prompt_hash: str, ask_key: AskKey) -> AskRecord:
    """Build the record of an ask that was answered by `model`."""
    completion = answer.completion
    return AskRecord(
        judge=ask_key.judge,
        round=ask_key.round,
        index=ask_key.index,
        model=model.name,
        provider=model.provider,
        answered_by=completion.answered_by or None,
        prompt_hash=prompt_hash,
        cached=answer.cached,
        attempts=answer.attempts,
        input_tokens=completion.input_tokens,
        output_tokens=completion.output_tokens,
        cost_usd=completion.cost_usd,
        latency_ms=completion.latency_ms,
        error=answer.error,
        reply=completion.text or None,
        sample=ask_key.sample,
        fingerprint=completion.fingerprint or None,
        cost_source=_cost_source(completion),
        # The offline judge has no limits, and its runs must be equal to the last byte.
        waited_ms=0.0 if model.provider == OFFLINE_PROVIDER else answer.waited_ms,
        flags=completion.flags,
        trail=answer.trail,
    )


def _cost_source(completion: Completion) -> CostSource:
    if completion.cost_usd is None:
        return "unknown"
    if not completion.cost_usd:
        return "free"
    return "estimated" if ESTIMATED in completion.flags else "priced"
