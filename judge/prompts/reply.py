"""Parses the text of a model into the reply that a judge asked for: strictly, without guessing.

Validation is strict: a truth value is no number, and "yes" is no truth value. A value that can be
converted without loss is converted, and a flag says so: "4" and 4.0 where an integer is due, "0.5"
for a number, " Yes" for one of the words yes and no, JSON null for a field that may be left out.

The way of a text, from the engine inwards: `attempts.read_completion` makes an attempt of a model's
completion, `attempts._parse_completion` chooses the id that must be repeated, `read_reply` adds the
doubts of the ask, `parse_reply` fits the object to the class, and `reply_object.reply_object` finds
the object. The reply cache starts at `parse_reply`.
"""

from __future__ import annotations

import ast
import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, TypeVar

import jiter
from pydantic import BaseModel, ValidationError

from assizes.judge.prompts.reply_object import (
    CAPPED,
    REPLACED,
    REPLY_ID,
    clean_json,
    is_clean,
    reply_error,
    reply_object,
)
from assizes.judge.protocol import Ask
from assizes.judge.quick_test import QuickTest

T = TypeVar("T", bound=BaseModel)

PARSER_VERSION: Final = 2
"""A part of the reply cache's key: raise it when the same text would be parsed differently."""

REPAIRED: Final = "repaired"  # see `ParsedReply` for these flags
COERCED: Final = "coerced"
NORMALISED: Final = "normalised"
EXTRA_KEYS: Final = "extra_keys"

MAX_PASSES: Final = 3
MAX_PROBLEMS: Final = 3
"""The most rounds of validation and repair, because some problems only show when others are
repaired; and the most problems that an error message names."""

# Bounded: int() takes quadratic time over very many digits, or refuses them.
WHOLE: Final = re.compile(r"\s*([+-]?\d{1,18})(?:\.0+)?\s*", re.ASCII)
"""A number, as text, that is read as an integer."""

_NUMBER: Final = re.compile(r"\s*[+-]?\d{1,18}(?:\.\d{1,30})?(?:[eE][+-]?\d{1,3})?\s*", re.ASCII)
_QUOTED: Final = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")

_HEAD: Final = re.compile(
    rf'[ \t\r\n]*+\{{[ \t\r\n]*+"{REPLY_ID}"[ \t\r\n]*+:[ \t\r\n]*+"([^"\\]*)"[ \t\r\n]*+,'
)
"""The start of a reply whose first key is its id, up to the next key; group 1 is the id."""

_MAYBE_INFINITE: Final = QuickTest(
    ["[:,\\[ \t\r\n]-?[0-9.]+[eE][+-]?[0-9][0-9][0-9]", "[0-9]" * 40]
)
"""Finds each JSON text that holds a number which is too large for a float, and few others."""

_Problem = Mapping[str, Any]  # an entry of pydantic's `ValidationError.errors()`


@dataclass(frozen=True, slots=True)
class ParsedReply(Generic[T]):
    """A reply, and what was changed to parse it.

    The flags are `repaired` (text around the object, or a mistake in its JSON), `coerced` (a number
    in another form, JSON null for an optional field), `normalised` (a word in another case),
    `extra_keys` (unknown keys were left out), `text_replaced` and `text_capped` (texts that could
    not be stored unchanged; then also `text_sha256:` with the hash of the whole text).
    """

    reply: T
    flags: tuple[str, ...] = ()
    doubt: str | None = None  # a reason to ask once more although the reply can be used


def parse_reply(text: str, reply: type[T], reply_id: str | None = None) -> ParsedReply[T]:
    """The reply in a model's text: one JSON object that fits the asked model class.

    The object must fit apart from its key `reply_id`, the id that the model must repeat; the id is
    `None` where the model was given none.

    Raises:
        ModelError: `invalid_reply` (no JSON object can be read), `ambiguous_output` (it is not
            certain which object is the reply) or `schema` (the object does not fit), with the
            problem in at most 300 characters.
    """
    if (whole_reply := _read_whole_reply(text, reply, reply_id)) is not None:
        return ParsedReply(whole_reply)
    candidate = reply_object(text, reply_id)
    flags = {REPAIRED} if candidate.repaired else set()
    try:
        value = candidate.value if is_clean(text) else clean_json(candidate.value, flags)
        fitted = _fit_reply(value, reply, flags)
    except RecursionError as error:
        raise reply_error("invalid_reply", "JSON that is nested too deeply") from error
    if flags & {REPLACED, CAPPED}:
        whole = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        flags.add(f"text_sha256:{whole}")
    return replace(fitted, flags=tuple(sorted(flags)))


