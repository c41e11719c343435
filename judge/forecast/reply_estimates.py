"""Estimates the tokens of a reply in advance, from its schema and from the reply of a text rule."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from pydantic import BaseModel

from assizes.judge.config.prices import estimated_tokens
from assizes.judge.prompts.reply_object import REPLY_ID

TEXT_TOKENS: Final = 30
"""Tokens assumed for each free text of a reply, such as the justification of a score."""

STRUCTURE_CHARS: Final = 3.0
"""Characters in one token of the JSON structure: keys, numbers and punctuation."""

MIN_COPIED_CHARS: Final = 12
"""A text of fewer characters does not count as copied: it may stand in the prompt by chance."""

_PLACEHOLDER: Final = "a text"


def reply_tokens(
    reply: type[BaseModel], like: Mapping[str, Any] | None = None, prompt: str = ""
) -> int:
    """An estimate of the tokens of a reply.

    Args:
        reply: the pydantic model of the reply.
        like: the reply of a text rule to the same ask. The lists of the real reply are expected to
            have as many entries, its texts to be as long as language models write them. `None`: one
            entry in every list.
        prompt: the user message of the ask; a text that is copied from it keeps its length.
    """
    schema = _schema(reply)
    value = like if like is not None else _example(schema, schema)
    texts: list[str] = []
    shape = {REPLY_ID: "0" * 12, **_shape(value, schema, schema, texts)}
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
    if any(option.get("type") == "null" for option in schema.get("anyOf", ())):
        return None
    schema = _resolve_schema(schema, root)
    if choices := schema.get("enum"):
        return choices[0]
    if schema.get("type") == "object":
        return {
            key: _example(field_schema, root)
            for key, field_schema in schema.get("properties", {}).items()
        }
    if schema.get("type") == "array":
        return [_example(schema.get("items", {}), root)]
    return {"string": _PLACEHOLDER, "boolean": True}.get(schema.get("type", ""), 1)


def _resolve_schema(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema with references followed and the first choice other than JSON null taken."""
    while True:
        if "$ref" in schema:
            target: Any = root
            for step in schema["$ref"].removeprefix("#/").split("/"):
                target = target[step]
            schema = target
        elif choices := schema.get("anyOf"):
            schema = next(
                (option for option in choices if option.get("type") != "null"), choices[0]
            )
        else:
            return schema
