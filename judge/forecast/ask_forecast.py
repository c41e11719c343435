"""Counts the asks of a run and estimates their tokens, without calling any model.

Every case has its hearings, but text rules answer in the place of the models, so that the asks of
later rounds can be foreseen; an ask whose reply is cached gets that reply. The tokens of a reply
are estimated from its schema and from the reply of its text rule.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial, reduce
from operator import getitem
from typing import Any, Final, NamedTuple

from pydantic import BaseModel

from assizes.judge.case import Case
from assizes.judge.config.judging import estimated_tokens
from assizes.judge.engine.ask_records import AskRecord, HearingResult
from assizes.judge.engine.ensemble import CascadeRule
from assizes.judge.engine.ensemble_hearing import EnsembleModels, hear_ensemble
from assizes.judge.engine.hearings import reply_key
from assizes.judge.engine.ledger import CachedReply, ReplyCache
from assizes.judge.errors import ModelError
from assizes.judge.hearing import Hearing
from assizes.judge.heuristic.answers import plain_reply
from assizes.judge.model_assignment import ModelAssignment
from assizes.judge.models.model import Model
from assizes.judge.models.prompt_caching import marked_tokens
from assizes.judge.prompts.prompt_texts import most_sent
from assizes.judge.prompts.reply import parse_reply
from assizes.judge.prompts.reply_object import REPLY_ID
from assizes.judge.protocol import (
    NO_SQL_RUNNER,
    SHORTEST_ID,
    Ask,
    FileText,
    Judge,
    NoReply,
    QueryResult,
    SqlRunner,
)

TEXT_TOKENS: Final = 30
"""Tokens assumed for each free text of a reply, such as the justification of a score."""

STRUCTURE_CHARS: Final = 3.0
"""Characters in one token of the JSON structure: keys, numbers and punctuation."""

MIN_COPIED_CHARS: Final = 12
"""A text of fewer characters does not count as copied: it may stand in the prompt by chance."""


def reply_tokens(
    reply: type[BaseModel], like: Mapping[str, Any] | None = None, prompt: str = ""
) -> int:
    """An estimate of the tokens of a reply of this model.

    `like` is the reply of a text rule to the same ask: the real one is expected to have as many
    list entries, and texts as long as language models write them. Without it every list has one
    entry. A text that is copied from `prompt`, the user message, keeps its length.
    """
    schema = _schema(reply)
    value = like if like is not None else _example(schema, schema)
    texts: list[str] = []
    shape = {REPLY_ID: "0" * SHORTEST_ID, **_shape(value, schema, schema, texts)}
    copied = [text for text in texts if len(text) >= MIN_COPIED_CHARS and text in prompt]
    structure = len(json.dumps(shape)) / STRUCTURE_CHARS
    new = len(texts) - len(copied)
    return round(structure + new * TEXT_TOKENS) + sum(estimated_tokens(text) for text in copied)


@lru_cache(maxsize=256)
def _schema(reply: type[BaseModel]) -> dict[str, Any]:
    return reply.model_json_schema()


def _shape(value: Any, schema: Mapping[str, Any], root: Mapping[str, Any], texts: list[str]) -> Any:
    """The value without its free texts, which are appended to `texts`; single words are ids."""
    schema = _resolve_schema(schema, root)
    if isinstance(value, Mapping):
        fields = schema.get("properties", {})
        return {key: _shape(item, fields.get(key, {}), root, texts) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_shape(item, schema.get("items", {}), root, texts) for item in value]
    if isinstance(value, str) and " " in value and not {"enum", "const"} & schema.keys():
        texts.append(value)
        return ""
    return value


def _example(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Any:
    """The shortest value that fits a schema, with one entry in every list."""
    # An optional field is left out of the shortest value.
    if any(option.get("type") == "null" for option in schema.get("anyOf", ())):
        return None
    schema = _resolve_schema(schema, root)
    if choices := schema.get("enum"):
        return choices[0]
    if schema.get("type") == "object":
        fields = schema.get("properties", {})
        return {key: _example(field_schema, root) for key, field_schema in fields.items()}
    if schema.get("type") == "array":
        return [_example(schema.get("items", {}), root)]
    return {"string": "a text", "boolean": True}.get(schema.get("type", ""), 1)  # else a number


def _resolve_schema(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema with references followed and the first choice other than JSON null taken."""
    while True:
        if "$ref" in schema:
            steps = schema["$ref"].removeprefix("#/").split("/")
            schema = reduce(getitem, steps, root)
        elif choices := schema.get("anyOf"):
            schema = next((each for each in choices if each.get("type") != "null"), choices[0])
        else:
            return schema


class AskGroup(NamedTuple):
    """The asks of one judge to one model in one round; they are counted together."""

    judge: str
    model: str
    round: int  # from 0; a judge asks the next from the replies to this one