def _read_whole_reply(text: str, reply: type[T], reply_id: str | None) -> T | None:
    """The reply in a text that is one object without any fault, its id first; `None` for others.

    Most replies are such. Two parsers that are written in Rust read the text: one refuses what
    parsers read in different ways, and the other makes the reply.
    """
    head = _HEAD.match(text)
    if head is None or head[1] != reply_id or _MAYBE_INFINITE.may_match_any(text):
        return None
    if not is_clean(text):
        return None
    try:
        jiter.from_json(text.encode(), catch_duplicate_keys=True, allow_inf_nan=False)
        return reply.model_validate_json(f"{{{text[head.end() :]}", strict=True)
    except ValueError:  # of either parser; the slow way says what is wrong, or repairs it
        return None


def read_reply(ask: Ask[T], text: str, reply_id: str | None = None) -> ParsedReply[T]:
    """The same as `parse_reply`, with the doubts of the ask itself added to `doubt`.

    Raises:
        ModelError: when no reply can be read.
    """
    parsed = parse_reply(text, ask.reply, reply_id)
    own = ask.doubts(parsed.reply) if ask.doubts is not None else None
    return replace(parsed, doubt="; ".join(filter(None, (parsed.doubt, own)))) if own else parsed


def _fit_reply(value: dict[str, Any], model: type[T], flags: set[str]) -> ParsedReply[T]:
    """Validate a JSON object; repairs are made in place and noted in `flags`.

    Raises:
        ModelError: `schema`, with the path and the problem.
        RecursionError: for a value that is nested too deeply.
    """
    surplus: list[_Problem] = []  # keys that nobody asked for: left out, they become the doubt
    for _ in range(MAX_PASSES):
        try:
            # As JSON: in strict mode Python input must hold tuples and enum members, JSON need not.
            reply = model.model_validate_json(json.dumps(value, ensure_ascii=False), strict=True)
        except ValidationError as error:
            problems: list[_Problem] = list(error.errors(include_url=False))
            left = [problem for problem in problems if not _repair(value, problem, flags)]
            surplus += [problem for problem in problems if problem["type"] == "extra_forbidden"]
            if left:
                raise reply_error("schema", _problem_text([*surplus, *left])) from error
        else:
            return ParsedReply(reply, doubt=_problem_text(surplus) if surplus else None)
    raise reply_error("schema", _problem_text([*surplus, *problems]))


def _repair(value: Any, problem: _Problem, flags: set[str]) -> bool:
    """Repair a problem in place where that is possible; the answer says whether it was."""
    *path, last = problem["loc"] or (None,)  # no path: the reply as a whole
    try:
        for step in path:
            value = value[step]
        current = value[last]
    except (LookupError, TypeError):  # the path names no place, as in a union
        return False
    # JSON null in a field that may be left out; in one that is due, the next pass finds it missing.
    if problem["type"] == "extra_forbidden" or (current is None and isinstance(value, dict)):
        del value[last]
        flags.add(EXTRA_KEYS if problem["type"] == "extra_forbidden" else COERCED)
        return True
    conversion = _CONVERSIONS.get(problem["type"])
    new_value = None if conversion is None else conversion(current, problem)
    if new_value is None:
        return False
    value[last] = new_value
    flags.add(NORMALISED if isinstance(current, str) and isinstance(new_value, str) else COERCED)
    return True


def _integer(value: Any, _: _Problem) -> int | None:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    whole = WHOLE.fullmatch(value) if isinstance(value, str) else None
    return int(whole[1]) if whole else None


def _number(value: Any, _: _Problem) -> float | None:
    if not isinstance(value, str) or not _NUMBER.fullmatch(value):
        return None
    number = float(value)
    return number if math.isfinite(number) else None


def _word(value: Any, problem: _Problem) -> str | None:
    """The only allowed word that differs from the value in case and white space alone."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = f"{value:.15g}"  # 4.0 as "4"
    if not isinstance(value, str):
        return None
    plain = _plain(value)
    # pydantic lists the words as Python literals: "'yes' or 'no'".
    quoted = map(ast.literal_eval, _QUOTED.findall(problem["ctx"]["expected"]))
    words = [word for word in quoted if _plain(word) == plain]
    return words[0] if len(words) == 1 else None  # never a guess between two


def _plain(word: str) -> str:
    return " ".join(re.split(r"[\s_-]+", word.casefold())).strip()


_CONVERSIONS: Final[Mapping[str, Callable[[Any, _Problem], Any]]] = {  # by pydantic's error type
    "int_type": _integer,
    "float_type": _number,
    "literal_error": _word,
    "enum": _word,
}


def _problem_text(problems: Sequence[_Problem]) -> str:
    lines = [
        f"{'.'.join(map(str, problem['loc'])) or 'reply'}: {problem['msg']}" for problem in problems
    ]
    more = len(lines) - MAX_PROBLEMS
    return "; ".join(lines[:MAX_PROBLEMS] + ([f"and {more} more"] if more > 0 else []))
