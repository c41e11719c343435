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
from assizes.judge.prompts.reply_object import unusable

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
class Fitting(Generic[T]):
    """A reply that fits.

    Args:
        reply: the reply.
        doubt: what the model had better said otherwise, though it could be done without; or null.
    """

    reply: T
    doubt: str | None = None


def fitting(value: dict[str, Any], model: type[T], flags: set[str]) -> Fitting[T]:
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
            left = [one for one in problems if not _put_right(value, one, flags)]
            surplus += [one for one in problems if one["type"] == "extra_forbidden"]
            if left:
                raise _misfit([*surplus, *left]) from error
        else:
            return Fitting(reply, _named(surplus) if surplus else None)
    raise _misfit([*surplus, *problems])


def _put_right(value: Any, problem: _Problem, flags: set[str]) -> bool:
    """Whether a problem could be put right, in place."""
    *way, last = problem["loc"] or (None,)
    try:
        for step in way:
            value = value[step]
        given = value[last]
    except (LookupError, TypeError):  # the path names no place, as in a union
        return False
    if problem["type"] == "extra_forbidden":
        del value[last]
        flags.add(EXTRA_KEYS)
        return True
    if given is None and isinstance(value, dict):
        del value[last]
        flags.add(COERCED)
        return True
    conversion = _CONVERSIONS.get(problem["type"])
    found = None if conversion is None else conversion(given, problem)
    if found is None:
        return False
    value[last] = found
    flags.add(NORMALISED if isinstance(given, str) and isinstance(found, str) else COERCED)
    return True


def _integer(given: Any, _: _Problem) -> int | None:
    if isinstance(given, float) and given.is_integer():
        return int(given)
    whole = _WHOLE.fullmatch(given) if isinstance(given, str) else None
    return int(whole[1]) if whole else None


def _number(given: Any, _: _Problem) -> float | None:
    if not isinstance(given, str) or not _NUMBER.fullmatch(given):
        return None
    number = float(given)
    return number if math.isfinite(number) else None


def _word(given: Any, problem: _Problem) -> str | None:
    """The one word among those that would fit which differs in case and white space only."""
    if isinstance(given, int | float) and not isinstance(given, bool):
        given = f"{given:.15g}"
    if not isinstance(given, str):
        return None
    quoted = _QUOTED.findall(problem["ctx"]["expected"])
    words = [word for one in quoted if _plain(word := ast.literal_eval(one)) == _plain(given)]
    return words[0] if len(words) == 1 else None


def _plain(word: str) -> str:
    return " ".join(re.split(r"[\s_-]+", word.casefold())).strip()


_CONVERSIONS: Final[Mapping[str, Callable[[Any, _Problem], Any]]] = {
    "int_type": _integer,
    "float_type": _number,
    "literal_error": _word,
    "enum": _word,
}


def _misfit(problems: Sequence[_Problem]) -> ModelError:
    return unusable("schema", _named(problems))


def _named(problems: Sequence[_Problem]) -> str:
    said = [f"{'.'.join(map(str, one['loc'])) or 'reply'}: {one['msg']}" for one in problems]
    more = len(said) - MAX_PROBLEMS
    return "; ".join(said[:MAX_PROBLEMS] + ([f"and {more} more"] if more > 0 else []))
