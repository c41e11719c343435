"""The cases of a run as a report shows them: a table, cases to read first, and conversations."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple

import polars as pl

from assizes.judge.case import Case, Turn
from assizes.judge.errors import ConfigurationError, DataError
from assizes.judge.families.criteria.coverage import coverage_text
from assizes.judge.rows import KEYS
from assizes.judge.rubrics.rubric import OUTCOMES
from assizes.judge.score import ACCEPTABLE, LABELS
from assizes.judge.verdicts.executions import IS_LOW, collect_rows
from assizes.judge.verdicts.verdict import rationale
from assizes.tasks.reports.data.read_first import CaseChange, fix_of, reason_of
from assizes.tasks.reports.formatting import (
    ID_CHARS,
    NAME_CHARS,
    clean,
    clean_line,
    filter_value,
    line_of,
    name_of,
    number,
)
from assizes.tasks.reports.schema import parts
from assizes.tasks.runs.stored_cases import StoredExecution, reread_cases
from assizes.tasks.store import RunRecord

# These limits keep the report of 10,000 cases under 5 MB; what is left out is counted.
MAX_READ_FIRST: Final = 20  # cases that are shown in full, at most
MAX_CASES: Final = 200  # cases in the table, at most
MAX_ERRORS: Final = 50  # cases that could not be judged that are listed, at most
MAX_FINDINGS: Final = 60  # scores, and expected outcomes, that are shown of a case at most
TEXT_CHARS: Final = 2000  # characters of a justification, an error or an outcome, at most
TURN_CHARS: Final = 6000  # characters of one text of a conversation on the page of a case, at most
MAX_TURNS: Final = 1000  # turns of a conversation on the page of a case, at most
EXCERPT_CHARS: Final = 700  # characters of one text of a conversation in a report, at most
EXCERPT_TURNS: Final = 60  # turns of each of the conversations in a report, at most
MAX_TOOLS: Final = 50  # tools of a case by which it can be filtered, at most
MAX_OBJECT_BYTES: Final = 256 << 20  # bytes of an object that is fetched to show a conversation

_KEY: Final = ("case_id", "repetition")
_LINE_FIELDS: Final = ("case_id", "repetition", "status", "passed", "overall_score", "gate")
_LINE_TEXTS: Final = ("root_cause", "summary")
_CHANGES: Final = {"case_id": pl.String, "change": pl.String}  # a frame without rows needs them


class Failures(NamedTuple):
    """The failure codes and the metrics below acceptable of a case; dicts that keep their order."""

    codes: dict[str, None]
    metrics: dict[str, None]


def case_rows(
    cases: pl.LazyFrame, scores: pl.LazyFrame, changes: Mapping[str, CaseChange]
) -> parts.Cases:
    """Everything that a report shows of single cases, from tables `cases` and `scores` of the run.

    Of the cases that are not shown, nothing is kept in memory. `changes` has the change of each
    compared case by its id; it is empty without a baseline.
    """
    ranked, is_errored = _ranked_cases(cases, changes), pl.col("status") == "errored"
    shown = collect_rows(ranked.head(MAX_CASES))
    errored = collect_rows(ranked.filter(is_errored).head(MAX_ERRORS))
    first = shown.head(MAX_READ_FIRST)
    total, errored_total = collect_rows(cases.select(pl.len(), is_errored.sum())).row(0)
    wanted = collect_rows(_rows_of_cases(pl.concat([shown, errored]), cases))
    rows_by_key = {tuple(row[name] for name in _KEY): row for row in wanted.iter_rows(named=True)}
    rows, errored_rows = (
        [rows_by_key[key] for key in keys.select(_KEY).iter_rows()] for keys in (shown, errored)
    )
    failures = _failures(_rows_of_cases(shown, scores))
    lines = [
        _case_line(row, changes.get(row["case_id"]), failures[row["case_id"], row["repetition"]])
        for row in rows
    ]
    return parts.Cases(
        total=total,
        shown=lines,
        more=total - shown.height,
        read_first=_cases_to_read(
            rows[: first.height], lines, _rows_of_cases(first, scores), changes
        ),
        errors=[
            parts.CaseError(
                case_id=row["case_id"],
                repetition=row["repetition"],
                error=clean_line(row["error"] or "", TEXT_CHARS),
            )
            for row in errored_rows
        ],
        more_errors=errored_total - errored.height,
    )


def _case_line(
    row: Mapping[str, Any], change: CaseChange | None, failures: Failures
) -> parts.CaseLine:
    return parts.CaseLine(
        **{name: row[name] for name in _LINE_FIELDS},
        **{name: _line_or_none(row[name]) for name in _LINE_TEXTS},
        change=None if change is None else change.status,
        failure_codes=list(failures.codes),
        low_metrics=list(failures.metrics),
        agent_version=row["agent_version"] and filter_value(row["agent_version"]),
        tools=[filter_value(tool) for tool in row["tools"] or ()][:MAX_TOOLS],
    )


def _failures(scores: pl.LazyFrame) -> defaultdict[tuple[str, int], Failures]:
    """The failure codes and the low metrics of each case, by its id and repetition."""
    by_case: defaultdict[tuple[str, int], Failures] = defaultdict(lambda: Failures({}, {}))
    headline = scores.filter(pl.col("part") == "")
    columns = (*_KEY, "metric", "failure_code", "low")
    wanted = headline.with_columns(low=IS_LOW).filter(
        pl.col("low") | pl.col("failure_code").is_not_null()
    )
    ordered = collect_rows(wanted.select(columns).sort(*_KEY, "metric", "failure_code"))
    for case_id, repetition, metric, code, low in ordered.iter_rows():
        failures = by_case[case_id, repetition]
        if low:
            failures.metrics[name_of(metric)] = None
        if code is not None:
            failures.codes[name_of(code)] = None
    return by_case


def _ranked_cases(cases: pl.LazyFrame, changes: Mapping[str, CaseChange]) -> pl.LazyFrame:
    """Identity and status of all cases, the most urgent first."""
    statuses = [(case_id, change.status) for case_id, change in changes.items()]
    compared = pl.LazyFrame(statuses, schema=_CHANGES, orient="row")
    judged, errored = (pl.col("status") == status for status in ("judged", "errored"))
    worse, better = (pl.col("change") == change for change in ("regression", "improvement"))
    failed = judged & ~pl.col("passed")
    # The first condition that holds gives the group; within a group the lowest score comes first.
    urgent = (worse & failed, worse, failed, errored, better, judged)
    groups = [pl.when(condition).then(pl.lit(group)) for group, condition in enumerate(urgent)]
    return (
        cases.select(*_KEY, "status", "passed", "overall_score")
        .join(compared, on="case_id", how="left")
        .with_columns(group=pl.coalesce(*groups, pl.lit(len(urgent))))
        .sort("group", "overall_score", *_KEY, nulls_last=True)  # the key makes the order total
        .select(*_KEY, "status")
    )


def _rows_of_cases(keys: pl.DataFrame, table: pl.LazyFrame) -> pl.LazyFrame:
    """The rows of a table that belong to a few cases."""
    # The reader of the table can skip rows by a condition, but not by a join.
    candidates = table.filter(pl.col("case_id").is_in(keys["case_id"].to_list()))
    return candidates.join(keys.lazy(), on=_KEY, how="semi")


def _line_or_none(text: str | None) -> str | None:
    return None if text is None else line_of(text)


def _cases_to_read(
    rows: Sequence[Mapping[str, Any]],
    lines: Sequence[parts.CaseLine],
    scores: pl.LazyFrame,
    changes: Mapping[str, CaseChange],
) -> list[parts.CaseInFull]:
    """The first cases in full, from their rows in table `cases`, their lines and their scores."""
    scores_by_case: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for score in collect_rows(scores.sort(KEYS["scores"])).iter_rows(named=True):
        scores_by_case[score["case_id"], score["repetition"]].append(score)
    cases = []
    # The rows are those of the first lines only.
    for row, line in zip(rows, lines, strict=False):
        own_scores = scores_by_case[row["case_id"], row["repetition"]]
        outcomes, findings = _outcomes_and_findings(own_scores)
        agent = " ".join(part for part in (row["agent"], row["agent_version"]) if part)
        tags: dict[str, Any] = json.loads(row["tags"]) if row["tags"] else {}
        tags_text = ", ".join(f"{name}={tags[name]}" for name in sorted(tags))
        change = changes.get(row["case_id"])
        fallen = change.fallen if change else ()
        reason = reason_of(line, outcomes, findings, fallen)
        suggested_fixes = (
            _line_or_none(details["suggested_fix"])
            for score in own_scores
            if score["metric"] == row["root_cause"] and not score["part"]
            if "suggested_fix" in (details := _details(score))
        )
        cases.append(
            parts.CaseInFull(
                **line.model_dump(),
                transcript_uri=clean_line(row["transcript_uri"] or "", ID_CHARS),
                position=row["position"],
                agent=_line_or_none(agent or None),
                tags=_line_or_none(tags_text or None),
                turn_count=row["turn_count"],
                error=None if row["error"] is None else clean_line(row["error"], TEXT_CHARS),
                suggested_fix=next(suggested_fixes, None)
                or (None if reason is None else fix_of(findings, fallen)),
                flip=change and change.flip,
                baseline_score=change and change.baseline_score,
                reason=reason,
                outcomes=outcomes[:MAX_FINDINGS],
                findings=findings[:MAX_FINDINGS],
                more_findings=len(outcomes[MAX_FINDINGS:]) + len(findings[MAX_FINDINGS:]),
            )
        )
    return cases


def _outcomes_and_findings(
    scores: Iterable[Mapping[str, Any]],
) -> tuple[list[parts.OutcomeLine], list[parts.Finding]]:
    """The scores of single expected outcomes as a checklist (001-29), and all others as findings.

    The checklist has the order of the outcomes; of the findings, the lowest comes first.
    """
    outcomes: list[tuple[tuple[Any, ...], parts.OutcomeLine]] = []
    findings: list[tuple[tuple[Any, ...], parts.Finding]] = []
    for score in scores:
        part, value = score["part"], score["value"]
        if score["metric"] == OUTCOMES and part:
            details = _details(score)
            line = parts.OutcomeLine(
                passed=score["passed"] is True,
                statement=statement_of(score),
                justification=clean_line(score["reason"] or rationale(details), TEXT_CHARS),
            )
            digits = part.rpartition(":")[2]
            outcomes.append(((int(digits) if digits.isdecimal() else 0, part), line))  # 10 after 9
        else:
            order = ("failed", "scored", "skipped").index(score["status"])
            level = (order, value is None, value or 0.0)  # `None` after every number
            key = (*level, score["metric"], part, score["judge"])
            findings.append((key, finding_of(score)))
    first = itemgetter(0)
    return (
        [line for _, line in sorted(outcomes, key=first)],
        [finding for _, finding in sorted(findings, key=first)],
    )


def statement_of(score: Mapping[str, Any]) -> str:
    """The expected outcome that a score of a single outcome is about."""
    return clean_line(str(_details(score).get("statement", score["part"])), TEXT_CHARS)


def finding_of(score: Mapping[str, Any]) -> parts.Finding:
    """A row of table `scores` as a finding for display."""
    details, label, raw = _details(score), score["label"], score["raw"]
    if score["status"] != "scored":
        shown = "could not be had" if score["status"] == "failed" else "does not apply"
    # `fail` is a level (1 of 5) and also the no of a yes/no metric, whose raw value is 0.
    elif label in LABELS and not (label == "fail" and raw == 0):
        shown = f"{label.replace('_', ' ')} ({raw:g} of 5)"
    else:
        value = raw if score["value"] is None else score["value"]
        shown = _line_or_none(label) or number(value)
    return parts.Finding(
        **{name: score[name] for name in ("status", "value", "raw")},
        **{name: line_of(score[name]) for name in ("judge", "metric", "part")},
        **{name: _line_or_none(score[name]) for name in ("label", "failure_code")},
        shown=shown,
        justification=clean_line(explanation(score, details), TEXT_CHARS),
        turns=list(score["turns"] or ()),
        warnings=[line_of(str(warning)) for warning in details.get("warnings", [])[:5]],
    )


def explanation(score: Mapping[str, Any], details: Mapping[str, Any]) -> str:
    """Why a score is what it is: its reason, what of its criteria is covered, or its rationale."""
    return score["reason"] or coverage_text(details, score["value"]) or rationale(details)


def _details(score: Mapping[str, Any]) -> dict[str, Any]:
    details = json.loads(score["details"]) if score["details"] else {}
    return details if isinstance(details, dict) else {}


def case_pages(record: RunRecord, stored_cases: Sequence[StoredExecution]) -> list[dict[str, Any]]:
    """The executions of a case for their page; `fault` says why a conversation is missing."""
    # All at once, as an object that holds several of the transcripts is then fetched once.
    cases = reread_or_faults(record, [stored_case.case for stored_case in stored_cases])
    pages: list[dict[str, Any]] = []
    for case, stored_case in zip(cases, stored_cases, strict=True):
        outcomes, findings = _outcomes_and_findings(stored_case.scores)
        page: dict[str, Any] = {
            "case": stored_case.case,
            "outcomes": [outcome.model_dump() for outcome in outcomes],
            "findings": [finding.model_dump() for finding in findings],
        }
        if isinstance(case, DataError):
            pages.append(page | {"turns": [], "fault": str(case)})
        else:
            turns = _turn_entries(case.transcript.turns[:MAX_TURNS], findings)
            pages.append(page | {"turns": turns, "fault": None})
    return pages


def conversations(
    record: RunRecord,
    shown_cases: Sequence[Mapping[str, Any]],
    table_rows: Sequence[Mapping[str, Any] | None],
) -> list[dict[str, Any]]:
    """The conversations of some cases, with the findings at their turns.

    The cases are as in the data of the report; `table_rows` are their rows in table `cases`, `None`
    where a row is not known. Each conversation has `turns`, the number of `more` turns that are not
    shown, and a `fault` that says why the conversation is missing.
    """
    transcripts = iter(reread_or_faults(record, [row for row in table_rows if row]))
    shown: list[dict[str, Any]] = []
    for shown_case, row in zip(shown_cases, table_rows, strict=True):
        case = (
            next(transcripts)
            if row
            else DataError("unknown", "the store has no row of it any more")
        )
        if isinstance(case, DataError):
            shown.append({"turns": [], "fault": clean(str(case), NAME_CHARS), "more": 0})
            continue
        turns = case.transcript.turns
        findings = [parts.Finding.model_validate(finding) for finding in shown_case["findings"]]
        entries = _turn_entries(turns[:EXCERPT_TURNS], findings)
        for entry in entries:
            entry["text"] = clean(entry["text"], EXCERPT_CHARS)
            entry["calls"] = [clean(call, EXCERPT_CHARS) for call in entry["calls"]]
        shown.append({"turns": entries, "fault": None, "more": len(turns) - len(entries)})
    return shown


def reread_or_faults(
    record: RunRecord, rows: Sequence[Mapping[str, Any]]
) -> Sequence[Case | DataError]:
    """The cases of rows of table `cases`, read again; a case that cannot be read is its error."""
    try:
        return reread_cases(record, rows, MAX_OBJECT_BYTES)
    except ConfigurationError as error:
        # The ground truth is gone: every conversation is missing for the same reason.
        return [DataError("unknown", str(error))] * len(rows)


def _turn_entries(turns: Sequence[Turn], findings: Iterable[parts.Finding]) -> list[dict[str, Any]]:
    """The turns for display with the findings that name them; `failing` if one of them is bad."""
    marks: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for finding in findings:
        value = finding.value if finding.status == "scored" else None
        failing = value is not None and value < ACCEPTABLE / 5  # levels are 0..5, values 0..1
        mark = finding.model_dump(include={"metric", "part", "shown", "failure_code"})
        for position in finding.turns:
            marks[position].append(mark | {"failing": failing})
    entries = []
    for position, turn in enumerate(turns):
        result = turn.tool_result
        name = (result and result.name) or turn.agent
        calls = [
            f"{call.name}("
            f"{call.raw or json.dumps(call.arguments, ensure_ascii=False, indent=1, default=str)})"
            for call in turn.tool_calls
        ]
        entries.append(
            {
                "number": position,
                "role": turn.role,
                "name": name_of(name) if name else None,
                "failed": bool(result and result.is_error),
                "text": clean(turn.all_text(), TURN_CHARS),
                "calls": [clean(call, TURN_CHARS) for call in calls],
                "marks": marks[position],
                "failing": any(mark["failing"] for mark in marks[position]),
            }
        )
    return entries
