"""The fixed texts of each judge's prompts: stored with a run and compared with another run's.

They are the system messages, which are the same for every case: role, rules and rubric. Texts made
for one case or one ask are not among them.
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
"""The most lines that the difference of one judge's prompts keeps."""

_HEADER_LINES: Final = 2
"""The lines of a unified diff before its first hunk: the names of the two files."""


@runtime_checkable
class HasPrompts(Protocol):
    """A judge that gives the fixed texts of its prompts; a judge that asks no model need not."""

    @property
    def prompts(self) -> Sequence[str]:
        """The system messages of the judge, or the parts of them that never change."""


class PromptDiff(BaseModel):
    """The difference between the prompts of one judge in two runs, as lines of a unified diff.

    A line begins with `-` (baseline), `+` (candidate), a blank (both) or `@` (a new hunk or
    prompt); `more` counts the lines over `MAX_LINES`, which are left out.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    judge: str
    lines: tuple[str, ...]
    more: int = Field(default=0, ge=0)


def prompt_snapshot(judges: Iterable[Judge]) -> dict[str, Any]:
    """The prompt texts to store with a run.

    `judges` holds the hashes of each judge's texts, `texts` each different text by its hash.
    """
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
    """The differences for the judges of both runs whose texts differ, ordered by name.

    The answer is `None` where a run has no stored texts.

    Args:
        baseline: the `prompt_snapshot` of the run; empty for a run of an older version.
        candidate: the same of the other run.
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
    # The judge of a user may have an attribute of this name with another meaning.
    listed = prompts if isinstance(prompts, list | tuple) else ()
    return [text for text in listed if isinstance(text, str)]


def _texts(snapshot: Mapping[str, Any], judge: str) -> list[str]:
    return [snapshot["texts"][digest] for digest in snapshot["judges"][judge]]


def _prompt_difference(judge: str, before: Sequence[str], after: Sequence[str]) -> PromptDiff:
    lines: list[str] = []
    several = max(len(before), len(after)) > 1
    for place, sides in enumerate(zip_longest(before, after, fillvalue=""), 1):
        old, new = (text.split("\n") if text else [] for text in sides)
        hunks = list(islice(difflib.unified_diff(old, new, lineterm=""), _HEADER_LINES, None))
        lines += [f"@ prompt {place}", *hunks] if several and hunks else hunks
    return PromptDiff(
        judge=judge, lines=tuple(lines[:MAX_LINES]), more=max(0, len(lines) - MAX_LINES)
    )
