"""The action for each error code of a model call: one table, which one retry layer reads.

The codes are those of `ModelError`, of `NoReply` and of the column `asks.error`.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Final, Literal

Action = Literal["retry", "repair", "give_up", "abort"]
"""`retry`: make the same call again, later. `repair`: ask again and say what was wrong with the
reply. `give_up`: this ask has failed. `abort`: all other asks will fail as well; after a few such
errors in a row the run asks no more."""

_CODES: Final[Mapping[Action, Set[str]]] = {
    "retry": {
        *("rate_limited", "unavailable", "timeout"),  # the provider may answer later
        # No text, a text cut off, a parameter that the model does not take.
        *("empty", "truncated_output", "unsupported_parameter"),
    },
    "repair": {"invalid_reply", "schema", "ambiguous_output"},
    "abort": {"quota", "authentication", "not_found"},  # account, key or model name is wrong
}
"""All other codes (`bad_request`, `context_overflow`, `refused`, ...) mean `give_up`."""

RETRIED_ONCE: Final = frozenset({"empty", "truncated_output"})
AT_ONCE: Final = frozenset({"truncated_output", "unsupported_parameter"})
"""Codes that are retried once only, because the model gave an empty answer or one that was cut off;
and codes that are retried without a pause, because waiting would not help."""

CUT_BY_PAUSES: Final = frozenset({"timeout", "unavailable"})
"""Codes of calls that fail because the process stood still; they are made again and do not count."""

LONGER_CAP: Final = 2
"""Factor on the cap of tokens for the call after an answer that was cut off."""

EXHAUSTED: Final[Mapping[str, str]] = {
    "unavailable": "transient_exhausted",
    "timeout": "deadline",
    "unsupported_parameter": "bad_request",  # no calls were left to leave it out
}
"""The code of an ask whose last call failed with the code on the left and was not retried any more;
a code that is not listed stays the same."""

STOPS: Final = frozenset({"budget", "halted", "circuit_open", "no_permit", "closing"})
"""Codes of asks that were never put because the run asks no more; cases that are left count as not
attempted, not as failed."""

OUTAGES: Final = frozenset(
    {"transient_exhausted", "deadline", "rate_limited", "quota", "authentication", "not_found"}
)
"""Codes of asks that fail where a provider never answers at all."""

UNCHARGED: Final = frozenset(
    {
        *STOPS,
        *("authentication", "bad_request", "context_overflow", "no_offline_rule", "not_cached"),
        *("not_found", "quota", "rate_limited", "unsupported_parameter"),
    }
)
"""Codes of calls that cost nothing, because they were turned away before a model worked on them.
Whether a call is charged that was late, broke off or was refused for its content, only the provider
knows."""


def action_for(code: str) -> Action:
    """The action for a code; `give_up` for a code that is not in the table."""
    return next((action for action, codes in _CODES.items() if code in codes), "give_up")
