"""Execution accuracy of six text-to-SQL systems on 99 Spider questions, through the clerk."""

from __future__ import annotations

import asyncio
import json
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assizes.judge.evidence.sql_results import BOTH_EMPTY, compare_results
from assizes.judge.protocol import NoReply, Query, SqlTable
from assizes.tasks.sandbox.sql_runner import SandboxSqlRunner
from benchmarks.figures import DATA, Figures

KNOWN = {
    "dail_gpt4": (0.847, 0.898),
    "dail_gpt4_self_consistency": (0.867, 0.908),
    "chatgpt_c3": (0.808, 0.838),
    "graphix": (0.776, 0.796),
    "llama": (0.273, 0.283),
    "falcon": (0.222, 0.232),
}
"""Accuracy with the columns as selected, and with columns in any order."""

EMPTY_GOLDS = 4
STATEMENT_S = 5.0


@dataclass
class Measured:
    """What one pass over the predictions found."""

    strict: dict[str, list[bool]] = field(default_factory=lambda: defaultdict(list))
    permuted: dict[str, list[bool]] = field(default_factory=lambda: defaultdict(list))
    empty_golds: set[int] = field(default_factory=set)
    weak: set[int] = field(default_factory=set)
    """Questions where a prediction was as empty as the gold result, which shows little."""
    gold_errors: set[int] = field(default_factory=set)
    slowest_s: float = 0.0


async def measured(folder: Path, systems: set[str] | None = None) -> Measured:
    """Run every prediction, with its gold statement, on its database."""
    questions = {row["qid"]: row for row in _rows(folder / "questions.jsonl")}
    found = Measured()
    clerk = SandboxSqlRunner(folder / "db")
    golds: dict[int, SqlTable] = {}
    try:
        for qid, row in questions.items():
            golds[qid] = await _table(clerk, row["db_id"], row["gold_sql"])
            if golds[qid].error is not None:
                found.gold_errors.add(qid)
            elif not golds[qid].rows:
                found.empty_golds.add(qid)
        for row in _rows(folder / "predictions.jsonl"):
            if systems is not None and row["system"] not in systems:
                continue
            begun = time.perf_counter()
            table = await _table(clerk, questions[row["qid"]]["db_id"], row["sql"])
            found.slowest_s = max(found.slowest_s, time.perf_counter() - begun)
            gold = golds[row["qid"]]
            match = compare_results(gold, table)
            found.strict[row["system"]].append(match.equal)
            if match.reason == BOTH_EMPTY:
                found.weak.add(row["qid"])
            free = compare_results(gold, table, permute_columns=True)
            found.permuted[row["system"]].append(free.equal)
    finally:
        await clerk.aclose()
    return found


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


async def _table(clerk: SandboxSqlRunner, database: str, sql: str) -> SqlTable:
    found = await clerk.look_up(Query(f"{database}.sqlite", (sql,)))
    if isinstance(found, NoReply):
        raise SystemExit(found.reason)
    return found.tables[0]


def main() -> None:
    """Print the accuracy of each system, strict and with columns in any order."""
    figures = Figures()
    folder = DATA / "spider_dev_subset"
    if not folder.exists():
        print(f"no data sets at {DATA}: nothing to measure")
        return
    begun = time.perf_counter()
    found = asyncio.run(measured(folder))
    for system, goals in KNOWN.items():
        for name, passed, goal in zip(
            ("strict", "permuted"),
            (found.strict[system], found.permuted[system]),
            goals,
            strict=True,
        ):
            accuracy = round(sum(passed) / len(passed), 3)
            figures.add(f"{system}_{name}", accuracy, least=goal, most=goal)
    figures.add("empty_golds", len(found.empty_golds), least=EMPTY_GOLDS, most=EMPTY_GOLDS)
    figures.add("weak_matches", len(found.weak), least=EMPTY_GOLDS, most=EMPTY_GOLDS)
    figures.add("gold_errors", len(found.gold_errors), most=0)
    figures.add("slowest_statement_s", found.slowest_s, most=STATEMENT_S)
    figures.add("all_s", time.perf_counter() - begun)
    figures.close()


if __name__ == "__main__":
    main()
