"""The one place that hides secrets in what is said of a run: logs, errors, states, rows.

What a transcript says is `assizes.judge.redaction.redaction`'s business and goes by the configuration. Here
nothing is configured: a key of this process, and whatever looks like a key, is nobody's business.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final
from urllib.parse import unquote

from assizes.judge.privacy.credentials import is_secret, masked, parts_of
from assizes.judge.privacy.rules import KEY_FORMS, SECRETS, VALUE, Rule

HIDDEN: Final = "***"

SHORTEST: Final = 8
"""Characters of a value that is hidden wherever it stands; shorter ones are part of other words."""

_DEEPEST: Final = 40
"""Tables in tables that are looked at; what lies deeper is not shown at all."""

_ECHOED: Final = (
    re.compile(r"(\b(?:sk|pk|rk|gsk|xai)-)[\w*-]{6,}"),
    re.compile(r"(\bAIza)[\w-]{16,}"),
    re.compile(r"(\b(?:bearer|basic)\s+)[^\s\"',]{6,}", re.IGNORECASE),
    re.compile(
        r"(\b\w*(?:key|token|secret)\b(?:\s+provided)?[\"'\s:=]*)"
        r"(?=[a-z_+/=-]{0,200}[\d*])[\w+/=*-]{16,}",  # without a digit it is a word
        re.IGNORECASE,
    ),
)
"""How providers repeat a key: shortened, or behind a word that says what it is."""


_TELLING: Final = re.compile(
    r"secret|token$|passw|passphrase|credential|authorization|connection_?string"
    r"|(?:api|access|account|private)[_-]?key|^key$",
    re.IGNORECASE,
)


class _Own:
    """The secrets of this process, the longest first; replaced as a whole, as threads read it."""

    values: tuple[str, ...] = ()


def know(values: Iterable[str]) -> None:
    """Hide these from now on wherever they stand; short ones and plain words are left alone."""
    told = {one for one in values if len(one) >= SHORTEST and not (one.isalpha() and one.islower())}
    if not told <= set(_Own.values):
        _Own.values = tuple(sorted({*_Own.values, *told}, key=lambda one: (-len(one), one)))


def own_rules() -> tuple[Rule, ...]:
    """What finds the secrets of this process; none where it has none."""
    if not (values := _Own.values):
        return ()
    return (Rule("SECRET", re.compile("|".join(map(re.escape, values))), values),)


def without_own(text: str) -> str:
    """The text without the secrets of this process."""
    for value in _Own.values:
        if value in text:
            text = text.replace(value, HIDDEN)
    return text


def concealed(text: str) -> str:
    """The text with `***` for secrets: those of this process, those of URLs, and what looks like one."""
    text = masked(without_own(text))
    for echo in _ECHOED:
        text = echo.sub(rf"\1{HIDDEN}", text)
    return _without(SECRETS, text)


def concealed_values(value: Any, depth: int = 0) -> Any:
    """Tables and lists without what their names call secret, nor what `concealed` hides.

    What a name calls secret is hidden from now on wherever it stands.
    """
    if depth > _DEEPEST:
        return HIDDEN
    if isinstance(value, str):
        return concealed(value)
    if isinstance(value, Mapping):
        return {
            name: _hidden(part)
            if isinstance(part, str) and _TELLING.search(str(name))
            else concealed_values(part, depth + 1)
            for name, part in value.items()
        }
    if isinstance(value, list | tuple):
        return [concealed_values(part, depth + 1) for part in value]
    return value


def keys_in(value: Any, at: str = "") -> Iterator[str]:
    """The places of texts that hold what looks like a key.

    Args:
        value: a text, or tables and lists of any depth.
        at: the place of `value` itself.
    """
    if isinstance(value, str) and _without(KEY_FORMS, value) != value:
        yield at
    for name, part in parts_of(value):
        yield from keys_in(part, f"{at}.{name}" if at else name)


def secrets_in(environment: Mapping[str, str]) -> Iterator[str]:
    """Values of variables whose names say secret, and what URLs among the values hold of that kind."""
    for name, value in environment.items():
        if "://" in value:
            yield from _passwords(value)
        elif is_secret(name) and not value.startswith(("/", "./", "~")):
            yield value


def _passwords(url: str) -> Iterator[str]:
    for found in re.finditer(r"://([^/?#\s@]*)@", url):
        written = found[1].partition(":")[2] or found[1]
        yield from {written, unquote(written)}


def _hidden(value: str) -> str:
    know([value])
    return HIDDEN


def _without(rules: Iterable[Rule], text: str) -> str:
    for rule in rules:
        if rule.may_find(text):
            text = rule.pattern.sub(partial(_starred, rule), text)
    return text


def _starred(rule: Rule, found: re.Match[str]) -> str:
    if VALUE not in rule.pattern.groupindex:
        return HIDDEN
    value = found[VALUE]
    if value.startswith(HIDDEN) or rule.found(value) is None:
        return found[0]
    start, end = (at - found.start() for at in found.span(VALUE))
    return found[0][:start] + HIDDEN + found[0][end:]
