"""How a metric of a case came about: its scores, and every question with prompt, reply and cost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from assizes.judge.engine.replay_hearing import Retold
from assizes.judge.errors import ConfigurationError, DataError
from assizes.judge.models.model import OFFLINE_PROVIDER
from assizes.judge.prompts.reply_request import messages
from assizes.tasks.intake.preprocessing import Treatment
from assizes.tasks.runs.stored_cases import Kept, retold, run_config
from assizes.tasks.store import RunRecord

_SHOWN: Final = (
    *("round", "index", "model", "provider", "answered_by", "sample", "prompt_hash", "cached"),
    *("attempts", "input_tokens", "output_tokens", "cost_usd", "cost_source", "latency_ms"),
    *("waited_ms", "fingerprint", "flags", "error", "reply"),
)
"""Columns of table asks."""


def explained(
    record: RunRecord, kept: Kept, metric: str, most_bytes: int | None = None
) -> dict[str, Any]:
    """Everything behind a metric of one execution, as JSON-able data.

    `prompts` says whether the questions could be rendered again: they are, from the transcript where
    it lies, and checked by their hash.

    Args:
        record: the run.
        kept: the execution.
        metric: its name.
        most_bytes: a transcript in a larger object is not fetched; null: any is.

    Raises:
        ConfigurationError: the case has no such metric.
    """
    scores = [row for row in kept.scores if row["metric"] == metric]
    if not scores:
        known = {row["metric"] for row in kept.scores}
        raise ConfigurationError.unknown("metric", metric, known, f"case {kept.case['case_id']!r}")
    judge = scores[0]["judge"]
    told, fault, hide = _told(record, kept, judge, most_bytes)
    asks = [row for row in kept.asks if row["judge"] == judge]
    by_row = {id(one.row): one for one in told}
    return {
        "run_id": record.run_id,
        "case_id": kept.case["case_id"],
        "repetition": kept.case["repetition"],
        "metric": metric,
        "judge": judge,
        "scores": [{**row, "details": json.loads(row["details"])} for row in scores],
        "asks": [_ask(row, by_row.get(id(row)), hide) for row in asks],
        "prompts": fault or "rendered anew from the transcript, checked by their hash",
    }


Hide = Callable[[str], str]
"""Takes out of a text what the run was not to store."""


def _told(
    record: RunRecord, kept: Kept, judge: str, most_bytes: int | None
) -> tuple[Sequence[Retold], str | None, Hide]:
    """The questions; or why they cannot be told again. What is stored is shown all the same."""
    try:
        found = asyncio.run(retold(record, kept, judge, most_bytes))
        return found, None, Treatment.of(run_config(record)).shown_text
    except (DataError, ConfigurationError) as error:
        return [], f"cannot be rendered again: {error}", str


def _ask(row: Mapping[str, Any], told: Retold | None, hide: Hide) -> dict[str, Any]:
    shown = {name: row[name] for name in _SHOWN}
    shown["trail"] = json.loads(row["trail"]) if row["trail"] else []
    if told is None:
        return shown | {"exact": None, "messages": [], "schema": None, "read": None}
    attempt = told.attempt
    read = attempt and {
        "code": attempt.code,
        "complaint": attempt.complaint,
        "flags": list(attempt.flags),
    }
    return shown | {
        "exact": told.exact,
        "messages": [one | {"content": hide(one["content"])} for one in _messages(told)],
        "schema": told.ask.reply.model_json_schema(),
        "read": read,
    }


def _messages(told: Retold) -> list[dict[str, str]]:
    """As they are sent; offline, where nothing is, what a language model would be asked."""
    if told.row["provider"] != OFFLINE_PROVIDER:
        return messages(told.ask)
    prompt = told.ask.prompt
    return [
        {"role": "system", "content": prompt.system},
        {"role": "user", "content": prompt.user},
    ]
