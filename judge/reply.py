"""From a model's text to the reply a judge asked for: strict, and never guessed."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

from judge.errors import ModelError

T = TypeVar("T", bound=BaseModel)

PARSER_VERSION: Final = 1
"""Part of the reply cache's key: raise it when the same text would be read differently."""

MAX_REPLY_CHARS: Final = 200_000
MAX_DETAIL_CHARS: Final = 300
MAX_PROBLEMS: Final = 3

_FENCED: Final = re.compile(r"```[\w+-]*\s*(.*?)\s*`{0,3}", re.DOTALL)


def parse_reply(text: str, reply: type[T]) -> T:
    """The reply in a model's text: one JSON object, bare or in one Markdown fence.

    Duplicate keys, NaN and infinities are refused: parsers disagree about them, so what was
    validated would not be what is stored.

    Raises:
        ModelError: `invalid_reply`, with the path and the problem in at most 300 characters.
    """
    if len(text) > MAX_REPLY_CHARS:
        raise _invalid(f"{len(text)} characters, at most {MAX_REPLY_CHARS} are read")
    found = _json_object(_unwrapped(text))
    # Escapes such as \ud800 only become lone surrogates here, so the text is cleaned again.
    body = without_surrogates(json.dumps(found, ensure_ascii=False))
    try:
        return reply.model_validate_json(body)
    except ValidationError as error:
        raise _invalid(_problems(error)) from error


def _unwrapped(text: str) -> str:
    """The text without byte order mark, outer white space and Markdown fence (002-54); the closing
    fence may be cut off.
    """
    bare = without_surrogates(text).lstrip("\ufeff").strip()
    fenced = _FENCED.fullmatch(bare)
    return fenced[1] if fenced else bare


def without_surrogates(text: str) -> str:
    """The text as valid Unicode: surrogate pairs joined, lone surrogates replaced by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _json_object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(
            text,
            object_pairs_hook=_unique_keys,
            parse_constant=_no_constant,
            parse_float=_finite,
        )
    except json.JSONDecodeError as error:
        raise _invalid(f"not json: {error.msg} at character {error.pos}") from error
    except RecursionError as error:
        raise _invalid("not json that can be read: nested too deeply") from error
    except ValueError as error:  # an integer of more digits than Python converts
        raise _invalid("not json that can be read: a number is too long") from error
    if not isinstance(found, dict):
        raise _invalid(f"a JSON {type(found).__name__} instead of one JSON object")
    return found


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _invalid(f"key {twice!r} appears twice")
    return found


def _no_constant(name: str) -> NoReturn:
    raise _invalid(f"not json: {name} is no JSON number")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise _invalid(f"number {digits[:40]} is too large")
    return number


def _problems(error: ValidationError) -> str:
    problems = [
        f"{'.'.join(str(part) for part in problem['loc']) or 'reply'}: {problem['msg']}"
        for problem in error.errors(include_url=False, include_context=False, include_input=False)
    ]
    more = len(problems) - MAX_PROBLEMS
    return "; ".join(problems[:MAX_PROBLEMS] + ([f"and {more} more"] if more > 0 else []))


def _invalid(detail: str) -> ModelError:
    return ModelError("invalid_reply", without_surrogates(detail)[:MAX_DETAIL_CHARS])
