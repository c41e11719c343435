"""Finds the JSON object in a model's text that is its reply, by the reply id and never by guessing.

Text around the object, Markdown fences, trailing commas and line breaks inside of strings are
repaired without another call. JSON that parsers read in different ways is refused: keys that appear
twice, NaN, infinities. The object must repeat the id that the model was given, because a transcript
may contain verdicts of its own, which a model may quote. Its texts are cleaned for storage.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NoReturn

from assizes.judge.errors import ModelError
from assizes.judge.quick_test import QuickTest, without_surrogates

REPLY_ID: Final = "reply_id"
"""The key under which a reply repeats its id."""

MAX_REPLY_CHARS: Final = 2_000_000
MAX_TEXT_CHARS: Final = 8_000
"""The longest text of a model that is parsed, and the longest text inside a reply, in characters; a
longer text inside a reply is cut."""

MAX_DETAIL_CHARS: Final = 300
"""The most characters in the message of a `reply_error`."""

MAX_OBJECTS: Final = 1_000
MAX_DECODINGS: Final = 64
"""The most JSON objects that are read from one text, and the most errors in their JSON."""

REPLACED: Final = "text_replaced"  # flags of a reply
CAPPED: Final = "text_capped"

# Control characters but tab and line ends, and lone surrogates, which no file format stores.
_UNPRINTABLE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
# The same in JSON: such a character, or an escape that may stand for one or for half of a pair.
_MAYBE_UNPRINTABLE: Final = QuickTest(
    [
        *("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]", r"\\[bf]"),
        *(r"\\u00[0189]", r"\\u007[fF]", r"\\u[dD][89a-fA-F]"),
    ]
)
_FLAT: Final = 100  # the most brackets of a text that is nested too deeply for nothing
# Possessive: blanks that neither quote nor brace follows are not given back one by one.
_START: Final = re.compile(r'\{(?=[ \t\r\n]*+["}])')
_BYTE_ORDER_MARK: Final = "\ufeff"
_WHITE_SPACE: Final = " \t\r\n"


@dataclass(frozen=True, slots=True)
class ReplyObject:
    """The reply as a JSON object without its id."""

    value: dict[str, Any]
    repaired: bool  # the text held more than the object, or its JSON had mistakes


@dataclass(frozen=True, slots=True)
class _ParsedObject:
    value: dict[str, Any]
    start: int  # place of its brace in the text
    end: int  # the place after its last brace
    mended: bool  # its JSON had mistakes


def is_clean(text: str) -> bool:
    """Whether no JSON value in a text can hold anything that `clean_json` would change or refuse."""
    if len(text) > MAX_TEXT_CHARS or _MAYBE_UNPRINTABLE.may_match_any(text):
        return False
    return text.count("{") + text.count("[") <= _FLAT


def clean_json(value: Any, flags: set[str]) -> Any:
    """Clean the texts and keys of a JSON value.

    Characters that cannot be printed become U+FFFD, and texts over `MAX_TEXT_CHARS` are cut and end
    in an ellipsis. `REPLACED` and `CAPPED` are added to `flags` accordingly.

    Raises:
        RecursionError: for a value that is nested too deeply.
    """
    if isinstance(value, dict):
        return {clean_json(key, flags): clean_json(item, flags) for key, item in value.items()}
    if isinstance(value, list):
        return [clean_json(item, flags) for item in value]
    if not isinstance(value, str):
        return value
    if len(value) > MAX_TEXT_CHARS:
        flags.add(CAPPED)
        value = f"{value[: MAX_TEXT_CHARS - 1]}…"  # MAX_TEXT_CHARS in all
    if _UNPRINTABLE.search(value):
        flags.add(REPLACED)
        value = _UNPRINTABLE.sub("\ufffd", value)
    return value


def reply_error(code: str, detail: str) -> ModelError:
    """The error for a reply that cannot be used; the detail is cut to 300 characters."""
    return ModelError(code, without_surrogates(detail)[:MAX_DETAIL_CHARS])


def reply_object(text: str, reply_id: str | None) -> ReplyObject:
    """The one JSON object in a text that can be the reply; it says whether it was repaired.

    The reply must repeat the `reply_id`, which is `None` where the model was given none.

    Raises:
        ModelError: `invalid_reply` where no object can be read, `ambiguous_output` where it is not
            certain which object is the reply.
    """
    if len(text) > MAX_REPLY_CHARS:
        raise _invalid(f"{len(text)} characters, at most {MAX_REPLY_CHARS} are read")
    marked = without_surrogates(text).strip()
    bare = marked.lstrip(_BYTE_ORDER_MARK).strip()  # strip() keeps the mark: it is no white space
    objects, broken = _Reader(bare).read()
    if not objects:
        raise broken[0] if broken else _not_an_object(bare)
    chosen = objects[0]
    repaired = chosen.mended or (chosen.start, chosen.end) != (0, len(bare))
    if repaired:
        chosen = _own(objects, broken, reply_id)
    elif reply_id is not None and chosen.value.get(REPLY_ID) != reply_id:
        # The transcript may have told the model to repeat an object without the id.
        held = "another" if REPLY_ID in chosen.value else "no"
        raise _ambiguous(f"the JSON object holds {held} reply_id", reply_id)
    # The id is no field of the reply models, which refuse unknown keys.
    value = {key: item for key, item in chosen.value.items() if key != REPLY_ID}
    return ReplyObject(value, repaired=repaired or len(bare) < len(marked))


def _own(
    objects: list[_ParsedObject], broken: list[ModelError], reply_id: str | None
) -> _ParsedObject:
    """The object that holds the id; without an id, the only object."""
    if reply_id is None:
        if broken:
            raise broken[0]
        if len(objects) > 1:
            many = f"{len(objects)} JSON objects; write one JSON object, nothing else"
            raise reply_error("ambiguous_output", many)
        return objects[0]
    # Others may be quoted from the transcript, whose author cannot know the id.
    own = [candidate for candidate in objects if candidate.value.get(REPLY_ID) == reply_id]
    if len(own) == 1:
        return own[0]
    if own:
        raise _ambiguous(f"{len(own)} JSON objects hold the reply_id", reply_id)
    raise broken[0] if broken else _ambiguous("no JSON object holds the reply_id", reply_id)


def _ambiguous(problem: str, reply_id: str) -> ModelError:
    advice = (
        f'write one JSON object, nothing else, with "{REPLY_ID}": "{reply_id}" as its first key'
    )
    return reply_error("ambiguous_output", f"{problem}; {advice}")


@dataclass(slots=True)
class _Reader:
    """Reads the outermost JSON objects of a text, one after the other."""

    _text: str
    _decodings: int = 0  # failed so far; bounded, since each may read the text to its end

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
                at = begun.end()  # an object may begin inside of the broken one
            else:
                objects.append(json_object)
                at = json_object.end  # inner objects are no candidates
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
                text, decoder = mended or text, _LENIENT  # of equal length: places stay the same
            except (RecursionError, ValueError) as error:
                raise _not_json(error) from error
            else:
                return _ParsedObject(value, start, end, mended=decoder is _LENIENT)


def _without_comma(text: str, place: int) -> str | None:
    """The text with a blank for the comma before a closing bracket; `None`: there is none."""
    comma = place
    # Python before 3.13 reports the place of the bracket, later versions that of the comma.
    if text[place : place + 1] != ",":
        while comma > 0 and text[comma - 1] in _WHITE_SPACE:
            comma -= 1
        comma -= 1
    # A bounded piece: the rest may be two million characters.
    after = text[comma + 1 : comma + 1_000].lstrip(_WHITE_SPACE)
    if comma < 0 or text[comma] != "," or not after.startswith(("}", "]")):
        return None
    return f"{text[:comma]} {text[comma + 1 :]}"


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)  # keeps the last of equal keys; other parsers keep the first
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


_decoder = partial(
    json.JSONDecoder,
    object_pairs_hook=_unique_keys,
    parse_constant=_no_constant,
    parse_float=_finite,
)
_STRICT: Final = _decoder()
_LENIENT: Final = _decoder(strict=False)
"""The decoder that accepts line breaks and tabs inside of strings."""


def _not_an_object(text: str) -> ModelError:
    """The error for a text in which no object begins."""
    try:
        value = _STRICT.decode(text)
    except (RecursionError, ValueError) as error:
        return _not_json(error)
    except ModelError as error:
        return error
    return _invalid(f"a JSON {type(value).__name__} instead of one JSON object")


def _not_json(error: RecursionError | ValueError) -> ModelError:
    if isinstance(error, json.JSONDecodeError):
        return _invalid(f"not json: {error.msg} at character {error.pos}")
    # Python converts no integer of very many digits, which it reports as a plain ValueError.
    why = "nested too deeply" if isinstance(error, RecursionError) else "a number is too long"
    return _invalid(f"not json that can be read: {why}")


def _invalid(detail: str) -> ModelError:
    return reply_error("invalid_reply", detail)
