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
from assizes.tasks.runs.stored_cases import StoredExecution, reread_cases
from assizes.tasks.store import RunRecord

TEXT_CHARS: Final = 6000
"""The most that is shown of one text of a conversation."""

MAX_TURNS: Final = 1000

SHOWN_CHARS: Final = 700
SHOWN_TURNS: Final = 60
"""Bounds of a conversation in the report of a run, which shows twenty."""

MAX_OBJECT_BYTES: Final = 256 << 20
"""Neither a report nor a page fetches a larger object again for the sake of a conversation."""


def case_pages(record: RunRecord, stored_cases: Sequence[StoredExecution]) -> list[dict[str, Any]]:
    """Executions of a case as JSON-able data; `fault` says why a conversation is not there.

    An object that several of them lie in is fetched once.
    """
    cases = _reread_cases(record, [stored_case.case for stored_case in stored_cases])
    return [
        _case_page(case, stored_case) for case, stored_case in zip(cases, stored_cases, strict=True)
    ]


def _case_page(case: Case | DataError, stored_case: StoredExecution) -> dict[str, Any]:
    return {
        "case": stored_case.case,
        "outcomes": outcomes_of(stored_case.scores),
        "findings": findings_of(stored_case.scores),
        "turns": [] if isinstance(case, DataError) else conversation(case, stored_case.scores),
        "fault": str(case) if isinstance(case, DataError) else None,
    }


def case_table_rows(
    shown_cases: Sequence[Mapping[str, Any]], cases: pl.LazyFrame
) -> list[dict[str, Any] | None]:
    """The row of table cases of each; null where its id was shortened to be shown."""
    matching_rows = cases.filter(
        pl.col("case_id").is_in([shown_case["case_id"] for shown_case in shown_cases])
    )
    rows = {(row["case_id"], row["repetition"]): row for row in matching_rows.collect().to_dicts()}
    return [
        rows.get((shown_case["case_id"], shown_case["repetition"])) for shown_case in shown_cases
    ]


def conversations(
    record: RunRecord,
    shown_cases: Sequence[Mapping[str, Any]],
    table_rows: Sequence[Mapping[str, Any] | None],
) -> list[dict[str, Any]]:
    """What was said in some cases, with the findings in place: `turns`, or `fault` where it cannot
    be had, and `more` turns that are not shown.

    Args:
        record: the run.
        shown_cases: the cases, with their findings.
        table_rows: their rows of table cases.
    """
    transcripts = iter(_reread_cases(record, [row for row in table_rows if row]))
    return [
        _conversation_excerpt(
            next(transcripts) if row else DataError("unknown", "its id cannot be shown"), shown_case
        )
        for shown_case, row in zip(shown_cases, table_rows, strict=True)
    ]


def _reread_cases(
    record: RunRecord, rows: Sequence[Mapping[str, Any]]
) -> Sequence[Case | DataError]:
    try:
        return reread_cases(record, rows, MAX_OBJECT_BYTES)
    except ConfigurationError as error:
        return [DataError("unknown", str(error))] * len(rows)


def _conversation_excerpt(reread_case: Case | DataError, case: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(reread_case, DataError):
        return {"turns": [], "fault": clean(str(reread_case), NAME_CHARS), "more": 0}
    turns = reread_case.transcript.turns
    marks = marks_of(case["findings"])
    shown_turns = [
        _turn_entry(number, turn, marks[number]) for number, turn in enumerate(turns[:SHOWN_TURNS])
    ]
    for shown_turn in shown_turns:
        shown_turn["text"] = clean(shown_turn["text"], SHOWN_CHARS)
        shown_turn["calls"] = [clean(call, SHOWN_CHARS) for call in shown_turn["calls"]]
    return {"turns": shown_turns, "fault": None, "more": len(turns) - len(shown_turns)}


def conversation(case: Case, scores: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The turns, each with the findings that name it; a turn is `failing` where one of them is bad."""
    marks = marks_of(findings_of([score for score in scores if score["turns"]]))
    turns = case.transcript.turns[:MAX_TURNS]
    return [_turn_entry(number, turn, marks[number]) for number, turn in enumerate(turns)]


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


def _turn_entry(number: int, turn: Turn, marks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    result = turn.tool_result
    texts = [turn.text, result.content if result else None]
    return {
        "number": number,
        "role": turn.role,
        "name": name_of(result.name) if result and result.name else None,
        "failed": bool(result and result.is_error),
        "text": clean("\n".join(text for text in texts if text), TEXT_CHARS),
        "calls": [_call_text(call.name, call.raw, call.arguments) for call in turn.tool_calls],
        "marks": list(marks),
        "failing": any(mark["failing"] for mark in marks),
    }


def _call_text(name: str, raw: str | None, arguments: Mapping[str, Any]) -> str:
    arguments_text = raw or json.dumps(arguments, ensure_ascii=False, indent=1, default=str)
    return clean(f"{name}({arguments_text})", TEXT_CHARS)
