"""Offline rules for the agent-step judges: exact comparison where possible, else shared words.

SQL results, coverage and chart types are compared exactly where the evidence allows it. All other
rules see surface signs only: a score means no more than its rule's docstring says.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from assizes.judge.evidence.steps import is_same_chart
from assizes.judge.families.agent_steps.response import ResponseEvidence
from assizes.judge.families.agent_steps.search import SearchEvidence
from assizes.judge.families.agent_steps.sql import SqlEvidence, StatementMatch
from assizes.judge.families.agent_steps.visualization import VisualizationEvidence
from assizes.judge.heuristic.plain_reading import (
    content_words,
    is_prohibition,
    is_refusal,
    particulars,
    values,
)

_SQL_WORD: Final = re.compile(r"\w+|[<>=!*]+")
_SELECT_STAR: Final = re.compile(r"\bselect\s++(?:distinct\s++)?\*", re.IGNORECASE)

_CHART_HINTS: Final = (
    (
        "line",
        re.compile(r"\b(?:trend|over time|monthly|daily|weekly|yearly|per (?:day|month|year))\b"),
    ),
    ("pie", re.compile(r"\b(?:share|proportion|percentages?|distribution|breakdown)\b")),
    ("scatter", re.compile(r"\b(?:correlat\w*|relationship)\b")),
    ("bar", re.compile(r"\b(?:compar\w*|ranking|top|most|least|by|per|each|versus)\b")),
)
"""Types of chart, each with the words of a request that suggest it; the first match counts."""

_CHART_WORDS: Final = re.compile(r"\b(?:charts?|graphs?|plots?|visuali[sz]\w*|diagrams?|draw)\b")


def sql(evidence: SqlEvidence) -> dict[str, Any]:
    """Score the result match and the efficiency of SQL statements.

    Result match is the mean over the expected statements: the score of the compared results, or,
    where results could not be compared, the share of words that the expected and the closest
    statement have in common. For efficiency see `efficiency`.
    """
    made = [call.statement for call in evidence.calls]
    scores = [_match_score(match, made) for match in evidence.matches]
    compared = sum(match.score is not None for match in evidence.matches)
    why = f"{compared} of {len(scores)} expected results compared, the others by their words"
    score, cost = efficiency(evidence)
    return {
        "result_match": _sub(math.fsum(scores) / len(scores), why),
        "efficiency": _sub(score, cost),
    }


def efficiency(evidence: SqlEvidence) -> tuple[float, str]:
    """Return the efficiency (0..1) of SQL statements, and its reason in words.

    Efficiency is 1, less 0.3 for a SELECT * that no expected statement has, less 0.2 for each
    repeated and each failed statement.
    """
    made = [_plain_sql(call.statement) for call in evidence.calls]
    starred = any(map(_SELECT_STAR.search, made)) and not any(
        map(_SELECT_STAR.search, evidence.expected)
    )
    repeated = len(made) - len(set(made))
    failed = sum(call.step.failed or call.statement in evidence.failed for call in evidence.calls)
    score = 1 - 0.3 * starred - 0.2 * repeated - 0.2 * failed
    star = "a SELECT *" if starred else "no needless SELECT *"
    return max(score, 0.0), f"{star}, {repeated} repeated and {failed} failed statements"


def search(evidence: SearchEvidence) -> dict[str, Any]:
    """Score the relevance and the coverage of search results.

    Relevance is the share of results that share a word with the requests or with an expected item.
    Coverage is the counted share of expected items; for an expected item described in words, it is
    the share of these words that the results hold.
    """
    requested = content_words(" ".join(evidence.requests))
    expected = content_words(" ".join(map(_text, evidence.expected)))
    item_words = [content_words(_text(item)) for item in evidence.results]
    near = sum(bool(words & (requested | expected)) for words in item_words)
    coverage = evidence.coverage
    if coverage is None:
        coverage = _share(expected, set().union(*item_words))
    return {
        "relevance": _sub(
            near / len(item_words) if item_words else 0.0,
            f"{near} of {len(item_words)} results share words",
        ),
        "coverage": _sub(coverage, f"{coverage:.2f} of what was expected was found"),
    }


def visualization(evidence: VisualizationEvidence) -> dict[str, Any]:
    """Score the appropriateness and the type of a chart.

    Appropriateness is 1 when the request asks for a chart or a type was expected, 0.8 when words of
    the request suggest a type, else 0.5. Chart type is 1 for the expected type and 0 for another;
    without an expected type it is 1 for the type that the request suggests, 0.5 for another, and
    0.8 when the request suggests none. Both are 0 when every chart call failed.
    """
    if not evidence.chart_types:
        nothing = _sub(0.0, "every chart call failed")
        return {"appropriateness": nothing, "chart_type": nothing}
    request = " ".join(" ".join(evidence.requests).casefold().split())
    hint = next((kind for kind, words in _CHART_HINTS if words.search(request)), None)
    wanted = _CHART_WORDS.search(request) is not None or evidence.as_expected is not None
    fit, why = _chart_fit(evidence, hint)
    return {
        "appropriateness": _sub(
            1.0 if wanted else 0.8 if hint else 0.5,
            "a chart was asked for or expected" if wanted else "no chart was asked for by name",
        ),
        "chart_type": _sub(fit, why),
    }


def response_quality(evidence: ResponseEvidence) -> dict[str, Any]:
    """Score the relevance and the faithfulness of a response.

    Relevance is the share of the expected words that the response has. Where a refusal is expected,
    it is 1 for a response with words of refusal, else 0. Faithfulness is the share of the
    response's figures and identifiers that stand in steps, instructions or requests; it is 1 for a
    response without any.
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
    return {
        "relevance": _sub(relevant, why),
        "faithfulness": _sub(
            known_count / len(claims) if claims else 1.0,
            f"{known_count} of {len(claims)} figures and identifiers stand in what it had",
        ),
    }


