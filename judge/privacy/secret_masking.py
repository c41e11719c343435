"""Masks secrets in everything that is written about a run: logs, errors, states and rows.

Nothing is configured here: the secrets of this process, and texts that look like a key, are always
masked. Transcripts are redacted by `assizes.judge.redaction.redaction`, as the configuration says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final
from urllib.parse import unquote

from assizes.judge.privacy.credentials import is_secret, mask_credentials, parts_of
from assizes.judge.privacy.rules import KEY_FORMS, SECRETS, VALUE, RedactionRule

MASK: Final = "***"

SHORTEST_SECRET: Final = 8
"""Fewest characters of a registered secret; a shorter one could be part of an ordinary word."""

_DEEPEST: Final = 40
"""Levels of nested tables that are searched; a value that is nested deeper is masked as a whole."""

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
"""How error messages of providers repeat a key: shortened, or after a word that names it."""

_TELLING: Final = re.compile(
    r"secret|token$|passw|passphrase|credential|authorization|connection_?string"
    r"|(?:api|access|account|private)[_-]?key|^key$",
    re.IGNORECASE,
)
"""Names of fields whose text values are secrets."""


class _ProcessSecrets:
    """The secrets of this process, the longest first.

    The tuple is replaced as a whole and never changed, because other threads read it.
    """

    values: tuple[str, ...] = ()


def register_secrets(values: Iterable[str]) -> None:
    """Mask these values in all later texts, except short values and plain lower-case words."""
    secrets = {
        value
        for value in values
        if len(value) >= SHORTEST_SECRET and not (value.isalpha() and value.islower())
    }
    if not secrets <= set(_ProcessSecrets.values):
        _ProcessSecrets.values = tuple(
            sorted({*_ProcessSecrets.values, *secrets}, key=lambda value: (-len(value), value))
        )


def process_secret_rules() -> tuple[RedactionRule, ...]:
    """The rule that finds the secrets of this process, or no rule where none are registered."""
    if not (values := _ProcessSecrets.values):
        return ()
    return (RedactionRule("SECRET", re.compile("|".join(map(re.escape, values))), values),)


def mask_process_secrets(text: str) -> str:
    """The text with `***` in place of the secrets of this process."""
    for value in _ProcessSecrets.values:
        if value in text:
            text = text.replace(value, MASK)
    return text


def mask(text: str) -> str:
    """The text with `***` for secrets of this process, credentials of URLs and likely keys."""
    text = mask_credentials(mask_process_secrets(text))
    for echo in _ECHOED:
        text = echo.sub(rf"\1{MASK}", text)
    return _mask_rules(SECRETS, text)


def mask_values(value: Any, depth: int = 0) -> Any:
    """Copies of tables and lists in which every secret is masked.

    Texts are masked by `mask`. A text under a name that says secret is masked as a whole, and is
    registered, so that it is masked in all later texts too.
    """
    if depth > _DEEPEST:
        return MASK
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, Mapping):
        return {
            name: _hide_value(part)
            if isinstance(part, str) and _TELLING.search(str(name))
            else mask_values(part, depth + 1)
            for name, part in value.items()
        }
    if isinstance(value, list | tuple):
        return [mask_values(part, depth + 1) for part in value]
    return value


def keys_in(value: Any, at: str = "") -> Iterator[str]:
    """Yield the places of texts that hold a likely key.

    Args:
        value: a text, or tables and lists of any depth.
        at: the place of `value` itself, which the places begin with.
    """
    if isinstance(value, str) and _mask_rules(KEY_FORMS, value) != value:
        yield at
    for name, part in parts_of(value):
        yield from keys_in(part, f"{at}.{name}" if at else name)


def secrets_in(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the values of variables whose names say secret, and the passwords in URLs."""
    for name, value in environment.items():
        if "://" in value:
            yield from _passwords(value)
        elif is_secret(name) and not value.startswith(("/", "./", "~")):
            yield value


def _passwords(url: str) -> Iterator[str]:
    for match in re.finditer(r"://([^/?#\s@]*)@", url):
        written = match[1].partition(":")[2] or match[1]
        yield from {written, unquote(written)}


def _hide_value(value: str) -> str:
    register_secrets([value])
    return MASK


def _mask_rules(rules: Iterable[RedactionRule], text: str) -> str:
    for rule in rules:
        if rule.can_find(text):
            text = rule.pattern.sub(partial(_mask_match, rule), text)
    return text


def _mask_match(rule: RedactionRule, match: re.Match[str]) -> str:
    if VALUE not in rule.pattern.groupindex:
        return MASK
    value = match[VALUE]
    if value.startswith(MASK) or rule.find_value(value) is None:
        return match[0]
    start, end = (at - match.start() for at in match.span(VALUE))
    return match[0][:start] + MASK + match[0][end:]
