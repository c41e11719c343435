"""The tools about cases: the list, one case with its conversation, one score, the causes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from assizes.deployments.agents import parameters
from assizes.deployments.agents.answers import MAX_CHARS, ToolAnswer, page_of, shortened
from assizes.deployments.agents.workspace import Workspace
from assizes.deployments.web import schemas
from assizes.deployments.web.causes.data import (
    cases_of_cause,
    cause_id_of,
    known_causes,
    shown_row,
)
from assizes.judge.errors import ConfigurationError
from assizes.tasks.reports.data.case_rows import MAX_OBJECT_BYTES, case_pages
from assizes.tasks.reports.data.explain_page import explain_page, metric_explanation
from assizes.tasks.reports.formatting import plural
from assizes.tasks.runs.stored_causes import causes_of_case, unexplained_cases
from assizes.tasks.store import Store

_TURN_CHARS: Final = 700  # of one text of a turn
_WHOLE_TURN_CHARS: Final = MAX_CHARS - 1500  # of the text of a turn that is asked for alone
_PROMPT_CHARS: Final = 4000  # of one message of a prompt
_REPLY_CHARS: Final = 1500
_CALLS: Final = 5  # tool calls of a turn that are shown, at most

_FILTERS: Final = (
    *("passed", "status", "metric", "root_cause", "failure_code", "agent_version", "tool", "tag"),
    *("sort", "limit"),
)


def list_cases(workspace: Workspace, wanted: parameters.ListCases) -> ToolAnswer:
    """The cases of a run that match, the lowest score first."""
    run_id = workspace.reader.read_store(lambda store: store.full_id(wanted.run))
    start = int(wanted.cursor or 0)
    fields = {name: getattr(wanted, name) for name in _FILTERS}
    page = workspace.reader.cases(run_id, schemas.CaseQuery(**fields, offset=start))
    names = ("overall_score", "passed", "status", "gate", "root_cause", "agent_version")
    items = [
        {"case": row.case_id, "repetition": row.repetition or None}
        | {name: getattr(row, name) for name in names}
        | {"summary": shortened(row.summary or "", 240), "error": shortened(row.error or "", 240)}
        for row in page.data
    ]
    head = [f"run {run_id}: {plural(page.count, 'case')} match; overall_score 0..100"]
    links = workspace.page(f"runs/{run_id}/cases")
    return ToolAnswer(head, items, "cases", start=start, total=page.count, links=links)


def open_case(workspace: Workspace, wanted: parameters.OpenCase) -> ToolAnswer:
    """One case: its verdict, its scores with reasons, its conversation."""
    record, executions = workspace.reader.case(wanted.run, wanted.case, wanted.repetition)
    (page,) = case_pages(record, executions)
    run_id, row = record.run_id, page["case"]
    read = workspace.reader.read_store
    causes = read(lambda store: causes_of_case(store, run_id, row["case_id"]))
    turns = page["turns"]
    head = [
        f"run {run_id}: one case, {plural(len(turns), 'turn')}; a value below 0.6 is not acceptable"
    ]
    if wanted.turn is None:
        rows = [*_case_items(page, causes), *(_turn(turn, _TURN_CHARS) for turn in turns)]
    elif wanted.turn < len(turns):
        rows = [_turn(turns[wanted.turn], _WHOLE_TURN_CHARS)]
    else:
        raise ConfigurationError(
            f"turn {wanted.turn}: the case has {plural(len(turns), 'turn')}, counted from 0"
        )
    start, items = page_of(rows, wanted.cursor)
    links = workspace.case_links(run_id, row["case_id"])
    return ToolAnswer(head, items, "case", start=start, links=links)


def _case_items(page: Mapping[str, Any], causes: list[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    row = page["case"]
    names = ("case_id", "overall_score", "passed", "status", "gate", "root_cause", "agent_version")
    yield {name: row[name] for name in names} | {
        "summary": shortened(row["summary"] or ""),
        "error": shortened(row["error"] or ""),
        "causes": [{"cause": cause_id, "name": name} for cause_id, name in causes],
    }
    for outcome in page["outcomes"]:
        yield {"expected_outcome": outcome}
    yield from ({"score": _finding(finding)} for finding in page["findings"])
    if page["fault"] is not None:
        yield {"conversation_cannot_be_shown": page["fault"]}


def _finding(finding: Mapping[str, Any]) -> dict[str, Any]:
    names = ("metric", "part", "status", "value", "shown", "failure_code", "turns", "warnings")
    reason = shortened(finding["justification"] or "", 400)
    return {name: finding[name] for name in names} | {"reason": reason}


def _turn(turn: Mapping[str, Any], most: int) -> dict[str, Any]:
    calls = turn["calls"]
    more = len(calls) - _CALLS
    return {
        "turn": turn["number"],
        "role": turn["role"],
        "name": turn["name"],
        "failed": turn["failed"] or None,
        "text": shortened(turn["text"], most),
        "calls": [shortened(call, most) for call in calls[:_CALLS]],
        "more_calls": more if more > 0 else None,
        "low_scores": [mark["metric"] for mark in turn["marks"] if mark["failing"]],
    }


def explain_score(workspace: Workspace, wanted: parameters.ExplainScore) -> ToolAnswer:
    """Why a metric of a case has its value: its scores, and what the judge model was asked."""
    record, executions = workspace.reader.case(wanted.run, wanted.case, wanted.repetition)
    document = metric_explanation(record, executions[0], wanted.metric, MAX_OBJECT_BYTES)
    page = explain_page(document)
    rows = [*_explained_scores(page), *_explained_asks(page, prompts=wanted.prompts)]
    start, items = page_of(rows, wanted.cursor)
    asks = plural(len(page["asks"]), "ask")
    head = [f"run {record.run_id}: {plural(len(page['scores']), 'score')} from {asks} of the judge"]
    if not page["asks"]:
        head.append("no model was asked: this judge needs none, or it did not apply to the case")
    query = {"run": record.run_id, "case": wanted.case, "metric": wanted.metric}
    links = workspace.page("explain", query | {"repetition": wanted.repetition})
    return ToolAnswer(head, items, "explanation", start=start, links=links)


def _explained_scores(page: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"metric": page["metric"], "judge": page["judge"], "prompts": page["prompts"]}
    for score in page["scores"]:
        names = ("part", "shown", "failure_code", "judge_version", "rubric_hash")
        details = {row["name"]: shortened(row["value"], 300) for row in score["details"]}
        reason = shortened(score["reason"] or "")
        yield {name: score[name] for name in names} | {"reason": reason, "details": details}


def _explained_asks(page: Mapping[str, Any], *, prompts: bool) -> Iterator[dict[str, Any]]:
    for ask in page["asks"]:
        yield {
            "model": ask["model"],
            "round": ask["round"],
            "index": ask["index"],
            "took": ask["took"],
            "prompt_as_sent": ask["exact"],
            "reply": shortened(ask["reply"] or "", _REPLY_CHARS),
            "reading": ask["reading"],
        }
        for message in ask["messages"] if prompts else ():
            text = shortened(message["content"], _PROMPT_CHARS)
            yield {"prompt_message": message["role"], "content": text}


def list_causes(workspace: Workspace, wanted: parameters.ListCauses) -> ToolAnswer:
    """What the failed cases of a run have in common, or the cases of one cause."""

    def read(store: Store) -> tuple[str, str, list[dict[str, Any]]]:
        run_id = store.full_id(wanted.run)
        stored = known_causes(store, run_id)
        if wanted.cause is not None:
            cause_id = cause_id_of(stored, wanted.cause)
            rows = cases_of_cause(store, run_id, stored, cause_id).to_dicts()
            return run_id, f"{plural(len(rows), 'score')} of cause {cause_id}", rows
        alone = unexplained_cases(store, run_id, stored)
        rows = [_cause_line(shown_row(row)) for row in stored.causes.iter_rows(named=True)]
        text = f"{plural(len(rows), 'cause')}; {plural(alone, 'failed case')} in no cause"
        return run_id, f"{text}; share: of the judged cases, 0..1", rows

    run_id, text, rows = workspace.reader.read_store(read)
    start, items = page_of(rows, wanted.cursor)
    links = workspace.page(f"runs/{run_id}/causes")
    return ToolAnswer([f"run {run_id}: {text}"], items, "causes", start=start, links=links)


def _cause_line(row: Mapping[str, Any]) -> dict[str, Any]:
    names = ("name", "cases", "share", "baseline_share", "first_run", "owner")
    return {
        "cause": row["cause_id"],
        "state": row["word"],
        **{name: row[name] for name in names},
        "points_of_score_lost": row["points"],
        "sentence": shortened(row["sentence"], 300),
        "example_cases": row["examples"][:3],
    }
