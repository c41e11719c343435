"""Replies for tests, parsed like the texts of a real model."""

from __future__ import annotations

import json
from typing import Any

from assizes.judge.errors import ModelError
from assizes.judge.prompts.reply import parse_reply
from assizes.judge.protocol import Ask, NoReply


def replied(ask: Ask[Any], value: Any) -> Any:
    """The JSON value parsed as the reply of the ask, or a `NoReply` where it does not fit."""
    try:
        return parse_reply(json.dumps(value), ask.reply).reply
    except ModelError as error:
        return NoReply(error.code, error.detail)
