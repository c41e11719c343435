"""Whether a JSON object fits the reply that was asked for, and the little that is put right.

Validation is strict: a truth value is no number, "yes" is no truth value. What can be converted
without loss is converted and said: "4" and 4.0 where an integer is due, "0.5" for a number, " Yes"
for one of the words yes and no, null for something that may be left out.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from assizes.judge.errors import ModelError
from assizes.judge.prompts.reply_object import reply_error

T = TypeVar("T", bound=BaseModel)

COERCED: Final = "coerced"
NORMALISED: Final = "normalised"
EXTRA_KEYS: Final = "extra_keys"

MAX_PASSES: Final = 3
"""Some problems only show when others are out of the way."""

MAX_PROBLEMS: Final = 3

_WHOLE: Final = re.compile(r"\s*([+-]?\d{1,18})(?:\.0+)?\s*", re.ASCII)
_NUMBER: Final = re.compile(r"\s*[+-]?\d{1,18}(?:\.\d{1,30})?(?:[eE][+-]?\d{1,3})?\s*", re.ASCII)
_QUOTED: Final = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")

_Problem = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FittedReply(Generic[T]):
    """A reply that fits.

    Args:
        reply: the reply.
        doubt: what the model had better said otherwise, though it could be done without; or null.
    """

    reply: T
    doubt: str | None = None


def fit_reply(value: dict[str, Any], model: type[T], flags: set[str]) -> FittedReply[T]:
    """A JSON object as the reply; what was put right in it is added to `flags`.

    Keys that nobody asked for are left out and are a doubt.

    Raises:
        ModelError: `schema`, with the path and the problem.
        RecursionError: for a value that is nested too deeply.
    """
    surplus: list[_Problem] = []
    for _ in range(MAX_PASSES):
        try:
            reply = model.model_validate_json(json.dumps(value, ensure_ascii=False), strict=True)
        except ValidationError as error:
            problems: list[_Problem] = list(error.errors(include_url=False))
            left = [problem for problem in problems if not _repair(value, problem, flags)]
            surplus += [problem for problem in problems if problem["type"] == "extra_forbidden"]
            if left:
                raise _schema_error([*surplus, *left]) from error
        else:
            return FittedReply(reply, _problem_text(surplus) if surplus else None)
    raise _schema_error([*surplus, *problems])


def _repair(value: Any, problem: _Problem, flags: set[str]) -> bool:
    """Whether a problem could be put right, in place."""
    *path, last = problem["loc"] or (None,)
    try:
        for step in path:
            value = value[step]
        current = value[last]
    except (LookupError, TypeError):  # the path names no place, as in a union
        return False
    if problem["type"] == "extra_forbidden":
        del value[last]
        flags.add(EXTRA_KEYS)
        return True
    if current is None and isinstance(value, dict):
        del value[last]
        flags.add(COERCED)
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
    whole = _WHOLE.fullmatch(value) if isinstance(value, str) else None
    return int(whole[1]) if whole else None


def _number(value: Any, _: _Problem) -> float | None:
    if not isinstance(value, str) or not _NUMBER.fullmatch(value):
        return None
    number = float(value)
    return number if math.isfinite(number) else None


def _word(value: Any, problem: _Problem) -> str | None:
    """The one word among those that would fit which differs in case and white space only."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = f"{value:.15g}"
    if not isinstance(value, str):
        return None
    quoted = _QUOTED.findall(problem["ctx"]["expected"])
    words = [word for text in quoted if _plain(word := ast.literal_eval(text)) == _plain(value)]
    return words[0] if len(words) == 1 else None


def _plain(word: str) -> str:
    return " ".join(re.split(r"[\s_-]+", word.casefold())).strip()


_CONVERSIONS: Final[Mapping[str, Callable[[Any, _Problem], Any]]] = {
    "int_type": _integer,
    "float_type": _number,
    "literal_error": _word,
    "enum": _word,
}


def _schema_error(problems: Sequence[_Problem]) -> ModelError:
    return reply_error("schema", _problem_text(problems))


def _problem_text(problems: Sequence[_Problem]) -> str:
    lines = [
        f"{'.'.join(map(str, problem['loc'])) or 'reply'}: {problem['msg']}" for problem in problems
    ]
    more = len(lines) - MAX_PROBLEMS
    return "; ".join(lines[:MAX_PROBLEMS] + ([f"and {more} more"] if more > 0 else []))
