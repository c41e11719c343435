"""Offline rules for the criteria judges: aspects by layout, coverage by shared words.

The rules see surface signs only: they miss a paraphrase, and count a word said in passing. Every
pattern runs in linear time, because anybody can write the texts of a transcript.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from assizes.judge.families.criteria.asks import Aspect, CoverageEvidence, DecomposeEvidence
from assizes.judge.heuristic.plain_reading import content_words

_HALF: Final = 0.5
"""Share of words that covers a concept, and share of concepts that covers an aspect."""

_SENTENCE = re.compile(r"(?<=[.!?])\s+|;")
_BULLET = re.compile(r"\s*(?:[-*•]|\(?\d{1,3}[.)])\s+")
_LEAD_IN = re.compile(r"[^:,]{1,60}:(?:\s+|$)")
_JOINT = re.compile(r",|\band\b", re.IGNORECASE)
_CLAUSE = re.compile(r"[.!?](?=\s|$)|[;,\n]|\bbut\b", re.IGNORECASE)
_NEGATION = re.compile(r"\b(?:not|no|never|none|without|cannot)\b|n't\b", re.IGNORECASE)


def decomposition(evidence: DecomposeEvidence) -> dict[str, Any]:
    """Split criteria into aspects, and aspects into concepts, by their layout.

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
    its concepts are covered. A covered concept is contradicted when all clauses that share its
    words differ from it in negation: they are negated and the concept is not, or the reverse.
    """
    answer = _content_text(evidence.response)
    clauses = [_content_text(clause) for clause in _CLAUSE.split(answer.text)]
    return {"aspects": [_finding(aspect, answer, clauses) for aspect in evidence.aspects]}


ANSWERS: Final[Mapping[type, Callable[[Any], dict[str, Any]]]] = {
    DecomposeEvidence: decomposition,
    CoverageEvidence: coverage,
}
"""The offline rule for each type of evidence of the criteria judges."""


@dataclass(frozen=True, slots=True)
class _ContentText:
    """A text in lower case with its content words, cut to the singular."""

    text: str
    words: frozenset[str]
    negated: bool

    def has_half_of(self, wanted: _ContentText) -> bool:
        """Whether half of the wanted content words occur; without any, the whole text must occur."""
        if not wanted.words:
            return wanted.text in self.text
        return len(wanted.words & self.words) / len(wanted.words) >= _HALF


def _content_text(text: str) -> _ContentText:
    flat = text.replace("\u2019", "'").casefold()
    words = frozenset(_singular(word) for word in content_words(flat))
    return _ContentText(flat, words, _NEGATION.search(flat) is not None)


def _aspects(criteria: str) -> Iterator[str]:
    for line in criteria.splitlines():
        bullet = _BULLET.match(line)
        for piece in _SENTENCE.split(line[bullet.end() :] if bullet else line):
            lead_in = None if bullet else _LEAD_IN.match(piece)
            for item in _clauses(piece[lead_in.end() :]) if lead_in else [_bare(piece)]:
                if item:
                    yield item


def _clauses(text: str) -> list[str]:
    return [clause for part in _JOINT.split(text) if (clause := _bare(part))]


def _bare(text: str) -> str:
    return text.strip(" \t\r.,:;!?")


def _finding(
    aspect: Aspect, answer: _ContentText, clauses: Sequence[_ContentText]
) -> dict[str, Any]:
    wanted = {concept.id: _content_text(concept.text) for concept in aspect.concepts}
    covered = [id_ for id_, concept in wanted.items() if answer.has_half_of(concept)]
    count = f"{len(covered)} of {len(wanted)}"
    return {
        "id": aspect.id,
        "reason": f"Plain text rule: {count} concepts share half of their words with the answer.",
        "concepts_covered": covered,
        "concepts_missing": [id_ for id_ in wanted if id_ not in covered],
        "concepts_contradicted": [id_ for id_ in covered if _is_contradicted(wanted[id_], clauses)],
        "covered": len(covered) / len(wanted) >= _HALF,
    }


def _is_contradicted(wanted: _ContentText, clauses: Sequence[_ContentText]) -> bool:
    return {
        clause.negated is wanted.negated for clause in clauses if clause.has_half_of(wanted)
    } == {False}


def _singular(word: str) -> str:
    plural = len(word) > 3 and word.endswith("s") and not word.endswith("ss")
    return word[:-1] if plural else word
