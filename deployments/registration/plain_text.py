"""What is told in words: values that others wrote, so that nothing in them is obeyed or followed.

Chat programs read `<!channel>`, `<address|words>`, `@here` and marks such as `*` as orders, and what
sends messages to them may rebuild those from escaped ones. So the signs themselves are replaced by
others that look alike and mean nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

REPLACEMENTS: Final[Mapping[str, str]] = {
    "<": "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}",
    ">": "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}",
    "@": "\N{FULLWIDTH COMMERCIAL AT}",
    "*": "\N{ASTERISK OPERATOR}",
    "`": "\N{MODIFIER LETTER GRAVE ACCENT}",
    "~": "\N{TILDE OPERATOR}",
    "://": ": //",
    "](": "] (",
    "\r": " ",
    "\n": " ",
}
"""Signs and what stands for them. `&` stays: nothing that is left can be made of it."""


def in_words(fields: Mapping[str, str]) -> str:
    """A message of one line a field, as a template; the fields are templates over an event."""
    return "\n".join(f"{name}: {{{{ {harmless(text)} }}}}" for name, text in fields.items())


def harmless(template: str) -> str:
    """A template whose value holds no order to whoever shows it."""
    filters = [
        f"replace({_jinja_string(sign)}, {_jinja_string(other)})"
        for sign, other in REPLACEMENTS.items()
    ]
    return " | ".join([template, "string", *filters])


def _jinja_string(text: str) -> str:
    return '"' + text.replace("\r", "\\r").replace("\n", "\\n") + '"'
