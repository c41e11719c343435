"""A reply as a model would give it: through the parser that reads all of them."""

from __future__ import annotations

import json
from typing import Any

from assizes.judge.errors import ModelError
from assizes.judge.prompts.reply import parse_reply
from assizes.judge.protocol import Ask, NoReply


def replied(ask: Ask[Any], value: Any) -> Any:
    """The JSON value as the ask's reply, or why it is none."""
    try:
        return parse_reply(json.dumps(value), ask.reply).reply
    except ModelError as error:
        return NoReply(error.code, error.detail)
