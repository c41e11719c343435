"""Offline rules for the agent-step and criteria judges: exact comparison, layout, shared words.

SQL results, coverage and chart types are compared exactly where the evidence allows it. All other
rules see surface signs: they miss a paraphrase, and count a word said in passing. Every pattern
runs in linear time, because anybody can write the texts of a transcript.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from assizes.judge.evidence.step_kinds import is_same_chart
from assizes.judge.families.agent_steps.conversations import ResponseEvidence
from assizes.judge.families.agent_steps.single_steps import SearchEvidence, VisualizationEvidence
from assizes.judge.families.agent_steps.sql import SqlEvidence
from assizes.judge.families.criteria.asks import Aspect, CoverageEvidence, DecomposeEvidence
from assizes.judge.heuristic.plain_reading import (
    content_words,
    is_prohibition,
    is_refusal,
    particulars,
    values,
)

_SQL_WORD: Final = re.compile(r"\w+|[<>=!*]+")  # names, numbers, operators
_SELECT_STAR: Final = re.compile(r"\bselect\s++(?:distinct\s++)?\*", re.IGNORECASE)

_CHART_HINTS: Final = {
    "line": re.compile(
        r"\b(?:trend|over time|monthly|daily|weekly|yearly|per (?:day|month|year))\b"
    ),
    "pie": re.compile(r"\b(?:share|proportion|percentages?|distribution|breakdown)\b"),
    "scatter": re.compile(r"\b(?:correlat\w*|relationship)\b"),
    "bar": re.compile(r"\b(?:compar\w*|ranking|top|most|least|by|per|each|versus)\b"),
}
"""Types of chart, each with the words of a request that suggest it; the first match counts."""

_CHART_WORDS: Final = re.compile(r"\b(?:charts?|graphs?|plots?|visuali[sz]\w*|diagrams?|draw)\b")

_HALF: Final = 0.5
"""Share of words that covers a concept, and share of concepts that covers an aspect."""

_SENTENCE = re.compile(r"(?<=[.!?])\s+|;")  # ends of sentences
_BULLET = re.compile(r"\s*(?:[-*•]|\(?\d{1,3}[.)])\s+")  # of a list, also numbered
_LEAD_IN = re.compile(r"[^:,]{1,60}:(?:\s+|$)")  # `Must mention:`
_JOINT = re.compile(r",|\band\b", re.IGNORECASE)  # between the items of an enumeration
_CLAUSE = re.compile(r"[.!?](?=\s|$)|[;,\n]|\bbut\b", re.IGNORECASE)  # 3.5 has no end
_NEGATION = re.compile(r"\b(?:not|no|never|none|without|cannot)\b|n't\b", re.IGNORECASE)


def sql(evidence: SqlEvidence) -> dict[str, Any]:
    """Score the result match and the efficiency (see `efficiency`) of SQL statements.

    Result match is the mean over the expected statements: the score of the compared results, else
    the share of words that the expected and the closest statement have in common.
    """
    made = [_sql_words(call.statement) for call in evidence.calls]
    scores = []
    for match in evidence.matches:
        due = _sql_words(match.expected)
        # Jaccard index: words in both / words in either; no word at all is nothing in common.
        overlaps = [len(due & words) / len(due | words) for words in made if due | words]
        scores.append(max(overlaps, default=0.0) if match.score is None else match.score)
    compared = sum(match.score is not None for match in evidence.matches)
    why = f"{compared} of {len(scores)} expected results compared, the others by their words"
    return {
        "result_match": _sub(math.fsum(scores) / len(scores), why),
        "efficiency": _sub(*efficiency(evidence)),
    }


def efficiency(evidence: SqlEvidence) -> tuple[float, str]:
    """Return the efficiency (0..1) of SQL statements, and its reason in words.

    A SELECT * that no expected statement has costs 0.3, each repeated or failed statement 0.2. A
    statement that an outage prevented costs nothing.
    """
    calls = [call for call in evidence.calls if not call.step.prevented]
    made = [_plain_sql(call.statement) for call in calls]
    starred = any(map(_SELECT_STAR.search, made)) and not any(
        map(_SELECT_STAR.search, evidence.expected)
    )
    repeated = len(made) - len(set(made))
    failed = sum(call.step.failed or call.statement in evidence.failed for call in calls)
    score = 1 - 0.3 * starred - 0.2 * repeated - 0.2 * failed
    star = "a SELECT *" if starred else "no needless SELECT *"
    return max(score, 0.0), f"{star}, {repeated} repeated and {failed} failed statements"


def search(evidence: SearchEvidence) -> dict[str, Any]:
    """Score the relevance and the coverage of search results.

    Relevance is the share of results that share a word with the requests or with an expected item.
    Coverage is the counted share of expected items; for an expected item described in words, it is
    the share of these words that the results hold.
    """
    expected = content_words(" ".join(map(_text, evidence.expected)))
    wanted = expected | content_words(" ".join(evidence.requests))
    item_words = [content_words(_text(item)) for item in evidence.results]
    near = sum(not words.isdisjoint(wanted) for words in item_words)
    coverage = evidence.coverage
    if coverage is None:
        coverage = _share(expected, set().union(*item_words))
    why = f"{near} of {len(item_words)} results share words"
    return {
        "relevance": _sub(near / len(item_words) if item_words else 0.0, why),
        "coverage": _sub(coverage, f"{coverage:.2f} of what was expected was found"),
    }


def visualization(evidence: VisualizationEvidence) -> dict[str, Any]:
    """Score the appropriateness and the type of a chart; both are 0 when every chart call failed.

    Appropriateness is 1 when the request asks for a chart or a type was expected, 0.8 when words of
    the request suggest a type, else 0.5. Chart type is 1 for the expected type and 0 for another;
    where none is expected, 1 for the suggested type, 0.5 for another, 0.8 when none is suggested.
    """
    if not evidence.chart_types:
        nothing = _sub(0.0, "every chart call failed")
        return {"appropriateness": nothing, "chart_type": nothing}
    request = " ".join(" ".join(evidence.requests).casefold().split())
    hint = next((kind for kind, words in _CHART_HINTS.items() if words.search(request)), None)
    if evidence.as_expected is not None or _CHART_WORDS.search(request):
        appropriateness = _sub(1.0, "a chart was asked for or expected")
    else:
        appropriateness = _sub(0.8 if hint else 0.5, "no chart was asked for by name")
    return {"appropriateness": appropriateness, "chart_type": _sub(*_chart_fit(evidence, hint))}


def _chart_fit(evidence: VisualizationEvidence, hint: str | None) -> tuple[float, str]:
    if evidence.as_expected is not None:
        words = "made" if evidence.as_expected else "not made"
        return float(evidence.as_expected), f"a {evidence.expected_type} chart was {words}"
    if hint is None:
        return 0.8, "any kind will do, and the request suggests none"
    if any(is_same_chart(kind, hint) for kind in evidence.chart_types):
        return 1.0, f"a {hint} chart suits the request"
    return 0.5, f"the request suggests a {hint} chart"


def response_quality(evidence: ResponseEvidence) -> dict[str, Any]:
    """Score the relevance and the faithfulness of a response.

    Relevance is the share of the expected words that the response has; where a refusal is expected,
    1 for words of refusal, else 0. Faithfulness is the share of the response's figures and
    identifiers that stand in steps, instructions or requests, 1 for none.
    """
    response = evidence.response
    if evidence.refusal or is_refusal(evidence.expected) or is_prohibition(evidence.expected):
        relevant = float(is_refusal(response))
        why = "the response refuses" if relevant else "a refusal was due, the response has none"
    else:
        relevant = _share(content_words(evidence.expected), content_words(response))
        why = f"it has {relevant:.2f} of the expected words"
    known = values("\n".join([evidence.context, *evidence.requests]))
    for step in evidence.steps:
        known |= values(f"{_text(step.arguments)}\n{step.raw or ''}\n{step.result or ''}")
    claims = particulars(response)
    known_count = sum(claim in known for claim in claims)
    known_why = f"{known_count} of {len(claims)} figures and identifiers stand in what it had"
    return {
        "relevance": _sub(relevant, why),
        "faithfulness": _sub(known_count / len(claims) if claims else 1.0, known_why),
    }


def decomposition(evidence: DecomposeEvidence) -> dict[str, Any]:
    """Split criteria into aspects and concepts by layout: the offline stand-in for that ask.

    An aspect is a line, a sentence, a part between semicolons, or an item after a lead-in such as
    `Must mention:`. The concepts of an aspect are its clauses between commas and `and`.
    """
    aspects = [
        {"aspect": aspect, "concepts": _clauses(aspect)} for aspect in _aspects(evidence.criteria)
    ]
    return {"reasoning": "Plain text rule: split by layout.", "aspects": aspects}


def coverage(evidence: CoverageEvidence) -> dict[str, Any]:
    """Rate by shared words which aspects an answer covers.

    A concept is covered when half of its content words occur in the answer, an aspect when half of
    its concepts are covered. A covered concept is contradicted when it is negated and all clauses
    that share its words are not, or the reverse.
    """
    answer = _content_text(evidence.response)
    clauses = [_content_text(clause) for clause in _CLAUSE.split(answer.text)]
    return {"aspects": [_finding(aspect, answer, clauses) for aspect in evidence.aspects]}


ANSWERS: Final[Mapping[type, Callable[[Any], dict[str, Any]]]] = {
    SqlEvidence: sql,
    SearchEvidence: search,
    VisualizationEvidence: visualization,
    ResponseEvidence: response_quality,
    DecomposeEvidence: decomposition,
    CoverageEvidence: coverage,
}
"""The offline rule for each type of evidence of the agent-step and criteria judges that ask."""


@dataclass(frozen=True, slots=True)
class _ContentText:
    """A text in lower case with its content words."""

    text: str
    words: frozenset[str]  # the content words, cut to the singular
    negated: bool  # whether it holds a word such as `not` or `never`

    def has_half_of(self, wanted: _ContentText) -> bool:
        """Whether half of the wanted content words occur; without any, the whole text must occur."""
        if not wanted.words:
            return wanted.text in self.text
        return len(wanted.words & self.words) / len(wanted.words) >= _HALF


def _content_text(text: str) -> _ContentText:
    flat = text.replace("\u2019", "'").casefold()  # the typographic apostrophe
    words = frozenset(
        word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
        for word in content_words(flat)
    )
    return _ContentText(flat, words, _NEGATION.search(flat) is not None)


def _finding(
    aspect: Aspect, answer: _ContentText, clauses: Sequence[_ContentText]
) -> dict[str, Any]:
    wanted = {concept.id: _content_text(concept.text) for concept in aspect.concepts}
    covered = [id_ for id_, concept in wanted.items() if answer.has_half_of(concept)]
    contradicted = []
    for id_ in covered:
        near = [clause for clause in clauses if clause.has_half_of(wanted[id_])]
        if near and all(clause.negated is not wanted[id_].negated for clause in near):
            contradicted.append(id_)
    count = f"{len(covered)} of {len(wanted)}"
    return {
        "id": aspect.id,
        "reason": f"Plain text rule: {count} concepts share half of their words with the answer.",
        "concepts_covered": covered,
        "concepts_missing": [id_ for id_ in wanted if id_ not in covered],
        "concepts_contradicted": contradicted,
        "covered": len(covered) / len(wanted) >= _HALF,
    }


def _aspects(criteria: str) -> Iterator[str]:
    for line in criteria.splitlines():
        bullet = _BULLET.match(line)
        for piece in _SENTENCE.split(line[bullet.end() :] if bullet else line):
            # A bullet is one aspect, with its colon and commas.
            lead_in = None if bullet else _LEAD_IN.match(piece)
            items = _clauses(piece[lead_in.end() :]) if lead_in else [_bare(piece)]
            yield from filter(None, items)


def _clauses(text: str) -> list[str]:
    return [clause for part in _JOINT.split(text) if (clause := _bare(part))]


def _bare(text: str) -> str:
    return text.strip(" \t\r.,:;!?")


def _sub(score: float, why: str) -> dict[str, Any]:
    return {"reasoning": f"Plain text rule: {why}.", "score": round(min(max(score, 0.0), 1.0), 9)}


def _plain_sql(statement: str) -> str:
    return " ".join(statement.casefold().rstrip("; \n").split())


def _sql_words(statement: str) -> set[str]:
    return set(_SQL_WORD.findall(_plain_sql(statement)))


def _share(due: set[str], had: set[str]) -> float:
    return len(due & had) / len(due) if due else 0.0  # 0..1; 0 where nothing is due


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
