"""Nothing disappears: whatever was counted in is counted out, or the run says so and stops."""

from __future__ import annotations

from collections.abc import Mapping

from judge.errors import Unreconciled


def reconcile(what: str, total: int, parts: Mapping[str, int]) -> None:
    """See that a total is the sum of what became of it.

    Args:
        what: was counted, for the message.
        total: how many there were.
        parts: what became of them.

    Raises:
        Unreconciled: when it is not, or a part is negative.
    """
    if sum(parts.values()) == total and min(parts.values(), default=0) >= 0:
        return
    equation = " + ".join(f"{count} {name}" for name, count in parts.items())
    raise Unreconciled(f"counts do not reconcile: {total!r} {what}, but {equation or 'nothing'}")
