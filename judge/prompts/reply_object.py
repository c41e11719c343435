"""Finds the JSON object in a model's text that is its reply, by the reply id and never by guessing.

Text around the object, Markdown fences, trailing commas and line breaks inside of strings are
repaired without another call. JSON that parsers read in different ways is refused: keys that appear
twice, NaN, infinities. The object must repeat the id that the model was given, because a transcript
may contain verdicts of its own, which a model may quote.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from assizes.judge.errors import ModelError
from assizes.judge.prompts.reply_text import without_surrogates

REPLY_ID: Final = "reply_id"
"""The key under which a reply repeats its id."""

MAX_REPLY_CHARS: Final = 2_000_000
"""The longest text of a model, in characters, that is parsed."""

MAX_DETAIL_CHARS: Final = 300
"""The most characters in the message of a `reply_error`."""

MAX_OBJECTS: Final = 1_000
"""The most JSON objects that are read from one text."""

MAX_DECODINGS: Final = 64
"""The most errors in the JSON of one text before it is given up."""

_START: Final = re.compile(r'\{(?=[ \t\r\n]*+["}])')
_BYTE_ORDER_MARK: Final = "\ufeff"
_WHITE_SPACE: Final = " \t\r\n"


@dataclass(frozen=True, slots=True)
class ReplyObject:
    """The reply as a JSON object without its id.

    `repaired` says that the text held more than the object, or that its JSON had mistakes.
    """

    value: dict[str, Any]
    repaired: bool


@dataclass(frozen=True, slots=True)
class _ParsedObject:
    value: dict[str, Any]
    start: int
    end: int
    mended: bool


def reply_error(code: str, detail: str) -> ModelError:
    """The error for a reply that cannot be used; the detail is cut to 300 characters."""
    return ModelError(code, without_surrogates(detail)[:MAX_DETAIL_CHARS])


def reply_object(text: str, reply_id: str | None) -> ReplyObject:
    """The one object in a text that can be the reply.

    Args:
        text: the text as the model wrote it.
        reply_id: the id that the reply must repeat; `None` where the model was given none.

    Raises:
        ModelError: `invalid_reply` where no object can be read, `ambiguous_output` where it is not
            certain which object is the reply.
    """
    if len(text) > MAX_REPLY_CHARS:
        raise _invalid(f"{len(text)} characters, at most {MAX_REPLY_CHARS} are read")
    marked = without_surrogates(text).strip()
    bare = marked.lstrip(_BYTE_ORDER_MARK).strip()
    objects, broken = _Reader(bare).read()
    if not objects:
        raise broken[0] if broken else _not_an_object(bare)
    only = objects[0]
    if not only.mended and (only.start, only.end) == (0, len(bare)):
        _check_own_id(only.value, reply_id)
        return ReplyObject(_without_id(only.value), repaired=len(bare) < len(marked))
    chosen = _only_one(objects, broken) if reply_id is None else _own(objects, broken, reply_id)
    return ReplyObject(_without_id(chosen.value), repaired=True)


def _check_own_id(value: dict[str, Any], reply_id: str | None) -> None:
    """Refuse an object without the id: the transcript may have told the model to repeat it."""
    if reply_id is None or value.get(REPLY_ID) == reply_id:
        return
    held = "another" if REPLY_ID in value else "no"
    raise _ambiguous(f"the JSON object holds {held} reply_id", reply_id)


def _only_one(objects: list[_ParsedObject], broken: list[ModelError]) -> _ParsedObject:
    if broken:
        raise broken[0]
    if len(objects) > 1:
        raise reply_error(
            "ambiguous_output", f"{len(objects)} JSON objects; write one JSON object, nothing else"
        )
    return objects[0]


def _own(objects: list[_ParsedObject], broken: list[ModelError], reply_id: str) -> _ParsedObject:
    own = [candidate for candidate in objects if candidate.value.get(REPLY_ID) == reply_id]
    if len(own) == 1:
        return own[0]
    if own:
        raise _ambiguous(f"{len(own)} JSON objects hold the reply_id", reply_id)
    if broken:
        raise broken[0]
    raise _ambiguous("no JSON object holds the reply_id", reply_id)


def _without_id(value: dict[str, Any]) -> dict[str, Any]:
    return {key: item for key, item in value.items() if key != REPLY_ID}


def _ambiguous(problem: str, reply_id: str) -> ModelError:
    advice = (
        f'write one JSON object, nothing else, with "{REPLY_ID}": "{reply_id}" as its first key'
    )
    return reply_error("ambiguous_output", f"{problem}; {advice}")


class _Reader:
    """Reads the outermost JSON objects of a text, one after the other."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._decodings = 0

    def read(self) -> tuple[list[_ParsedObject], list[ModelError]]:
        """The objects that could be read, and the errors of texts that only begin like an object.

        Raises:
            ModelError: when there are too many objects or errors.
        """
        objects: list[_ParsedObject] = []
        broken: list[ModelError] = []
        at = 0
        while begun := _START.search(self._text, at):
            try:
                json_object = self._object(begun.start())
            except ModelError as error:
                self._decodings += 1
                broken.append(error)
                at = begun.end()
            else:
                objects.append(json_object)
                at = json_object.end
            if self._decodings > MAX_DECODINGS:
                raise broken[0]
            if len(objects) > MAX_OBJECTS:
                raise reply_error("ambiguous_output", f"more than {MAX_OBJECTS} JSON objects")
        return objects, broken

    def _object(self, start: int) -> _ParsedObject:
        text, decoder = self._text, _STRICT
        while True:
            try:
                value, end = decoder.raw_decode(text, start)
            except json.JSONDecodeError as error:
                self._decodings += 1
                mended = _without_comma(text, error.pos)
                if self._decodings > MAX_DECODINGS or (mended is None and decoder is _LENIENT):
                    raise _not_json(error) from error
                text, decoder = mended or text, _LENIENT
            except RecursionError as error:
                raise _invalid("not json that can be read: nested too deeply") from error
            except ValueError as error:  # an integer of more digits than Python converts
                raise _invalid("not json that can be read: a number is too long") from error
            else:
                return _ParsedObject(value, start, end, mended=decoder is _LENIENT)


