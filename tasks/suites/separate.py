"""Keeps the folder of a suite apart from the transcripts of runs.

A run over `logs` reads whatever lies below it. A suite there would be judged with the conversations
that it was made of, under the same ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from assizes.judge.errors import ConfigurationError
from assizes.tasks.intake.run_sources import covering_uri
from assizes.tasks.sources.listing import parts_before_pattern
from assizes.tasks.suites.suite_folder import CASES, is_suite

_DAYS: Final = [date(2000, 1, 1) + timedelta(days=number) for number in range(0, 36_525, 97)]
"""Days that have every digit at every place of a date."""


def check_separate(folder: Path, uri: str, whose: str) -> None:
    """Check that a run over the transcripts of a URI would not read the suite in a folder.

    The transcripts may be the suite itself. `whose` says in a message where the URI is from.

    Raises:
        ConfigurationError: such a run would read it.
    """
    scheme, _, rest = uri.rpartition("://")
    if scheme not in ("", "file") or not rest.strip():  # a suite is a folder on disk
        return
    file = folder.resolve() / CASES
    is_over_suite = is_suite(folder) and Path(rest).resolve() in (file.parent, file)
    if not is_over_suite and _is_read(file, Path(covering_uri(rest, _DAYS))):
        raise ConfigurationError(
            f"--to {str(folder)!r} lies in {uri!r}, which {whose}: the suite would be judged with "
            "the other transcripts, and its case ids would be there twice; name a folder outside "
            "of it"
        )


def _is_read(file: Path, place: Path) -> bool:
    """Whether a file, which may not be there yet, is listed at a file, a folder or a glob."""
    base = place if place.is_dir() else Path(*parts_before_pattern(place.parts))
    if not file.is_relative_to(base.resolve()):
        return False
    steps, pattern = file.relative_to(base.resolve()).parts, place.relative_to(base).parts
    if any(step.startswith(".") for step in steps):  # hidden
        return False
    # A folder that matches is read with all that is below it.
    return any(_matches(steps[:number], pattern) for number in range(len(steps) + 1))


def _matches(steps: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether the steps of a path match those of a glob pattern."""
    if not pattern:
        return not steps
    first, *rest = pattern
    if first == "**" and _matches(steps, rest):
        return True
    if not steps or not (first == "**" or fnmatchcase(steps[0], first)):
        return False
    return _matches(steps[1:], pattern if first == "**" else rest)
