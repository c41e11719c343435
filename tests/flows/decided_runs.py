"""Runs whose cases carry the score that the judge gives them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from assizes.judge.case import Case
from assizes.judge.config.run import RunConfig
from assizes.judge.score import Metric, Score

JUDGED: list[str] = []
"""Ids of the cases that the judge has heard in this process, in order."""


def told_score(case: Case) -> list[Score]:
    """The score that the agent says it has."""
    JUDGED.append(case.case_id)
    value = float(list(case.transcript.agent_texts())[-1][1].split()[-1])
    return [Score("told", value=value, raw=value, passed=value >= 0.5)]


told_score.metrics = (Metric("told", gate="judges"),)  # type: ignore[attr-defined]
told_score.version = "1"  # type: ignore[attr-defined]


def transcripts_file(
    file: Path, values: Sequence[float], cluster: int = 1, rejects: int = 0
) -> Path:
    """Transcripts of cases with these scores, `cluster` of which share a cluster."""
    records = [
        {
            "id": f"c{number:04}",
            "messages": [
                {"role": "user", "content": f"Where is order {number}?"},
                {"role": "assistant", "content": f"It is there, with {value}"},
            ],
            **({"user": f"k{number // cluster}"} if cluster > 1 else {}),
        }
        for number, value in enumerate(values)
    ]
    lines = [json.dumps(record) for record in records] + ["{broken"] * rejects
    file.write_text("\n".join(lines) + "\n")
    return file


def decided_config(folder: Path, file: Path, **tables: Any) -> RunConfig:
    """A run over a file that stops when it is decided."""
    body = {
        "name": "decided",
        "transcripts": {"uri": str(file)},
        "judge": {"judges": ["tests.flows.decided_runs:told_score"]},
        "thresholds": {"metrics_pass_threshold": 0, "cases_pass_threshold": 0},
        "sampling": {"until": "decided", "min_cases": 30},
        "store": {"uri": f"duckdb:///{folder}/s.duckdb"},
        "cache": {"uri": f"{folder}/replies"},
        "report": {"uri": f"{folder}/reports"},
    }
    for name, table in tables.items():
        body[name] = body.get(name, {}) | table if isinstance(table, dict) else table
    return RunConfig.model_validate(body)
