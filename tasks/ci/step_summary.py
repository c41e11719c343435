"""The summary of a CI step and the comment on a pull request, as Markdown.

All foreign text goes through `plain` or `code`: it holds no link, no HTML and no mention.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from assizes.tasks.ci.findings import TITLES, CaseFinding, CaseFindings
from assizes.tasks.ci.verdict import CiVerdict
from assizes.tasks.reports.formatting import (
    DASH,
    bullets,
    code,
    count,
    money,
    number,
    plain,
    plural,
    signed_number,
    table,
)
from assizes.tasks.reports.render.cause_lines import first_causes
from assizes.tasks.reports.render.markdown import gate_cells

SUMMARY_BYTES: Final = 1 << 20
"""The most bytes that GitHub takes as the summary of a step."""

COMMENT_BYTES: Final = 60_000
"""The most bytes of a comment; GitHub takes 65,536 characters."""

MAX_CASES: Final = 50
"""The most cases of one table."""

MAX_IDS: Final = 30
"""The most ids of cases in one sentence."""

REASON_CHARS: Final = 300
"""The most characters of the reasons of one case."""

_JOINER: Final = "\u2060"
# Both services turn these into links that leave a trace at what they name; no escape of Markdown
# stops that, an invisible sign within does. Code spans and other escapes are matched to be passed.
_REFERENCE: Final = re.compile(r"(?P<link>\\?(?<!&)[#!](?=\w)|\bGH-(?=\d))|\\.|`[^`]*`")

_CUT: Final = "The rest is left out: it would be too long here."


def comment_marker(name: str) -> str:
    """The first line of the comment about the runs of a name; a reader does not see it.

    By this line the comment is found again and replaced.
    """
    return f"<!-- assizes-ci: {name} -->"  # a name of runs has no other signs than a-z 0-9 _ -


def step_summary(
    verdict: CiVerdict, data: Mapping[str, Any], findings: CaseFindings, most_bytes: int
) -> str:
    """The summary as Markdown, at most `most_bytes` long; `data` is that of the report."""
    return _fitted(_blocks(verdict, data, findings), most_bytes)


def change_comment(verdict: CiVerdict, data: Mapping[str, Any], findings: CaseFindings) -> str:
    """The comment on a pull request or merge request, with the marker as its first line."""
    blocks = (comment_marker(verdict.name), *_blocks(verdict, data, findings))
    return _fitted(blocks, COMMENT_BYTES)


def _fitted(blocks: Iterator[str] | Sequence[str], most_bytes: int) -> str:
    """The blocks as one text, without those at the end for which there is no room."""
    kept: list[str] = []
    room = most_bytes - len(_CUT.encode()) - 4  # and line ends
    for block in map(_unlinked, blocks):
        room -= len(block.encode("utf-8", "replace")) + 2
        if room < 0:
            kept.append(_CUT)
            break
        kept.append(block)
    text = "\n\n".join(kept) + "\n"
    return text if len(text.encode("utf-8", "replace")) <= most_bytes else ""


def _unlinked(block: str) -> str:
    """The block without references to issues, merge requests and the like."""
    return _REFERENCE.sub(lambda match: match[0] + (_JOINER if match["link"] else ""), block)


def _blocks(verdict: CiVerdict, data: Mapping[str, Any], findings: CaseFindings) -> Iterator[str]:
    yield f"## {verdict.word}: {plain(verdict.name)}"
    of_commit = f"Commit {code(verdict.commit[:12])}. " if verdict.commit else ""
    compared = "Compared with " if data["comparison"] is not None else ""
    yield f"{of_commit}{compared}{plain(verdict.base, 500)}."
    cautions = [f"Warning: {caution}" for caution in data["verdict"]["cautions"]]
    if lines := [*verdict.reasons, *cautions]:
        yield bullets(plain(line, 500) for line in lines)
    rows = (gate_cells(dimension) for dimension in data["verdict"]["dimensions"])
    yield table(["Gate", "", "Value", "Needs"], rows, numbers=2)
    yield from _findings("Worse than the base run", findings.of("regressed", "fell"))
    yield from _findings("Not passed, and new", findings.of("failed"))
    yield from _findings("Could not be judged", findings.of("unjudged"))
    if findings.improved:
        yield _ids("Passes again", findings.improved, findings.improved_total)
    still = [finding.case_id for finding in findings.of("still_fails")]
    if still:
        yield _ids(f"{TITLES['still_fails'].capitalize()}, as in the base run", still, len(still))
    yield from _measures(data)
    yield from first_causes(data)
    yield _cost(data)
    yield f"{code(data['run']['run_id'])} · {plain(data['judged_by']['line'], 1000)}"


def _findings(title: str, findings: Sequence[CaseFinding]) -> Iterator[str]:
    if not findings:
        return
    yield f"### {title}: {plural(len(findings), 'case')}"
    yield table(["Case", "Change", "Why", "Where"], map(_cells, findings[:MAX_CASES]))
    if (more := len(findings) - MAX_CASES) > 0:
        yield f"And {plural(more, 'case')} more."


def _cells(finding: CaseFinding) -> tuple[str, str, str, str]:
    repetition = f" #{finding.repetition}" if finding.repetition else ""
    place = finding.place
    return (
        f"{code(finding.case_id)}{repetition}",
        plain(finding.change) or DASH,
        plain(finding.why, REASON_CHARS),
        code(f"{place.path}:{place.line}") if place else DASH,
    )


def _ids(title: str, case_ids: Sequence[str], total: int) -> str:
    shown = ", ".join(code(case_id) for case_id in case_ids[:MAX_IDS])
    more = f" and {total - MAX_IDS:,} more" if total > MAX_IDS else ""
    return f"{title}: {shown}{more}."


def _measures(data: Mapping[str, Any]) -> Iterator[str]:
    """The change of each gating measure, and the smallest change that such runs would show."""
    compared = data["comparison"]
    if compared is None or compared["statistics"] is None:
        return
    statistics = compared["statistics"]
    rows = [
        (
            plain(measure["name"]),
            number(measure["baseline"], 1),
            number(measure["candidate"], 1),
            signed_number(measure["delta"], 1),
            measure["span"],
            number(measure["mde"], 1),
            measure["word"],
        )
        for measure in statistics["measures"]
    ]
    head = ["Measure", "Base", "Now", "Change", "Interval", "Detectable", ""]
    yield table(head, rows)
    yield (
        f"In points of 100. Detectable: the smallest change that 4 of 5 such comparisons would see. "
        f"By the statistics: {statistics['word']}."
    )


def _cost(data: Mapping[str, Any]) -> str:
    usage = data["judges"]
    costs = [judge["cost_usd"] for judge in usage]
    spent = None if any(cost is None for cost in costs) else sum(costs)
    asks = sum(judge["asks"] for judge in usage)
    cached = sum(judge["cached"] for judge in usage)
    return f"Judging cost {money(spent)} for {count(asks)} questions, {count(cached)} of them from the cache."
