"""The 20 recorded evaluators of LLMBar: every reply put through the pair judge, in both orders."""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np

from assizes.judge.calibration.measures import kappa
from assizes.judge.case import Case, Transcript, Turn
from assizes.judge.families.pairwise.judge import PairJudge, Preference, verdict_of
from assizes.judge.families.pairwise.rubric import pair_rubric
from assizes.judge.families.pairwise.verdict import (
    AS_GIVEN,
    SWAPPED,
    Choice,
    PairVerdict,
    Winner,
)
from assizes.judge.hearing import Hearing
from assizes.judge.heuristic.answers import plain_reply
from assizes.judge.protocol import Ask, NoReply
from benchmarks.figures import DATA

LLMBAR = DATA / "llmbar"
SIDES: dict[int, Winner] = {1: "baseline", 2: "candidate"}  # output 1 is shown first as given
ORDERS = {"as_given": AS_GIVEN, "swapped": SWAPPED}


class Pair(NamedTuple):
    """A pair of outputs of one instruction as two cases, and the better one by the experts."""

    sides: tuple[Case, Case]
    label: Winner


def recorded_pairs() -> list[Pair]:
    """The pairs in the order of the file."""
    rows = [json.loads(line) for line in (LLMBAR / "pairs.jsonl").open(encoding="utf-8")]
    return [
        Pair((_case(row, "output_1"), _case(row, "output_2")), SIDES[row["label"]]) for row in rows
    ]


def _case(row: dict[str, Any], output: str) -> Case:
    turns = (Turn(role="user", text=row["input"]), Turn(role="assistant", text=row[output]))
    return Case(case_id=f"pair-{row['pair']}", transcript=Transcript(turns=turns))


def recorded_choices() -> dict[str, dict[int, dict[str, Choice | None]]]:
    """What each evaluator chose in each order, read from its replies; `None`: not readable."""
    evaluators = json.loads((LLMBAR / "evaluators.json").read_text("utf-8"))["evaluators"]
    choices: dict[str, dict[int, dict[str, Choice | None]]] = defaultdict(
        lambda: defaultdict(lambda: {"as_given": None, "swapped": None})
    )
    with gzip.open(LLMBAR / "replies.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    for row in rows:
        own = choices[row["evaluator"]][row["pair"]]
        if row["kind"] == "rating_winner":  # two ratings apart: the file says who won
            for order in ORDERS:
                own[order] = _place(SIDES[row[f"winner_{order}"]], order)
        elif row["kind"] == "comparison" and row["final"]:
            calls = [call for call in evaluators[row["evaluator"]] if call["parsing"]]
            own[row["order"]] = _parsed(row["reply"], calls[row["stage"] - 1]["parsing"])
    return choices


def _parsed(reply: str, parsing: dict[str, str]) -> Choice | None:
    if re.search(parsing["1"], reply):
        return "first"
    return "second" if re.search(parsing["2"], reply) else None


def _place(side: Winner, order: str) -> Choice:
    return next(choice for choice, named in ORDERS[order].items() if named == side)


def heard(pair: Pair, choices: dict[str, Choice | None]) -> PairVerdict:
    """The verdict of the pair judge when a model replies with these choices."""
    hearing = Hearing(PairJudge(pair_rubric("overall"), pair.sides[1]), pair.sides[0])
    answers = [
        NoReply("unusable_reply", "no verdict in it")
        if choices[order] is None
        else Preference(rationale="", better=choices[order])
        for order in ORDERS
    ]
    hearing.answer(answers)
    return verdict_of(hearing.scores[0], pair.sides[0])


def offline(pair: Pair, rubric: str) -> PairVerdict:
    """The verdict of the offline rule."""
    hearing = Hearing(PairJudge(pair_rubric(rubric), pair.sides[1]), pair.sides[0])
    if not hearing.is_closed:
        hearing.answer([plain_reply(ask)[1] for ask in hearing.asks if isinstance(ask, Ask)])
    return verdict_of(hearing.scores[0], pair.sides[0])


def table_row(
    pairs: list[Pair], choices: dict[int, dict[str, Choice | None]], verdicts: list[PairVerdict]
) -> dict[str, float]:
    """The figures of one evaluator by the names of figures.csv."""
    named = {
        order: [
            None if (choice := choices[place][order]) is None else sides[choice]
            for place in range(len(pairs))
        ]
        for order, sides in ORDERS.items()
    }
    labels = [pair.label for pair in pairs]
    right = {
        order: [winner == label for winner, label in zip(own, labels, strict=True)]
        for order, own in named.items()
    }
    readable = [v for v in verdicts if v.winner is not None]
    shown = [choice for own in choices.values() for choice in own.values() if choice is not None]
    rounded = {
        "accuracy_average": round(np.mean([right["as_given"], right["swapped"]]), 4),
        "first_shown_share": round(shown.count("first") / len(shown), 4),
        "kappa_label_as_given": _kappa(labels, named["as_given"]),
        "kappa_label_swapped": _kappa(labels, named["swapped"]),
        # The published value takes an unreadable reply for output 2.
        "kappa_orders": _kappa(*([each or SIDES[2] for each in own] for own in named.values())),
    }
    return {
        "correct_as_given": sum(right["as_given"]),
        "correct_swapped": sum(right["swapped"]),
        # Right in both orders is what the judge's verdict is: a side that both orders name.
        "correct_both": sum(v.winner == p.label for v, p in zip(verdicts, pairs, strict=True)),
        "agree_between_orders": sum(
            one == other for one, other in zip(named["as_given"], named["swapped"], strict=True)
        ),
        "unparsed": sum(own.count(None) for own in named.values()),
        "flips": sum(verdict.is_flip for verdict in readable),
        "flip_of": len(readable),
        **rounded,
    }


def _kappa(first: list[Any], second: list[Any]) -> float:
    levels: list[Any] = ["baseline", "candidate", None]  # an unreadable reply is a level of its own
    table = np.zeros((3, 3))
    for one, other in zip(first, second, strict=True):
        table[levels.index(one), levels.index(other)] += 1
    return round(float(kappa(table)), 4)


def published() -> dict[str, dict[str, float]]:
    """The figures to reproduce, by evaluator."""
    with (LLMBAR / "figures.csv").open(encoding="utf-8", newline="") as file:
        return {
            row.pop("evaluator"): {name: float(value) for name, value in row.items()}
            for row in csv.DictReader(file)
        }
