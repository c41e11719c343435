"""Batches: asks that lack a reply are sent to a provider's batch endpoint, at half the price.

The replies of a batch fill the reply cache; judging then reads them from the cache as usual
(docs/decisions.md, decision 31).
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from typing import Any, BinaryIO, Final, Protocol

from assizes.judge.case import Case
from assizes.judge.config.bedrock import BedrockConfig
from assizes.judge.config.judging import LimitsConfig
from assizes.judge.config.vertex import VertexConfig
from assizes.judge.engine.ask_records import AskRecord, HearingResult
from assizes.judge.engine.asking import ModelCaller
from assizes.judge.engine.attempts import AskOutcome, read_completion
from assizes.judge.engine.ensemble_hearing import EnsembleModels
from assizes.judge.engine.hearings import Engine, EngineDependencies
from assizes.judge.engine.ledger import CachedReply
from assizes.judge.engine.second_look import WrappedJudge
from assizes.judge.errors import ConfigurationError, ModelError
from assizes.judge.models import bedrock_batches, vertex_batches
from assizes.judge.models.anthropic_batches import anthropic_batches
from assizes.judge.models.batch_lines import (
    BATCH_PROVIDERS,
    BatchStatus,
    ProviderBatches,
    Submission,
)
from assizes.judge.models.gemini_batches import gemini_batches
from assizes.judge.models.model import (
    NOT_CACHED,
    Completion,
    Model,
    ReplayOnlyModel,
    UnusableReply,
)
from assizes.judge.models.provider_calls import with_estimates
from assizes.judge.protocol import Ask, Judge, NoReply, Steps
from assizes.judge.score import Score

PaidReply = Completion | UnusableReply
"""A reply from a line of a batch, which was paid for whether it can be used or not."""


class Batches(Protocol):
    """The batch endpoint of one model's provider.

    Raises:
        ModelError: raised by every method that asks the provider, when the provider cannot be
            reached or refuses.
    """

    min_asks: int  # the fewest asks of a batch

    def body(self, ask: Ask[Any]) -> dict[str, Any]:
        """The body of the request that a live call would send."""

    def line(self, key: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The line of a file of requests for an ask with this key."""

    async def latest(self) -> str | None:
        """What `find` needs to know from before a submission; it is noted first. `None` for nothing.

        At a provider that keeps no tag it is the id of the newest batch, empty without one; at one
        that takes a token for a request, a new token.
        """

    async def submit(self, lines: BinaryIO, submission: Submission) -> str:
        """Submit a file of requests and return the id of the batch; this is never retried.

        After an error it may not be known whether the provider accepted the file.
        """

    async def find(self, submission: Submission) -> str | None:
        """Look for a batch that may have been submitted and return its id; `None` for none.

        Raises:
            Undecided: only the end of a batch that still runs can tell.
        """

    async def status(self, batch_id: str) -> BatchStatus:
        """Ask the provider for the status of a batch."""

    def results(self, batch_id: str) -> AsyncIterator[tuple[str, Completion | ModelError]]:
        """Read the results of a batch that has ended, as (key of the ask, result); some may be missing."""

    async def discard(self, submission: Submission) -> None:
        """Delete the files of a part from a place of the user's own.

        The replies of the part are stored, or the provider has refused it.
        """


class BatchAnswers(Protocol):
    """The asks that batches of this run held, and the replies that came."""

    def has_asked(self, key: str) -> bool:
        """Whether an ask was ever part of a batch of this run."""

    async def take(self, key: str) -> PaidReply | None:
        """Take the reply of an ask; `None` where none came, or where it was taken before."""

    def leave(self, key: str, reply: PaidReply) -> None:
        """Keep a reply that does not fit: it is the first attempt when the ask is put live."""


AskCallback = Callable[[Model, Ask[Any], str], None]
"""Called with the model, the ask and its key for each ask that belongs in the next batch."""


