"""A case in full: its findings, and its conversation with each finding at the turns it names."""

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
from assizes.tasks.reports.schema.cases import Finding
from assizes.tasks.runs.stored_cases import StoredExecution, reread_cases
from assizes.tasks.store import RunRecord

TEXT_CHARS: Final = 6000
"""Characters of one text of a conversation on the page of a case, at most."""

MAX_TURNS: Final = 1000
"""Turns of a conversation on the page of a case, at most."""

EXCERPT_CHARS: Final = 700
"""Characters of one text of a conversation in the report of a run, at most."""

EXCERPT_TURNS: Final = 60
"""Turns of a conversation in the report of a run, at most; a report has twenty conversations."""

MAX_OBJECT_BYTES: Final = 256 << 20
"""Bytes of an object that is fetched again to show a conversation, at most."""


def case_pages(record: RunRecord, stored_cases: Sequence[StoredExecution]) -> list[dict[str, Any]]:
    """The executions of a case for their page; `fault` says why a conversation is missing.

    An object that holds several of the transcripts is fetched once.

    Args:
        record: the run.
        stored_cases: the executions of the case.
    """
    cases = _reread_cases(record, [stored_case.case for stored_case in stored_cases])
    return [
        {
            "case": stored_case.case,
            "outcomes": [outcome.model_dump() for outcome in outcomes_of(stored_case.scores)],
            "findings": [finding.model_dump() for finding in findings_of(stored_case.scores)],
            "turns": [] if isinstance(case, DataError) else _conversation(case, stored_case.scores),
            "fault": str(case) if isinstance(case, DataError) else None,
        }
        for case, stored_case in zip(cases, stored_cases, strict=True)
    ]


def case_table_rows(
    shown_cases: Sequence[Mapping[str, Any]], cases: pl.LazyFrame
) -> list[dict[str, Any] | None]:
    """The row in table `cases` of each shown case; `None` where its displayed id was cut."""
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
    """The conversations of some cases, with the findings at their turns.

    Each has `turns`, the number of `more` turns that are not shown, and a `fault` that says why the
    conversation is missing.

    Args:
        record: the run.
        shown_cases: the cases as in the data of the report, with their findings.
        table_rows: rows of these cases in table `cases`; `None` where a row is not known.
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
    marks = _marks([Finding.model_validate(finding) for finding in case["findings"]])
    shown_turns = [
        _turn_entry(number, turn, marks[number])
        for number, turn in enumerate(turns[:EXCERPT_TURNS])
    ]
    for shown_turn in shown_turns:
        shown_turn["text"] = clean(shown_turn["text"], EXCERPT_CHARS)
        shown_turn["calls"] = [clean(call, EXCERPT_CHARS) for call in shown_turn["calls"]]
    return {"turns": shown_turns, "fault": None, "more": len(turns) - len(shown_turns)}


def _conversation(case: Case, scores: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    marks = _marks(findings_of([score for score in scores if score["turns"]]))
    turns = case.transcript.turns[:MAX_TURNS]
    return [_turn_entry(number, turn, marks[number]) for number, turn in enumerate(turns)]


def _marks(findings: Iterable[Finding]) -> dict[int, list[dict[str, Any]]]:
    """The findings that name each turn, by number of the turn, in the order of the findings."""
    marks: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for finding in findings:
        mark = finding.model_dump(include={"metric", "part", "shown", "failure_code"})
        for number in finding.turns:
            marks[number].append(mark | {"failing": _is_bad(finding)})
    return marks


def _is_bad(finding: Finding) -> bool:
    """Whether a finding has a score below acceptable."""
    if finding.status != "scored" or finding.value is None:
        return False
    return finding.value < ACCEPTABLE / 5


def _turn_entry(number: int, turn: Turn, marks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A turn for display; the turn is `failing` if one of its findings is bad."""
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
