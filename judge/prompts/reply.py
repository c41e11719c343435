"""From a model's text to the reply a judge asked for: strict, and never guessed."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from pydantic import BaseModel

from assizes.judge.prompts.reply_fit import FittedReply, fit_reply
from assizes.judge.prompts.reply_object import reply_error, reply_object
from assizes.judge.prompts.reply_text import CAPPED, REPLACED, clean_json
from assizes.judge.protocol import Ask

T = TypeVar("T", bound=BaseModel)

PARSER_VERSION: Final = 2
"""Part of the reply cache's key: raise it when the same text would be read differently."""

REPAIRED: Final = "repaired"


@dataclass(frozen=True, slots=True)
class ParsedReply(Generic[T]):
    """A reply, and what had to be done to read it.

    Args:
        reply: the reply; it fits.
        flags: `repaired` (text around the object, or a mistake in its JSON), `coerced` (a number
            written otherwise, null for what may be left out), `normalised` (a word in another
            case), `extra_keys` (left out), `text_replaced` and `text_capped` (texts that could not
            be stored as they were; then also `text_sha256:` with the hash of the whole text).
        doubt: a reason to ask once more, though the reply can be used as it is; else null.
    """

    reply: T
    flags: tuple[str, ...] = ()
    doubt: str | None = None


def parse_reply(text: str, reply: type[T], reply_id: str | None = None) -> ParsedReply[T]:
    """The reply in a model's text: one JSON object that fits.

    Args:
        text: as the model wrote it.
        reply: what it has to fit, apart from its key `reply_id`.
        reply_id: the id it was told to repeat; null where it was told none.

    Raises:
        ModelError: `invalid_reply` (no JSON object that can be read), `ambiguous_output` (not
            certain which object is meant) or `schema` (it does not fit), with the problem in at
            most 300 characters.
    """
    candidate = reply_object(text, reply_id)
    flags = {REPAIRED} if candidate.repaired else set()
    fit = _fit_reply(candidate.value, reply, flags)
    if flags & {REPLACED, CAPPED}:
        whole = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        flags.add(f"text_sha256:{whole}")
    return ParsedReply(fit.reply, tuple(sorted(flags)), fit.doubt)


def read_reply(ask: Ask[T], text: str, reply_id: str | None = None) -> ParsedReply[T]:
    """As `parse_reply`, with the ask's own doubts among the doubts.

    Raises:
        ModelError: when no reply can be read.
    """
    parsed = parse_reply(text, ask.reply, reply_id)
    own = ask.doubts(parsed.reply) if ask.doubts is not None else None
    doubts = [doubt for doubt in (parsed.doubt, own) if doubt]
    return ParsedReply(parsed.reply, parsed.flags, "; ".join(doubts) or None)


def _fit_reply(value: dict[str, Any], reply: type[T], flags: set[str]) -> FittedReply[T]:
    try:
        return fit_reply(clean_json(value, flags), reply, flags)
    except RecursionError as error:
        raise reply_error("invalid_reply", "JSON that is nested too deeply") from error
