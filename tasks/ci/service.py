"""Which CI service runs this job, and what its environment says about commit, base and change."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

Service = Literal["github", "gitlab", "plain"]
"""The service; `plain`: another one, or a terminal."""

MAX_EVENT_BYTES: Final = 8 << 20
"""The largest file with the event of a GitHub job that is read, in bytes."""

_COMMIT: Final = re.compile(r"[0-9a-f]{40,64}")
_ZEROS: Final = re.compile(r"0*")  # what both services write where there is no commit before
_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_MERGE_REF: Final = re.compile(r"refs/pull/([0-9]{1,18})/merge")


@dataclass(frozen=True, slots=True)
class CiJob:
    """What the environment of a job says."""

    service: Service = "plain"
    bases: tuple[str, ...] = ()  # commits to compare with, the best first
    base_branch: str | None = None  # that the change is to be merged into
    branch: str | None = None  # of the job
    change: str | None = None  # number of the pull request or merge request
    is_merge: bool = False  # the commit at hand merges the change into its base


def ci_job(environment: Mapping[str, str]) -> CiJob:
    """The job that these environment variables describe."""
    if environment.get("GITHUB_ACTIONS") == "true":
        return _github_job(environment)
    if environment.get("GITLAB_CI") == "true":
        return _gitlab_job(environment)
    return CiJob()


def _github_job(environment: Mapping[str, str]) -> CiJob:
    event = _event(environment.get("GITHUB_EVENT_PATH"))
    places = (("pull_request", "base", "sha"), ("merge_group", "base_sha"), ("before",))
    merged = _MERGE_REF.fullmatch(environment.get("GITHUB_REF", ""))
    number = merged[1] if merged else str(_at(event, ("pull_request", "number")) or "")
    return CiJob(
        service="github",
        bases=_commits(_at(event, place) for place in places),
        base_branch=environment.get("GITHUB_BASE_REF") or None,
        branch=environment.get("GITHUB_HEAD_REF") or environment.get("GITHUB_REF_NAME") or None,
        change=number if _NUMBER.fullmatch(number) else None,
        is_merge=merged is not None,
    )


def _gitlab_job(environment: Mapping[str, str]) -> CiJob:
    names = (
        "CI_MERGE_REQUEST_TARGET_BRANCH_SHA",  # of a merged results pipeline
        "CI_MERGE_REQUEST_DIFF_BASE_SHA",
        "CI_COMMIT_BEFORE_SHA",
    )
    number = environment.get("CI_MERGE_REQUEST_IID", "")
    return CiJob(
        service="gitlab",
        bases=_commits(environment.get(name) for name in names),
        base_branch=environment.get("CI_MERGE_REQUEST_TARGET_BRANCH_NAME") or None,
        branch=environment.get("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME")
        or environment.get("CI_COMMIT_BRANCH")
        or None,
        change=number if _NUMBER.fullmatch(number) else None,
    )


def _event(path: str | None) -> Any:
    """The event that began a GitHub job; `None` where it cannot be read."""
    if not path:
        return None
    try:
        with Path(path).open("rb") as file:
            body = file.read(MAX_EVENT_BYTES + 1)
        return json.loads(body) if len(body) <= MAX_EVENT_BYTES else None
    except (OSError, ValueError, RecursionError):
        return None


def _at(document: Any, place: tuple[str, ...]) -> Any:
    for name in place:
        document = document.get(name) if isinstance(document, dict) else None
    return document


def _commits(values: Any) -> tuple[str, ...]:
    """Those of the values that are ids of commits, each once."""
    texts = [value for value in values if isinstance(value, str) and _COMMIT.fullmatch(value)]
    return tuple(dict.fromkeys(text for text in texts if not _ZEROS.fullmatch(text)))