class AskCollector(Engine):
    """Hears cases without calling a model, and notes the asks that they would put next.

    A hearing goes on as long as there are replies, in the cache or from the last batch. An ask that
    a batch could not answer is not noted again; it will be put by a live call.
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

    async def hear(
        self, judge: Judge, case: Case, answered: list[AskRecord] | None = None
    ) -> HearingResult:
        """Hear a case as far as there are replies; the result is empty where one was missing."""
        try:
            return await super().hear(_PausingJudge(judge), case, answered)
        except RepliesMissing:
            return HearingResult(judge=judge, scores=[], asks=[])

    async def _new_answer(self, caller: ModelCaller, ask: Ask[Any], key: str) -> AskOutcome:
        """The answer that the last batch brought, put into the cache; else `_UNANSWERED`.

        An ask that no batch had yet is noted for the next one.
        """
        if not self._answers.has_asked(key):
            self._note(caller.model, ask, key)
            return _UNANSWERED
        reply = await self._answers.take(key)
        if reply is None:
            return _UNANSWERED
        reply = _completed_reply(reply, caller.model, ask)
        # A reply with doubts is left as well: a live call may clear them up.
        attempt, cache = read_completion(ask, reply), self._dependencies.cache
        if cache is None or attempt.reply is None or attempt.code or isinstance(reply, ModelError):
            self._answers.leave(key, reply)
            return _UNANSWERED
        await cache.store(key, CachedReply(reply, 1, self._dependencies.run_id))
        if await cache.get(key) is None:  # the cache cannot be written: keep the paid reply
            self._answers.leave(key, reply)
        return AskOutcome(attempt.reply, reply, 1, cached=True)


class RepliesMissing(Exception):  # no `AssizesError`, which others may catch
    """A hearing cannot go on until the asks that lack a reply have been answered."""


_UNANSWERED: Final = AskOutcome(NoReply(NOT_CACHED, "to be asked in a batch"), Completion("", ""))


class _PausingJudge(WrappedJudge):
    """A judge that stops at a missing reply instead of taking it for a failure."""

    def judge(self, case: Case) -> list[Score] | Steps[list[Score]]:
        """The steps of the wrapped judge up to the first round that is not answered."""
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
        # Passed on to the judge, a missing reply would become a failed score.
        if any(isinstance(reply, NoReply) and reply.code == NOT_CACHED for reply in replies):
            steps.close()
            raise RepliesMissing


def _completed_reply(reply: PaidReply, model: Model, ask: Ask[Any]) -> PaidReply:
    """Add the reply id of the ask, and an estimate of tokens where none were metered."""
    completion = reply.completion if isinstance(reply, UnusableReply) else reply
    completion = replace(completion, reply_id=ask.repeated_id(completion.text))
    completion = with_estimates(completion, model.tokens(ask)[0], model.price, batch=True)
    if isinstance(reply, UnusableReply):
        return UnusableReply(reply.code, reply.detail, completion)
    return completion


def model_mark(model: Model) -> str:
    """12 hex digits that identify a model with its parameters, in the tag of its batches."""
    return hashlib.sha256((model.cache_key or "").encode()).hexdigest()[:12]


def batches_of(
    model: Model, bedrock: BedrockConfig | None = None, vertex: VertexConfig | None = None
) -> Batches | None:
    """The batch endpoint of a model; `None` for a model that calls no provider.

    Raises:
        ConfigurationError: when the provider has no batch endpoint that can be used.
    """
    if model.cache_key is None:  # replies would have no cache to go to
        return None
    # Imported here: litellm takes seconds (docs/decisions.md, decision 7).
    from assizes.judge.models.litellm_model import LiteLLM, LiteLLMBatchCalls, provider_parts

    if not isinstance(model, LiteLLM):
        return None
    _check_provider(model)
    if model.provider == "bedrock":
        return bedrock_batches.bedrock_batches(model, provider_parts, bedrock or BedrockConfig())
    if model.provider == "vertex_ai":
        return vertex_batches.vertex_batches(model, provider_parts, vertex or VertexConfig())
    if model.provider in ("anthropic", "gemini"):
        parts = provider_parts(model.provider)
        is_gemini = model.provider == "gemini"
        return gemini_batches(model, parts) if is_gemini else anthropic_batches(model, parts)
    return ProviderBatches(LiteLLMBatchCalls(model))


def _check_provider(model: Model) -> None:
    if model.provider not in BATCH_PROVIDERS:
        raise ConfigurationError(
            f"[runner] batch: no batches for {model.name!r}, only for models of "
            f"{', '.join(BATCH_PROVIDERS)}; run with --no-batch"
        )


def calls_provider(model: Model) -> bool:
    """Whether asks to a model are calls to a provider, whose replies the cache can keep."""
    if model.cache_key is None or isinstance(model, ReplayOnlyModel):
        return False
    from assizes.judge.models.litellm_model import LiteLLM

    return isinstance(model, LiteLLM)


def least_batch(model: Model, bedrock: BedrockConfig) -> int | None:
    """The fewest asks that make a batch; `None` for a model whose asks are always single calls."""
    if not calls_provider(model) or model.provider not in BATCH_PROVIDERS:
        return None
    return bedrock.min_records if model.provider == "bedrock" else 1


def check_batch_settings(model: Model, bedrock: BedrockConfig, vertex: VertexConfig) -> None:
    """Check that a model has batches, and the settings that these need beside a key.

    A plan has no key, so nothing here asks for one.

    Raises:
        ConfigurationError: the provider has no batches, or a setting is missing or does not fit the
            model.
    """
    if not calls_provider(model):
        return
    _check_provider(model)
    from assizes.judge.models.litellm_model import LiteLLM, provider_parts

    if isinstance(model, LiteLLM) and model.provider == "bedrock":
        bedrock_batches.format_for(model, provider_parts, bedrock)
    elif isinstance(model, LiteLLM) and model.provider == "vertex_ai":
        vertex_batches.format_for(model, provider_parts, vertex)
