"""How much of its criteria an answer covers: numbered aspects, coverage, score, signals."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from assizes.judge.families.criteria.asks import (
    AnsweredTurn,
    Aspect,
    AspectFinding,
    Concept,
    CoverageReply,
    Decomposition,
    normalised_id,
)
from assizes.judge.score import Score

NOT_EVALUATED: Final = "not evaluated"
"""The reason of an aspect that the model left out of its reply."""

Strategy = Literal["concept", "aspect", "weighted"]
"""How a score is computed from the counts (see `CoverageCounts.score`)."""


@dataclass(frozen=True, slots=True)
class AspectCoverage:
    """The coverage of one aspect by one answer, or by several answers together."""

    aspect: Aspect
    marked_covered: bool
    covered_concepts: frozenset[str]  # ids of concepts
    contradicted: frozenset[str]  # ids of concepts whose opposite was said, and not taken back
    reason: str  # of the answer `turn`
    turn: AnsweredTurn  # the last that changed it

    @property
    def is_covered(self) -> bool:
        """Whether an answer covers the aspect and no answer contradicts it."""
        return self.marked_covered and not self.contradicted

    @property
    def concept_share(self) -> float:
        """The share 0..1 of the aspect's concepts that are covered."""
        return round(len(self.covered_concepts) / len(self.aspect.concepts), 9)

    def entry(self) -> dict[str, Any]:
        """The aspect's entry in `aspect_breakdown`; the percentage of covered concepts is 0..100."""
        concepts = self.aspect.concepts
        covered, contradicted = self.covered_concepts, self.contradicted
        return {
            "id": self.aspect.id,
            "aspect": self.aspect.name,
            "covered": self.is_covered,
            "concepts_covered": [each.text for each in concepts if each.id in covered],
            "concepts_missing": [each.text for each in concepts if each.id not in covered],
            "concepts_contradicted": [each.text for each in concepts if each.id in contradicted],
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
        """The score 0..1 by a strategy, 9 decimals.

        concept: covered concepts / concepts; aspect: covered aspects / aspects;
        weighted: w x concept + (1 - w) x aspect, where w is `concept_weight`.
        """
        concept = self.concepts_covered / self.concepts
        aspect = self.aspects_covered / self.aspects
        if strategy == "weighted":
            return round(math.fsum([concept_weight * concept, (1 - concept_weight) * aspect]), 9)
        return round(concept if strategy == "concept" else aspect, 9)


def numbered_aspects(decomposition: Decomposition) -> tuple[Aspect, ...]:
    """The aspects with fixed ids: a1, a2 ..., their concepts a1c1, a1c2 ..."""
    # Numbered by code, they alone are the denominator of a score: a reply that forgets an aspect,
    # or invents one, cannot raise it.
    aspects: list[Aspect] = []
    for entry in decomposition.aspects:
        # Blank and repeated concepts go; an aspect without any has its name as its only concept.
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
    """The coverage of one answer by one reply; `None` when the reply names none of the aspects."""
    known = {aspect.id for aspect in aspects}
    findings: dict[str, AspectFinding] = {}  # aspect id -> the first finding on it
    warnings: list[str] = []
    for finding in reply.aspects:
        id_ = normalised_id(finding.id)
        if id_ not in known:
            warnings.append(f"ignored an unknown aspect: {_short(finding.id)!r}")
        elif id_ in findings:
            warnings.append(f"ignored a second finding on aspect {id_!r}")
        else:
            findings[id_] = finding
    if not findings:  # a failed judge, not a 0 (decision 22)
        return None
    pairs = [
        _aspect_coverage(aspect, findings.get(aspect.id), turn, contradictions=contradictions)
        for aspect in aspects
    ]
    warnings += [text for _, odd in pairs for text in odd]
    return CriteriaCoverage(
        tuple(coverage for coverage, _ in pairs),
        tuple(f"turn {turn.index}: {text}" for text in warnings),
    )


def merge_coverages(coverages: Sequence[CriteriaCoverage]) -> CriteriaCoverage:
    """The union of the coverage of several answers, in the order of the answers."""
    by_aspect = zip(*(coverage.aspect_coverages for coverage in coverages), strict=True)
    return CriteriaCoverage(
        tuple(functools.reduce(_merge_later, of_aspect) for of_aspect in by_aspect),
        tuple(text for coverage in coverages for text in coverage.warnings),
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
    covered = set(map(normalised_id, finding.concepts_covered))
    missing = set(map(normalised_id, finding.concepts_missing))
    contradicted = set(map(normalised_id, finding.concepts_contradicted))
    known = {concept.id for concept in aspect.concepts}
    warnings = [
        f"ignored {_short(id_)!r}: not a concept of aspect {aspect.id!r}"
        for id_ in sorted((covered | missing | contradicted) - known)
    ] + [
        f"concept {id_!r} is both covered and missing, taken as missing"
        for id_ in sorted(covered & missing & known)
    ]
    # Where contradictions count, a contradicted concept is missing, and its aspect not covered.
    against = frozenset(contradicted & known) if contradictions else frozenset()
    # What stands in both lists is missing, and an id that is none of ours counts for nothing.
    concepts = frozenset((covered - missing) & known) - against
    # An aspect of which no concept is covered is not covered, whatever the model says.
    marked = finding.covered and bool(concepts) and not against
    return AspectCoverage(aspect, marked, concepts, against, _line(finding.reason), turn), warnings


def _merge_later(first: AspectCoverage, later: AspectCoverage) -> AspectCoverage:
    """The coverage of an aspect after a later answer, with the reason of the last that changed it."""
    # A contradicted concept is no longer covered, until a later answer covers it again.
    covered = (first.covered_concepts - later.contradicted) | later.covered_concepts
    # Where one answer alone covers all concepts, the judge's own mark counts.
    most = max(len(first.covered_concepts), len(later.covered_concepts))
    completed = most < len(covered) == len(first.aspect.concepts)
    both = replace(
        first,
        marked_covered=first.marked_covered or later.marked_covered or completed,
        covered_concepts=covered,
        contradicted=(first.contradicted - later.covered_concepts) | later.contradicted,
    )
    return first if both == first else replace(both, reason=later.reason, turn=later.turn)


def _line(text: str) -> str:
    return " ".join(text.split())


def _short(text: str) -> str:
    line = _line(text)
    return line if len(line) <= 80 else f"{line[:77]}..."


def signals(
    aspect_coverages: Sequence[AspectCoverage],
    strategy: Strategy,
    concept_weight: float,  # 0..1, of the concept score in `weighted`
    turn_count: int,  # answers that were evaluated
) -> dict[str, Any]:
    """The diagnostic signals under their published names: the details of a score."""
    totals = coverage_counts(aspect_coverages)
    weighted = {"weighted_score": totals.score("weighted", concept_weight)}
    return {
        "scoring_strategy": strategy,
        "covered_aspects_count": totals.aspects_covered,
        "total_aspects_count": totals.aspects,
        "total_concepts_covered": totals.concepts_covered,
        "total_concepts": totals.concepts,
        "concept_coverage_score": totals.score("concept", concept_weight),
        "aspect_coverage_score": totals.score("aspect", concept_weight),
        **(weighted if strategy == "weighted" else {}),
        "aspect_breakdown": [aspect_coverage.entry() for aspect_coverage in aspect_coverages],
        "evaluated_turns_count": turn_count,
    }


def interpretation(score: float) -> str:
    """The meaning of a coverage score 0..1, in bands from 1, from 0.7, from 0.5."""
    bands = {  # lowest score -> meaning, best first
        1.0: "all criteria fully covered",
        0.7: "most criteria met, minor gaps",
        0.5: "half of the criteria covered",
    }
    met = (text for least, text in bands.items() if round(score, 9) >= least)
    return next(met, "significant criteria not met")


def coverage_text(details: Mapping[str, Any], score: float | None) -> str | None:
    """What the details of a coverage score say, in one line; `None` for those of other judges."""
    if "total_concepts" in details and score is not None:
        return f"{interpretation(score)}; {_counts_text(details)}"
    if "concepts_coverage_percentage" in details:
        return " · ".join([details["aspect"], *map(str.strip, _concept_lines(details))])
    return None


def pretty(score: Score) -> str:
    """A coverage score as plain text: its meaning, the counts, every aspect with its concepts."""
    name = f"{score.metric} {score.part}".strip()
    if score.value is None:
        return f"{name}: {score.status} ({score.reason})"
    verdict = {True: "passed", False: "failed", None: "no verdict"}[score.passed]
    lines = [f"{name}: {score.value:.2f}, {verdict} ({interpretation(score.value)})"]
    details = score.details
    if "total_concepts" in details:
        turns = details["evaluated_turns_count"]
        lines.append(
            f"{_counts_text(details)}; scored by {details['scoring_strategy']}; "
            f"{turns} turn{'' if turns == 1 else 's'} evaluated"
        )
    for entry in details.get("aspect_breakdown", ()):
        lines.extend(_entry_lines(entry))
    lines.extend(f"warning: {text}" for text in details.get("warnings", ()))
    return "\n".join(lines)


def _counts_text(details: Mapping[str, Any]) -> str:
    return (
        f"{details['covered_aspects_count']} of {details['total_aspects_count']} aspects, "
        f"{details['total_concepts_covered']} of {details['total_concepts']} concepts covered"
    )


def _entry_lines(entry: Mapping[str, Any]) -> Iterator[str]:
    mark = "+" if entry["covered"] else "-"
    share = f"{entry['concepts_coverage_percentage']:g}%"
    yield f"{mark} {entry['aspect']} ({share} of its concepts, turn {entry['turn_index']})"
    yield from _concept_lines(entry)


def _concept_lines(entry: Mapping[str, Any]) -> Iterator[str]:
    for kind in ("covered", "missing", "contradicted"):
        if texts := entry[f"concepts_{kind}"]:
            yield f"    {kind}: {'; '.join(texts)}"
    if entry["reason"]:
        yield f"    reason: {entry['reason']}"
