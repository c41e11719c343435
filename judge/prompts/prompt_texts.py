"""The texts that each judge's prompts begin with: kept with a run, and held beside another run's.

They are the system messages, the same for every case: role, rules, rubric as the prompt shows it.
What is made for one case or one ask is not among them.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice, zip_longest
from typing import Any, Final, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field

from assizes.judge.protocol import Judge

MAX_LINES: Final = 200
"""So many lines of a judge's difference are kept."""

_FILE_NAMES: Final = 2
# Lines in front of the first hunk.


@runtime_checkable
class HasPrompts(Protocol):
    """A judge that says what its prompts begin with; one that asks nothing says nothing."""

    @property
    def prompts(self) -> Sequence[str]:
        """Its system messages, or the stable parts of them."""


class PromptDiff(BaseModel):
    """What differs in the prompts of one judge: the hunks of a unified diff, and how many lines more
    there are. A line begins with `-` (baseline), `+` (candidate), a blank (both) or `@`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    judge: str
    lines: tuple[str, ...]
    more: int = Field(default=0, ge=0)


def prompt_snapshot(judges: Iterable[Judge]) -> dict[str, Any]:
    """What a run keeps: `judges`, the hashes of each judge's texts, and `texts`, each once."""
    texts: dict[str, str] = {}
    hashes: dict[str, list[str]] = {}
    for judge in judges:
        for text in _prompts(judge):
            body = text.encode("utf-8", "replace")
            digest = hashlib.sha256(body).hexdigest()[:16]
            texts[digest] = body.decode()
            hashes.setdefault(judge.name, []).append(digest)
    return {"judges": hashes, "texts": texts}


def prompt_diff(
    baseline: Mapping[str, Any], candidate: Mapping[str, Any]
) -> tuple[PromptDiff, ...] | None:
    """The judges of both runs whose texts differ, by name; null where a run kept none of its texts.

    Args:
        baseline: as `kept_prompts` made it; empty for a run of an older version.
        candidate: likewise.
    """
    if not baseline or not candidate:
        return None
    before, after = baseline["judges"], candidate["judges"]
    differing = (
        name for name in sorted(before.keys() & after.keys()) if before[name] != after[name]
    )
    return tuple(
        _prompt_difference(name, _texts(baseline, name), _texts(candidate, name))
        for name in differing
    )


def _prompts(judge: Judge) -> list[str]:
    prompts = judge.prompts if isinstance(judge, HasPrompts) else ()
    # A judge of a user may mean something else by the name.
    listed = prompts if isinstance(prompts, list | tuple) else ()
    return [text for text in listed if isinstance(text, str)]


def _texts(snapshot: Mapping[str, Any], judge: str) -> list[str]:
    return [snapshot["texts"][digest] for digest in snapshot["judges"][judge]]


def _prompt_difference(judge: str, before: Sequence[str], after: Sequence[str]) -> PromptDiff:
    lines: list[str] = []
    several = max(len(before), len(after)) > 1
    for place, sides in enumerate(zip_longest(before, after, fillvalue=""), 1):
        old, new = (text.split("\n") if text else [] for text in sides)
        hunks = list(islice(difflib.unified_diff(old, new, lineterm=""), _FILE_NAMES, None))
        lines += [f"@ prompt {place}", *hunks] if several and hunks else hunks
    return PromptDiff(
        judge=judge, lines=tuple(lines[:MAX_LINES]), more=max(0, len(lines) - MAX_LINES)
    )
