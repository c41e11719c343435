"""Every prompt that judges send about a case, round after round, while their model repeats attacks.

A hearing is taken to its end: databases answer with the attack in their cells, columns and errors,
and each reply holds it wherever a text may stand. What is asked next has then gone through a model
that was talked into passing it on.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from assizes.judge.case import Case
from assizes.judge.catalog import JUDGES, JudgePanel, resolve_judges
from assizes.judge.config.judging import JudgeConfig
from assizes.judge.engine.second_look import mark_blanks
from assizes.judge.hearing import Hearing
from assizes.judge.prompts.prompt_texts import messages
from assizes.judge.protocol import Ask, Query, QueryResult, SqlTable
from benchmarks.hostile_cases import PLACES, Record, attacked, case_of

ASKING: Final = tuple(name for name, entry in JUDGES.items() if entry.asks)
"""All judges that put questions to a model."""

_PER_TURN: Final = ("sql", "search", "visualization", "response_quality")
_CRITERIA: Final = ("answer_criteria", "answer_completeness")
_OWN: Final[Mapping[str, str]] = {
    "own_yes_no": 'kind = "ANSWER"\nscale = "yes_no"\nshows = ["retrieved_context", "expected_response"]',
    "own_scored": 'kind = "ANSWER"\nscale = "scored"\nshows = ["retrieved_context", "expected_response"]',
    "own_chunks": 'kind = "RETRIEVAL"\nshows = ["response", "expected_response"]',
}
"""Judges as TOML files of a user, by name."""

_EXCHANGES: Final = 2
"""So many are put before a conversation, so that it does not fit into one prompt."""

_STATEMENTS: Final = ("SELECT seat FROM bookings", "SELECT broken FROM bookings")
_OF_A_TURN: Final = ("sql", "search_results", "chart_type", "response_quality")


@dataclass(frozen=True, slots=True)
class Sent:
    """One call to a model: who asks, in which form, and both messages of it."""

    judge: str
    form: str
    system: str
    user: str


@dataclass(frozen=True, slots=True)
class Benches:
    """Judges as most people seat them, and with everything that changes their prompts."""

    usual: JudgePanel
    unusual: JudgePanel


@lru_cache(maxsize=1)
def benches() -> Benches:
    """Both; own judges are read from a folder that is gone afterwards."""
    by_turn = {name: {"per_turn": True} for name in _PER_TURN}
    all_turns = {name: {"multi_turn_strategy": "all_turns"} for name in _CRITERIA}
    windows = {"conversation": {"context_tokens": 1000, "window_overlap": 1}}
    with tempfile.TemporaryDirectory() as folder:
        for name, table in _OWN.items():
            more = 'description = "Own."\nquestion = "Is it good?"'
            Path(folder, f"{name}.toml").write_text(f'name = "{name}"\n{table}\n{more}\n')
        config = {
            "judges": ("conversation", *_PER_TURN, *_CRITERIA, *_OWN),
            "model": "openai/none",
            "rubrics": (folder,),
            "options": {**by_turn, **all_turns, **windows},
        }
        unusual = resolve_judges(JudgeConfig.model_validate(config))
    # It reads failed cases only, and asks nobody where its rules are certain.
    diagnosed = {"diagnosis": {"cases": "all", "trust_program": False}}
    usual = JudgeConfig.model_validate(
        {"judges": ASKING, "model": "openai/none", "options": diagnosed}
    )
    return Benches(resolve_judges(usual), unusual)


def sent(place: str, text: str) -> Iterator[Sent]:
    """All calls about the plain case with a text at a place of it."""
    record = _working(place, text)
    yield from _of(benches().usual, case_of(record), text)
    yield from _of(benches().unusual, case_of(_longer(record)), text)


def first_asks() -> Iterator[Ask[Any]]:
    """The first asks about the plain case: somebody who saw their ids may use them."""
    plain = case_of(_working("metadata", "none"))
    for judge in benches().usual.judges:
        yield from (one for one in Hearing(judge, plain).asks if isinstance(one, Ask))


def _of(bench: JudgePanel, case: Case, text: str) -> Iterator[Sent]:
    for judge in bench.judges:
        hearing = Hearing(judge, case)
        while hearing.asks:
            for one in hearing.asks:
                if isinstance(one, Ask):
                    yield from _forms(judge.name, one, text)
            hearing.answer([_answer(one, text) for one in hearing.asks])


def _forms(judge: str, ask: Ask[Any], text: str) -> Iterator[Sent]:
    """As it is sent first, with the schema in words, again with what was wrong before, and at a
    second look.
    """
    forms = {
        "ask": messages(ask),
        "in words": messages(ask, in_words=True),
        "ask again": messages(ask, f"no entry for {text}; the reply was: {text}"),
        "second look": messages(replace(ask, prompt=mark_blanks(ask.prompt))),
    }
    for form, (system, user) in forms.items():
        yield Sent(judge, form, system["content"], user["content"])


def _answer(question: Ask[Any] | Query, text: str) -> BaseModel | QueryResult:
    if isinstance(question, Query):
        return QueryResult(tuple(_table(one, text) for one in question.statements))
    return _repeating(question.reply, text)


def _table(statement: str, text: str) -> SqlTable:
    """A statement can select any text, and an error can quote it."""
    if "broken" in statement:
        return SqlTable(statement, error=f"no such column: {text}")
    return SqlTable(statement, columns=(text, "seat"), rows=((text, "12A"),), row_count=1)


def _repeating(reply: type[BaseModel], text: str) -> BaseModel:
    schema = reply.model_json_schema()
    return reply.model_validate(_filled(schema, schema.get("$defs", {}), text))


def _filled(schema: Mapping[str, Any], known: Mapping[str, Any], text: str) -> Any:
    """The smallest value of a schema that holds a text wherever one may stand."""
    if "$ref" in schema:
        return _filled(known[schema["$ref"].rpartition("/")[2]], known, text)
    if "anyOf" in schema:
        return _filled(schema["anyOf"][0], known, text)
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema["type"]
    if kind == "object":
        fields = schema.get("properties", {})
        return {name: _filled(one, known, text) for name, one in fields.items()}
    if kind == "array":
        return [_filled(schema["items"], known, text)]
    return {"string": text, "integer": 0, "number": 0.0, "boolean": False}[kind]


def _working(place: str, text: str) -> Record:
    """The plain record with calls for the judges of SQL, of searches and of charts, and a text at a
    place of it and of these.
    """
    record = attacked(place, text)
    there = {one: f" {text}" if one == place else "" for one in PLACES}
    statements = [
        f"{one}{' -- ' if place == 'arguments' else ''}{there['arguments']}" for one in _STATEMENTS
    ]
    calls = [
        {"name": text if place == "tool_name" else "run_sql", "arguments": {"sql": statements}},
        {"name": "product_search", "arguments": {"query": f"AX7{there['arguments']}"}},
        {"name": "create_chart", "arguments": {"chart_type": f"line{there['arguments']}"}},
    ]
    turns = record["transcript"]["turns"]
    made: list[Record] = []
    for number, call in enumerate(calls):
        own = f"made_{number}{there['id']}"
        made.append({"role": "assistant", "tool_calls": [{**call, "id": own}]})
        result = {"content": f"AX7: done{there['tool_result']}", "call_id": own}
        made.append({"role": "tool", "tool_result": result})
    record["transcript"]["turns"] = [*turns[:-1], *made, turns[-1]]
    record["expected"] |= {
        "sql": [f"{_STATEMENTS[0]}{there['expected']}"],
        "database": "bookings.db",
    }
    record["expected"]["chart_type"] += there["expected"]
    record["expected"]["search_results"] = [f"AX7{there['expected']}"]
    return record


def _longer(record: Record) -> Record:
    """The same after some long exchanges about other things; each has its own expected values."""
    before = [
        {"role": role, "text": f"({number}) {said * 12}"}
        for number in range(_EXCHANGES)
        for role, said in (
            ("user", "Before that, may I ask which seats are by a window on this train? "),
            ("assistant", "Those with the letters A and F; both are near a socket for power. "),
        )
    ]
    expected = record["expected"]
    by_turn = [{name: expected[name] for name in _OF_A_TURN}] * (_EXCHANGES + 1)
    turns = [*before, *record["transcript"]["turns"]]
    return {
        **record,
        "transcript": {**record["transcript"], "turns": turns},
        "expected": {**expected, "additional_input": {"turns": by_turn}},
    }
