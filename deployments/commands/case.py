"""`assizes case` and `explain`: one case of a run, and the asks behind one metric of it."""

from __future__ import annotations

import json
import textwrap
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from assizes.deployments.commands.output import print_json, print_line, print_lines, print_text
from assizes.deployments.commands.stores import CaseSelection, opened_store
from assizes.judge.case import Turn
from assizes.judge.errors import ConfigurationError, DataError
from assizes.tasks.reports.data.case_rows import explanation
from assizes.tasks.reports.data.explain_page import metric_explanation, reading_of
from assizes.tasks.reports.formatting import one_line, plural
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
    conversation: bool = True,  # also the turns, read again from the transcript
) -> None:
    """Print one case of a run, each repetition in turn unless one is chosen.

    Raises:
        UnknownRun: the store has no such run.
        StoreError: the run has no such case.
    """
    with opened_store(file, uri) as store:
        record = store.run(chosen.run_id)
        executions = stored_executions(store, chosen.run_id, chosen.case_id, chosen.repetition)
    if as_json:
        document = {
            "cases": [execution.case for execution in executions],
            "scores": [row for execution in executions for row in execution.scores],
            "asks": [row for execution in executions for row in execution.asks],
        }
        print_json(document)
        return
    for execution in executions:
        _print_case(execution.case, execution.scores)
        if conversation:
            _print_conversation(record, execution)


def _print_conversation(record: RunRecord, execution: StoredExecution) -> None:
    """Print the conversation turn by turn, each turn with the scores that name it."""
    try:
        case = reread_case(record, execution.case)
    except (DataError, ConfigurationError) as error:  # moved or changed since it was judged
        print_line(f"conversation: cannot be shown: {error}")
        return
    scores_by_turn: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)  # by turn number
    # The worst finding of a turn first, those without a value last.
    lowest_first = sorted(
        execution.scores, key=lambda row: (row["value"] is None, row["value"] or 0.0)
    )
    for score in lowest_first:
        for index in score["turns"] or ():
            scores_by_turn[index].append(score)
    print_line("conversation:")
    for number, turn in enumerate(case.transcript.turns):
        for text in _turn_texts(number, turn):
            print_text(text)
        for score in scores_by_turn[number]:
            words = (score["label"] or _outcome_of(score), score["failure_code"] or "")
            finding = f"^ {score['metric']} {_raw_text(score)} {' '.join(words)}"
            print_text(f"    {one_line(finding)}")


def _turn_texts(number: int, turn: Turn) -> Iterator[str]:
    """The text of a turn, then a text for each tool call in it."""
    result = turn.tool_result
    speaker = (result and result.name) or turn.agent
    name = f" {one_line(speaker)}" if speaker else ""
    failed = " (failed)" if result and result.is_error else ""
    yield f"[{number}] {turn.role}{name}{failed}: {_shortened_text(turn.all_text())}"
    for call in turn.tool_calls:
        # The text as the agent wrote it, where it was no JSON object.
        arguments = call.raw or json.dumps(call.arguments, ensure_ascii=False, default=str)
        yield f"[{number}] call: {one_line(call.name)}({_shortened_text(arguments)})"


def _shortened_text(text: str) -> str:
    indented = "\n    ".join(text[:TEXT_CHARS].splitlines())  # so no line of it looks like ours
    more = len(text) - TEXT_CHARS
    return f"{indented} … {more:,} more characters" if more > 0 else indented or "(empty)"


def _print_case(case: Mapping[str, Any], scores: Sequence[Mapping[str, Any]]) -> None:
    print_line(one_line(f"{case['case_id']} (repetition {case['repetition']}): {case['summary']}"))
    print_line(f"transcript: {case['transcript_uri']} at {case['position']}")
    if case["error"]:
        print_line(one_line(f"error: {case['error']}"))
    if tiers := case["tier_scores"]:
        print_line(f"tiers, of 100: {', '.join(f'{name} {tiers[name]:g}' for name in tiers)}")
    for score in scores:
        if score["part"].startswith("outcome:"):  # an expected outcome of the case
            details = json.loads(score["details"])
            mark = "✓" if score["passed"] else "✗"
            print_line(one_line(f"{mark} {details['statement']}: {details['justification']}"))
    _print_root_cause(case["root_cause"], scores)
    for score in scores:
        if not score["part"].startswith("outcome:"):
            _print_finding(score)


def _print_root_cause(cause: str | None, scores: Sequence[Mapping[str, Any]]) -> None:
    for score in scores:
        if cause is not None and score["metric"] == cause and not score["part"]:  # the headline
            print_line(f"root cause: {cause}")
            if fix := json.loads(score["details"]).get("suggested_fix"):
                print_text(textwrap.fill(f"suggested fix: {fix}", 100, subsequent_indent="    "))


