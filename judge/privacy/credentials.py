"""Finds credentials in settings and URLs, which must hold none: they are stored and shown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

_NAME: Final = re.compile(
    r"secret|token|passw|passphrase|credential|authorization|connection_?string|key",
    re.IGNORECASE,
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
    """Yield the places whose names say secret, such as `hosts.0.token`.

    Args:
        options: tables and lists of any depth.
        at: the place of `options` itself, which the places begin with.
    """
    for name, value in parts_of(options):
        place = f"{at}.{name}" if at else name
        if is_secret(name):
            yield place
        else:
            yield from secret_names(value, place)


def revealing_urls(value: Any, at: str = "") -> Iterator[str]:
    """Yield the places of texts that hold a URL with a password, a key or a signature.

    Args:
        value: a text, or tables and lists of any depth.
        at: the place of `value` itself, which the places begin with.
    """
    if isinstance(value, str) and mask_credentials(value) != value:
        yield at
    for name, part in parts_of(value):
        yield from revealing_urls(part, f"{at}.{name}" if at else name)


def mask_credentials(text: str) -> str:
    """The text with `***` in place of the credentials in its URLs.

    A container (`abfs://container@account`) or a bare user name (`sftp://user@host`) is kept. Over
    HTTP the part before the `@` may be a token, so it is always masked.
    """
    shown = _USERINFO.sub(_without_userinfo, text)
    if "://" not in shown:
        return shown
    return _QUERY.sub(_without_value, shown)


def _without_userinfo(match: re.Match[str]) -> str:
    scheme, userinfo = match.groups()
    secret = ":" in userinfo or scheme.lower().rsplit("+", 1)[-1] in ("http", "https")
    return f"{scheme}://***@" if secret and userinfo != "***" else match[0]


def _without_value(match: re.Match[str]) -> str:
    before, name, value = match.groups()
    if value is None:
        return match[0]
    secret = is_secret(name) or _SIGNATURE.search(name)
    return f"{before}{name}=***" if secret and value != "***" else match[0]


def is_secret(name: str) -> bool:
    """Whether the name of a setting or an environment variable says that its value is a secret."""
    return bool(_NAME.search(name)) and not _NAMES_A_KEY.search(name)


def parts_of(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield name and value of each part of a table or a list; any other value has no parts."""
    if isinstance(value, Mapping):
        yield from ((str(name), part) for name, part in value.items())
    elif isinstance(value, list | tuple):
        yield from ((str(place), part) for place, part in enumerate(value))
