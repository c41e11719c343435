"""Answers to what a look asked for, within its room; what a model asks for is not trusted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from assizes.judge.case import Case
from assizes.judge.case_probe import StateProbe
from assizes.judge.config.judging import estimated_tokens
from assizes.judge.evidence.sql_results import result_text
from assizes.judge.excerpts.run_digest import shorten_middle, spans_text
from assizes.judge.excerpts.run_search import search_text
from assizes.judge.excerpts.spans import MOST_SPANS, Span
from assizes.judge.families.run_criteria.looks import CriteriaLook, ProbeRequest
from assizes.judge.protocol import FileQuery, FileText, NoReply, Query, QueryResult

MOST_SEARCHES: Final = 6
MOST_NAMES: Final = 3
MOST_PROBE_REQUESTS: Final = 4
"""What one look may ask for of each kind; further requests are left out."""
MAX_STATEMENT_CHARS: Final = 4_000
"""Characters of a statement, or of a path, that a model may write."""
MAX_RESULT_CHARS: Final = 20_000
"""Characters of the result of a probe that are kept for excerpts and for quotes."""
_SHOWN_ROWS: Final = 50
_SHORTEST_RESULT: Final = 24
"""Characters of the shortest excerpt of a result."""
_LEAST_TOKENS: Final = 60
"""Tokens without which an excerpt is not begun."""

Answer = Callable[[int], str]
"""The text of an answer in at most so many estimated tokens."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What a probe showed."""

    name: str
    argument: str
    text: str  # of at most `MAX_RESULT_CHARS`
    failed: bool = False  # the text says why


def probe_queries(
    probes: Sequence[StateProbe], requests: Sequence[ProbeRequest]
) -> list[tuple[ProbeRequest, Query | FileQuery | ProbeResult]]:
    """Each request with its query, or with the answer that refuses it."""
    known = {probe.name: probe for probe in probes}
    asked = [_as_declared(known, each) for each in requests[:MOST_PROBE_REQUESTS]]
    return [(each, _query(known, each)) for each in asked]


def _as_declared(known: dict[str, StateProbe], request: ProbeRequest) -> ProbeRequest:
    """The request with the statement or the file that its probe fixes, whatever was written."""
    probe = known.get(request.name)
    fixed = None if probe is None else probe.sql if probe.sql is not None else probe.file
    return request if fixed is None else ProbeRequest(name=request.name, argument=fixed)


def _query(known: dict[str, StateProbe], request: ProbeRequest) -> Query | FileQuery | ProbeResult:
    probe = known.get(request.name)
    if probe is None:
        names = ", ".join(known) or "none"
        return _refused(request, f"there is no such probe; the probes are: {names}")
    if probe.sql is None and len(request.argument) > MAX_STATEMENT_CHARS:
        return _refused(request, f"the argument has more than {MAX_STATEMENT_CHARS} characters")
    if probe.database is not None:
        if not request.argument.strip():
            return _refused(request, "the argument must be a SELECT statement")
        return Query(probe.database, (request.argument,), read_only=True)
    return FileQuery(probe.folder or "", request.argument)


def _refused(request: ProbeRequest, reason: str) -> ProbeResult:
    return ProbeResult(request.name, request.argument, reason, failed=True)


def probe_result(
    request: ProbeRequest, answer: QueryResult | FileText | NoReply
) -> ProbeResult | NoReply:
    """The result of a probe as text; a `NoReply` where the state itself could not be had."""
    if isinstance(answer, NoReply):
        return answer
    if isinstance(answer, FileText):
        text = answer.error or answer.text or "(empty)"
        failed = answer.error is not None
        tail = "\n(there is more)" if answer.truncated else ""
    else:
        (table,) = answer.tables
        text, failed, tail = result_text(table, _SHOWN_ROWS), table.error is not None, ""
    shown = f"{shorten_middle(text, MAX_RESULT_CHARS)}{tail}"
    return ProbeResult(request.name, request.argument, shown, failed)


