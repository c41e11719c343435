"""The cases of a run as a report shows them: a table, and the cases to read first in full."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import polars as pl

from assizes.judge.rows import CASES, KEYS
from assizes.judge.rubrics.rubric import OUTCOMES
from assizes.judge.score import LABELS
from assizes.judge.verdicts.executions import collect_rows
from assizes.judge.verdicts.root_cause import rationale
from assizes.tasks.reports.formatting import clean_line, line_of, number
from assizes.tasks.reports.schema.cases import (
    CaseError,
    CaseInFull,
    CaseLine,
    Cases,
    Finding,
    OutcomeLine,
)

# These limits keep the report of 10,000 cases under 5 MB; what is left out is counted.

MAX_READ_FIRST: Final = 20
"""Cases that are shown in full, at most."""

MAX_CASES: Final = 200
"""Cases in the table, at most."""

MAX_ERRORS: Final = 50
"""Cases that could not be judged that are listed, at most."""

MAX_FINDINGS: Final = 60
"""Scores, and expected outcomes, that are shown of a case at most."""

ID_CHARS: Final = 512
"""Characters of the id of a case, at most."""

TEXT_CHARS: Final = 2000
"""Characters of a justification, of an error or of an expected outcome, at most."""

_KEY: Final = ("case_id", "repetition")
_CHANGES: Final = {"case_id": pl.String, "change": pl.String}


def case_rows(cases: pl.LazyFrame, scores: pl.LazyFrame, changes: Mapping[str, str]) -> Cases:
    """Everything that a report shows of single cases.

    Of the cases that are not shown, only their rank comes into memory.

    Args:
        cases: table `cases` of the run.
        scores: table `scores` of the run.
        changes: the status of each compared case by its id; empty without a baseline.
    """
    ranked = _ranked_cases(cases, changes)
    shown, all_errored = ranked.head(MAX_CASES), ranked.filter(pl.col("status") == "errored")
    errored = all_errored.head(MAX_ERRORS)
    rows_by_key = _rows_by_key(cases, pl.concat([shown, errored]))
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


def _rows_by_key(cases: pl.LazyFrame, keys: pl.DataFrame) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The rows of a few cases, by case id and repetition."""
    rows = collect_rows(_rows_of_cases(keys, cases))
    return {tuple(row[name] for name in _KEY): row for row in rows.iter_rows(named=True)}


def _rows_of_cases(keys: pl.DataFrame, table: pl.LazyFrame) -> pl.LazyFrame:
    """The rows of a table that belong to a few cases."""
    # The reader of the table can skip rows by a condition, but not by a join.
    candidates = table.filter(pl.col("case_id").is_in(keys["case_id"].to_list()))
    return candidates.join(keys.lazy(), on=_KEY, how="semi")


def _identity(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "case_id": clean_line(row["case_id"], ID_CHARS),
        "repetition": row["repetition"],
    }


