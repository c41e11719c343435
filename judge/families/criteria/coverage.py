"""How much of what was asked for an answer holds: numbered aspects, coverage, and its scores.

The model only names ids that were given out here once, after decomposition. They alone make up the
denominators, so a reply that forgets an aspect or makes one up cannot move a score upwards.
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
    same_id,
)
from assizes.judge.families.criteria.turns import AnsweredTurn

NOT_EVALUATED: Final = "not evaluated"
"""The reason of an aspect that the model left out."""

Strategy = Literal["concept", "aspect", "weighted"]


@dataclass(frozen=True, slots=True)
class Holding:
    """What is held of one aspect after one answer, or after several in a row.

    `held` are the ids of covered concepts, `contradicted` of those whose opposite was said and not
    taken back. `turn` is the answer that `reason` speaks of.
    """

    aspect: Aspect
    flagged: bool
    held: frozenset[str]
    contradicted: frozenset[str]
    reason: str
    turn: AnsweredTurn

    @property
    def covered(self) -> bool:
        """An answer was found to cover it, and nothing contradicts it."""
        return self.flagged and not self.contradicted

    @property
    def concept_share(self) -> float:
        """Share of its concepts that are covered, 0..1."""
        return round(len(self.held) / len(self.aspect.concepts), 9)

    def entry(self) -> dict[str, Any]:
        """One line of the breakdown, with the texts of the concepts; percentage 0..100."""
        concepts = self.aspect.concepts
        return {
            "id": self.aspect.id,
            "aspect": self.aspect.name,
            "covered": self.covered,
            "concepts_covered": [one.text for one in concepts if one.id in self.held],
            "concepts_missing": [one.text for one in concepts if one.id not in self.held],
            "concepts_contradicted": [one.text for one in concepts if one.id in self.contradicted],
            "concepts_coverage_percentage": round(100 * self.concept_share, 2),
            "reason": self.reason,
            "turn_index": self.turn.index,
        }


@dataclass(frozen=True, slots=True)
class Coverage:
    """All aspects after one answer or several, and what was odd about the replies."""

    holdings: tuple[Holding, ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Counts:
    """The four numbers every score of this family is made of; totals are above 0."""

    concepts_covered: int
    concepts: int
    aspects_covered: int
    aspects: int

    def score(self, strategy: Strategy, concept_weight: float) -> float:
        """The score 0..1 by strategy, 9 decimals (seed 003).

        concept: covered concepts / concepts; aspect: covered aspects / aspects;
        weighted: w x concept + (1 - w) x aspect.
        """
        concept = self.concepts_covered / self.concepts
        aspect = self.aspects_covered / self.aspects
        if strategy == "weighted":
            return round(math.fsum([concept_weight * concept, (1 - concept_weight) * aspect]), 9)
        return round(concept if strategy == "concept" else aspect, 9)


def numbered_aspects(decomposition: Decomposition) -> tuple[Aspect, ...]:
    """The aspects with fixed ids: a1, a2 ..., their concepts a1c1, a1c2 ...

    Blank and repeated concepts of an aspect fall away; an aspect left without any gets itself as
    its one concept. An entry without any text is no aspect.
    """
    found: list[Aspect] = []
    for entry in decomposition.aspects:
        texts = {text.casefold(): text for one in entry.concepts if (text := _line(one))}
        name = _line(entry.aspect) or "; ".join(texts.values())
        if name:
            id_ = f"a{len(found) + 1}"
            concepts = enumerate(texts.values() or [name], 1)
            numbered = tuple(Concept(f"{id_}c{place}", text) for place, text in concepts)
            found.append(Aspect(id_, name, numbered))
    return tuple(found)


def coverage_of(
    aspects: Sequence[Aspect], reply: CoverageReply, turn: AnsweredTurn, *, contradictions: bool
) -> Coverage | None:
    """What one reply says of one answer; null when it speaks of none of the aspects.

    Args:
        aspects: the only ids that count.
        reply: the model's findings; the first one of an aspect counts.
        turn: the answer it speaks of.
        contradictions: whether a contradicted concept is missing and its aspect not covered.
    """
    known = {aspect.id for aspect in aspects}
    found: dict[str, AspectFinding] = {}
    warnings: list[str] = []
    for finding in reply.aspects:
        id_ = same_id(finding.id)
        if id_ not in known:
            warnings.append(f"ignored an unknown aspect: {_short(finding.id)!r}")
        elif id_ in found:
            warnings.append(f"ignored a second finding on aspect {id_!r}")
        else:
            found[id_] = finding
    if not found:
        return None
    holdings = []
    for aspect in aspects:
        holding, odd = _holding(aspect, found.get(aspect.id), turn, contradictions=contradictions)
        holdings.append(holding)
        warnings.extend(odd)
    return Coverage(tuple(holdings), tuple(f"turn {turn.index}: {text}" for text in warnings))


def united(coverages: Sequence[Coverage]) -> Coverage:
    """The union by id over answers in their order.

    A contradiction undoes what earlier answers covered, until a later one covers it again.
    """
    by_aspect = zip(*(one.holdings for one in coverages), strict=True)
    holdings = tuple(functools.reduce(_later, holdings) for holdings in by_aspect)
    return Coverage(holdings, tuple(text for one in coverages for text in one.warnings))


def counts(holdings: Iterable[Holding]) -> Counts:
    """The counts over holdings; those of several answers are pooled."""
    listed = list(holdings)
    return Counts(
        concepts_covered=sum(len(one.held) for one in listed),
        concepts=sum(len(one.aspect.concepts) for one in listed),
        aspects_covered=sum(one.covered for one in listed),
        aspects=len(listed),
    )


def _holding(
    aspect: Aspect, found: AspectFinding | None, turn: AnsweredTurn, *, contradictions: bool
) -> tuple[Holding, list[str]]:
    if found is None:
        none: frozenset[str] = frozenset()
        warning = f"aspect {aspect.id!r} is not in the reply, taken as not covered"
        return Holding(aspect, False, none, none, NOT_EVALUATED, turn), [warning]
    covered, missing = _ids(found.concepts_covered), _ids(found.concepts_missing)
    contradicted = _ids(found.concepts_contradicted)
    known = {concept.id for concept in aspect.concepts}
    warnings = [
        f"ignored {_short(id_)!r}: not a concept of aspect {aspect.id!r}"
        for id_ in sorted((covered | missing | contradicted) - known)
    ] + [
        f"concept {id_!r} is both covered and missing, taken as missing"
        for id_ in sorted(covered & missing & known)
    ]
    against = frozenset(contradicted & known) if contradictions else frozenset()
    held = frozenset((covered - missing) & known) - against
    flagged = found.covered and bool(held) and not against
    return Holding(aspect, flagged, held, against, _line(found.reason), turn), warnings


def _later(first: Holding, later: Holding) -> Holding:
    """Both taken together; reason and turn are those of the last answer that changed anything."""
    both = replace(
        first,
        flagged=first.flagged or later.flagged,
        held=(first.held - later.contradicted) | later.held,
        contradicted=(first.contradicted - later.held) | later.contradicted,
    )
    return first if both == first else replace(both, reason=later.reason, turn=later.turn)


def _ids(given: Iterable[str]) -> set[str]:
    return {same_id(id_) for id_ in given}


def _line(text: str) -> str:
    return " ".join(text.split())


def _short(text: str) -> str:
    line = _line(text)
    return line if len(line) <= 80 else f"{line[:77]}..."
