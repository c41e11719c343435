"""One case in full: its findings, and its conversation with each finding at the turns it names."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import polars as pl

from assizes.judge.case import Case, Turn
from assizes.judge.errors import ConfigurationError, DataError
from assizes.judge.score import ACCEPTABLE
from assizes.tasks.reports.data.case_rows import findings_of, outcomes_of
from assizes.tasks.reports.formatting import NAME_CHARS, clean, name_of
from assizes.tasks.runs.stored_cases import Kept, reread_each
from assizes.tasks.store import RunRecord

TEXT_CHARS: Final = 6000
"""The most that is shown of one text of a conversation."""

MAX_TURNS: Final = 1000

SHOWN_CHARS: Final = 700
SHOWN_TURNS: Final = 60
"""Bounds of a conversation in the report of a run, which shows twenty."""

MAX_OBJECT_BYTES: Final = 256 << 20
"""Neither a report nor a page fetches a larger object again for the sake of a conversation."""


def case_pages(record: RunRecord, kept: Sequence[Kept]) -> list[dict[str, Any]]:
    """Executions of a case as JSON-able data; `fault` says why a conversation is not there.

    An object that several of them lie in is fetched once.
    """
    found = _reread(record, [one.case for one in kept])
    return [_case_page(case, one) for case, one in zip(found, kept, strict=True)]


def _case_page(found: Case | DataError, kept: Kept) -> dict[str, Any]:
    return {
        "case": kept.case,
        "outcomes": outcomes_of(kept.scores),
        "findings": findings_of(kept.scores),
        "turns": [] if isinstance(found, DataError) else conversation(found, kept.scores),
        "fault": str(found) if isinstance(found, DataError) else None,
    }


def heard_rows(
    wanted: Sequence[Mapping[str, Any]], cases: pl.LazyFrame
) -> list[dict[str, Any] | None]:
    """The row of table cases of each; null where its id was shortened to be shown."""
    named = cases.filter(pl.col("case_id").is_in([one["case_id"] for one in wanted]))
    rows = {(row["case_id"], row["repetition"]): row for row in named.collect().to_dicts()}
    return [rows.get((one["case_id"], one["repetition"])) for one in wanted]


def conversations(
    record: RunRecord,
    wanted: Sequence[Mapping[str, Any]],
    heard: Sequence[Mapping[str, Any] | None],
) -> list[dict[str, Any]]:
    """What was said in some cases, with the findings in place: `turns`, or `fault` where it cannot
    be had, and `more` turns that are not shown.

    Args:
        record: the run.
        wanted: the cases, with their findings.
        heard: their rows of table cases.
    """
    found = iter(_reread(record, [row for row in heard if row]))
    return [
        _shown(next(found) if row else DataError("unknown", "its id cannot be shown"), one)
        for one, row in zip(wanted, heard, strict=True)
    ]


def _reread(record: RunRecord, rows: Sequence[Mapping[str, Any]]) -> Sequence[Case | DataError]:
    try:
        return reread_each(record, rows, MAX_OBJECT_BYTES)
    except ConfigurationError as error:
        return [DataError("unknown", str(error))] * len(rows)


def _shown(found: Case | DataError, case: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(found, DataError):
        return {"turns": [], "fault": clean(str(found), NAME_CHARS), "more": 0}
    turns = found.transcript.turns
    marks = marks_of(case["findings"])
    shown = [_turn(number, turn, marks[number]) for number, turn in enumerate(turns[:SHOWN_TURNS])]
    for one in shown:
        one["text"] = clean(one["text"], SHOWN_CHARS)
        one["calls"] = [clean(call, SHOWN_CHARS) for call in one["calls"]]
    return {"turns": shown, "fault": None, "more": len(turns) - len(shown)}


def conversation(case: Case, scores: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The turns, each with the findings that name it; a turn is `failing` where one of them is bad."""
    marks = marks_of(findings_of([one for one in scores if one["turns"]]))
    turns = case.transcript.turns[:MAX_TURNS]
    return [_turn(number, turn, marks[number]) for number, turn in enumerate(turns)]


def marks_of(findings: Iterable[Mapping[str, Any]]) -> dict[int, list[dict[str, Any]]]:
    """What is said of each turn, in the order of the findings."""
    marks: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for finding in findings:
        mark = {name: finding[name] for name in ("metric", "part", "shown", "failure_code")}
        for number in finding["turns"]:
            marks[number].append(mark | {"failing": is_bad(finding)})
    return marks


def is_bad(finding: Mapping[str, Any]) -> bool:
    """Whether a finding is below acceptable."""
    if finding["status"] != "scored":
        return False
    value = finding["value"]
    return value is not None and value < ACCEPTABLE / 5


def _turn(number: int, turn: Turn, marks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    result = turn.tool_result
    texts = [turn.text, result.content if result else None]
    return {
        "number": number,
        "role": turn.role,
        "name": name_of(result.name) if result and result.name else None,
        "failed": bool(result and result.is_error),
        "text": clean("\n".join(one for one in texts if one), TEXT_CHARS),
        "calls": [_call(call.name, call.raw, call.arguments) for call in turn.tool_calls],
        "marks": list(marks),
        "failing": any(one["failing"] for one in marks),
    }


def _call(name: str, raw: str | None, arguments: Mapping[str, Any]) -> str:
    given = raw or json.dumps(arguments, ensure_ascii=False, indent=1, default=str)
    return clean(f"{name}({given})", TEXT_CHARS)
