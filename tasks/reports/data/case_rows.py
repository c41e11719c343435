"""The cases of a run as a report shows them: a table, the cases to read first, and conversations.

A case in full has its findings, and its conversation with each finding at the turns it names.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import polars as pl

from assizes.judge.case import Case, Turn
from assizes.judge.errors import ConfigurationError, DataError
from assizes.judge.rows import CASES, KEYS
from assizes.judge.rubrics.rubric import OUTCOMES
from assizes.judge.score import ACCEPTABLE, LABELS
from assizes.judge.verdicts.executions import collect_rows
from assizes.judge.verdicts.verdict import rationale
from assizes.tasks.reports.formatting import NAME_CHARS, clean, clean_line, line_of, name_of, number
from assizes.tasks.reports.schema.parts import (
    CaseError,
    CaseInFull,
    CaseLine,
    Cases,
    Finding,
    OutcomeLine,
)
from assizes.tasks.runs.stored_cases import StoredExecution, reread_cases
from assizes.tasks.store import RunRecord

# These limits keep the report of 10,000 cases under 5 MB; what is left out is counted.

MAX_READ_FIRST: Final = 20  # cases that are shown in full, at most
MAX_CASES: Final = 200  # cases in the table, at most
MAX_ERRORS: Final = 50  # cases that could not be judged that are listed, at most
MAX_FINDINGS: Final = 60  # scores, and expected outcomes, that are shown of a case at most
ID_CHARS: Final = 512  # characters of the id of a case, at most

TEXT_CHARS: Final = 2000
"""Characters of a justification, of an error or of an expected outcome, at most."""

TURN_CHARS: Final = 6000  # characters of one text of a conversation on the page of a case, at most
MAX_TURNS: Final = 1000  # turns of a conversation on the page of a case, at most

EXCERPT_CHARS: Final = 700
"""Characters of one text of a conversation in the report of a run, at most."""

EXCERPT_TURNS: Final = 60
"""Turns of a conversation in the report of a run, at most; a report has twenty conversations."""

MAX_OBJECT_BYTES: Final = 256 << 20
"""Bytes of an object that is fetched again to show a conversation, at most."""

_KEY: Final = ("case_id", "repetition")
_CHANGES: Final = {"case_id": pl.String, "change": pl.String}


def case_rows(cases: pl.LazyFrame, scores: pl.LazyFrame, changes: Mapping[str, str]) -> Cases:
    """Everything that a report shows of single cases, from tables `cases` and `scores` of the run.

    Of the cases that are not shown, only their rank comes into memory. `changes` has the status of
    each compared case by its id; it is empty without a baseline.
    """
    ranked = _ranked_cases(cases, changes)
    shown, all_errored = ranked.head(MAX_CASES), ranked.filter(pl.col("status") == "errored")
    errored = all_errored.head(MAX_ERRORS)
    wanted = collect_rows(_rows_of_cases(pl.concat([shown, errored]), cases))
    rows_by_key = {tuple(row[name] for name in _KEY): row for row in wanted.iter_rows(named=True)}
    rows = [rows_by_key[key] for key in shown.select(_KEY).iter_rows()]
    return Cases(
        total=ranked.height,
        shown=[CaseLine(**_line_fields(row, changes)) for row in rows],
        more=ranked.height - shown.height,
        read_first=_cases_to_read(rows[:MAX_READ_FIRST], scores, changes),
        errors=[
            CaseError(**_identity(row), error=clean_line(row["error"] or "", TEXT_CHARS))
            for row in (rows_by_key[key] for key in errored.select(_KEY).iter_rows())
        ],
        more_errors=all_errored.height - errored.height,
    )


def _ranked_cases(cases: pl.LazyFrame, changes: Mapping[str, str]) -> pl.DataFrame:
    """Identity and status of all cases, the most urgent first.

    Cases that fail and got worse come first, then others that got worse, other failing cases, cases
    that could not be judged, cases that got better, and the rest; in each group the lowest score
    comes first.
    """
    compared = pl.LazyFrame(list(changes.items()), schema=_CHANGES, orient="row")
    judged = pl.col("status") == "judged"
    failed = judged & ~pl.col("passed")
    regressed = pl.col("change") == "regression"
    urgent = (
        regressed & failed,
        regressed,
        failed,
        pl.col("status") == "errored",
        pl.col("change") == "improvement",
        judged,
    )
    groups = [pl.when(condition).then(pl.lit(group)) for group, condition in enumerate(urgent)]
    return collect_rows(
        cases.select(*_KEY, "status", "passed", "overall_score")
        .join(compared, on="case_id", how="left")
        .with_columns(group=pl.coalesce(*groups, pl.lit(len(urgent))))
        .sort("group", "overall_score", *_KEY, nulls_last=True)
        .select(*_KEY, "status")
    )


def _rows_of_cases(keys: pl.DataFrame, table: pl.LazyFrame) -> pl.LazyFrame:
    """The rows of a table that belong to a few cases."""
    # The reader of the table can skip rows by a condition, but not by a join.
    candidates = table.filter(pl.col("case_id").is_in(keys["case_id"].to_list()))
    return candidates.join(keys.lazy(), on=_KEY, how="semi")


def _identity(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"case_id": clean_line(row["case_id"], ID_CHARS), "repetition": row["repetition"]}


def _line_fields(row: Mapping[str, Any], changes: Mapping[str, str]) -> dict[str, Any]:
    """The fields of `CaseLine`, which `CaseInFull` has too."""
    return {
        **_identity(row),
        **{name: row[name] for name in ("status", "passed", "overall_score", "gate")},
        "root_cause": _line_or_none(row["root_cause"]),
        "change": changes.get(row["case_id"]),
        "summary": _line_or_none(row["summary"]),
    }


def _line_or_none(text: str | None) -> str | None:
    return None if text is None else line_of(text)


def _cases_to_read(
    rows: Sequence[Mapping[str, Any]], scores: pl.LazyFrame, changes: Mapping[str, str]
) -> list[CaseInFull]:
    keys = pl.DataFrame(
        [[row[name] for name in _KEY] for row in rows],
        schema={name: CASES[name] for name in _KEY},
        orient="row",
    )
    case_scores = collect_rows(_rows_of_cases(keys, scores).sort(KEYS["scores"]))
    scores_by_case: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for score in case_scores.iter_rows(named=True):
        scores_by_case[score["case_id"], score["repetition"]].append(score)
    return [
        _case_in_full(row, scores_by_case[row["case_id"], row["repetition"]], changes)
        for row in rows
    ]


def _case_in_full(
    row: Mapping[str, Any], scores: Sequence[Mapping[str, Any]], changes: Mapping[str, str]
) -> CaseInFull:
    outcomes, findings = outcomes_of(scores), findings_of(scores)
    agent = " ".join(part for part in (row["agent"], row["agent_version"]) if part)
    tags: dict[str, Any] = json.loads(row["tags"]) if row["tags"] else {}
    suggested_fixes = (
        _line_or_none(details["suggested_fix"])
        for score in scores
        if score["metric"] == row["root_cause"] and not score["part"]
        if "suggested_fix" in (details := _details(score))
    )
    return CaseInFull(
        **_line_fields(row, changes),
        transcript_uri=clean_line(row["transcript_uri"] or "", ID_CHARS),
        position=row["position"],
        agent=_line_or_none(agent or None),
        tags=_line_or_none(", ".join(f"{name}={tags[name]}" for name in sorted(tags)) or None),
        turn_count=row["turn_count"],
        error=None if row["error"] is None else clean_line(row["error"], TEXT_CHARS),
        suggested_fix=next(suggested_fixes, None),
        outcomes=outcomes[:MAX_FINDINGS],
        findings=findings[:MAX_FINDINGS],
        more_findings=len(outcomes[MAX_FINDINGS:]) + len(findings[MAX_FINDINGS:]),
    )


def outcomes_of(scores: Iterable[Mapping[str, Any]]) -> list[OutcomeLine]:
    """The scores of single expected outcomes as a checklist, in the order of the outcomes.

    A line says whether the statement holds, and why (001-29).
    """
    return [
        OutcomeLine(
            passed=score["passed"] is True,
            statement=clean_line(str(details.get("statement", score["part"])), TEXT_CHARS),
            justification=clean_line(score["reason"] or rationale(details), TEXT_CHARS),
        )
        for score in sorted(filter(_is_outcome, scores), key=_part_number)
        for details in (_details(score),)
    ]


def _is_outcome(score: Mapping[str, Any]) -> bool:
    """Whether a score is of a single expected outcome."""
    return score["metric"] == OUTCOMES and bool(score["part"])


def _part_number(score: Mapping[str, Any]) -> tuple[int, str]:
    digits = score["part"].rpartition(":")[2]
    return (int(digits) if digits.isdecimal() else 0, score["part"])


def findings_of(scores: Iterable[Mapping[str, Any]]) -> list[Finding]:
    """All scores but those of single expected outcomes, as findings, the lowest first."""
    others = (score for score in scores if not _is_outcome(score))
    return [finding_of(score) for score in sorted(others, key=_lowest_first)]


def _lowest_first(score: Mapping[str, Any]) -> tuple[Any, ...]:
    order = {"failed": 0, "scored": 1, "skipped": 2}[score["status"]]
    value = score["value"]
    return (order, value is None, value or 0.0, score["metric"], score["part"], score["judge"])


def finding_of(score: Mapping[str, Any]) -> Finding:
    """A row of table `scores` as a finding for display."""
    details = _details(score)
    return Finding(
        **{name: score[name] for name in ("status", "value", "raw")},
        **{name: line_of(score[name]) for name in ("judge", "metric", "part")},
        **{name: _line_or_none(score[name]) for name in ("label", "failure_code")},
        shown=_finding_in_words(score),
        justification=clean_line(score["reason"] or rationale(details), TEXT_CHARS),
        turns=list(score["turns"] or ()),
        warnings=[line_of(str(warning)) for warning in details.get("warnings", [])[:5]],
    )


def _finding_in_words(score: Mapping[str, Any]) -> str:
    if score["status"] != "scored":
        return "could not be had" if score["status"] == "failed" else "does not apply"
    label, raw = score["label"], score["raw"]
    if label in LABELS and not (label == "fail" and raw == 0):
        return f"{label.replace('_', ' ')} ({raw:g} of 5)"
    return _line_or_none(label) or number(raw if score["value"] is None else score["value"])


def _details(score: Mapping[str, Any]) -> dict[str, Any]:
    details = json.loads(score["details"]) if score["details"] else {}
    return details if isinstance(details, dict) else {}


def case_pages(record: RunRecord, stored_cases: Sequence[StoredExecution]) -> list[dict[str, Any]]:
    """The executions of a case for their page; `fault` says why a conversation is missing.

    An object that holds several of the transcripts is fetched once.
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
    keys = [(shown_case["case_id"], shown_case["repetition"]) for shown_case in shown_cases]
    matching_rows = cases.filter(pl.col("case_id").is_in([case_id for case_id, _ in keys]))
    rows = {(row["case_id"], row["repetition"]): row for row in matching_rows.collect().to_dicts()}
    return [rows.get(key) for key in keys]


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
    findings = [Finding.model_validate(finding) for finding in case["findings"]]
    shown_turns = _turn_entries(turns[:EXCERPT_TURNS], findings)
    for shown_turn in shown_turns:
        shown_turn["text"] = clean(shown_turn["text"], EXCERPT_CHARS)
        shown_turn["calls"] = [clean(call, EXCERPT_CHARS) for call in shown_turn["calls"]]
    return {"turns": shown_turns, "fault": None, "more": len(turns) - len(shown_turns)}


