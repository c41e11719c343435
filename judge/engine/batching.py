"""Asks by the file: what a round of hearings lacks, put to a provider's batch endpoint at half price.

A batch fills the reply cache; judging then goes on over the cache as ever. Hearings advance round by
round: a `Gatherer` hears every case with the replies there are, and notes what each would ask next.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from typing import Any, BinaryIO, Final, Protocol

from assizes.judge.case import Case
from assizes.judge.config.run import LimitsConfig
from assizes.judge.engine.ask_records import HearingResult
from assizes.judge.engine.ask_state import AskOutcome
from assizes.judge.engine.attempts import read_completion
from assizes.judge.engine.ensemble_hearing import EnsembleModels
from assizes.judge.engine.hearings import Engine, EngineDependencies
from assizes.judge.engine.reply_cache import CachedReply
from assizes.judge.errors import ConfigurationError, ModelError
from assizes.judge.models.batch_lines import BATCH_PROVIDERS, BatchStatus, ProviderBatches
from assizes.judge.models.completions import with_estimates
from assizes.judge.models.model import Completion, Model, UnusableReply
from assizes.judge.models.replayed import NOT_CACHED
from assizes.judge.protocol import Ask, Judge, NoReply, Steps
from assizes.judge.score import Metric, Score

PaidReply = Completion | UnusableReply
"""What a line of a batch brought that was paid for."""


class Batches(Protocol):
    """The batch endpoint of one model's provider."""

    def body(self, ask: Ask[Any]) -> dict[str, Any]:
        """The request that a live call would send."""

    async def submit(self, lines: BinaryIO, tag: Mapping[str, str]) -> str:
        """Hand a file of requests in; the batch's id. Never repeated by itself.

        Raises:
            ModelError: when the provider did not take it, or it is not known whether it did.
        """

    async def find(self, tag: Mapping[str, str]) -> str | None:
        """The id of the batch that was handed in with this tag, if there is one.

        Raises:
            ModelError: when the provider cannot be asked.
        """

    async def status(self, batch_id: str) -> BatchStatus:
        """Where it stands.

        Raises:
            ModelError: when the provider cannot be asked or does not know it.
        """

    def results(self, batch_id: str) -> AsyncIterator[tuple[str, Completion | ModelError]]:
        """What came of the asks of a batch that has ended, by key; some may be missing.

        Raises:
            ModelError: when the provider cannot be asked.
        """


class BatchAnswers(Protocol):
    """What batches of this run were asked and have answered."""

    def has_asked(self, key: str) -> bool:
        """Whether an ask was ever part of a batch of this run."""

    async def take(self, key: str) -> PaidReply | None:
        """What came of it, if anything did and it was not made use of yet."""

    def leave(self, key: str, reply: PaidReply) -> None:
        """Note what does not fit: it is the first attempt when the ask is put by itself."""


AskCallback = Callable[[Model, Ask[Any], str], None]
"""Told of each ask that is to be part of the next batch: its model, the ask, its key."""


