"""`assizes case`: one case of a run, its scores, and its conversation with the scores beside it."""

from __future__ import annotations

import json
import textwrap
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from assizes.deployments.commands.output import print_json, print_line, print_text
from assizes.deployments.commands.stores import CaseSelection, opened_store
from assizes.judge.case import Turn
from assizes.judge.errors import ConfigurationError, DataError
from assizes.judge.verdicts.root_cause import rationale
from assizes.tasks.reports.formatting import one_line
from assizes.tasks.runs.stored_cases import StoredExecution, reread_case, stored_executions
from assizes.tasks.store import RunRecord

TEXT_CHARS: Final = 2000
"""Most characters printed of one text of a conversation; the number of the others is printed."""


def show_case(
    chosen: CaseSelection,
    file: Path | None,
    uri: str | None,
    *,
    as_json: bool,
    conversation: bool = True,
) -> int:
    """Print one case of a run; each repetition in turn unless one is chosen.

    Args:
        chosen: the case.
        file: configuration file.
        uri: value of `--store`.
        as_json: print one JSON document, without the conversation.
        conversation: also print the turns, read again from the transcript.

    Returns:
        0.

    Raises:
        UnknownRun: the store has no such run.
        StoreError: the run has no such case.
    """
    with opened_store(file, uri) as store:
        record = store.run(chosen.run_id)
        executions = stored_executions(store, chosen.run_id, chosen.case_id, chosen.repetition)
    if as_json:
        print_json(
            {
                "cases": [execution.case for execution in executions],
                "scores": [row for execution in executions for row in execution.scores],
                "asks": [row for execution in executions for row in execution.asks],
            }
        )
        return 0
    for execution in executions:
        _print_case(execution.case, execution.scores)
        if conversation:
            _print_conversation(record, execution)
    return 0


def _print_conversation(record: RunRecord, execution: StoredExecution) -> None:
    """Print the conversation turn by turn, each turn with the scores that name it."""
    try:
        case = reread_case(record, execution.case)
    except (DataError, ConfigurationError) as error:
        print_line(f"conversation: cannot be shown: {error}")
        return
    scores_by_turn = _scores_by_turn(execution.scores)
    print_line("conversation:")
    for number, turn in enumerate(case.transcript.turns):
        for text in _turn_texts(number, turn):
            print_text(text)
        for score in scores_by_turn[number]:
            words = [
                f"^ {score['metric']} {_raw_text(score)}",
                score["label"] or _outcome_of(score),
            ]
            print_text(f"    {one_line(' '.join([*words, score['failure_code'] or '']))}")


def _scores_by_turn(scores: Sequence[Mapping[str, Any]]) -> Mapping[int, list[Mapping[str, Any]]]:
    """The scores that name turns, by number of the turn; the lowest score comes first."""
    by_turn: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for score in sorted(scores, key=lambda row: (row["value"] is None, row["value"] or 0.0)):
        for turn in score["turns"] or ():
            by_turn[turn].append(score)
    return by_turn


def _turn_texts(number: int, turn: Turn) -> Iterator[str]:
    """The text of a turn, then a text for each tool call in it."""
    result = turn.tool_result
    name = f" {one_line(result.name)}" if result and result.name else ""
    failed = " (failed)" if result and result.is_error else ""
    text = "\n".join(part for part in (turn.text, result.content if result else None) if part)
    yield f"[{number}] {turn.role}{name}{failed}: {_shortened_text(text)}"
    for call in turn.tool_calls:
        arguments = call.raw or json.dumps(call.arguments, ensure_ascii=False, default=str)
        yield f"[{number}] call: {one_line(call.name)}({_shortened_text(arguments)})"


def _shortened_text(text: str) -> str:
    indented = "\n    ".join(text[:TEXT_CHARS].splitlines())
    more = len(text) - TEXT_CHARS
    return f"{indented} … {more:,} more characters" if more > 0 else indented or "(empty)"


def _print_case(case: Mapping[str, Any], scores: Sequence[Mapping[str, Any]]) -> None:
    print_line(one_line(f"{case['case_id']} (repetition {case['repetition']}): {case['summary']}"))
    print_line(f"transcript: {case['transcript_uri']} at {case['position']}")
    if case["error"]:
        print_line(one_line(f"error: {case['error']}"))
    for score in scores:
        if score["part"].startswith("outcome:"):
            details = json.loads(score["details"])
            mark = "✓" if score["passed"] else "✗"
            print_line(one_line(f"{mark} {details['statement']}: {details['justification']}"))
    _print_root_cause(case["root_cause"], scores)
    for score in scores:
        if not score["part"].startswith("outcome:"):
            _print_finding(score)


def _print_root_cause(cause: str | None, scores: Sequence[Mapping[str, Any]]) -> None:
    for score in scores:
        if cause is not None and score["metric"] == cause and not score["part"]:
            print_line(f"root cause: {cause}")
            if fix := json.loads(score["details"]).get("suggested_fix"):
                print_text(textwrap.fill(f"suggested fix: {fix}", 100, subsequent_indent="    "))


def _print_finding(score: Mapping[str, Any]) -> None:
    """Print a score: one line with its level, failure code and turns, then its reason.

    The name of a part is indented below the headline score.
    """
    name = f"  {score['part']}" if score["part"] else score["metric"]
    words = [f"{name:<24} {_raw_text(score):>5}  {score['label'] or _outcome_of(score):<13}"]
    if score["failure_code"]:
        words.append(one_line(score["failure_code"]))
    if score["turns"]:
        words.append(f"turns {', '.join(str(turn) for turn in score['turns'])}")
    print_line("  ".join(words).rstrip())
    why = score["reason"] or rationale(json.loads(score["details"]))
    if why:
        print_text(textwrap.fill(why, 100, initial_indent="    ", subsequent_indent="    "))


def _raw_text(score: Mapping[str, Any]) -> str:
    return "-" if score["raw"] is None else f"{score['raw']:.4g}"


def _outcome_of(score: Mapping[str, Any]) -> str:
    """The outcome of a score without a label: passed, not passed, or else its status."""
    words: dict[bool | None, str] = {True: "passed", False: "not passed", None: score["status"]}
    return words[score["passed"]]
