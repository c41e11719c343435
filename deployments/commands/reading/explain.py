"""`assizes explain`: the prompts, replies, costs and versions behind one metric of one case."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from assizes.deployments.commands.output import print_json, print_line
from assizes.deployments.commands.stores import CaseSelection, opened_store
from assizes.tasks.reports.data.explain_page import reading_of
from assizes.tasks.reports.formatting import one_line
from assizes.tasks.runs.explained import metric_explanation
from assizes.tasks.runs.stored_cases import stored_executions


def explain_metric(
    chosen: CaseSelection, metric: str, file: Path | None, uri: str | None, *, as_json: bool
) -> int:
    """Print every ask behind a metric of a case, its reply, and the scores found in the replies.

    Args:
        chosen: the case; of several repetitions the first one is taken.
        metric: name of the metric.
        file: configuration file.
        uri: value of `--store`.
        as_json: print one JSON document.

    Returns:
        0.

    Raises:
        UnknownRun: the store has no such run.
        StoreError: the run has no such case.
        ConfigurationError: the case has no such metric.
    """
    with opened_store(file, uri) as store:
        record = store.run(chosen.run_id)
        executions = stored_executions(store, chosen.run_id, chosen.case_id, chosen.repetition)
        execution = executions[0]
    document = metric_explanation(record, execution, metric)
    if as_json:
        print_json(document)
    else:
        for line in _explanation_lines(document):
            print_line(line)
    return 0


def _explanation_lines(document: Mapping[str, Any]) -> Iterator[str]:
    yield one_line(
        f"{document['metric']} of case {document['case_id']} (repetition {document['repetition']}) "
        f"in run {document['run_id']}, judge {document['judge']}"
    )
    for score in document["scores"]:
        yield from _score_lines(score)
    yield one_line(f"prompts: {document['prompts']}")
    if not document["asks"]:
        yield "no question was put: this judge reads the transcript by itself, or did not apply"
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
        same = "as it was sent" if ask["exact"] else "rendered anew; another one was sent"
        yield f"  prompt {ask['prompt_hash']}: {same}"
        for message in ask["messages"]:
            yield f"---- {message['role']}"
            yield from _indented_lines(message["content"])
    yield "---- reply"
    yield from _indented_lines(ask["reply"] or "(none)")
    yield "----"
    yield f"  read as: {one_line(reading_of(ask))}"
    for step in ask["trail"]:
        yield f"  call: {json.dumps(step)}"


def _indented_lines(text: str) -> list[str]:
    """The lines of a text, indented: no line of a model or a transcript can pass for our output."""
    return [f"  {line}" for line in text.splitlines()]


def _ms(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.0f}"


def _usage_line(ask: Mapping[str, Any]) -> str:
    cost = "unknown" if ask["cost_usd"] is None else f"{ask['cost_usd']:.6f}"
    tokens = [
        "unknown" if ask[name] is None else f"{ask[name]:,}"
        for name in ("input_tokens", "output_tokens")
    ]
    origin = "a kept reply" if ask["cached"] else f"{ask['attempts']} calls"
    return (
        f"{origin}, {tokens[0]} tokens in, {tokens[1]} out, {cost} USD ({ask['cost_source']}), "
        f"{_ms(ask['latency_ms'])} ms, {_ms(ask['waited_ms'])} ms waited"
    )
