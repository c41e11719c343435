"""What differs in what the judges of two runs were told, as a report shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from assizes.judge.comparison.compare import RunComparison
from assizes.judge.config.diff import FINGERPRINTS
from assizes.judge.prompts.prompt_texts import PromptDiff
from assizes.tasks.reports import formatting
from assizes.tasks.reports.markdown_text import Block, code, plain, table

MAX_JUDGES: Final = 25
LINE_CHARS: Final = 2000
MARKDOWN_LINES: Final = 40
MARKDOWN_CHARS: Final = 500

_FINGERPRINTS_DIFFER: Final = (
    "The judges are not the same: each fingerprint that differs is another rubric, prompt or "
    "version."
)
_TEXTS_NOT_STORED: Final = (
    "A run of an earlier version keeps its hash, not its text; set the rubrics of both times side "
    "by side to read what changed."
)
_PROMPTS_ALIKE: Final = "Both runs kept the same prompts: what changed stands in none of them."
_PROMPTS_DIFFER: Final = "The judges are not the same: below is what differs in their prompts."


def prompt_changes(comparison: RunComparison) -> dict[str, Any]:
    """The differences of the judges' prompts, and a note on them; null where there is none."""
    diffs = comparison.prompt_diff or ()
    return {"note": _note(comparison), "judges": [_change(diff) for diff in diffs[:MAX_JUDGES]]}


def _note(comparison: RunComparison) -> str | None:
    if comparison.prompt_diff:
        return _PROMPTS_DIFFER
    if not any(setting.field.startswith(f"{FINGERPRINTS}.") for setting in comparison.config_diff):
        return None
    return f"{_FINGERPRINTS_DIFFER} {_TEXTS_NOT_STORED if comparison.prompt_diff is None else _PROMPTS_ALIKE}"


def _change(diff: PromptDiff) -> dict[str, Any]:
    lines = [formatting.clean(one.replace("\r", "\u240d"), LINE_CHARS) for one in diff.lines]
    return {"judge": formatting.name_of(diff.judge), "lines": lines, "more": diff.more}
