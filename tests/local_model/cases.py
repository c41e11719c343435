"""Cases in which every family of judges finds something to ask about, and the configuration of a trial."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomlkit

from assizes.judge.case import Case, Expected, Turn
from assizes.judge.formats import native_line
from tests.builders import agent, call, case, result, user
from tests.every_family import lay_out, whole_case

OTHER_SQL = "select count(id) from orders where state like 'late%'"

FAMILIES: Mapping[str, str] = {  # judge -> family
    "conversation": "conversation metrics",
    "diagnosis": "diagnosis",
    "sql": "sql",
    "search": "search",
    "visualization": "visualization",
    "response_quality": "response quality",
    "answer_criteria": "answer criteria",
    "answer_completeness": "answer criteria",
    "relevance_to_query": "rag",
    "groundedness": "rag",
    "safety": "rag",
    "correctness": "rag",
    "context_sufficiency": "rag",
    "chunk_relevance": "rag",
    "run_criteria": "run criteria",
    "politeness": "custom rubric",
}

_QUESTIONS = ("Where is order {}?", "Can I return order {}?", "Who packed order {}?")


def write(folder: Path, cases: list[Case]) -> None:
    """Lay out what a trial reads: transcripts, the database of the case, a rubric of the user's own."""
    folder.mkdir(parents=True, exist_ok=True)
    lay_out(folder)
    (folder / "t.jsonl").write_bytes(native_lines(cases))


def native_lines(cases: list[Case]) -> bytes:
    """The cases as a file of transcripts."""
    return b"".join(native_line(one) for one in cases)


def configure(folder: Path, model: str, api_base: str, tables: Mapping[str, Any]) -> None:
    """Write `assizes.toml`; `tables` are added to, and count before, what stands here."""
    body: dict[str, dict[str, Any]] = {
        "transcripts": {"uri": "t.jsonl", "databases": "."},
        "judge": {
            "model": f"openai/{model}",
            "api_base": api_base,
            "temperature": 0.0,
            "rubrics": ["own"],
        },
        "limits": {"max_in_flight": 1, "ledger": "ledger.db"},
        "thresholds": {
            "metrics_pass_threshold": 0,
            "cases_pass_threshold": 0,
            "min_coverage": 0,
        },
        "store": {"uri": "duckdb:///rows.duckdb"},
        "cache": {"uri": "replies"},
        "report": {"uri": "reports"},
    }
    for name, table in tables.items():
        if isinstance(table, Mapping):
            body[name] = {**body.get(name, {}), **table}
    body = {**{k: v for k, v in tables.items() if not isinstance(v, Mapping)}, **body}
    (folder / "assizes.toml").write_text(tomlkit.dumps(body))


def whole() -> Case:
    """A failed case with the ground truth of every family."""
    criteria = ("3 orders are late", "A late order is refunded within 5 days")
    return whole_case(0.0, OTHER_SQL, acceptance_criteria=criteria)


def long_run() -> Case:
    """A run of a hundred turns that the judge `run_criteria` must look into."""
    turns: list[Turn] = [user("Ship the forty oldest orders, then tell me how many went out.")]
    for number in range(40):
        row = json.dumps(
            {"order": number, "state": "shipped", "carrier": "north", "note": "x" * 90}
        )
        turns += [
            agent(calls=[call("ship", id=f"c{number}", order=number)]),
            result(row, call_id=f"c{number}", name="ship"),
        ]
    turns.append(agent("All 40 orders were shipped."))
    criteria = ("Order 17 was shipped.", "The user was told how many orders went out.")
    return case(*turns, case_id="long", expected=Expected(acceptance_criteria=criteria))


def short_ones(count: int, *, other: bool = False) -> list[Case]:
    """Cases with a question and an answer; `other`: with another answer to the same questions."""
    told = "I do not know." if other else "It is on its way and arrives on Friday."
    return [
        case(
            user(_QUESTIONS[number % 3].format(number)),
            agent(f"{told} (order {number})"),
            case_id=f"s{number}",
        )
        for number in range(count)
    ]