ANSWERS: Final[Mapping[type, Callable[[Any], dict[str, Any]]]] = {
    SqlEvidence: sql,
    SearchEvidence: search,
    VisualizationEvidence: visualization,
    ResponseEvidence: response_quality,
}
"""The offline rule for each type of evidence of the agent-step judges.

The trajectory judge has none: it compares by program and asks no model.
"""


def _sub(score: float, why: str) -> dict[str, Any]:
    return {"reasoning": f"Plain text rule: {why}.", "score": round(min(max(score, 0.0), 1.0), 9)}


def _match_score(match: StatementMatch, made: Sequence[str]) -> float:
    if match.score is not None:
        return match.score
    due = set(_SQL_WORD.findall(_plain_sql(match.expected)))
    return max(
        (_word_overlap(due, set(_SQL_WORD.findall(_plain_sql(statement)))) for statement in made),
        default=0.0,
    )


def _word_overlap(words: set[str], other_words: set[str]) -> float:
    return len(words & other_words) / len(words | other_words) if words | other_words else 0.0


def _plain_sql(statement: str) -> str:
    return " ".join(statement.casefold().rstrip("; \n").split())


def _chart_fit(evidence: VisualizationEvidence, hint: str | None) -> tuple[float, str]:
    if evidence.as_expected is not None:
        words = "made" if evidence.as_expected else "not made"
        return float(evidence.as_expected), f"a {evidence.expected_type} chart was {words}"
    if hint is None:
        return 0.8, "any kind will do, and the request suggests none"
    if any(is_same_chart(kind, hint) for kind in evidence.chart_types):
        return 1.0, f"a {hint} chart suits the request"
    return 0.5, f"the request suggests a {hint} chart"


def _share(due: set[str], had: set[str]) -> float:
    return len(due & had) / len(due) if due else 0.0


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
