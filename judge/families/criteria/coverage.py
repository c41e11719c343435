"""How much of its criteria an answer covers: numbered aspects, their coverage, and the score.

Code numbers the aspects once, after the first ask, and the model names them by these ids. The
numbered aspects alone are the denominator of a score, so that a reply which forgets an aspect or
invents one cannot raise the score.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from assizes.judge.families.criteria.asks import (
    Aspect,
    AspectFinding,
    Concept,
    CoverageReply,
    Decomposition,
    normalised_id,
)
from assizes.judge.families.criteria.turns import AnsweredTurn

NOT_EVALUATED: Final = "not evaluated"
"""The reason of an aspect that the model left out of its reply."""

Strategy = Literal["concept", "aspect", "weighted"]
"""How a score is computed from the counts (see `CoverageCounts.score`)."""


@dataclass(frozen=True, slots=True)
class AspectCoverage:
    """The coverage of one aspect by one answer, or by several answers together.

    `covered_concepts` holds the ids of the covered concepts; `contradicted` holds the ids of the
    concepts whose opposite was said and not taken back. `reason` explains the answer `turn`.
    """

    aspect: Aspect
    marked_covered: bool
    covered_concepts: frozenset[str]
    contradicted: frozenset[str]
    reason: str
    turn: AnsweredTurn

    @property
    def is_covered(self) -> bool:
        """Whether an answer covers the aspect and no answer contradicts it."""
        return self.marked_covered and not self.contradicted

    @property
    def concept_share(self) -> float:
        """The share 0..1 of the aspect's concepts that are covered."""
        return round(len(self.covered_concepts) / len(self.aspect.concepts), 9)

    def entry(self) -> dict[str, Any]:
        """The aspect's entry in `aspect_breakdown`, with the texts of its concepts.

        The percentage of covered concepts is 0..100.
        """
        concepts = self.aspect.concepts
        return {
            "id": self.aspect.id,
            "aspect": self.aspect.name,
            "covered": self.is_covered,
            "concepts_covered": [
                concept.text for concept in concepts if concept.id in self.covered_concepts
            ],
            "concepts_missing": [
                concept.text for concept in concepts if concept.id not in self.covered_concepts
            ],
            "concepts_contradicted": [
                concept.text for concept in concepts if concept.id in self.contradicted
            ],
            "concepts_coverage_percentage": round(100 * self.concept_share, 2),
            "reason": self.reason,
            "turn_index": self.turn.index,
        }


