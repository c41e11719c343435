"""Builds the messages of a model call and the schema of its reply, and bounds the call's cost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from pydantic import BaseModel

from assizes.judge.config.prices import Price, most_tokens
from assizes.judge.prompts.reply_object import REPLY_ID
from assizes.judge.prompts.reply_text import without_surrogates
from assizes.judge.prompts.sections import data_section, seal_data
from assizes.judge.protocol import Ask

_IN_WORDS: Final = """\


Answer with one JSON object and nothing else. It fits this JSON Schema:
"""
_ID_LINE: Final = """\


First key of your JSON: {key}, with this value.
Reply id: {id}"""
_COMPLAINT: Final = """\


Your previous answer to this could not be used:
{problem}
Answer again, in full, with one JSON object that fits the schema.

Reply id: {id}"""

_NAMED_BELOW: Final = "the reply id below"


def messages(
    ask: Ask[Any], complaint: str | None = None, *, in_words: bool = False
) -> list[dict[str, str]]:
    """The two messages of a call, system and user. The last line names the reply id.

    A repeated call begins with the same text, which the provider may have in its prompt cache.

    Args:
        ask: the question.
        complaint: the problem of the answer before; `None` for a first call.
        in_words: whether the schema stands in the text, for models that take it no other way.
    """
    system, user, reply_id = ask.prompt.system, ask.prompt.user, ask.reply_id
    reply: type[BaseModel] = ask.reply
    if in_words:
        system += _IN_WORDS + schema_text(reply)
    user = seal_data(user, reply_id) + _ID_LINE.format(key=REPLY_ID, id=reply_id)
    if complaint is not None:
        # The complaint may quote the answer, and through it the transcript and the reply id. With
        # the id in it, quoted text could pass for ours.
        complaint_text = complaint.replace(reply_id, _NAMED_BELOW)
        problem = seal_data(data_section("Problem", complaint_text), reply_id)
        user += _COMPLAINT.format(problem=problem, id=reply_id)
    return [
        {"role": "system", "content": _sendable(system)},
        {"role": "user", "content": _sendable(user)},
    ]


def worst_usd(
    price: Price | None,
    ask: Ask[Any],
    tokens: tuple[int, int],
    *,
    complaint: str | None = None,
    batch: bool = False,
) -> float | None:
    """The most that a call can cost in US dollars; `None` where no price is known.

    Args:
        price: the price of the model.
        ask: the question.
        tokens: the estimate of tokens to send, and the most tokens that can come back.
        complaint: the problem of the answer before; `None` for a first call.
        batch: whether the call goes into a batch.
    """
    if price is None:
        return None
    sent, most = tokens
    return price.cost_usd(most_sent(ask, sent, complaint), most, batch=batch)


def most_sent(ask: Ask[Any], estimate: int, complaint: str | None = None) -> int:
    """The most tokens that the prompt of a call can have, with its schema."""
    return most_tokens(
        estimate, (message["content"] for message in messages(ask, complaint, in_words=True))
    )


def _sendable(text: str) -> str:
    """The text as valid Unicode; providers refuse anything else."""
    return text if text.isascii() else without_surrogates(text)


def with_reply_id(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with the reply id added as the first required key."""
    properties = {REPLY_ID: {"type": "string"}, **schema.get("properties", {})}
    required = [REPLY_ID, *schema.get("required", ())]
    return {**schema, "properties": properties, "required": required}


@lru_cache(maxsize=256)
def schema_text(reply: type[BaseModel]) -> str:
    """The schema of a reply, with its reply id, as JSON."""
    return json.dumps(with_reply_id(reply.model_json_schema()))
