"""Transcripts day by day, and a configuration over them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from prefect.client.schemas.objects import State

from assizes.deployments.samples import sample_cases
from assizes.deployments.settings import validate_config
from assizes.judge.case import Case
from assizes.judge.config.run import RunConfig
from assizes.judge.formats import native_line
from assizes.tasks.store import open_store

OPEN_GATES = {"metrics_pass_threshold": 0, "cases_pass_threshold": 0}


def ago(days: int = 0) -> date:
    """The day some days before today, computed within a test: the suite may have begun yesterday."""
    return datetime.now(UTC).date() - timedelta(days=days)


def cases_of(day: date, count: int = 2, version: str | None = None) -> list[Case]:
    """Cases with ids and texts that no other day has, so that no ask is answered from the cache."""
    samples = sample_cases()
    start = day.toordinal() * count
    return [
        _own(samples[(start + number) % len(samples)], f"{day}-{number}", version)
        for number in range(count)
    ]


def _own(case: Case, case_id: str, version: str | None) -> Case:
    first, *others = case.transcript.turns
    first = first.model_copy(update={"text": f"{first.text} ({case_id})"})
    transcript = case.transcript.model_copy(update={"turns": (first, *others)})
    return case.model_copy(
        update={
            "case_id": case_id,
            "agent": "airline",
            "agent_version": version or case.agent_version,
            "transcript": transcript,
        }
    )


def lay(folder: Path, day: date, cases: Sequence[Case], after: bytes = b"") -> Path:
    """Write the transcripts of a day to the folder of that day."""
    file = folder / "logs" / day.isoformat() / "part-0.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"".join(native_line(case) for case in cases) + after)
    return file


def dated(folder: Path, **tables: Any) -> RunConfig:
    """A configuration over the days of a folder; every gate is open."""
    body: dict[str, Any] = {
        "name": "suite",
        "transcripts": {"uri": f"{folder}/logs/{{date}}/"},
        "thresholds": OPEN_GATES,
        "limits": {"ledger": f"{folder}/ledger.db"},
        "store": {"uri": f"{folder}/lake"},
        "cache": {"uri": f"{folder}/replies"},
        "report": {"uri": f"{folder}/reports"},
    }
    merged = {name: {**body[name], **table} for name, table in tables.items() if name in body}
    return validate_config({**body, **tables, **merged}, "test")


async def ended(state: State[Any]) -> Any:
    found = await state.aresult(raise_on_failure=False)
    if isinstance(found, BaseException):
        raise found
    return found


def rows(config: RunConfig) -> list[dict[str, Any]]:
    """Table runs, the earliest first."""
    with open_store(config.store) as store:
        return list(reversed(store.runs().to_dicts()))
