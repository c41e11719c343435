"""Runs by batch against the stub of a model server."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assizes.deployments.settings import validate_config
from assizes.judge.case import Case, Expected
from assizes.judge.config.run import RunConfig
from assizes.judge.formats import native_line
from tests.builders import agent, call, case, result, user
from tests.doubles.fixtures import OpenAIServer

JUDGES = ["conversation", "deep_judges:deep"]
PRICE = {"input_usd_per_million": 0.15, "output_usd_per_million": 0.6}
OWN = '''
from pydantic import BaseModel

from assizes.judge.protocol import Prompt, ask
from assizes.judge.score import Score


class Finding(BaseModel):
    finding: str
    score: int


def deep(case):
    """Asks in three rounds, each about the reply before, on every tenth case."""
    if not case.case_id.endswith("0"):
        return [Score.skipped("deep", "not a tenth case")]
    found = ""
    for number in (1, 2, 3):
        about = f"{case.case_id}, question {number}, so far: {found}"
        reply = yield from ask(Prompt("You look deeper.", about), Finding)
        found += reply.finding
    return [Score("deep", value=1.0, raw=1.0)]
'''


def own_judges(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """For the block, a module in `folder` with the judge that asks in three rounds."""
    (folder / "deep_judges.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(folder))
    yield
    sys.modules.pop("deep_judges", None)


def conversation(number: int) -> Case:
    return case(
        user(f"Where is order {number}?"),
        agent(calls=[call("find_order", order=number)]),
        result(f"order {number}: on its way"),
        agent(f"Order {number} is on its way."),
        case_id=f"case-{number:04d}",
        expected=Expected(outcomes=(f"The user was told where order {number} is.",)),
    )


def body(folder: Path, server: OpenAIServer, cases: int, **judge: Any) -> dict[str, Any]:
    judge = {"model": "openai/gpt-4o-mini", "api_base": server.api_base, **judge}
    lines = b"".join(native_line(conversation(number)) for number in range(cases))
    (folder / "t.jsonl").write_bytes(lines)
    return {
        "name": "batched",
        "transcripts": {"uri": str(folder / "t.jsonl")},
        "judge": judge,
        "limits": {
            "ledger": str(folder / "ledger.db"),
            "max_attempts": 2,
            "prices": {str(judge["model"]): PRICE},
        },
        "thresholds": {"metrics_pass_threshold": 0, "cases_pass_threshold": 0},
        "store": {"uri": f"duckdb:///{folder}/rows.duckdb"},
        "cache": {"uri": str(folder / "replies")},
        "report": {"uri": str(folder / "reports")},
        "runner": {"batch": True, "batch_poll_s": 0.05, "shard_size": 100},
    }


def config(folder: Path, server: OpenAIServer, cases: int, **judge: Any) -> RunConfig:
    return validate_config(body(folder, server, cases, **judge), "test")


def records(folder: Path) -> list[dict[str, Any]]:
    """The entries of the stored log of batches."""
    return [
        json.loads(file.read_text()) for file in sorted(folder.glob("replies/batches/*/*.json"))
    ]
