"""Draws the sample of a run from the cases that were read, and says how it was drawn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from assizes.judge.config.selection import SelectionConfig
from assizes.judge.selection import Stratum, draw_sample
from assizes.judge.summary.population import PopulationNumber
from assizes.tasks.intake.scan import ScannedObject
from assizes.tasks.intake.selection import DUE, UNSELECTED


def sample_cases(objects: Iterable[ScannedObject], config: SelectionConfig) -> dict[str, Any]:
    """Mark as unselected the cases that are not drawn, and the cases over the limit.

    Returns:
        The design of the sample, as the plan of the run keeps it; empty where all cases are judged.
        `limited` says how many cases `limit` cut off: the cases read first are no random sample.
    """
    objects = list(objects)
    strata = _draw(objects, config)
    cut = _limit(objects, config.limit) if config.limit is not None else 0
    if not strata and not cut:
        return {}
    return {
        "by": list(config.stratify_by),
        "seed": config.seed,
        "strata": [stratum.model_dump() for stratum in strata],
        "limited": cut,
    }


def _draw(objects: list[ScannedObject], config: SelectionConfig) -> tuple[Stratum, ...]:
    """Mark the cases that are not drawn; the strata of the sample, empty without sampling.

    All repetitions of a case are drawn together, from the stratum of the repetition read first.
    """
    if not config.is_sampled:
        return ()
    strata: dict[str, str] = {}
    for scanned in objects:
        for position, (case_id, name) in scanned.sample_keys.items():
            if scanned.fates[position] == DUE:
                strata.setdefault(case_id, name)
    drawn_ids, drawn_strata = draw_sample(strata, config)
    for scanned in objects:
        for position, (case_id, _) in scanned.sample_keys.items():
            if scanned.fates[position] == DUE and case_id not in drawn_ids:
                scanned.fates[position] = UNSELECTED
        scanned.sample_keys = {}
    return drawn_strata


def _limit(objects: list[ScannedObject], max_cases: int) -> int:
    """Keep only the first `max_cases` due cases; the number of cases that this left out."""
    remaining, cut = max_cases, 0
    for scanned in objects:
        for position, fate in enumerate(scanned.fates):
            if fate == DUE and remaining:
                remaining -= 1
            elif fate == DUE:
                scanned.fates[position] = UNSELECTED
                cut += 1
    return cut


def warning_lines(
    design: Mapping[str, Any], truth: Mapping[str, int], of_all: Mapping[str, PopulationNumber]
) -> tuple[str, ...]:
    """What the report of a run must say about its sample and its ground truth, one line each.

    Args:
        design: the design of the sample, as `sample_cases` returns it.
        truth: the counts of ground truth, as `GroundTruth.counts` returns them.
        of_all: estimates for all cases that could have been drawn, by name.
    """
    lines = []
    if design.get("strata"):
        cases, drawn_count = (
            sum(stratum[name] for stratum in design["strata"]) for name in ("cases", "drawn")
        )
        numbers = "".join(
            f"; {name} of all {_number_text(number)}" for name, number in of_all.items()
        )
        lines.append(f"sampled: {drawn_count} of {cases} cases were drawn{numbers}")
    if design.get("limited"):
        lines.append(
            f"limited: {design['limited']} cases behind the first were left out, not drawn"
        )
    if truth.get("rows_without_case"):
        lines.append(
            f"ground_truth: {truth['rows_without_case']} of {truth['rows']} rows name no case that "
            "was read"
        )
    if truth.get("cases_without_row"):
        lines.append(f"ground_truth: {truth['cases_without_row']} cases that were read have no row")
    return tuple(lines)


def _number_text(number: PopulationNumber) -> str:
    if number.low is None or number.high is None:
        return f"{number.value:.3g} (no interval: too few cases of a stratum)"
    return f"{number.value:.3g} ({number.low:.3g} to {number.high:.3g})"
