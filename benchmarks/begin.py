"""Offline groundedness beside human labels, on responses of four dialogue systems.

The rule's word lists and shares were chosen on the Topical-Chat part alone; so was the threshold of
the baseline, the share of a response's words that occur in the context. The baseline with a
threshold chosen on each part itself is printed too: what such a rule could reach at best.
"""

from __future__ import annotations

import asyncio
import csv
import gzip
import re
from collections.abc import Sequence
from typing import Final

from assizes.judge import judges
from assizes.judge.calibration.measures import YesNoAgreement, yes_no_agreement
from benchmarks.figures import DATA, Figures

PARTS: Final = {"topical_chat": "begin_dev_tc.tsv.gz", "wow": "begin_dev_wow.tsv.gz"}
TUNED_ON: Final = "topical_chat"
LABELS: Final = {"Fully attributable": True, "Not fully attributable": False}

_WORD: Final = re.compile(r"\w+")

Row = dict[str, str]


def main() -> None:
    """Kappa, F1 and both error rates of rule and baseline on both parts."""
    figures = Figures()
    rows = {part: _rows(file) for part, file in PARTS.items()}
    threshold = _best_threshold(rows[TUNED_ON])
    figures.add("overlap_threshold", threshold)
    for part, of in rows.items():
        figures.add(f"{part}_rows", len(of))
        people = [LABELS[row["begin_label"]] for row in of]
        plain = yes_no_agreement(zip(_overlaps(of, threshold), people, strict=True))
        own = yes_no_agreement(zip(_overlaps(of, _best_threshold(of)), people, strict=True))
        found = yes_no_agreement(zip(asyncio.run(_grounded(of)), people, strict=True))
        _add(figures, f"{part}_overlap", plain)
        figures.add(f"{part}_overlap_own_kappa", own.kappa or 0.0)
        _add(figures, f"{part}_judge", found)
        figures.add(
            f"{part}_kappa_over_overlap", (found.kappa or 0) - (plain.kappa or 0), least=0.001
        )
    figures.close()


def _add(figures: Figures, name: str, found: YesNoAgreement) -> None:
    figures.add(f"{name}_kappa", found.kappa or 0.0)
    figures.add(f"{name}_f1", found.f1 or 0.0)
    figures.add(f"{name}_fpr", found.false_positive_rate or 0.0)
    figures.add(f"{name}_fnr", found.false_negative_rate or 0.0)


def _rows(file: str) -> list[Row]:
    with gzip.open(DATA / "begin" / file, "rt", encoding="utf-8", newline="") as lines:
        found = list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [row for row in found if row["begin_label"] in LABELS]


async def _grounded(rows: Sequence[Row]) -> list[bool]:
    found = await asyncio.gather(
        *(
            judges.agroundedness(row["message"], row["response"], [{"content": row["knowledge"]}])
            for row in rows
        )
    )
    return [one.rating == "yes" for one in found]


def _overlap(row: Row) -> float:
    said = _WORD.findall(row["response"].lower())
    known = set(_WORD.findall(row["knowledge"].lower()))
    return round(sum(word in known for word in said) / len(said), 3) if said else 0.0


def _overlaps(rows: Sequence[Row], threshold: float) -> list[bool]:
    return [_overlap(row) >= threshold for row in rows]


def _best_threshold(rows: Sequence[Row]) -> float:
    people = [LABELS[row["begin_label"]] for row in rows]
    shares = [_overlap(row) for row in rows]

    def kappa(threshold: float) -> float:
        pairs = zip((share >= threshold for share in shares), people, strict=True)
        return yes_no_agreement(pairs).kappa or 0.0

    return max(sorted(set(shares)), key=kappa)


if __name__ == "__main__":
    main()
