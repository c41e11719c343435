"""Shapes of replies, and texts that fit them."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, ConfigDict, Field

from assizes.judge.errors import ModelError
from assizes.judge.prompts.reply import parse_reply


class Reply(BaseModel):
    model_config = ConfigDict(extra="forbid")

    why: str
    score: float = Field(ge=0, le=5)
    turns: tuple[int, ...] = ()


ID = "00c0ffee1234"


def refused(text: str, reply: type[BaseModel] = Reply, reply_id: str | None = None) -> list[str]:
    with pytest.raises(ModelError) as caught:
        parse_reply(text, reply, reply_id)
    return [caught.value.code, caught.value.detail]
