"""What the judges of the product said about the items of recorded sets, beside the truth."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal

from assizes.judge.calibration.labelled import RatedItem
from assizes.judge.calibration.order_flips import PairVerdicts
from assizes.judge.families.pairwise.judge import VERDICT
from assizes.judge.families.pairwise.verdict import AS_GIVEN, SWAPPED, Choice, PairVerdict, Winner
from assizes.tasks.recorded import llmbar
from assizes.tasks.recorded.own_tasks import Kind, OwnTask
from assizes.tasks.recorded.reading import BINARY
from assizes.tasks.recorded.values import JudgedItems

NOT_ASKED: Final[Sequence[tuple[str, str, str]]] = (
    (
        "DevAI",
        "answer_criteria about the work itself",
        "the set holds verdicts without the work that they are about, so the judge reads a report instead",
    ),
)
"""Judges that cannot be asked about a set: set, judge, reason."""

ScoreRows = Mapping[str, Mapping[str, Any]]
"""The row of each score of a run by case id; a case that was not asked about has none."""

Origin = Literal["floor", "model"]

_OUTPUTS: Final[dict[Winner, int | None]] = {"baseline": 1, "candidate": 2, "tie": None}
"""The output that a side of a pair is; a tie names none."""


def judged_items(task: OwnTask, rows: ScoreRows, judge: str, kind: Origin) -> JudgedItems:
    """What a judge said beside the truth; a case without a row was not asked."""
    return _READERS[task.kind](task, rows, judge, kind)


def score_rows(rows: Iterable[Mapping[str, Any]]) -> ScoreRows:
    """The rows of the scores of a run by case id, without those of cases that were not asked."""
    return {row["case_id"]: row for row in rows if row["status"] != "skipped"}


def _single_items(task: OwnTask, rows: ScoreRows, judge: str, kind: Origin) -> JudgedItems:
    items = [
        RatedItem(
            case_id=item,
            cluster=task.clusters[item],
            people=task.people.get(item, {"expert": truth}),
            judged=_passed(rows.get(item)),
            missing=item not in rows,
            settled=truth,
        )
        for item, truth in task.truth.items()
    ]
    return JudgedItems(task.dataset, task.task, judge, items, BINARY, kind=kind)


def _passed(row: Mapping[str, Any] | None) -> float | None:
    if row is None or row["status"] != "scored":
        return None
    return float(row["passed"])


def _rated_apart(task: OwnTask, rows: ScoreRows, judge: str, kind: Origin) -> JudgedItems:
    # Each output is rated apart, so the order cannot matter; two equal ratings name no winner.
    items = []
    for pair, label in task.truth.items():
        sides = (f"{pair}/1", f"{pair}/2")
        first, second = (_rating(rows.get(side)) for side in sides)
        winner = None
        if first is not None and second is not None and first != second:
            winner = 1.0 if first > second else 2.0
        is_missing = not all(side in rows for side in sides)
        items.append(RatedItem(pair, pair, {"expert": label}, winner, missing=is_missing))
    return JudgedItems(task.dataset, task.task, judge, items, llmbar.CONFIG, kind=kind)


def _rating(row: Mapping[str, Any] | None) -> float | None:
    return row["raw"] if row is not None and row["status"] == "scored" else None


def _both_orders(task: OwnTask, rows: ScoreRows, judge: str, kind: Origin) -> JudgedItems:
    items, pairs = [], []
    for pair, label in task.truth.items():
        as_given, swapped = _winners(rows.get(pair))
        for order, winner in (("as_given", as_given), ("swapped", swapped)):
            grade = None if winner is None else float(winner)
            items.append(
                RatedItem(
                    f"{pair}/{order}", pair, {"expert": label}, grade, missing=pair not in rows
                )
            )
        if pair in rows:
            pairs.append(PairVerdicts(pair, int(label), as_given, swapped))
    return JudgedItems(task.dataset, task.task, judge, items, llmbar.CONFIG, pairs=pairs, kind=kind)


def _winners(row: Mapping[str, Any] | None) -> tuple[int | None, int | None]:
    """The output that each order names, in the numbering as given."""
    if row is None or row["status"] != "scored":
        return None, None
    verdict = PairVerdict.model_validate(json.loads(row["details"])[VERDICT])
    return _output(AS_GIVEN, verdict.as_given), _output(SWAPPED, verdict.swapped)


def _output(sides: Mapping[Choice, Winner], choice: Choice | None) -> int | None:
    return None if choice is None else _OUTPUTS[sides[choice]]


_READERS: Final[Mapping[Kind, Callable[[OwnTask, ScoreRows, str, Origin], JudgedItems]]] = {
    "items": _single_items,
    "rated apart": _rated_apart,
    "both orders": _both_orders,
}
