"""Explains a metric of a case: its scores, and every ask with its prompt, reply and cost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from assizes.judge.engine.replay_hearing import ReplayedHearing
from assizes.judge.errors import ConfigurationError, DataError
from assizes.judge.models.model import OFFLINE_PROVIDER
from assizes.judge.prompts.reply_request import messages
from assizes.tasks.intake.preprocessing import CasePreprocessor
from assizes.tasks.runs.stored_cases import StoredExecution, replay_stored_hearing, run_config
from assizes.tasks.store import RunRecord

_ASK_COLUMNS: Final = (
    *("round", "index", "model", "provider", "answered_by", "sample", "prompt_hash", "cached"),
    *("attempts", "input_tokens", "output_tokens", "cost_usd", "cost_source", "latency_ms"),
    *("waited_ms", "fingerprint", "flags", "error", "reply"),
)
"""Columns of table `asks` that an explanation shows."""

TextMask = Callable[[str], str]
"""Replaces in a text what the run was told not to store."""


def metric_explanation(
    record: RunRecord, execution: StoredExecution, metric: str, most_bytes: int | None = None
) -> dict[str, Any]:
    """Everything behind a metric of one execution of a case, as JSON-able data.

    The asks are rendered again from the transcript and checked by their hashes; `prompts` says
    whether that was possible.

    Args:
        record: the run.
        execution: the rows of the case.
        metric: name of the metric.
        most_bytes: objects with more bytes than this are not fetched; `None` for no limit.

    Raises:
        ConfigurationError: the case has no such metric.
    """
    scores = [row for row in execution.scores if row["metric"] == metric]
    if not scores:
        metrics = {row["metric"] for row in execution.scores}
        raise ConfigurationError.unknown(
            "metric", metric, metrics, f"case {execution.case['case_id']!r}"
        )
    judge = scores[0]["judge"]
    replayed_asks, fault, mask = _try_replay(record, execution, judge, most_bytes)
    asks = [row for row in execution.asks if row["judge"] == judge]
    by_row = {id(replayed_ask.row): replayed_ask for replayed_ask in replayed_asks}
    return {
        "run_id": record.run_id,
        "case_id": execution.case["case_id"],
        "repetition": execution.case["repetition"],
        "metric": metric,
        "judge": judge,
        "scores": [{**row, "details": json.loads(row["details"])} for row in scores],
        "asks": [_ask(row, by_row.get(id(row)), mask) for row in asks],
        "prompts": fault or "rendered anew from the transcript, checked by their hash",
    }


def _try_replay(
    record: RunRecord, execution: StoredExecution, judge: str, most_bytes: int | None
) -> tuple[Sequence[ReplayedHearing], str | None, TextMask]:
    """The rendered asks, the reason if they cannot be rendered, and the mask for their texts.

    The stored rows are shown in either case.
    """
    try:
        replayed_asks = asyncio.run(replay_stored_hearing(record, execution, judge, most_bytes))
        return replayed_asks, None, CasePreprocessor.from_config(run_config(record)).displayed_text
    except (DataError, ConfigurationError) as error:
        return [], f"cannot be rendered again: {error}", str


def _ask(
    row: Mapping[str, Any], replayed_ask: ReplayedHearing | None, mask: TextMask
) -> dict[str, Any]:
    ask_fields = {name: row[name] for name in _ASK_COLUMNS}
    ask_fields["trail"] = json.loads(row["trail"]) if row["trail"] else []
    if replayed_ask is None:
        return ask_fields | {"exact": None, "messages": [], "schema": None, "read": None}
    attempt = replayed_ask.attempt
    read = attempt and {
        "code": attempt.code,
        "complaint": attempt.complaint,
        "flags": list(attempt.flags),
    }
    return ask_fields | {
        "exact": replayed_ask.exact,
        "messages": [
            message | {"content": mask(message["content"])} for message in _messages(replayed_ask)
        ],
        "schema": replayed_ask.ask.reply.model_json_schema(),
        "read": read,
    }


def _messages(replayed_ask: ReplayedHearing) -> list[dict[str, str]]:
    """The messages of an ask; for the offline judge, those that a language model would get."""
    if replayed_ask.row["provider"] != OFFLINE_PROVIDER:
        return messages(replayed_ask.ask)
    prompt = replayed_ask.ask.prompt
    return [
        {"role": "system", "content": prompt.system},
        {"role": "user", "content": prompt.user},
    ]
