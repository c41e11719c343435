"""Which texts hold a pass back: those that speak to an evaluator, or forge what only we write.

Most flags only tell a reader to look: service language, documents and prompts use the same words as
attacks. A pass is held by a forged delimiter or reply, or where a text that addresses an evaluator
also dictates a verdict nearby. An agent's own words do not count where it refuses, quotes or
reports them: it passes an attack on to its reader, which is no attack.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from typing import Final, NamedTuple

NOTICES: Final = "patterns"
"""The kind of patterns that honest texts match too."""

BESIDE: Final = "beside"
"""The kind of patterns that count only beside words to an evaluator, and are no flag alone."""

_FORGES: Final = "forges"
_ADDRESSES: Final = {"addresses": 2, "may_address": 1}
_DICTATES: Final = {"dictates": 2, "may_dictate": 1, BESIDE: 1}

KINDS: Final = (_FORGES, *_ADDRESSES, *_DICTATES, NOTICES)
"""The kinds of patterns of a family, as its keys in `families.toml` are called."""

NEARBY: Final = 200
"""The most characters between words to an evaluator and the verdict that they dictate."""

_ENOUGH: Final = 3  # two signs that may be innocent hold nothing, not even together
_ENOUGH_HIDDEN: Final = 2  # except where somebody took care to hide them

# What holds on a condition, or is asked, is a rule or a question about grading and not an order.
_CONDITION: Final = re.compile(
    r"[^.!?\n]{0,80}?(?:\?|\b(?:if|when|where|unless|above|that (?:is|are|has|have|meet))\b)"
)

_BEFORE: Final = 600  # characters in which words of refusal or report are looked for
_SENTENCE_END: Final = re.compile(r"[.?!]\s|(?<![:\n])\n+")
_REPORTS: Final = re.compile(
    r"\b(?:cannot|unable|not able|(?:can|i (?:do|did|will|would|could|must)) not"
    r"|(?:ca|wo|could|i (?:do|did|would))n[\x27\u2019]t|refus\w+|declin\w+|ask(?:s|ed|ing)?"
    r"|t(?:ells?|old|elling)|sa(?:ys?|id|ying)|claim\w*|contain\w*|includ\w+|attempt\w*"
    r"|tr(?:y|ies|ied|ying)|instruct(?:s|ed|ing)|request\w*|inject\w*|quot\w+|reads"
    r"|wr(?:ites?|ote|itten))\b"
)


class Match(NamedTuple):
    """Where a pattern of a family matches in a text from `plain`."""

    start: int
    end: int
    kind: str
    family: str


def holding_families(
    bare: str, matches: Iterable[Match], *, by_agent: bool = False, hidden: bool = False
) -> set[str]:
    """The names of the families by which a text from `plain` holds a pass; most texts hold none.

    `by_agent` is whether the agent wrote it, `hidden` whether a disguise or hidden characters were
    taken off to read it.
    """
    signs = [match for match in matches if not (by_agent and _is_reported(bare, match))]
    holding = {sign.family for sign in signs if sign.kind == _FORGES}
    orders = sorted(
        (sign, 1 if _CONDITION.match(bare, sign.end) else _DICTATES[sign.kind])
        for sign in signs
        if sign.kind in _DICTATES
    )
    starts = [order.start for order, _ in orders]
    needed = _ENOUGH_HIDDEN if hidden else _ENOUGH
    for sign in signs:
        if sign.kind not in _ADDRESSES:
            continue
        # An order is looked for from so far before that a long one still ends nearby.
        first = bisect_left(starts, sign.start - 2 * NEARBY)
        last = bisect_left(starts, sign.end + NEARBY)
        for order, weight in orders[first:last]:
            is_near = order.end + NEARBY >= sign.start
            if is_near and _ADDRESSES[sign.kind] + weight >= needed:
                holding |= {sign.family, order.family}
    return holding


def _is_reported(bare: str, match: Match) -> bool:
    """Whether what an agent's text says here is refused, quoted or reported by it."""
    before = bare[max(0, match.start - _BEFORE) : match.start]
    line = before.rpartition("\n")[2]
    return (
        # In JSON, as which a reply may be forged, a quotation mark quotes nobody.
        (line.count('"') % 2 == 1 and match.kind != _FORGES)
        or before.rfind("\u201c") > before.rfind("\u201d")
        or line.count("`") % 2 == 1
        or line.lstrip().startswith(">")
        or _REPORTS.search(_SENTENCE_END.split(before)[-1]) is not None
    )