def _line_fields(row: Mapping[str, Any], changes: Mapping[str, str]) -> dict[str, Any]:
    """The fields of `CaseLine`, which `CaseInFull` has too."""
    return {
        **_identity(row),
        "status": row["status"],
        "passed": row["passed"],
        "overall_score": row["overall_score"],
        "gate": row["gate"],
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
    scores_by_case: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for score in case_scores.iter_rows(named=True):
        scores_by_case.setdefault((score["case_id"], score["repetition"]), []).append(score)
    return [
        _case_in_full(row, scores_by_case.get((row["case_id"], row["repetition"]), []), changes)
        for row in rows
    ]


def _case_in_full(
    row: Mapping[str, Any], scores: Sequence[Mapping[str, Any]], changes: Mapping[str, str]
) -> CaseInFull:
    outcomes, findings = outcomes_of(scores), findings_of(scores)
    hidden_outcomes = max(0, len(outcomes) - MAX_FINDINGS)
    return CaseInFull(
        **_line_fields(row, changes),
        transcript_uri=clean_line(row["transcript_uri"] or "", ID_CHARS),
        position=row["position"],
        agent=_agent(row),
        tags=_line_or_none(_tags(row["tags"])),
        turn_count=row["turn_count"],
        error=None if row["error"] is None else clean_line(row["error"], TEXT_CHARS),
        suggested_fix=_suggested_fix(row["root_cause"], scores),
        outcomes=outcomes[:MAX_FINDINGS],
        findings=findings[:MAX_FINDINGS],
        more_findings=hidden_outcomes + max(0, len(findings) - MAX_FINDINGS),
    )


def _suggested_fix(cause: str | None, scores: Iterable[Mapping[str, Any]]) -> str | None:
    """The suggested fix that is stored with the score of the root cause; `None` without one."""
    for score in scores:
        if score["metric"] == cause and not score["part"]:
            details = _details(score)
            if "suggested_fix" in details:
                return _line_or_none(details["suggested_fix"])
    return None


def _agent(row: Mapping[str, Any]) -> str | None:
    label = " ".join(part for part in (row["agent"], row["agent_version"]) if part)
    return _line_or_none(label or None)


def _tags(text: str | None) -> str | None:
    tags: dict[str, Any] = json.loads(text) if text else {}
    return ", ".join(f"{name}={tags[name]}" for name in sorted(tags)) or None


def _is_outcome(score: Mapping[str, Any]) -> bool:
    """Whether a score is of a single expected outcome."""
    return score["metric"] == OUTCOMES and bool(score["part"])


def _part_number(score: Mapping[str, Any]) -> tuple[int, str]:
    number = score["part"].rpartition(":")[2]
    return (int(number) if number.isdecimal() else 0, score["part"])


def _lowest_first(score: Mapping[str, Any]) -> tuple[Any, ...]:
    order = {"failed": 0, "scored": 1, "skipped": 2}[score["status"]]
    value = score["value"]
    return (order, value is None, value or 0.0, score["metric"], score["part"], score["judge"])


def _outcome(score: Mapping[str, Any]) -> OutcomeLine:
    """One line of the checklist: whether the statement holds, and why (001-29)."""
    details = _details(score)
    return OutcomeLine(
        passed=score["passed"] is True,
        statement=clean_line(str(details.get("statement", score["part"])), TEXT_CHARS),
        justification=_justification(score, details),
    )


def _justification(score: Mapping[str, Any], details: Mapping[str, Any]) -> str:
    """The justification of the judge, or the reason why there is no score."""
    return clean_line(score["reason"] or rationale(details), TEXT_CHARS)


def outcomes_of(scores: Iterable[Mapping[str, Any]]) -> list[OutcomeLine]:
    """The scores of single expected outcomes as a checklist, in the order of the outcomes."""
    return [_outcome(score) for score in sorted(filter(_is_outcome, scores), key=_part_number)]


def findings_of(scores: Iterable[Mapping[str, Any]]) -> list[Finding]:
    """All scores but those of single expected outcomes, as findings, the lowest first."""
    others = (score for score in scores if not _is_outcome(score))
    return [finding_of(score) for score in sorted(others, key=_lowest_first)]


def _finding_in_words(score: Mapping[str, Any]) -> str:
    if score["status"] != "scored":
        return "could not be had" if score["status"] == "failed" else "does not apply"
    label, raw = score["label"], score["raw"]
    if label in LABELS and not (label == "fail" and raw == 0):
        return f"{label.replace('_', ' ')} ({raw:g} of 5)"
    return _line_or_none(label) or number(raw if score["value"] is None else score["value"])


def finding_of(score: Mapping[str, Any]) -> Finding:
    """A row of table `scores` as a finding for display."""
    details, turns = _details(score), score["turns"]
    return Finding(
        judge=line_of(score["judge"]),
        metric=line_of(score["metric"]),
        part=line_of(score["part"]),
        status=score["status"],
        value=score["value"],
        raw=score["raw"],
        label=_line_or_none(score["label"]),
        shown=_finding_in_words(score),
        justification=_justification(score, details),
        failure_code=_line_or_none(score["failure_code"]),
        turns=[] if turns is None else list(turns),
        warnings=[line_of(str(warning)) for warning in details.get("warnings", [])[:5]],
    )


def _details(score: Mapping[str, Any]) -> dict[str, Any]:
    details = json.loads(score["details"]) if score["details"] else {}
    return details if isinstance(details, dict) else {}