class AskCollector(Engine):
    """Hears cases without calling a model, and notes what they would ask next.

    A hearing goes as far as there are replies, in the cache or from the last batch. It stops at the
    first round that lacks one: later questions depend on it. An ask that a batch could not answer
    is not noted again; it is left to be put by itself.
    """

    def __init__(
        self,
        model: Model,
        dependencies: EngineDependencies,
        models: Mapping[str, Model | EnsembleModels],
        answers: BatchAnswers,
        note: AskCallback,
    ) -> None:
        super().__init__(model, LimitsConfig(), dependencies, models=models)
        self._answers = answers
        self._note = note

    async def hear(self, judge: Judge, case: Case) -> HearingResult:
        """One judge on one case, as far as it goes; what it found is of no use."""
        try:
            return await super().hear(_PausingJudge(judge), case)
        except RepliesMissing:
            return HearingResult(judge=judge, scores=[], asks=[])

    async def _new_answer(self, slot: Any, ask: Ask[Any], key: str) -> AskOutcome:
        """From the last batch, or not at all."""
        if self._answers.has_asked(key):
            reply = await self._answers.take(key)
            if reply is not None:
                return await self._take_batch_reply(slot.model, ask, key, reply)
        else:
            self._note(slot.model, ask, key)
        return _UNANSWERED

    async def _take_batch_reply(
        self, model: Model, ask: Ask[Any], key: str, reply: PaidReply
    ) -> AskOutcome:
        """A reply that fits is kept as if it had been asked for by itself; others are left."""
        reply = _completed_reply(reply, model, ask)
        attempt = read_completion(ask, reply)
        cache = self._dependencies.cache
        if (
            cache is None
            or attempt.reply is None
            or attempt.complaint is not None
            or isinstance(reply, ModelError)
        ):
            self._answers.leave(key, reply)
            return _UNANSWERED
        await cache.store(key, CachedReply(reply, 1, self._dependencies.run_id))
        if await cache.get(key) is None:  # a cache that cannot be written loses no paid reply
            self._answers.leave(key, reply)
        return AskOutcome(attempt.reply, reply, 1, cached=True)


class RepliesMissing(Exception):
    """A hearing cannot go on until the asks that it lacks have been answered."""


_UNANSWERED: Final = AskOutcome(NoReply(NOT_CACHED, "to be asked in a batch"), Completion("", ""))


class _PausingJudge:
    """A judge that does not take missing replies for failures: it adjourns."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self.name, self.version = judge.name, judge.version
        self.metrics: tuple[Metric, ...] = tuple(judge.metrics)

    def missing(self, case: Case) -> str | None:
        """The judge's."""
        return self._judge.missing(case)

    def judge(self, case: Case) -> list[Score] | Steps[list[Score]]:
        """The judge's, up to the first round that is not answered."""
        result = self._judge.judge(case)
        return result if isinstance(result, list) else _until_unanswered(result)


def _until_unanswered(steps: Steps[list[Score]]) -> Steps[list[Score]]:
    replies: Any = None
    while True:
        try:
            asks = steps.send(replies)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]  # what the judge returns
        replies = yield asks
        if any(isinstance(reply, NoReply) and reply.code == NOT_CACHED for reply in replies):
            steps.close()
            raise RepliesMissing


def _completed_reply(reply: PaidReply, model: Model, ask: Ask[Any]) -> PaidReply:
    """With what only the ask can tell: its reply id, and its tokens where none were metered."""
    if isinstance(reply, UnusableReply):
        completion = _with_tokens(reply.completion, model, ask)
        return UnusableReply(reply.code, reply.detail, completion)
    return _with_tokens(reply, model, ask)


def _with_tokens(completion: Completion, model: Model, ask: Ask[Any]) -> Completion:
    reply_completion = replace(completion, reply_id=ask.reply_id)
    return with_estimates(reply_completion, model.tokens(ask)[0], model.price, batch=True)


def model_mark(model: Model) -> str:
    """What tells a model with its parameters from others: 12 hex digits."""
    return hashlib.sha256((model.cache_key or "").encode()).hexdigest()[:12]


def batches_of(model: Model) -> Batches | None:
    """The batch endpoint of a model; null for one that calls nobody.

    Raises:
        ConfigurationError: when its provider has none that can be used.
    """
    if model.cache_key is None:
        return None
    from assizes.judge.models.litellm_model import LiteLLM, LiteLLMBatchCalls

    if not isinstance(model, LiteLLM):
        return None
    if model.provider not in BATCH_PROVIDERS:
        raise ConfigurationError(
            f"[runner] batch: no batches for {model.name!r}, only for models of "
            f"{', '.join(BATCH_PROVIDERS)}; run with --no-batch"
        )
    return ProviderBatches(LiteLLMBatchCalls(model))
