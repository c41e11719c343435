"""The findings of a run as SARIF 2.1.0, the format in which code scanning takes results."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from assizes.tasks.ci.annotations import MESSAGE_CHARS, Level, fingerprint, level_of
from assizes.tasks.ci.findings import TITLES, CaseFinding, CaseFindings, Kind
from assizes.tasks.ci.verdict import CiVerdict
from assizes.tasks.reports.formatting import clean_line, plural

SCHEMA: Final = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
"""The name of the schema, which is an address; nothing is read from there."""

_LEVELS: Final[Mapping[Level, str]] = {"error": "error", "warning": "warning", "notice": "note"}

_RULES: Final[Mapping[Kind, str]] = {
    "regressed": "The case passed in the base run, and does not any more.",
    "failed": "The case does not pass, and no base run says that it failed before.",
    "unjudged": "The case could not be judged.",
    "fell": "The score of the case fell, and its verdict is as before.",
    "still_fails": "The case does not pass, and did not in the base run.",
}


def sarif_report(verdict: CiVerdict, findings: CaseFindings, version: str) -> str:
    """The findings as one SARIF document; `version` is that of this package.

    Code scanning takes no result without a line of a file, so cases that are not in the repository
    are only counted, in a notification.
    """
    kinds = list(_RULES)
    placed = [finding for finding in findings.shown if finding.place is not None]
    unplaced = findings.total - len(placed)
    driver = {
        "name": "assizes",
        "version": version,
        "rules": [
            {
                "id": f"assizes/{kind}",
                "name": TITLES[kind],
                "shortDescription": {"text": text},
            }
            for kind, text in _RULES.items()
        ],
    }
    invocation: dict[str, Any] = {
        "executionSuccessful": True,
        "exitCode": verdict.exit_code,
        "exitCodeDescription": clean_line(f"{verdict.word}: {verdict.why}", MESSAGE_CHARS),
    }
    if unplaced:
        text = (
            f"{plural(unplaced, 'case')} more: not in a file of the repository, or beyond the limit"
        )
        invocation["toolExecutionNotifications"] = [{"level": "note", "message": {"text": text}}]
    run = {
        "tool": {"driver": driver},
        "automationDetails": {"id": f"assizes/{verdict.name}/{verdict.run_id}"},
        "invocations": [invocation],
        "columnKind": "unicodeCodePoints",
        "results": [_result(verdict, finding, kinds) for finding in placed],
    }
    document = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(document, indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def _result(verdict: CiVerdict, finding: CaseFinding, kinds: list[Kind]) -> dict[str, Any]:
    # In a message brackets would be a link, and braces a placeholder.
    text = clean_line(f"{finding.title}: {finding.why}", MESSAGE_CHARS)
    result: dict[str, Any] = {
        "ruleId": f"assizes/{finding.kind}",
        "ruleIndex": kinds.index(finding.kind),
        "level": _LEVELS[level_of(finding.kind, verdict)],
        "message": {"text": _message(text)},
        "partialFingerprints": {"assizesCase/v1": fingerprint(verdict, finding)},
    }
    if finding.kind != "unjudged":
        is_old = finding.kind == "still_fails"
        result["baselineState"] = "unchanged" if is_old else "new"
    if finding.place is not None:
        location = {
            "artifactLocation": {"uri": quote(finding.place.path), "uriBaseId": "%SRCROOT%"},
            "region": {"startLine": finding.place.line},
        }
        result["locations"] = [{"physicalLocation": location}]
    return result


def _message(text: str) -> str:
    """A foreign text as a SARIF message: neither a link nor a placeholder."""
    escaped = text.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")
    return escaped.replace("{", "{{").replace("}", "}}")
