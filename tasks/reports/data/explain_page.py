"""The explanation of a metric, from `assizes.tasks.runs.explained`, as its page shows it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from assizes.tasks.reports.data.case_rows import finding_of
from assizes.tasks.reports.formatting import clean, count, duration, money

PROMPT_CHARS: Final = 400_000
"""Characters of a prompt or of a reply, at most."""

TEXT_CHARS: Final = 4000
"""Characters of any other text, at most."""


def explain_page(explanation: Mapping[str, Any]) -> dict[str, Any]:
    """The explanation of a metric with all its texts made safe for display."""
    return {
        **explanation,
        "scores": [_score(score) for score in explanation["scores"]],
        "asks": [_ask(ask) for ask in explanation["asks"]],
    }


def _score(row: Mapping[str, Any]) -> dict[str, Any]:
    finding = finding_of({**row, "details": json.dumps(row["details"])})
    return {
        "part": finding.part,
        "shown": finding.shown,
        "reason": clean(row["reason"], TEXT_CHARS) if row["reason"] else None,
        "details": [_detail(name, value) for name, value in row["details"].items()],
        "judge_version": row["judge_version"],
        "rubric_hash": row["rubric_hash"],
    }


def _detail(name: str, value: Any) -> dict[str, str]:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return {"name": clean(name, 120), "value": clean(text, TEXT_CHARS)}


def _ask(ask: Mapping[str, Any]) -> dict[str, Any]:
    messages = [
        {"role": message["role"], "content": clean(message["content"], PROMPT_CHARS)}
        for message in ask["messages"]
    ]
    return {
        "model": ask["model"],
        "round": ask["round"],
        "index": ask["index"],
        "exact": ask["exact"],
        "error": ask["error"] and clean(ask["error"], TEXT_CHARS),
        "reply": ask["reply"] and clean(ask["reply"], PROMPT_CHARS),
        "messages": messages,
        "took": _call_summary(ask),
        "reading": reading_of(ask),
    }


def _call_summary(ask: Mapping[str, Any]) -> str:
    calls = "a kept reply" if ask["cached"] else f"{ask['attempts']} calls"
    by = f"answered by {ask['answered_by']}, " if ask["answered_by"] else ""
    return (
        f"{by}{calls}, {count(ask['input_tokens'])} tokens in, {count(ask['output_tokens'])} out, "
        f"{money(ask['cost_usd'])} ({ask['cost_source']}), {duration(ask['latency_ms'])}, "
        f"waited {duration(ask['waited_ms'])}; prompt {ask['prompt_hash']}"
    )


def reading_of(ask: Mapping[str, Any]) -> str:
    """How the reply to an ask was read: its error, or its complaints and flags, as one line."""
    if ask["error"]:
        return f"no reply: {ask['error']}"
    read = ask["read"]
    if read is None:
        return "read as the scores say"
    remarks = [read["complaint"] or "a reply that fits", *read["flags"], *(ask["flags"] or ())]
    return "; ".join(remarks)
