"""What to do about a model call that gave no usable reply: one table, read by one retry layer.

The codes are those of `ModelError`, of `NoReply` and of the columns `asks.error` and
`scores.failure_code` (spec/reliability.md, matrix L).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

Action = Literal["retry", "repair", "give_up", "abort"]
"""`retry`: the same call again, later. `repair`: ask again with what was wrong. `give_up`: this
ask has failed. `abort`: so will all others; after a few in a row the run asks no more."""

ACTIONS: Final[Mapping[str, Action]] = {
    "rate_limited": "retry",
    "unavailable": "retry",
    "timeout": "retry",
    "empty": "retry",
    "truncated_output": "retry",
    "unsupported_parameter": "retry",
    "invalid_reply": "repair",
    "schema": "repair",
    "ambiguous_output": "repair",
    "bad_request": "give_up",
    "context_overflow": "give_up",
    "refused": "give_up",
    "no_offline_rule": "give_up",
    "not_cached": "give_up",
    "quota": "abort",
    "authentication": "abort",
    "not_found": "abort",
}

RETRIED_ONCE: Final = frozenset({"empty", "truncated_output"})
"""Worth one more call, not more: what the model did once for no reason, or for want of room."""

AT_ONCE: Final = frozenset({"truncated_output", "unsupported_parameter"})
"""Retried without a pause: waiting would change nothing about them."""

LONGER_CAP: Final = 2
"""Times the usual number of tokens that an answer may take after one that was cut off."""

EXHAUSTED: Final[Mapping[str, str]] = {
    "unavailable": "transient_exhausted",
    "timeout": "deadline",
    "unsupported_parameter": "bad_request",
}
"""What an ask is said to have failed of when calls that failed of the first were not repeated any
more; a code that is not listed keeps its name."""

STOPS: Final = frozenset({"budget", "halted", "circuit_open", "no_permit", "closing"})
"""Codes of asks that were never put because the run asks no more; what is left of it is not
attempted, never failed."""

OUTAGES: Final = frozenset(
    {"transient_exhausted", "deadline", "rate_limited", "quota", "authentication", "not_found"}
)
"""Codes of asks that a provider that never answers at all leaves behind."""

UNCHARGED: Final = frozenset(
    {
        *STOPS,
        "authentication",
        "bad_request",
        "context_overflow",
        "no_offline_rule",
        "not_cached",
        "not_found",
        "quota",
        "rate_limited",
        "unsupported_parameter",
    }
)
"""Codes of calls that were turned away before a model worked on them: they cost nothing. Whether
one that was late, broke off or was refused for its content is charged, only the provider knows."""


def action_for(code: str) -> Action:
    """What to do about a code; one that is not in the table is the ask's own fault."""
    return ACTIONS.get(code, "give_up")
