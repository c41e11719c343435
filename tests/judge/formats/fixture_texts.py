"""Texts of all fixtures, and helpers that write fixtures."""

from __future__ import annotations

import json
from pathlib import Path

FOLDER = Path(__file__).parent / "fixtures"
ASK = "Where is order 77?"
ANSWER = "It is late, sorry."
POLICY = "You are Fern, a flower-shop agent."
SCHEMA = {"type": "object", "properties": {"order_id": {"type": "integer"}}}


def lines(name: str, records: list[object]) -> None:
    """Write a file with one record a line."""
    text = "".join(f"{json.dumps(one, ensure_ascii=False)}\n" for one in records)
    (FOLDER / name).write_text(text, encoding="utf-8")


def whole(name: str, record: object) -> None:
    """Write a file that is one document."""
    (FOLDER / name).write_text(json.dumps(record, indent=2), encoding="utf-8")
