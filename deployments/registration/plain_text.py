"""Messages to chat programs in which no value that other people wrote has an effect.

Chat programs obey `<!channel>`, `<address|text>`, `@here` and marks such as `*`. Escaping is not
enough: a program on the way to the chat may undo it. So the characters themselves are replaced by
characters that look alike and have no meaning.
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
"""Characters and their replacements. `&` stays: without the others it has no effect."""


def message_template(fields: Mapping[str, str]) -> str:
    """A Jinja template of a message with one line for each field.

    Args:
        fields: Jinja expressions over an event, by the name that the message shows.
    """
    return "\n".join(f"{name}: {{{{ {_without_effect(text)} }}}}" for name, text in fields.items())


def _without_effect(template: str) -> str:
    """A Jinja expression for the value of another one, after all `REPLACEMENTS`."""
    filters = [
        f"replace({_jinja_string(char)}, {_jinja_string(replacement)})"
        for char, replacement in REPLACEMENTS.items()
    ]
    return " | ".join([template, "string", *filters])


def _jinja_string(text: str) -> str:
    return '"' + text.replace("\r", "\\r").replace("\n", "\\n") + '"'