@dataclass
class AskTally:
    """Counts and estimates of the asks of one `AskGroup`; tokens are those of the asks to put."""

    asks: int = 0
    cached: int = 0  # answered by a cached reply
    same: int = 0  # answered by an equal ask of the run
    to_put: int = 0  # to be answered by the model
    without_rule: int = 0  # no text rule answers: what follows them is unknown
    input_tokens: int = 0  # of the prompts, as the model estimates them
    max_input_tokens: int = 0  # at the most
    output_tokens: int = 0  # of the replies, as their schemas suggest
    max_output_tokens: int = 0  # at their caps
    marked_tokens: int = 0  # of `input_tokens`, in texts marked for the provider's prompt cache
    new_marked_tokens: int = 0  # of these, in texts that no ask before had
    metered: int = 0  # cached replies of a single call with known tokens and latency
    metered_input_tokens: int = 0  # their prompts, as the provider counted them
    estimated_input_tokens: int = 0  # the same prompts, as the model estimates them
    metered_output_tokens: int = 0
    metered_ms: float = 0.0


class Forecaster:
    """Stands in for the engine: runs hearings as the engine does, but only counts their asks."""

    def __init__(
        self,
        assignment: ModelAssignment,
        cache: ReplyCache | None,  # None where the run would use none
        sql_runner: SqlRunner | None = None,  # None where the run has no database
    ) -> None:
        self.tallies: dict[AskGroup, AskTally] = {}  # the result
        self._assignment, self._cache, self._sql_runner = assignment, cache, sql_runner
        self._marked_texts: set[tuple[str, str]] = set()  # model and system message of marked asks
        self._put_keys: set[str] = set()  # reply keys of the asks counted in `to_put`

    async def hear(
        self, judge: Judge, case: Case, answered: list[AskRecord] | None = None
    ) -> HearingResult:
        """Run the hearing of a case before a judge, with its model or its ensemble of models.

        Nothing is asked, so nothing is put into `answered`.
        """
        own = self._assignment.own.get(judge.name, self._assignment.shared)
        if isinstance(own, EnsembleModels):
            if own.cascade is not None:  # rules cannot say how confident a model would be
                own = replace(own, cascade=CascadeRule(None))
            return await hear_ensemble(own, judge, case, partial(self._hear_once, judge, case))
        return await self._hear_once(judge, case, own, 0)

    async def _hear_once(
        self, judge: Judge, case: Case, model: Model, sample: int
    ) -> HearingResult:
        hearing = Hearing(judge, case)
        round_ = 0
        while hearing.asks:
            tally = self.tallies.setdefault(AskGroup(judge.name, model.name, round_), AskTally())
            replies: list[BaseModel | QueryResult | FileText | NoReply] = []
            for question in hearing.asks:
                if isinstance(question, Ask):
                    replies.append(await self._foresee_reply(question, model, sample, tally))
                elif self._sql_runner is None:
                    replies.append(NO_SQL_RUNNER)
                else:
                    replies.append(await self._sql_runner.look_up(question))
            hearing.answer(replies)
            round_ += 1
        return HearingResult(judge, hearing.scores, [])  # thrown away: scores of rules

    async def _foresee_reply(
        self, ask: Ask[Any], model: Model, sample: int, tally: AskTally
    ) -> BaseModel | NoReply:
        sent, most = model.tokens(ask)
        tally.asks += 1
        key = reply_key(model, ask.prompt_hash, sample)
        cached = await self._cache.get(key) if key and self._cache is not None else None
        if cached is not None and (known := _read_cached(ask, cached)) is not None:
            tally.cached += 1
            done = cached.completion
            metered = done.input_tokens is not None and done.output_tokens is not None
            # After a retry the tokens and the time are those of several calls.
            if metered and cached.attempts == 1:
                tally.metered += 1
                tally.metered_input_tokens += done.input_tokens or 0
                tally.estimated_input_tokens += sent
                tally.metered_output_tokens += done.output_tokens or 0
                tally.metered_ms += done.latency_ms
            return known
        value, reply = plain_reply(ask)
        tally.without_rule += value is None
        if key in self._put_keys:  # the run would ask once and keep the reply
            tally.same += 1
            return reply
        if key is not None:
            self._put_keys.add(key)
        tally.to_put += 1
        tally.input_tokens += sent
        self._count_marked(ask.prompt.system, model, tally)
        tally.max_input_tokens += most_sent(ask, sent)
        tally.max_output_tokens += most
        if most:
            tally.output_tokens += min(most, reply_tokens(ask.reply, value, ask.prompt.user))
        return reply

    def _count_marked(self, system: str, model: Model, tally: AskTally) -> None:
        tokens = marked_tokens(model, system)
        tally.marked_tokens += tokens
        if tokens and (model.name, system) not in self._marked_texts:
            self._marked_texts.add((model.name, system))
            tally.new_marked_tokens += tokens


def _read_cached(ask: Ask[Any], cached: CachedReply) -> BaseModel | None:
    completion = cached.completion
    try:
        reply: BaseModel = parse_reply(completion.text, ask.reply, completion.reply_id).reply
    except ModelError:
        return None
    return reply