def _print_finding(score: Mapping[str, Any]) -> None:
    """Print a score: its level, failure code and turns on one line, then its reason."""
    name = f"  {score['part']}" if score["part"] else score["metric"]  # below its headline
    words = [f"{name:<24} {_raw_text(score):>5}  {score['label'] or _outcome_of(score):<13}"]
    if score["failure_code"]:
        words.append(one_line(score["failure_code"]))
    if score["turns"]:
        words.append(f"turns {', '.join(str(turn) for turn in score['turns'])}")
    print_line("  ".join(words).rstrip())
    why = explanation(score, json.loads(score["details"]))
    if why:
        print_text(textwrap.fill(why, 100, initial_indent="    ", subsequent_indent="    "))


def _raw_text(score: Mapping[str, Any]) -> str:
    return "-" if score["raw"] is None else f"{score['raw']:.4g}"


def _outcome_of(score: Mapping[str, Any]) -> str:
    """The outcome of a score without a label: passed, not passed, or else its status."""
    words: dict[bool | None, str] = {True: "passed", False: "not passed", None: score["status"]}
    return words[score["passed"]]


def explain_metric(
    chosen: CaseSelection, metric: str, file: Path | None, uri: str | None, *, as_json: bool
) -> None:
    """Print every ask behind a metric of a case, its reply, and the scores found in the replies.

    Raises:
        UnknownRun: the store has no such run.
        StoreError: the run has no such case.
        ConfigurationError: the case has no such metric.
    """
    with opened_store(file, uri) as store:
        record = store.run(chosen.run_id)
        executions = stored_executions(store, chosen.run_id, chosen.case_id, chosen.repetition)
    document = metric_explanation(record, executions[0], metric)  # the first repetition
    if as_json:
        print_json(document)
    else:
        print_lines(explanation_lines(document))


def explanation_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """The lines that show the document of `metric_explanation` to people."""
    yield one_line(
        f"{document['metric']} of case {document['case_id']} (repetition {document['repetition']}) "
        f"in run {document['run_id']}, judge {document['judge']}"
    )
    for score in document["scores"]:
        yield from _score_lines(score)
    yield one_line(f"prompts: {document['prompts']}")
    if not document["asks"]:
        yield "no model was asked: this judge needs none, or it did not apply to the case"
    for number, ask in enumerate(document["asks"], 1):
        yield ""
        yield from _ask_lines(number, ask)


def _score_lines(score: Mapping[str, Any]) -> Iterator[str]:
    level = "" if score["raw"] is None else f" {score['raw']:.4g}"
    name = score["part"] or "score"
    words = [f"{name}:{level} {score['label'] or score['status']}".rstrip()]
    if score["failure_code"]:
        words.append(score["failure_code"])
    if score["turns"]:
        words.append(f"turns {', '.join(map(str, score['turns']))}")
    yield "  ".join(map(one_line, words))
    if score["reason"]:
        yield f"  reason: {one_line(score['reason'])}"
    for name, value in score["details"].items():
        yield f"  {name}: {one_line(value) if isinstance(value, str) else json.dumps(value)}"
    if not score["part"]:
        yield f"  judge version {score['judge_version']}, rubric {score['rubric_hash'] or '-'}"


def _ask_lines(number: int, ask: Mapping[str, Any]) -> Iterator[str]:
    by = f", answered by {ask['answered_by']}" if ask["answered_by"] else ""
    yield f"question {number}: {one_line(ask['model'] + by)}; round {ask['round']}, index {ask['index']}"
    yield f"  {_usage_line(ask)}"
    if ask["messages"]:
        same = (
            "as it was sent"
            if ask["exact"]
            else "rendered again; the prompt that was sent was different"
        )
        yield f"  prompt {ask['prompt_hash']}: {same}"
        for message in ask["messages"]:
            yield f"---- {message['role']}"
            yield from _indented_lines(message["content"])  # no line passes for ours
    yield "---- reply"
    yield from _indented_lines(ask["reply"] or "(none)")
    yield "----"
    yield f"  read as: {one_line(reading_of(ask))}"
    for step in ask["trail"]:
        yield f"  call: {json.dumps(step)}"


def _indented_lines(text: str) -> list[str]:
    """The lines of a text, indented: no line of a model or a transcript can pass for our output."""
    return [f"  {line}" for line in text.splitlines()]


def _usage_line(ask: Mapping[str, Any]) -> str:
    def shown(name: str, form: str) -> str:
        return "unknown" if ask[name] is None else format(ask[name], form)

    origin = "a kept reply" if ask["cached"] else plural(ask["attempts"], "call")
    return (
        f"{origin}, {shown('input_tokens', ',')} tokens in, {shown('output_tokens', ',')} out, "
        f"{shown('cost_usd', '.6f')} USD ({ask['cost_source']}), "
        f"{shown('latency_ms', '.0f')} ms, {shown('waited_ms', '.0f')} ms waited"
    )