def excerpts_text(
    case: Case,
    blocks: Sequence[str],
    look: CriteriaLook,
    results: Sequence[ProbeResult],
    most_tokens: int,
) -> str:
    """The answers to all requests of a look, in at most `most_tokens` (estimated).

    Each answer gets an equal share of what those before it left over.
    """
    answers = [
        *(_probe_answer(result) for result in results),
        *_search_answers(blocks, look.search[:MOST_SEARCHES]),
        *_span_answers(case, look.read[:MOST_SPANS]),
        *_tool_answers(case, look.tools[:MOST_NAMES]),
        *_agent_answers(case, look.agents[:MOST_NAMES]),
    ]
    left, parts = most_tokens, list[str]()
    for place, answer in enumerate(answers):
        share = left // (len(answers) - place)
        if share < _LEAST_TOKENS:
            continue
        text = answer(share)
        left -= estimated_tokens(text)
        parts.append(text)
    if len(parts) < len(answers):
        parts.append(f"({len(answers) - len(parts)} more requests: no room was left)")
    return "\n\n".join(parts)


def _probe_answer(result: ProbeResult) -> Answer:
    shown = shorten_middle(" ".join(result.argument.split()), 200)
    name = shorten_middle(" ".join(result.name.split()), 60)
    head = f"probe {name}({shown}){' failed' if result.failed else ''}:"
    return lambda most: _fitting(head, result.text, most)


def _fitting(head: str, text: str, most_tokens: int) -> str:
    """A heading and so much of a text that both have at most `most_tokens` (estimated)."""
    limit = len(text)
    shown = f"{head}\n{text}"
    while estimated_tokens(shown) > most_tokens and limit > _SHORTEST_RESULT:
        limit = limit * 3 // 4
        shown = f"{head}\n{shorten_middle(text, limit)}"
    return shown if estimated_tokens(shown) <= most_tokens else f"{head} no room to show it"


def _search_answers(blocks: Sequence[str], queries: Sequence[str]) -> list[Answer]:
    return [
        lambda most, query=query: search_text(blocks, query, most)  # type: ignore[misc]
        for query in queries
    ]


def _span_answers(case: Case, spans: Sequence[Span]) -> list[Answer]:
    last = len(case.transcript.turns) - 1
    answers: list[Answer] = []
    for span in spans:
        first, end = sorted((span.first, span.last))
        head = f"turns {first} to {end}"
        if first > last or end < 0:
            refusal = f"{head}: not in the run, whose turns are 0 to {last}"
            answers.append(lambda _most, text=refusal: text)  # type: ignore[misc]
            continue
        turns = range(max(0, first), min(last, end) + 1)
        answers.append(_turns_answer(case, f"{head}, in full where there is room:", turns))
    return answers


def _tool_answers(case: Case, names: Sequence[str]) -> list[Answer]:
    known = {call.name for _, call in case.transcript.calls()}
    answers: list[Answer] = []
    for name in names:
        calls = [(turn, call.id) for turn, call in case.transcript.calls() if call.name == name]
        ids = {call_id for _, call_id in calls if call_id is not None}
        results = [
            turn
            for turn, each in enumerate(case.transcript.turns)
            if each.tool_result is not None
            and (each.tool_result.call_id in ids or each.tool_result.name == name)
        ]
        turns = sorted({*(turn for turn, _ in calls), *results})
        answers.append(_named_answer(case, "tool", name, turns, known))
    return answers


def _agent_answers(case: Case, names: Sequence[str]) -> list[Answer]:
    turns = case.transcript.turns
    known = set(case.transcript.agents())
    return [
        _named_answer(
            case, "agent", name, [i for i, t in enumerate(turns) if t.agent == name], known
        )
        for name in names
    ]


def _named_answer(
    case: Case, kind: str, name: str, turns: Sequence[int], known: set[str]
) -> Answer:
    head = f"{kind} {shorten_middle(' '.join(name.split()), 60)}"
    if not turns:
        names = shorten_middle(", ".join(sorted(known)) or "none", 300)
        return lambda _most: f"{head}: not in the run; it has: {names}"
    return _turns_answer(case, f"{head}, {len(turns)} turns:", turns)


def _turns_answer(case: Case, head: str, turns: Sequence[int]) -> Answer:
    def answer(most_tokens: int) -> str:
        room = most_tokens - estimated_tokens(head)
        return f"{head}\n{spans_text(case.transcript, turns, max(0, room))}"

    return answer
