"""What people and queries read of a coverage score: the signals of seed 003, bands, plain text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from assizes.judge.families.criteria.asks import Aspect
from assizes.judge.families.criteria.coverage import (
    AspectCoverage,
    CoverageCounts,
    Strategy,
    coverage_counts,
)
from assizes.judge.score import Score


def signals(
    aspect_coverages: Sequence[AspectCoverage],
    strategy: Strategy,
    concept_weight: float,
    turn_count: int,
) -> dict[str, Any]:
    """The diagnostic signals under their published names.

    Counts are pooled over all holdings given, and the coverage scores are those of the counts.
    `weighted_score` is there for the weighted strategy alone.
    """
    totals: CoverageCounts = coverage_counts(aspect_coverages)
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


def decomposition(aspects: Sequence[Aspect]) -> list[dict[str, Any]]:
    """The aspects and concepts by id, as they were given out."""
    return [
        {
            "id": aspect.id,
            "aspect": aspect.name,
            "concepts": {concept.id: concept.text for concept in aspect.concepts},
        }
        for aspect in aspects
    ]


def interpretation(score: float) -> str:
    """What a coverage score 0..1 means (seed 003): bands from 1.0, 0.7, 0.5 and below."""
    value = round(score, 9)
    if value >= 1:
        return "all criteria fully covered"
    if value >= 0.7:
        return "most criteria met, minor gaps"
    if value >= 0.5:
        return "half of the criteria covered"
    return "significant criteria not met"


def pretty(score: Score) -> str:
    """A headline or turn score as plain text: what it means, the counts, every aspect with its
    concepts and reason.
    """
    name = f"{score.metric} {score.part}".strip()
    if score.value is None:
        return f"{name}: {score.status} ({score.reason})"
    verdict = {True: "passed", False: "failed", None: "no verdict"}[score.passed]
    lines = [f"{name}: {score.value:.2f}, {verdict} ({interpretation(score.value)})"]
    if "total_concepts" in score.details:
        lines.append(_counts_line(score.details))
    for entry in score.details.get("aspect_breakdown", ()):
        lines.extend(_entry_lines(entry))
    lines.extend(f"warning: {text}" for text in score.details.get("warnings", ()))
    return "\n".join(lines)


def _counts_line(details: Mapping[str, Any]) -> str:
    turns = details["evaluated_turns_count"]
    return (
        f"{details['covered_aspects_count']} of {details['total_aspects_count']} aspects, "
        f"{details['total_concepts_covered']} of {details['total_concepts']} concepts covered; "
        f"scored by {details['scoring_strategy']}; {turns} turn{'' if turns == 1 else 's'} evaluated"
    )


def _entry_lines(entry: Mapping[str, Any]) -> Iterator[str]:
    mark = "+" if entry["covered"] else "-"
    share = f"{entry['concepts_coverage_percentage']:g}%"
    yield f"{mark} {entry['aspect']} ({share} of its concepts, turn {entry['turn_index']})"
    for kind in ("covered", "missing", "contradicted"):
        if texts := entry[f"concepts_{kind}"]:
            yield f"    {kind}: {'; '.join(texts)}"
    if entry["reason"]:
        yield f"    reason: {entry['reason']}"
