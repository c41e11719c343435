"""The sample of a run: which of the cases that were read are judged, drawn when all are known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from assizes.judge.selection import SelectionConfig, Stratum, drawn
from assizes.judge.summary.population import PopulationNumber
from assizes.tasks.intake.scan import DUE, UNSELECTED, Scanned


def sampled(objects: Iterable[Scanned], config: SelectionConfig) -> dict[str, Any]:
    """Leave out what is not drawn, and what is over the limit.

    Returns:
        How the cases were come by, as the plan of the run keeps it; empty where all are judged.
        `limited` says how many cases `limit` cut off: the first ones read are no random sample.
    """
    objects = list(objects)
    strata = _draw(objects, config)
    cut = _limit(objects, config.limit) if config.limit is not None else 0
    if not strata and not cut:
        return {}
    return {
        "by": list(config.stratify_by),
        "seed": config.seed,
        "strata": [one.model_dump() for one in strata],
        "limited": cut,
    }


def _draw(objects: list[Scanned], config: SelectionConfig) -> tuple[Stratum, ...]:
    """Leave out what is not drawn; how the rest was drawn. Nothing where all is judged.

    Of cases with repetitions that lie in different strata the first one read decides.
    """
    if not config.draws:
        return ()
    strata: dict[str, str] = {}
    for scanned in objects:
        for position, (case_id, name) in scanned.lots.items():
            if scanned.fates[position] == DUE:
                strata.setdefault(case_id, name)
    taken, told = drawn(strata, config)
    for scanned in objects:
        for position, (case_id, _) in scanned.lots.items():
            if scanned.fates[position] == DUE and case_id not in taken:
                scanned.fates[position] = UNSELECTED
        scanned.lots = {}
    return told


def _limit(objects: list[Scanned], most: int) -> int:
    """Judge the first cases only; how many were left out by that."""
    left, cut = most, 0
    for scanned in objects:
        for position, fate in enumerate(scanned.fates):
            if fate == DUE and left:
                left -= 1
            elif fate == DUE:
                scanned.fates[position] = UNSELECTED
                cut += 1
    return cut


def told(
    found: Mapping[str, Any], truth: Mapping[str, int], of_all: Mapping[str, PopulationNumber]
) -> tuple[str, ...]:
    """What a reader of the run must know of its sample and its ground truth, one line each.

    Args:
        found: the design of the plan.
        truth: its counts of ground truth.
        of_all: what the numbers are for all cases that could have been drawn.
    """
    lines = []
    if found.get("strata"):
        cases, taken = (sum(one[name] for one in found["strata"]) for name in ("cases", "drawn"))
        numbers = "".join(f"; {name} of all {_shown(one)}" for name, one in of_all.items())
        lines.append(f"sampled: {taken} of {cases} cases were drawn{numbers}")
    if found.get("limited"):
        lines.append(f"limited: {found['limited']} cases behind the first were left out, not drawn")
    if truth.get("rows_without_case"):
        lines.append(
            f"ground_truth: {truth['rows_without_case']} of {truth['rows']} rows name no case that "
            "was read"
        )
    if truth.get("cases_without_row"):
        lines.append(f"ground_truth: {truth['cases_without_row']} cases that were read have no row")
    return tuple(lines)


def _shown(number: PopulationNumber) -> str:
    if number.low is None or number.high is None:
        return f"{number.value:.3g} (no interval: too few cases of a stratum)"
    return f"{number.value:.3g} ({number.low:.3g} to {number.high:.3g})"
