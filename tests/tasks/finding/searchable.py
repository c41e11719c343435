"""A judged run over a few written conversations, in a DuckDB file or a lake."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import assizes
from assizes.judge.config.run import RunConfig, StoreConfig
from assizes.tasks.store import open_store

CONVERSATIONS: Mapping[str, Sequence[str]] = {
    "late": ("My parcel is late, I want a refund.", "The refund was sent today."),
    "Ärger": ("Ärger mit der Rückgabe", "Bitte senden Sie das Paket zurück."),
    "退款": ("我想要退款谢谢", "退款需要三天"),
    "private": ("Write to ada@example.org about parcels", "I wrote to you."),
    "hostile": ('<script>alert(1)</script> or " or 1=1 --', "=HYPERLINK(0)"),
}


def record(case_id: str, user: str, agent: str) -> dict[str, Any]:
    turns = [{"role": "user", "text": user}, {"role": "assistant", "text": agent}]
    return {
        "case_id": case_id,
        "agent": "shop",
        "agent_version": "1.2",
        "tags": {"channel": "chat", "language": case_id[0]},
        "transcript": {"turns": turns},
    }


def write_transcripts(file: Path, conversations: Mapping[str, Sequence[str]]) -> None:
    lines = [json.dumps(record(name, *said)) for name, said in conversations.items()]
    file.parent.mkdir(exist_ok=True)
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def judged_run(
    folder: Path,
    store: str,
    conversations: Mapping[str, Sequence[str]] = CONVERSATIONS,
    **tables: Any,
) -> tuple[StoreConfig, str]:
    """Judge conversations offline; returns the store and the id of the run."""
    write_transcripts(folder / "in" / "cases.jsonl", conversations)
    config = RunConfig.model_validate(
        {
            "name": "shop",
            "transcripts": {"uri": f"{folder}/in/*.jsonl"},
            "store": {"uri": store},
            "cache": {"uri": f"{folder}/cache"},
            "limits": {"ledger": f"{folder}/ledger.db"},
            **tables,
        }
    )
    assizes.evaluate(config)
    with open_store(config.store) as opened:
        return config.store, opened.runs()["run_id"][0]
