"""Annotations of a CI job: workflow commands of GitHub, a code quality report of GitLab, or lines.

A text of a transcript or a model must never become a command, a link or another line, so each
medium has its own escaping, in one function here.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

from assizes.tasks.ci.findings import CaseFinding, CaseFindings, Kind
from assizes.tasks.ci.verdict import CiVerdict
from assizes.tasks.reports.formatting import clean_line, plural

Level = Literal["error", "warning", "notice"]

MAX_PER_LEVEL: Final = 10
"""The most annotations of one level that GitHub shows of one step; the verdict is one of them."""

MESSAGE_CHARS: Final = 2000
"""The most characters of one message."""

_COMMON: Final = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY: Final = {**_COMMON, ":": "%3A", ",": "%2C"}

_GRADES: Final[Mapping[Level, str]] = {"error": "major", "warning": "minor", "notice": "info"}
"""The severity that GitLab shows, by level."""


def level_of(kind: Kind, verdict: CiVerdict) -> Level:
    """How serious a finding is: an error is one that the job fails for."""
    if kind in {"regressed", "failed"}:
        return "error" if verdict.exit_code else "warning"
    return "notice" if kind == "still_fails" else "warning"


def github_annotations(verdict: CiVerdict, findings: CaseFindings) -> Iterator[str]:
    """Workflow commands, one a line: the verdict, then as many cases as GitHub shows."""
    level: Level = "error" if verdict.exit_code else "notice"
    yield github_command(level, verdict.title, verdict.why)
    counts = Counter({level: 1})
    for finding in findings.shown:
        level = level_of(finding.kind, verdict)
        counts[level] += 1
        if counts[level] <= MAX_PER_LEVEL and finding.kind != "still_fails":
            yield github_command(level, f"assizes: {finding.title}", finding.why, finding)


def github_command(
    level: Level, title: str, message: str, finding: CaseFinding | None = None
) -> str:
    """One workflow command that annotates a line of a file, or the job."""
    properties = {}
    if finding is not None and finding.place is not None:
        properties = {"file": finding.place.path, "line": str(finding.place.line)}
    properties["title"] = clean_line(title, MESSAGE_CHARS)
    named = ",".join(f"{name}={_escaped(text, _PROPERTY)}" for name, text in properties.items())
    return f"::{level} {named}::{_escaped(clean_line(message, MESSAGE_CHARS), _COMMON)}"


def _escaped(text: str, signs: Mapping[str, str]) -> str:
    return "".join(signs.get(sign, sign) for sign in text)


def plain_annotations(verdict: CiVerdict, findings: CaseFindings) -> Iterator[str]:
    """Lines as compilers print them, `file:line: level: message`, for people and editors."""
    for finding in findings.shown:
        place = finding.place
        where = f"{place.path}:{place.line}: " if place else ""
        level = level_of(finding.kind, verdict)
        line = f"{where}{level}: {finding.title}: {finding.why}"
        yield clean_line(line, MESSAGE_CHARS)
    if (more := findings.total - len(findings.shown)) > 0:
        yield f"and {plural(more, 'case')} more"


def code_quality(verdict: CiVerdict, findings: CaseFindings) -> str:
    """The code quality report that GitLab shows in a merge request, as JSON.

    GitLab needs a path for each entry, so cases outside the repository are left out.
    """
    entries = [_entry(verdict, finding) for finding in findings.shown if finding.place]
    return json.dumps(entries, indent=2, ensure_ascii=True) + "\n"


def _entry(verdict: CiVerdict, finding: CaseFinding) -> dict[str, Any]:
    assert finding.place is not None
    return {
        "description": clean_line(f"{finding.title}: {finding.why}", MESSAGE_CHARS),
        "check_name": f"assizes/{finding.kind}",
        "fingerprint": fingerprint(verdict, finding),
        "severity": _GRADES[level_of(finding.kind, verdict)],
        "location": {"path": finding.place.path, "lines": {"begin": finding.place.line}},
    }


def fingerprint(verdict: CiVerdict, finding: CaseFinding) -> str:
    """What makes two findings of two runs the same: the case of this name, not line and reason."""
    text = json.dumps([verdict.name, finding.case_id, finding.repetition])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
