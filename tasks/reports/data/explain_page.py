"""Explains a metric of a case: its scores, and every ask with its prompt, reply and cost."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from assizes.judge.engine.ask_records import ReplayedHearing
from assizes.judge.engine.blocking import run_blocking
from assizes.judge.errors import ConfigurationError, DataError
from assizes.judge.models.model import OFFLINE_PROVIDER
from assizes.judge.prompts.prompt_texts import messages
from assizes.tasks.intake.preprocessing import CasePreprocessor
from assizes.tasks.reports.data.case_rows import finding_of
from assizes.tasks.reports.formatting import clean, count, duration, money, plural
from assizes.tasks.runs.stored_cases import StoredExecution, replay_stored_hearing, run_config
from assizes.tasks.store import RunRecord

PROMPT_CHARS: Final = 400_000  # characters of a prompt or of a reply on the page, at most
TEXT_CHARS: Final = 4000  # characters of any other text on the page, at most

_ASK_COLUMNS: Final = (
    *("round", "index", "model", "provider", "answered_by", "sample", "prompt_hash", "cached"),
    *("attempts", "input_tokens", "output_tokens", "cost_usd", "cost_source", "latency_ms"),
    *("waited_ms", "fingerprint", "flags", "error", "reply"),
)
"""Columns of table `asks` that an explanation shows."""


def metric_explanation(
    record: RunRecord, execution: StoredExecution, metric: str, most_bytes: int | None = None
) -> dict[str, Any]:
    """Everything behind a metric of one execution of a case, as JSON-able data.

    `prompts` says whether the asks could be rendered again; no object of more than `most_bytes` is
    fetched for it.

    Raises:
        ConfigurationError: the case has no such metric.
    """
    scores = [row for row in execution.scores if row["metric"] == metric]
    case_id = execution.case["case_id"]
    if not scores:
        metrics = {row["metric"] for row in execution.scores}
        raise ConfigurationError.unknown("metric", metric, metrics, f"case {case_id!r}")
    judge = scores[0]["judge"]
    mask: Callable[[str], str] = str  # changes nothing, until the rules of the run are known
    replayed_asks: list[ReplayedHearing] = []
    prompts = "rendered anew from the transcript, checked by their hash"
    try:
        replayed_asks = run_blocking(replay_stored_hearing(record, execution, judge, most_bytes))
        mask = CasePreprocessor.from_config(run_config(record)).displayed_text
    except (DataError, ConfigurationError) as error:  # the stored rows are shown all the same
        replayed_asks, prompts = [], f"cannot be rendered again: {error}"
    # A row is a dict and has no hash; the replay hands back the very objects it was given.
    by_row = {id(replayed_ask.row): replayed_ask for replayed_ask in replayed_asks}
    return {
        "run_id": record.run_id,
        "case_id": case_id,
        "repetition": execution.case["repetition"],
        "metric": metric,
        "judge": judge,
        "scores": [{**row, "details": json.loads(row["details"])} for row in scores],
        "asks": [
            _rendered_ask(row, by_row.get(id(row)), mask)
            for row in execution.asks
            if row["judge"] == judge
        ],
        "prompts": prompts,
    }


def _rendered_ask(
    row: Mapping[str, Any], replayed_ask: ReplayedHearing | None, mask: Callable[[str], str]
) -> dict[str, Any]:
    """A row of table `asks` with its messages, in which `mask` hides what may not be stored."""
    ask_fields = {name: row[name] for name in _ASK_COLUMNS}
    ask_fields["trail"] = json.loads(row["trail"]) if row["trail"] else []
    if replayed_ask is None:  # its transcript is gone or has changed
        return ask_fields | {"exact": None, "messages": [], "schema": None, "read": None}
    attempt, prompt = replayed_ask.attempt, replayed_ask.ask.prompt
    if row["provider"] != OFFLINE_PROVIDER:
        sent = messages(replayed_ask.ask)
    else:  # what a language model would get
        sent = [{"role": role, "content": getattr(prompt, role)} for role in ("system", "user")]
    read = attempt and {
        "code": attempt.code,
        "complaint": attempt.complaint,
        "flags": list(attempt.flags),
    }
    return ask_fields | {
        "exact": replayed_ask.exact,  # the hash of the prompt is that of the prompt that was sent
        "messages": [message | {"content": mask(message["content"])} for message in sent],
        "schema": replayed_ask.ask.reply.model_json_schema(),
        "read": read,
    }


def explain_page(explanation: Mapping[str, Any]) -> dict[str, Any]:
    """An explanation from `metric_explanation` with all its texts made safe for display."""
    scores = [_score(score) for score in explanation["scores"]]
    return {**explanation, "scores": scores, "asks": [_ask(ask) for ask in explanation["asks"]]}


def _score(row: Mapping[str, Any]) -> dict[str, Any]:
    finding = finding_of({**row, "details": json.dumps(row["details"])})
    details = []
    for name, value in row["details"].items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        details.append({"name": clean(name, 120), "value": clean(text, TEXT_CHARS)})
    return {
        "part": finding.part,
        "shown": finding.shown,
        "failure_code": finding.failure_code,
        "reason": clean(row["reason"], TEXT_CHARS) if row["reason"] else None,
        "details": details,
        "judge_version": row["judge_version"],
        "rubric_hash": row["rubric_hash"],
    }


def _ask(ask: Mapping[str, Any]) -> dict[str, Any]:
    calls = "a kept reply" if ask["cached"] else plural(ask["attempts"], "call")
    by = f"answered by {ask['answered_by']}, " if ask["answered_by"] else ""
    return {
        **{name: ask[name] for name in ("model", "round", "index", "exact")},
        "error": ask["error"] and clean(ask["error"], TEXT_CHARS),
        "reply": ask["reply"] and clean(ask["reply"], PROMPT_CHARS),
        "messages": [
            {"role": message["role"], "content": clean(message["content"], PROMPT_CHARS)}
            for message in ask["messages"]
        ],
        "took": (
            f"{by}{calls}, {count(ask['input_tokens'])} tokens in, "
            f"{count(ask['output_tokens'])} out, {money(ask['cost_usd'])} ({ask['cost_source']}), "
            f"{duration(ask['latency_ms'])}, waited {duration(ask['waited_ms'])}; "
            f"prompt {ask['prompt_hash']}"
        ),
        "reading": reading_of(ask),
    }


def reading_of(ask: Mapping[str, Any]) -> str:
    """How the reply to an ask was read: its error, or its complaints and flags, as one line."""
    if ask["error"]:
        return f"no reply: {ask['error']}"
    read = ask["read"]
    if read is None:
        return "read as the scores say"
    remarks = [read["complaint"] or "a reply that fits", *read["flags"], *(ask["flags"] or ())]
    return "; ".join(remarks)
