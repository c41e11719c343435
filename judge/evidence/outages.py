"""Answers of tools that say that the environment failed, which is no fault of the agent.

Every pattern runs in linear time, because the texts are untrusted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

_LONGEST: Final = 2000
"""Characters of the longest error that is read; a longer answer is content."""
_LONGEST_UNMARKED: Final = 400
"""The same for an answer that is not marked as an error."""

_CODE: Final = r"(?:408|429|50[0234]|52[0-9])"
_SERVER: Final = r"(?:service|server|system|database|backend|upstream|gateway|api|host|tool)"
_OUTAGE: Final = re.compile(
    rf"""\b(?:http(?:/[\d.]+)?|status|status[_ -]?code)[^\w-]{{0,4}}{_CODE}\b | ^\W*{_CODE}\W*$
    | \berror\W{{0,2}}(?:code\W{{0,2}})?{_CODE}(?=\W*(?:$|[:,)}}\]]))
    | \b(?:(?:internal\ )?server\ error|bad\ gateway|too\ many\ requests)\b
    | \b{_SERVER}s?\ (?:is\ |are\ )?(?:currently\ |temporarily\ )*
      (?:unavailable|down|overloaded|busy|unreachable|offline|not\ (?:available|responding))\b
    | \btemporarily\ (?:unavailable|down|overloaded|offline|out\ of\ service)\b
    | \btimed[ ]?-?out\b | \bdeadline\ exceeded\b | \btime-?out\ (?:exceeded|expired|reached)\b
    | \brate[ -]limit(?:ed|\ (?:exceeded|reached))\b | \b(?:etimedout|connectionerror)\b
    | \b(?:connection\ (?:was\ )?|econn)(?:refused|reset|error|aborted|closed|lost|failed)\b
    | \bunder\ maintenance\b | \bnetwork\ (?:error|is\ unreachable)\b""",
    re.VERBOSE,
)
_MAYBE: Final = re.compile(
    r"\btry(?:ing)? again (?:later|shortly|soon|in (?:a|an|one|\d+|some|few)\b)"
    r"|\bretry(?:ing)? (?:later|after)\b|time-?out(?:error)?\b|\boverloaded\b"
)
"""What also a refusal may say."""
_REFUSAL: Final = re.compile(
    r"\b(?:invalid|not valid|must|required|missing|not found|not exist|not match|not add up|denied"
    r"|not (?:allowed|permitted|eligible|authori[sz]ed|enough|sufficient)|insufficient|declined"
    r"|unauthori[sz]ed|forbidden|incorrect|(?<!went )wrong|already|exceeds|validation|unprocessable|locked"
    r"|expired|bad request|40[01349]|422|cannot be|too (?:large|long|small|short|high|low|many))\b"
)
_OPENING: Final = re.compile(
    rf"\W*(?:\w+(?:error|exception)\b|(?:{_SERVER}|tool|request|http|network|connection|internal)?\W*"
    rf"(?:error|exception|failed|failure|timed[ -]?out|unavailable|http/?[\d.]*\ {_CODE}|{_CODE}\b"
    r"|time-?out(?=\W*$|[:.!]|\ (?:error|exceeded|after|while|waiting|occurred))))"
)
"""How a text begins that is an error message from its first word on."""
_STATES: Final = ("status", "status_code", "statusCode", "http_status", "success", "ok")
_FAILED: Final = re.compile(rf"{_CODE}|error|failed|failure|timeout|unavailable|false")
"""What one of the members `_STATES` says in an object that reports an error."""


def is_outage(content: str, *, is_error: bool) -> bool:
    """Whether a tool's answer says that the tool was out of order, overloaded or too slow.

    What refuses the arguments is no outage. An answer that is not marked as an error must be one
    by its form: a JSON object with an error or a server's status, or a text that begins as one.
    """
    if len(content) > (_LONGEST if is_error else _LONGEST_UNMARKED):
        return False
    if not is_error and not _reads_as_error(content):
        return False
    flat = _flat(content)
    is_refusal = _REFUSAL.search(flat) is not None
    return bool(_OUTAGE.search(flat)) or (not is_refusal and bool(_MAYBE.search(flat)))


def _flat(content: str) -> str:
    return " ".join(content.replace("\u2019", "'").casefold().split())


def _reads_as_error(content: str) -> bool:
    try:
        value: Any = json.loads(content)
    except (ValueError, RecursionError):
        flat = _flat(content)
        return _OPENING.match(flat) is not None or flat.startswith(("please try", "sorry"))
    if isinstance(value, str):
        return _OPENING.match(value.casefold()) is not None
    if not isinstance(value, Mapping):
        return False
    states = [str(value.get(key)).casefold() for key in _STATES]
    return any(map(value.get, ("error", "errors"))) or any(map(_FAILED.fullmatch, states))
