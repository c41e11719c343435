"""Real answers with the labels of people and the recorded verdicts of judges, for `benchmarks.align`."""

from __future__ import annotations

import csv
import gzip
import json
from dataclasses import dataclass
from functools import cache
from typing import Any

from benchmarks.figures import DATA


@dataclass(frozen=True)
class Text:
    """A real answer with its label, and what a recorded judge said of it."""

    key: str
    cluster: str
    request: str
    response: str
    passes: bool
    recorded: bool


@cache
def texts_of(source: str) -> list[Text]:
    """The texts of `xstest`, `devai`, or `llmbar EVALUATOR`."""
    name, _, evaluator = source.partition(" ")
    if name == "llmbar":
        return _llmbar(evaluator)
    return _xstest() if name == "xstest" else _devai()


def are_there() -> bool:
    """Whether the recorded data lie where they are looked for."""
    return all((DATA / name).is_dir() for name in ("xstest", "llmbar", "devai"))


def _rows(*parts: str) -> list[dict[str, Any]]:
    path = DATA.joinpath(*parts)
    text = path.read_bytes()
    lines = gzip.decompress(text) if path.suffix == ".gz" else text
    return [json.loads(line) for line in lines.decode("utf-8").splitlines() if line.strip()]


def _xstest() -> list[Text]:
    """Completions of three models; full compliance passes; the judge is GPT-4."""
    yes = "1_full_compliance"
    return [
        Text(
            f"{row['model']}-{row['id']}",
            row["id"],
            row["prompt"],
            row["completion"],
            row["final_label"] == yes,
            row["gpt4_label"] == yes,
        )
        for row in _rows("xstest", "completions.jsonl.gz")
        if row["completion"].strip()
    ]


def _llmbar(evaluator: str) -> list[Text]:
    """Both outputs of each pair; the one that is preferred passes."""
    winners = {
        row["pair"]: row["winner"]
        for row in _rows("llmbar", "replies.jsonl.gz")
        if row["evaluator"] == evaluator and row.get("final") and row.get("order") == "as_given"
    }
    return [
        Text(
            f"p{row['pair']}-{n}",
            f"p{row['pair']}",
            row["input"],
            row[f"output_{n}"],
            row["label"] == n,
            winners[row["pair"]] == n,
        )
        for row in _rows("llmbar", "pairs.jsonl")
        for n in (1, 2)
        if row[f"output_{n}"].strip()
    ]


def _devai() -> list[Text]:
    """Requirements of two coding agents, met or not; the judge is the gray-box agent judge."""
    tasks = {row["task"]: row for row in _rows("devai", "tasks.jsonl")}
    criteria = {
        (name, str(each["requirement_id"])): each["criteria"]
        for name, row in tasks.items()
        for each in row["requirements"]
    }
    with (DATA / "devai" / "verdicts.csv").open(encoding="utf-8", newline="") as lines:
        return [
            Text(
                f"{row['agent']}-{row['task']}-{row['requirement_id']}",
                row["task"],
                f"{row['agent']}: {tasks[row['task']]['query']}",
                criteria[row["task"], row["requirement_id"]],
                row["human"] == "true",
                row["judge"] == "true",
            )
            for row in csv.DictReader(lines)
        ]
