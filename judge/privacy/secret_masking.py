"""Masks secrets in everything that is written about a run: logs, errors, states and rows.

The secrets of this process, and texts that look like a key, are always masked (docs/decisions.md,
decision 98). Settings and URLs are searched for credentials, because they are stored and shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final
from urllib.parse import unquote

from assizes.judge.privacy.rules import KEY_FORMS, SECRETS, VALUE, RedactionRule

_NAME: Final = re.compile(
    r"secret|token|passw|passphrase|credential|authorization|connection_?string|key", re.IGNORECASE
)
_SIGNATURE: Final = re.compile(r"signature|sig$", re.IGNORECASE)
"""Names that say secret in a URL only: as a setting they name a method (`signature_version`)."""

_NAMES_A_KEY: Final = re.compile(r"kms", re.IGNORECASE)
"""Names of settings that say with which key a server encrypts: the name of a key opens nothing."""

# Bounded: otherwise every letter of a long text could begin a scheme that reaches to its end.
_USERINFO: Final = re.compile(r"([a-z0-9+.-]{1,41})://([^/?#\s]*)@", re.IGNORECASE)
# Possessive: a name is matched once, whether a value follows or not.
_QUERY: Final = re.compile(r"([?&])([^=&#\s]++)(?:=([^&#\s]+))?")


def secret_names(options: Any, at: str = "") -> Iterator[str]:
    """Yield the places below `at` whose names say secret, such as `hosts.0.token`, in nested data."""
    for name, value in _parts(options):
        place = f"{at}.{name}" if at else name
        if is_secret(name):
            yield place
        else:
            yield from secret_names(value, place)


def revealing_urls(value: Any, at: str = "") -> Iterator[str]:
    """Yield the places, from `at` on, of texts that hold a URL with a password, key or signature."""
    return (place for place, text in _texts(value, at) if mask_credentials(text) != text)


def mask_credentials(text: str) -> str:
    """The text with `***` in place of the credentials in its URLs."""
    shown = _USERINFO.sub(_without_userinfo, text)
    return _QUERY.sub(_without_value, shown) if "://" in shown else shown


def _without_userinfo(match: re.Match[str]) -> str:
    scheme, userinfo = match.groups()
    # A container (abfs://container@account) or a bare user name (sftp://user@host) is no secret.
    # Over HTTP the part before the @ may be a token.
    secret = ":" in userinfo or scheme.lower().rsplit("+", 1)[-1] in ("http", "https")
    return f"{scheme}://***@" if secret and userinfo != "***" else match[0]


def _without_value(match: re.Match[str]) -> str:
    before, name, value = match.groups()
    if value is None:  # a name without a value
        return match[0]
    secret = is_secret(name) or _SIGNATURE.search(name)  # a presigned URL opens its object
    return f"{before}{name}=***" if secret and value != "***" else match[0]


def is_secret(name: str) -> bool:
    """Whether the name of a setting or an environment variable says that its value is a secret."""
    return bool(_NAME.search(name)) and not _NAMES_A_KEY.search(name)


def _texts(value: Any, at: str) -> Iterator[tuple[str, str]]:
    """Yield the place of each text in a value, and the text."""
    if isinstance(value, str):
        yield at, value
    for name, part in _parts(value):
        yield from _texts(part, f"{at}.{name}" if at else name)


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield name and value of each part of a table or a list; any other value has no parts."""
    if isinstance(value, Mapping):
        yield from ((str(name), part) for name, part in value.items())
    elif isinstance(value, list | tuple):
        yield from ((str(place), part) for place, part in enumerate(value))


MASK: Final = "***"

SHORTEST_SECRET: Final = 8
"""Fewest characters of a registered secret; a shorter one could be part of an ordinary word."""

_DEEPEST: Final = 40
"""Levels of nested tables that are searched; a value that is nested deeper is masked as a whole."""

_ECHOED: Final = (
    re.compile(r"(\b(?:sk|pk|rk|gsk|xai)-)[\w*-]{6,}"),  # `sk-ab***yz`
    re.compile(r"(\bAIza)[\w-]{16,}"),  # Google
    re.compile(r"(\b(?:bearer|basic)\s+)[^\s\"',]{6,}", re.IGNORECASE),  # a header
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
    """The secrets of this process."""

    # The longest first, since a secret may contain another. Other threads read the tuple, so it is
    # replaced as a whole and never changed.
    values: tuple[str, ...] = ()


def register_secrets(values: Iterable[str]) -> None:
    """Mask these values in all later texts, except short values and plain lower-case words."""
    secrets = {
        value
        for value in values
        # A word such as `postgres` would be masked wherever it stands in a log line.
        if len(value) >= SHORTEST_SECRET and not (value.isalpha() and value.islower())
    }
    if not secrets <= set(_ProcessSecrets.values):
        every = {*_ProcessSecrets.values, *secrets}
        _ProcessSecrets.values = tuple(sorted(every, key=lambda value: (-len(value), value)))


def process_secret_rules() -> tuple[RedactionRule, ...]:
    """The rule that finds the secrets of this process; none where none are registered."""
    if not (values := _ProcessSecrets.values):
        return ()
    return (RedactionRule("SECRET", re.compile("|".join(map(re.escape, values))), values),)


def hold_process_secrets(texts: Iterable[str]) -> bool:
    """Whether a secret of this process stands in one of the texts; sometimes also across two."""
    joined = "\n".join(texts)
    return any(value in joined for value in _ProcessSecrets.values)


def mask_process_secrets(text: str) -> str:
    """The text with `***` in place of the secrets of this process."""
    for value in _ProcessSecrets.values:
        if value in text:
            text = text.replace(value, MASK)
    return text


def mask(text: str) -> str:
    """The text with `***` for secrets of this process, credentials of URLs and likely keys."""
    text = mask_credentials(mask_process_secrets(text))  # known values first, then forms
    for echo in _ECHOED:
        text = echo.sub(rf"\1{MASK}", text)
    return _mask_rules(SECRETS, text)


def mask_values(value: Any, depth: int = 0) -> Any:
    """Copies of tables and lists in which every text is masked by `mask`.

    A text under a name that says secret is masked as a whole, and in all later texts too.
    """
    if depth > _DEEPEST:  # hostile nesting
        return MASK
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, Mapping):
        masked = {}
        for name, part in value.items():
            is_secret_text = isinstance(part, str) and _TELLING.search(str(name)) is not None
            if is_secret_text:
                register_secrets([part])  # it may come back in a log line or an error
            masked[name] = MASK if is_secret_text else mask_values(part, depth + 1)
        return masked
    if isinstance(value, list | tuple):
        return [mask_values(part, depth + 1) for part in value]
    return value


def keys_in(value: Any, at: str = "") -> Iterator[str]:
    """Yield the places, from `at` on, of the texts in a value that hold a likely key."""
    return (place for place, text in _texts(value, at) if _mask_rules(KEY_FORMS, text) != text)


def secrets_in(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the values of variables whose names say secret, and the passwords in URLs."""
    for name, value in environment.items():
        if "://" in value:
            for match in re.finditer(r"://([^/?#\s@]*)@", value):
                written = match[1].partition(":")[2] or match[1]  # the password, or a token alone
                yield from {written, unquote(written)}  # drivers log it decoded
        elif is_secret(name) and not value.startswith(("/", "./", "~")):  # not a path of a key
            yield value


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
    start, end = (at - match.start() for at in match.span(VALUE))  # places within the match
    return match[0][:start] + MASK + match[0][end:]
