"""Fidelity: counts of the parts of a transcript for which a case has no place.

A part is counted under its fate (marked, moved, dropped, ...), so nothing is lost silently.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from assizes.judge.case import Case

FIDELITY: Final = "fidelity"
"""Key of `Case.metadata`: counts such as `{"marked image": 2, "dropped message.audio": 1}`."""

REASONING: Final = "reasoning"
"""Key of `Case.metadata`: the model's own thinking, by turn index; no judge sees it."""

HUMAN_LABELS: Final = "human_labels"
"""Key of `Case.metadata`: ratings that people gave the case, as rows of a labels file."""

FATES: Final = {
    "marked": "a note in the text stands for it",
    "aside": "kept in the metadata, which no judge sees",
    "moved": "kept in another place",
    "repeated": "stands elsewhere in the conversation already",
    "dropped": "a case has no place for it",
}
"""The fates of a part, each with its meaning."""


class FidelityCounter:
    """Counts, by fate and kind, the parts of one record for which a case has no place."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def count(self, fate: str, kind: str, number: int = 1) -> None:
        """Add a number of parts of one kind; `fate` is a key of `FATES`."""
        if number:
            self._counts[f"{fate} {kind}"] += number

    def count_unread(self, fields: Mapping[str, Any], known: Iterable[str], where: str) -> None:
        """Count as dropped every field that is not among the known fields and is not empty."""
        for name in fields.keys() - set(known):
            if fields[name] not in (None, "", [], {}):
                self.count("dropped", f"{where}.{name}")

    def metadata(self) -> dict[str, Any]:
        """Return the counts as a part of a case's metadata; empty when there are none."""
        return {FIDELITY: dict(sorted(self._counts.items()))} if self._counts else {}


def fidelity_counts(case: Case) -> Counter[str]:
    """Count the turns, tool calls, tool results and chunks of a case, and add its fidelity counts."""
    turns = case.transcript.turns
    counts = Counter(
        turns=len(turns),
        tool_calls=sum(len(turn.tool_calls) for turn in turns),
        tool_results=sum(turn.tool_result is not None for turn in turns),
        chunks=sum(len(turn.chunks or ()) for turn in turns) + len(case.transcript.chunks or ()),
    )
    noted = case.metadata.get(FIDELITY)
    if isinstance(noted, dict):
        counts.update({str(name): n for name, n in noted.items() if isinstance(n, int)})
    return counts


def fidelity_lines(counts: Mapping[str, int]) -> tuple[str, ...]:
    """Return one line a fate, such as `marked: image 2 (a note in the text stands for it)`."""
    texts = []
    for fate, meaning in FATES.items():
        kinds = [
            f"{name.removeprefix(fate).strip()} {count}"
            for name, count in sorted(counts.items())
            if name.startswith(f"{fate} ")
        ]
        if kinds:
            texts.append(f"{fate}: {', '.join(kinds)} ({meaning})")
    return tuple(texts)