def _conversation(case: Case, scores: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    findings = findings_of([score for score in scores if score["turns"]])
    return _turn_entries(case.transcript.turns[:MAX_TURNS], findings)


def _turn_entries(turns: Sequence[Turn], findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """The turns for display, each with the findings that name it, in the order of the findings."""
    marks: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for finding in findings:
        value = finding.value if finding.status == "scored" else None
        failing = value is not None and value < ACCEPTABLE / 5
        mark = finding.model_dump(include={"metric", "part", "shown", "failure_code"})
        for position in finding.turns:
            marks[position].append(mark | {"failing": failing})
    return [_turn_entry(position, turn, marks[position]) for position, turn in enumerate(turns)]


def _turn_entry(position: int, turn: Turn, marks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A turn for display; the turn is `failing` if one of its findings is bad."""
    result = turn.tool_result
    texts = [turn.text, result.content if result else None]
    calls = [
        (
            call.name,
            call.raw or json.dumps(call.arguments, ensure_ascii=False, indent=1, default=str),
        )
        for call in turn.tool_calls
    ]
    return {
        "number": position,
        "role": turn.role,
        "name": name_of(result.name) if result and result.name else None,
        "failed": bool(result and result.is_error),
        "text": clean("\n".join(text for text in texts if text), TURN_CHARS),
        "calls": [clean(f"{name}({arguments})", TURN_CHARS) for name, arguments in calls],
        "marks": list(marks),
        "failing": any(mark["failing"] for mark in marks),
    }
