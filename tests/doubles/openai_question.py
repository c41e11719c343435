"""One chat-completions request as the judge model reads it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any

import orjson

from tests.doubles.openai_filler import Json, answer_text
from tests.doubles.openai_reasons import with_reasons

COMPLAINT = "\n\nYour previous answer to this could not be used:"
"""Begins what a re-ask appends to the user message; without it, the prompt is the same."""


@dataclass(frozen=True)
class Question:
    """A request body and what its headers said.

    Attributes:
        prompt: hash of the user message without a complaint: the same for every try of an ask.
        complained: whether the user message complains about an earlier answer.
    """

    body: Json
    model: str
    system: str
    user: str
    prompt: bytes
    complained: bool
    authorization: str = ""
    echo: bool = True
    reasons: bool = False

    @classmethod
    def read(
        cls, body: Any, authorization: str = "", *, echo: bool = True, reasons: bool = False
    ) -> Question:
        """The question in a request body.

        Raises:
            ValueError: it lacks a model or messages.
        """
        try:
            model, messages = str(body["model"]), body["messages"]
            system, user = _text_of(messages, "system"), _text_of(messages, "user")
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError("expected an object with a model and messages") from error
        asked, complaint, _ = user.partition(COMPLAINT)
        prompt = blake2b(asked.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        return cls(body, model, system, user, prompt, bool(complaint), authorization, echo, reasons)

    @cached_property
    def input_tokens(self) -> int:
        """Of the messages and of the schema beside them, which providers charge as well."""
        chars = sum(len(str(one["content"])) for one in self.body["messages"])
        wanted = self.body.get("response_format") or {}
        if wanted.get("json_schema"):
            chars += len(self._schema or b"")
        return chars // 4 + 1

    @cached_property
    def text(self) -> str:
        """The right answer."""
        return self.answer()

    @property
    def cap(self) -> int | None:
        """Most tokens of an answer."""
        cap = self.body.get("max_completion_tokens") or self.body.get("max_tokens")
        return cap if isinstance(cap, int) else None

    def answer(self, number: int = 4) -> str:
        """The right answer, in whose numbers a model may be generous."""
        text = answer_text(self._schema, self.user, echo=self.echo, number=number)
        return with_reasons(text, self.prompt) if self.reasons else text

    def share(self, part: int) -> float:
        """One of four numbers between 0 and 1 drawn from the hash of the prompt."""
        return int.from_bytes(self.prompt[4 * part : 4 * part + 4]) / 2**32

    @cached_property
    def _schema(self) -> bytes | None:
        """The schema as response format, else as the last JSON line of the system text."""
        wanted = self.body.get("response_format") or {}
        schema = (wanted.get("json_schema") or {}).get("schema")
        if schema is not None:
            return orjson.dumps(schema)
        lines = self.system.splitlines()
        return next((line.encode() for line in reversed(lines) if line.startswith("{")), None)


def _text_of(messages: list[Json], role: str) -> str:
    return "\n".join(_content(one["content"]) for one in messages if one["role"] == role)


def _content(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content or ())
