"""`assizes explain`: how one metric of one case came about, from the prompt to the score."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from deployments.commands.output import print_json, print_line
from deployments.commands.stores import opened_store
from judge.errors import ConfigurationError, DataError
from judge.reply_request import messages
from judge.retold import Retold
from tasks.casebook import Kept, kept_rows, retold
from tasks.store import RunRecord

_ASK = ("round", "index", "model", "provider", "answered_by", "sample", "prompt_hash", "cached")
_COST = ("attempts", "input_tokens", "output_tokens", "cost_usd", "cost_source", "latency_ms")
_REST = ("waited_ms", "fingerprint", "flags", "error", "reply")


def explain(
    key: tuple[str, str, str, int | None], file: Path | None, uri: str | None, *, as_json: bool
) -> int:
    """Show every question behind a metric of a case, its reply, and what was made of it.

    Args:
        key: run, case, metric, repetition; null: the first one.
        file: configuration file.
        uri: the store; null: as configured.
        as_json: one JSON document instead of text.

    Raises:
        UnknownRun: the store has no such run.
        StoreError: the run has no such case.
        ConfigurationError: the case has no such metric.
    """
    run_id, case_id, metric, repetition = key
    with opened_store(file, uri) as store:
        record = store.run(run_id)
        kept = kept_rows(store, run_id, case_id, repetition)[0]
    document = explained(record, kept, metric)
    if as_json:
        print_json(document)
    else:
        for line in _lines(document):
            print_line(line)
    return 0


def explained(record: RunRecord, kept: Kept, metric: str) -> dict[str, Any]:
    """The same as plain data; `prompts` says why there are none where the case is not to be had.

    Raises:
        ConfigurationError: the case has no such metric.
    """
    scores = [row for row in kept.scores if row["metric"] == metric]
    if not scores:
        known = {row["metric"] for row in kept.scores}
        raise ConfigurationError.unknown("metric", metric, known, f"case {kept.case['case_id']!r}")
    judge = scores[0]["judge"]
    told, fault = _told(record, kept, judge)
    asks = [row for row in kept.asks if row["judge"] == judge]
    by_row = {id(one.row): one for one in told}
    return {
        "run_id": record.run_id,
        "case_id": kept.case["case_id"],
        "repetition": kept.case["repetition"],
        "metric": metric,
        "judge": judge,
        "scores": [{**row, "details": json.loads(row["details"])} for row in scores],
        "asks": [_ask(row, by_row.get(id(row))) for row in asks],
        "prompts": fault or "rendered anew from the transcript, checked by their hash",
    }


def _told(record: RunRecord, kept: Kept, judge: str) -> tuple[Sequence[Retold], str | None]:
    """The questions; or why they cannot be told again. What is stored is shown all the same."""
    try:
        return asyncio.run(retold(record, kept, judge)), None
    except (DataError, ConfigurationError) as error:
        return [], f"cannot be rendered again: {error}"


def _ask(row: Mapping[str, Any], told: Retold | None) -> dict[str, Any]:
    shown = {name: row[name] for name in (*_ASK, *_COST, *_REST)}
    shown["trail"] = json.loads(row["trail"]) if row["trail"] else []
    if told is None:
        return shown
    attempt = told.attempt
    return shown | {
        "exact": told.exact,
        "messages": messages(told.ask) if row["provider"] != "offline" else _plain(told),
        "schema": told.ask.reply.model_json_schema(),
        "read": None
        if attempt is None
        else {"code": attempt.code, "complaint": attempt.complaint, "flags": list(attempt.flags)},
    }


def _plain(told: Retold) -> list[dict[str, str]]:
    """What a language model would have been asked: the offline judge reads the evidence."""
    prompt = told.ask.prompt
    return [
        {"role": "system", "content": prompt.system},
        {"role": "user", "content": prompt.user},
    ]


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    yield (
        f"{document['metric']} of case {document['case_id']} (repetition {document['repetition']}) "
        f"in run {document['run_id']}, judge {document['judge']}"
    )
    for score in document["scores"]:
        yield from _score_lines(score)
    yield f"prompts: {document['prompts']}"
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
    yield "  ".join(words)
    if score["reason"]:
        yield f"  reason: {score['reason']}"
    for name, value in score["details"].items():
        yield f"  {name}: {value if isinstance(value, str) else json.dumps(value)}"
    if not score["part"]:
        yield f"  judge version {score['judge_version']}, rubric {score['rubric_hash'] or '-'}"


def _ask_lines(number: int, ask: Mapping[str, Any]) -> Iterator[str]:
    by = f", answered by {ask['answered_by']}" if ask["answered_by"] else ""
    yield f"question {number}: {ask['model']}{by}; round {ask['round']}, index {ask['index']}"
    yield f"  {_took(ask)}"
    if "messages" in ask:
        same = "as it was sent" if ask["exact"] else "rendered anew; another one was sent"
        yield f"  prompt {ask['prompt_hash']}: {same}"
        for message in ask["messages"]:
            yield f"---- {message['role']}"
            yield from message["content"].splitlines()
    yield "---- reply"
    yield from (ask["reply"] or "(none)").splitlines()
    yield "----"
    yield f"  read as: {_reading(ask)}"
    for step in ask["trail"]:
        yield f"  call: {json.dumps(step)}"


def _took(ask: Mapping[str, Any]) -> str:
    cost = "unknown" if ask["cost_usd"] is None else f"{ask['cost_usd']:.6f}"
    tokens = [
        "unknown" if ask[name] is None else f"{ask[name]:,}"
        for name in ("input_tokens", "output_tokens")
    ]
    kept = "a kept reply" if ask["cached"] else f"{ask['attempts']} calls"
    return (
        f"{kept}, {tokens[0]} tokens in, {tokens[1]} out, {cost} USD ({ask['cost_source']}), "
        f"{ask['latency_ms']:.0f} ms, {ask['waited_ms']:.0f} ms waited"
    )


def _reading(ask: Mapping[str, Any]) -> str:
    if ask["error"]:
        return f"no reply: {ask['error']}"
    read = ask.get("read")
    if read is None:
        return "as its scores above say"
    told = [read["complaint"] or "a reply that fits", *read["flags"], *(ask["flags"] or ())]
    return "; ".join(told)