@dataclass(frozen=True, slots=True)
class CriteriaCoverage:
    """The coverage of all aspects by one answer or several, with warnings about odd replies."""

    aspect_coverages: tuple[AspectCoverage, ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CoverageCounts:
    """The four counts from which every score of this family is computed; the totals are above 0."""

    concepts_covered: int
    concepts: int
    aspects_covered: int
    aspects: int

    def score(self, strategy: Strategy, concept_weight: float) -> float:
        """The score 0..1 by a strategy, 9 decimals (seed 003).

        concept: covered concepts / concepts; aspect: covered aspects / aspects;
        weighted: w x concept + (1 - w) x aspect, where w is `concept_weight`.
        """
        concept = self.concepts_covered / self.concepts
        aspect = self.aspects_covered / self.aspects
        if strategy == "weighted":
            return round(math.fsum([concept_weight * concept, (1 - concept_weight) * aspect]), 9)
        return round(concept if strategy == "concept" else aspect, 9)


def numbered_aspects(decomposition: Decomposition) -> tuple[Aspect, ...]:
    """The aspects with fixed ids: a1, a2 ..., their concepts a1c1, a1c2 ...

    Blank and repeated concepts of an aspect are removed. An aspect without concepts gets its own
    name as its only concept. An entry without any text is not an aspect.
    """
    aspects: list[Aspect] = []
    for entry in decomposition.aspects:
        texts = {text.casefold(): text for concept in entry.concepts if (text := _line(concept))}
        name = _line(entry.aspect) or "; ".join(texts.values())
        if name:
            id_ = f"a{len(aspects) + 1}"
            concepts = enumerate(texts.values() or [name], 1)
            numbered = tuple(Concept(f"{id_}c{place}", text) for place, text in concepts)
            aspects.append(Aspect(id_, name, numbered))
    return tuple(aspects)


def coverage_of(
    aspects: Sequence[Aspect], reply: CoverageReply, turn: AnsweredTurn, *, contradictions: bool
) -> CriteriaCoverage | None:
    """The coverage of one answer by one reply; `None` when the reply names none of the aspects.

    Args:
        aspects: the aspects of the case; findings on other ids are ignored with a warning.
        reply: the model's findings; the first finding on an aspect counts.
        turn: the answer that was checked.
        contradictions: whether a contradicted concept counts as missing, and its aspect as not
            covered.
    """
    known = {aspect.id for aspect in aspects}
    findings: dict[str, AspectFinding] = {}
    warnings: list[str] = []
    for finding in reply.aspects:
        id_ = normalised_id(finding.id)
        if id_ not in known:
            warnings.append(f"ignored an unknown aspect: {_short(finding.id)!r}")
        elif id_ in findings:
            warnings.append(f"ignored a second finding on aspect {id_!r}")
        else:
            findings[id_] = finding
    if not findings:
        return None
    aspect_coverages = []
    for aspect in aspects:
        aspect_coverage, odd = _aspect_coverage(
            aspect, findings.get(aspect.id), turn, contradictions=contradictions
        )
        aspect_coverages.append(aspect_coverage)
        warnings.extend(odd)
    return CriteriaCoverage(
        tuple(aspect_coverages), tuple(f"turn {turn.index}: {text}" for text in warnings)
    )


def merge_coverages(coverages: Sequence[CriteriaCoverage]) -> CriteriaCoverage:
    """The union of the coverage of several answers, in the order of the answers.

    A contradicted concept is no longer covered by earlier answers, until a later answer covers it
    again.
    """
    by_aspect = zip(*(coverage.aspect_coverages for coverage in coverages), strict=True)
    aspect_coverages = tuple(
        functools.reduce(_merge_later, aspect_coverages) for aspect_coverages in by_aspect
    )
    return CriteriaCoverage(
        aspect_coverages, tuple(text for coverage in coverages for text in coverage.warnings)
    )


def coverage_counts(aspect_coverages: Iterable[AspectCoverage]) -> CoverageCounts:
    """The counts over the coverage of aspects; those of several answers are added up."""
    coverages = list(aspect_coverages)
    return CoverageCounts(
        concepts_covered=sum(len(coverage.covered_concepts) for coverage in coverages),
        concepts=sum(len(coverage.aspect.concepts) for coverage in coverages),
        aspects_covered=sum(coverage.is_covered for coverage in coverages),
        aspects=len(coverages),
    )


def _aspect_coverage(
    aspect: Aspect, finding: AspectFinding | None, turn: AnsweredTurn, *, contradictions: bool
) -> tuple[AspectCoverage, list[str]]:
    if finding is None:
        none: frozenset[str] = frozenset()
        warning = f"aspect {aspect.id!r} is not in the reply, taken as not covered"
        return AspectCoverage(aspect, False, none, none, NOT_EVALUATED, turn), [warning]
    covered, missing, contradicted = (
        {normalised_id(id_) for id_ in ids}
        for ids in (
            finding.concepts_covered,
            finding.concepts_missing,
            finding.concepts_contradicted,
        )
    )
    known = {concept.id for concept in aspect.concepts}
    warnings = [
        f"ignored {_short(id_)!r}: not a concept of aspect {aspect.id!r}"
        for id_ in sorted((covered | missing | contradicted) - known)
    ] + [
        f"concept {id_!r} is both covered and missing, taken as missing"
        for id_ in sorted(covered & missing & known)
    ]
    against = frozenset(contradicted & known) if contradictions else frozenset()
    concepts = frozenset((covered - missing) & known) - against
    marked = finding.covered and bool(concepts) and not against
    return AspectCoverage(aspect, marked, concepts, against, _line(finding.reason), turn), warnings


def _merge_later(first: AspectCoverage, later: AspectCoverage) -> AspectCoverage:
    """The coverage of an aspect after a later answer.

    Reason and turn are those of the last answer that changed the coverage.
    """
    both = replace(
        first,
        marked_covered=first.marked_covered or later.marked_covered,
        covered_concepts=(first.covered_concepts - later.contradicted) | later.covered_concepts,
        contradicted=(first.contradicted - later.covered_concepts) | later.contradicted,
    )
    return first if both == first else replace(both, reason=later.reason, turn=later.turn)


def _line(text: str) -> str:
    return " ".join(text.split())


def _short(text: str) -> str:
    line = _line(text)
    return line if len(line) <= 80 else f"{line[:77]}..."
