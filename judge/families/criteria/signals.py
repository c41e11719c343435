"""A coverage score for people and queries: the signals of seed 003, their meaning, plain text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from assizes.judge.families.criteria.asks import Aspect
from assizes.judge.families.criteria.coverage import AspectCoverage, Strategy, coverage_counts
from assizes.judge.score import Score


def signals(
    aspect_coverages: Sequence[AspectCoverage],
    strategy: Strategy,
    concept_weight: float,
    turn_count: int,
) -> dict[str, Any]:
    """The diagnostic signals of seed 003 under their published names: the details of a score.

    `weighted_score` is there for the strategy `weighted` alone.

    Args:
        aspect_coverages: the coverage of aspects; the counts are added up over all of them.
        strategy: how the score was computed.
        concept_weight: the share 0..1 of the concept score in the weighted score.
        turn_count: how many answers were evaluated.
    """
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


def decomposition(aspects: Sequence[Aspect]) -> list[dict[str, Any]]:
    """The aspects and their concepts with their ids, for the details of a score."""
    return [
        {
            "id": aspect.id,
            "aspect": aspect.name,
            "concepts": {concept.id: concept.text for concept in aspect.concepts},
        }
        for aspect in aspects
    ]


def interpretation(score: float) -> str:
    """The meaning of a coverage score 0..1 (seed 003), in bands from 1, from 0.7, from 0.5."""
    value = round(score, 9)
    if value >= 1:
        return "all criteria fully covered"
    if value >= 0.7:
        return "most criteria met, minor gaps"
    if value >= 0.5:
        return "half of the criteria covered"
    return "significant criteria not met"


def pretty(score: Score) -> str:
    """A coverage score as plain text: its meaning, the counts, every aspect with its concepts."""
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