def _without_comma(text: str, place: int) -> str | None:
    """The text with a blank for the comma before a closing bracket; `None`: there is none."""
    # Python before 3.13 reports the place of the bracket, later versions that of the comma.
    comma = place if text[place : place + 1] == "," else _last_before(text, place)
    after = text[comma + 1 : comma + 1_000].lstrip(_WHITE_SPACE)
    if comma < 0 or text[comma] != "," or not after.startswith(("}", "]")):
        return None
    return f"{text[:comma]} {text[comma + 1 :]}"


def _last_before(text: str, place: int) -> int:
    """The place of the last character before `place` that is no white space, or -1."""
    while place > 0 and text[place - 1] in _WHITE_SPACE:
        place -= 1
    return place - 1


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _invalid(f"key {twice!r} appears twice")
    return members


def _no_constant(name: str) -> NoReturn:
    raise _invalid(f"not json: {name} is no JSON number")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise _invalid(f"number {digits[:40]} is too large")
    return number


def _decoder(*, strict: bool) -> json.JSONDecoder:
    return json.JSONDecoder(
        object_pairs_hook=_unique_keys,
        parse_constant=_no_constant,
        parse_float=_finite,
        strict=strict,
    )


_STRICT: Final = _decoder(strict=True)
_LENIENT: Final = _decoder(strict=False)
"""The decoder that accepts line breaks and tabs inside of strings."""


def _not_an_object(text: str) -> ModelError:
    """The error for a text in which no object begins."""
    try:
        value = _STRICT.decode(text)
    except json.JSONDecodeError as error:
        return _not_json(error)
    except RecursionError:
        return _invalid("not json that can be read: nested too deeply")
    except ValueError:
        return _invalid("not json that can be read: a number is too long")
    except ModelError as error:
        return error
    return _invalid(f"a JSON {type(value).__name__} instead of one JSON object")


def _not_json(error: json.JSONDecodeError) -> ModelError:
    return _invalid(f"not json: {error.msg} at character {error.pos}")


def _invalid(detail: str) -> ModelError:
    return reply_error("invalid_reply", detail)
