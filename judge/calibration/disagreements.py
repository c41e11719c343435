"""Where a judge and people disagree: item by item with both reasons, and in which groups of cases.

The measures of `measures.py` say how far a judge can be trusted; this module says what to read in
order to mend it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from assizes.judge.calibration import measures
from assizes.judge.calibration.labelled import RatedItem
from assizes.judge.score import LABELS
from assizes.judge.statistics.exact import rounded_value
from assizes.judge.statistics.intervals import Sample, rate_interval

MAX_LISTED: Final = 1_000
"""The most disagreements of a metric that are listed; the others are counted."""

MAX_GROUPS: Final = 50
"""The most groups of a metric that are listed: the largest."""

MIN_GROUP_ITEMS: Final = 5
"""The fewest items of a group that is listed: the agreement on fewer says nothing."""


@dataclass(frozen=True, slots=True)
class ItemFacts:
    """What a run says of a labelled item beside the judge's grade."""

    reason: str = ""  # the judge's explanation; empty where it gave none
    failure_code: str | None = None  # of the verdict: its root cause
    groups: Mapping[str, str] = field(
        default_factory=dict
    )  # name, such as `agent_version`, -> value


class _Details(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Disagreement(_Details):
    """An item to which the judge gave another grade than people."""

    case_id: str
    repetition: int | None
    people: float = Field(description="the grade that people agree on")
    judge: float = Field(description="the grade of the judge")
    raters: dict[str, float] = Field(description="the grade of each rater")
    notes: dict[str, str] = Field(description="what raters wrote beside their grades, by rater")
    reason: str = Field(description="the judge's explanation; empty where it gave none")
    failure_code: str | None = Field(description="the judge's code; of the verdict its root cause")


class GroupAgreement(_Details):
    """How far a judge agrees with people on the cases of one group."""

    field: str = Field(description="agent, agent_version, failure_code, or a tag")
    value: str
    items: int
    accuracy: float = Field(description="share of equal grades, 0..1")
    low: float | None = Field(description="lower end of its 95 % interval; null in one cluster")
    high: float | None
    kappa: float | None = Field(description="Cohen's; null where it is not defined")


class MetricDisagreements(_Details):
    """The disagreements on one metric, the furthest apart first, and the agreement by group."""

    metric: str
    total: int = Field(description="disagreements, listed or not")
    listed: tuple[Disagreement, ...]
    groups: tuple[GroupAgreement, ...] = Field(description="lowest agreement first")


@dataclass(frozen=True, slots=True)
class _SettledItem:
    item: RatedItem
    people: float
    judge: float
    facts: ItemFacts


def disagreements(
    metric: str,
    items: Sequence[RatedItem],
    facts: Mapping[tuple[str, int | None], ItemFacts],
    *,
    ordered: bool,
) -> MetricDisagreements:
    """List the items that a judge and people grade differently, and compare groups of cases.

    Items on which people are divided, and items without a grade of the judge, count nowhere, as in
    `calibrate`.

    Args:
        metric: the metric, or `verdict`.
        items: every labelled item.
        facts: what the run says of them, by case id and repetition; some may be missing.
        ordered: whether the grades have an order.
    """
    settled = [
        _SettledItem(item, people, item.judged, facts.get((item.case_id, item.repetition), _NONE))
        for item in items
        if item.judged is not None and (people := item.settled_grade(ordered=ordered)) is not None
    ]
    apart = sorted(
        (pair for pair in settled if pair.people != pair.judge),
        key=lambda pair: (
            -abs(pair.people - pair.judge),
            pair.item.case_id,
            pair.item.repetition or 0,
        ),
    )
    return MetricDisagreements(
        metric=metric,
        total=len(apart),
        listed=tuple(_disagreement(pair) for pair in apart[:MAX_LISTED]),
        groups=tuple(_groups(settled)),
    )


_NONE: Final = ItemFacts()


def _disagreement(pair: _SettledItem) -> Disagreement:
    return Disagreement(
        case_id=pair.item.case_id,
        repetition=pair.item.repetition,
        people=pair.people,
        judge=pair.judge,
        raters=dict(sorted(pair.item.people.items())),
        notes=dict(sorted(pair.item.notes.items())),
        reason=pair.facts.reason,
        failure_code=pair.facts.failure_code,
    )


def _groups(settled: Sequence[_SettledItem]) -> list[GroupAgreement]:
    by_group = defaultdict[tuple[str, str], list[_SettledItem]](list)
    for pair in settled:
        for name, value in pair.facts.groups.items():
            by_group[name, value].append(pair)
        if pair.facts.failure_code is not None:
            by_group["failure_code", pair.facts.failure_code].append(pair)
    # A group that holds every item is no group.
    large = [
        (key, pairs)
        for key, pairs in by_group.items()
        if MIN_GROUP_ITEMS <= len(pairs) < len(settled)
    ]
    large.sort(key=lambda entry: (-len(entry[1]), entry[0]))
    groups = [_group(*key, pairs) for key, pairs in large[:MAX_GROUPS]]
    return sorted(groups, key=lambda group: (group.accuracy, group.field, group.value))


def _group(name: str, value: str, pairs: Sequence[_SettledItem]) -> GroupAgreement:
    same = Sample.of(
        [float(pair.people == pair.judge) for pair in pairs], [pair.item.cluster for pair in pairs]
    )
    interval = rate_interval(same)
    levels = sorted({grade for pair in pairs for grade in (pair.people, pair.judge)})
    table = measures.confusions(
        ((pair.item.cluster, pair.people, pair.judge) for pair in pairs), levels
    )
    kappa = float(measures.kappa(table.whole))
    return GroupAgreement(
        field=name,
        value=value,
        items=len(pairs),
        accuracy=rounded_value(same.mean),
        low=None if interval is None else rounded_value(interval.low),
        high=None if interval is None else rounded_value(interval.high),
        kappa=rounded_value(kappa) if math.isfinite(kappa) else None,
    )


def level_word(level: float, levels: Sequence[float]) -> str:
    """A grade in words, as one of all `levels`: `pass` of 0 and 1, `2 poor` of 0 to 5, else `1.5`."""
    if set(levels) <= {0.0, 1.0}:
        return "pass" if level else "fail"
    if set(levels) <= set(range(len(LABELS))):
        return f"{level:g} {LABELS[int(level)]}"
    return f"{level:g}"
