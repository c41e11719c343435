"""LLMBar: which of two outputs follows the instruction, by 20 recorded evaluators in both orders."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from assizes.judge.calibration.labelled import RatedItem
from assizes.judge.calibration.order_flips import PairVerdicts, order_flips
from assizes.judge.config.gates import CalibrationConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.formats.shared.parsing import strict_json
from assizes.tasks.recorded.reading import agreement, rows_of, set_folder
from assizes.tasks.recorded.values import JudgedItems, RecordedSet
from assizes.tasks.sources.spool import read_whole_file

NAME: Final = "LLMBar"
TASK: Final = "which output follows the instruction"
CONFIG: Final = CalibrationConfig(levels=(1, 2), scale="nominal")
MAX_REPLY_CHARS: Final = 20_000
"""Characters of a reply that the expressions of its evaluator search, at most."""

Order = Literal["as_given", "swapped"]
ORDERS: Final[tuple[Order, Order]] = ("as_given", "swapped")
Row = Mapping[str, Any]


def read(folder: Path) -> RecordedSet:
    """Every evaluator in both orders; a pair is the cluster of its two replies."""
    here = set_folder(folder, "llmbar")
    labels = {row["pair"]: row["label"] for row in rows_of(here / "pairs.jsonl")}
    setups = strict_json(read_whole_file(str(here / "evaluators.json"), {}, NAME))["evaluators"]
    replies = defaultdict[str, list[Row]](list)
    rows = rows_of(here / "replies.jsonl.gz")
    for row in rows:
        replies[row["evaluator"]].append(row)
    judged = [
        _judged_pairs(name, _winners(replies[name], calls), labels)
        for name, calls in setups.items()
    ]
    comparisons = [row for row in rows if row["kind"] == "comparison"]
    figures: dict[str, float | str] = {
        "pairs": len(labels),
        "replies": len(rows),
        "evaluators": len(judged),
        "label 1": sum(label == 1 for label in labels.values()),
        "label 2": sum(label == 2 for label in labels.values()),
        "comparisons": len(comparisons),
        "comparisons whose winner is parsed as recorded": sum(
            winner_of(row, setups[row["evaluator"]]) == row["winner"] for row in comparisons
        ),
    }
    for one in judged:
        figures |= _figures(one)
    return RecordedSet(NAME, judged, figures)


def winner_of(row: Row, calls: Sequence[Row]) -> int | None:
    """The output that a reply names, in the numbering as given; `None` if it names none.

    Raises:
        ConfigurationError: an expression of the evaluator cannot be read.
    """
    compared = [call["parsing"] for call in calls if call["parsing"]]
    expressions = compared[min(row["stage"], len(compared)) - 1]
    reply = str(row["reply"] or "")[:MAX_REPLY_CHARS]
    try:
        named = next((n for n in (1, 2) if re.search(expressions[str(n)], reply)), None)
    except re.error as error:
        raise ConfigurationError(
            f"{row['evaluator']}: expression {error.pattern!r}: {error}"
        ) from error
    return 3 - named if named and row["order"] == "swapped" else named


def _winners(rows: Sequence[Row], calls: Sequence[Row]) -> dict[tuple[int, Order], int | None]:
    winners: dict[tuple[int, Order], int | None] = {}
    ratings: dict[tuple[int, int], str] = {}
    for row in rows:
        if row["kind"] == "comparison" and row["final"]:
            winners[row["pair"], row["order"]] = winner_of(row, calls)
        elif row["kind"] == "rating":
            ratings[row["pair"], row["output"]] = row["reply"]
    for pair in {pair for pair, _ in ratings}:
        # A tie, or a reply that is no number, is a winner that changes with the order.
        first, second = (_number(ratings[pair, output]) for output in (1, 2))
        better = None if first is None or second is None or first == second else first > second
        as_given, swapped = (2, 1) if better is None and first is not None else (1, 2)
        if better is not None:
            as_given = swapped = 1 if better else 2
        winners[pair, "as_given"], winners[pair, "swapped"] = as_given, swapped
    return winners


def _number(reply: str) -> float | None:
    try:
        return float(reply)
    except ValueError:
        return None


def _judged_pairs(
    name: str, winners: Mapping[tuple[int, Order], int | None], labels: Mapping[int, int]
) -> JudgedItems:
    items = [
        RatedItem(
            f"{pair}/{order}", str(pair), {"expert": float(label)}, _grade(winners[pair, order])
        )
        for pair, label in labels.items()
        for order in ORDERS
    ]
    pairs = [
        PairVerdicts(str(pair), label, winners[pair, "as_given"], winners[pair, "swapped"])
        for pair, label in labels.items()
    ]
    return JudgedItems(NAME, TASK, name, items, CONFIG, pairs=pairs)


def _grade(winner: int | None) -> float | None:
    return None if winner is None else float(winner)


def _figures(one: JudgedItems) -> dict[str, float | str]:
    flips = order_flips(one.pairs)
    unread = sum(item.judged is None for item in one.items)
    right = sum(item.judged == item.people["expert"] for item in one.items)
    # In the published kappas to the label, a reply that names no output is a third grade; in that of
    # the orders it counts as the second output, as in the authors' code.
    labels = [float(pair.label) for pair in one.pairs]
    as_given, swapped = ([float(getattr(p, order) or 0) for p in one.pairs] for order in ORDERS)
    orders = [
        (winner or 2.0, other or 2.0) for winner, other in zip(as_given, swapped, strict=True)
    ]
    kappas = [
        agreement(sides).kappa
        for sides in (
            list(zip(labels, as_given, strict=True)),
            list(zip(labels, swapped, strict=True)),
            orders,
        )
    ]
    return {
        f"{one.judge}: accuracy": right / len(one.items),
        f"{one.judge}: correct in both": flips.right_twice,
        f"{one.judge}: agree": flips.same,
        f"{one.judge}: unparsed": unread,
        f"{one.judge}: flips": f"{flips.flips}/{flips.read}",
        f"{one.judge}: shown first": flips.first_shown or 0.0,
        f"{one.judge}: kappa to label, as given": kappas[0],
        f"{one.judge}: kappa to label, swapped": kappas[1],
        f"{one.judge}: kappa of orders": kappas[2],
    }
