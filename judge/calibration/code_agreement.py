"""How far a judge and people give the same failure codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from assizes.judge.calibration.measures import Estimate, accuracy, confusions, estimate, kappa

NO_CODE: Final = "none"
"""The word for an item without a fault."""


class CodedItem(NamedTuple):
    """One score with the code of people and the judge's; `NO_CODE` where there is no fault."""

    cluster: str
    people: str
    judge: str


class CodeCounts(NamedTuple):
    """How often people and the judge gave a code."""

    code: str
    people: int
    judge: int
    both: int  # for the same item


class CodeAgreement(NamedTuple):
    """The agreement over some items."""

    items: int
    accuracy: Estimate
    kappa: Estimate  # Cohen's, of codes without an order
    codes: tuple[CodeCounts, ...]  # those that people gave most often first


def code_agreement(items: Sequence[CodedItem]) -> CodeAgreement:
    """Compare codes, with intervals from resampled clusters."""
    names = sorted({code for item in items for code in (item.people, item.judge)})
    place = {name: float(number) for number, name in enumerate(names)}
    pairs = [(item.cluster, place[item.people], place[item.judge]) for item in items]
    tables = confusions(pairs, list(place.values()))
    counts = tables.whole.round().astype(int)
    rows = [
        CodeCounts(name, int(counts[at].sum()), int(counts[:, at].sum()), int(counts[at, at]))
        for at, name in enumerate(names)
    ]
    rows.sort(key=lambda row: (-row.people, row.code))
    return CodeAgreement(
        len(items), estimate(tables, accuracy), estimate(tables, kappa), tuple(rows)
    )
