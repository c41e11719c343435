"""The judges of the product on the items of recorded sets: what they are asked, and the truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from assizes.judge.calibration.labelled import RatedItem
from assizes.tasks.recorded import expertqa, llmbar, xstest
from assizes.tasks.recorded.reading import BINARY, Rows, rows_of, set_folder
from assizes.tasks.recorded.values import JudgedItems

NOT_ASKED: Final[Sequence[tuple[str, str, str]]] = (
    (
        "DevAI",
        "answer_criteria",
        "the set holds verdicts without the work that they are about: there is nothing to show a judge",
    ),
    (
        "LLMBar",
        "a judge of pairs",
        "the offline rules hold no comparison of two answers; relevance_to_query rates one at a time",
    ),
)
"""Judges that cannot be asked about a set: set, judge, reason."""

Outcome = Mapping[str, float | None]
"""The judge's grade by item id: 1 for yes, `None` for an answer that is none."""


@dataclass(frozen=True, slots=True)
class OwnTask:
    """Items of a set, as rows of an evaluation set, for one judge of the product."""

    dataset: str
    task: str
    judge: str  # the name of a built-in judge
    rows: Sequence[Mapping[str, Any]]  # with `request_id`
    truth: Mapping[str, float]  # by item id; of pairs, the better output by pair
    clusters: Mapping[str, str]
    people: Mapping[str, Mapping[str, float]]  # grades of single people by item id, where there are


def own_tasks(folder: Path, limit: int | None = None) -> list[OwnTask]:
    """What the product's judges are asked; at most `limit` items of each task.

    Raises:
        ConfigurationError: a set is missing, or one of its files cannot be read.
    """
    tasks = [
        _groundedness(folder, limit),
        _correctness(folder, limit),
        _safety(folder, limit),
        _relevance(folder, limit),
    ]
    return [task for task in tasks if task.rows]


def judged_items(
    task: OwnTask, grades: Outcome, judge: str, kind: Literal["floor", "model"]
) -> JudgedItems:
    """The grades of a judge beside the truth; an item without a grade was not asked."""
    if task.dataset == llmbar.NAME:
        return _pairs(task, grades, judge, kind)
    items = [
        RatedItem(
            case_id=item,
            cluster=task.clusters[item],
            people=task.people.get(item, {"expert": truth}),
            judged=grades.get(item),
            missing=item not in grades,
            settled=truth,
        )
        for item, truth in task.truth.items()
    ]
    return JudgedItems(task.dataset, task.task, judge, items, BINARY, kind=kind)


def _groundedness(folder: Path, limit: int | None) -> OwnTask:
    claims = expertqa.grounded_claims(folder)[:limit]
    questions = {answer["question_id"]: answer["question"] for answer in _answers(folder)}
    return OwnTask(
        expertqa.NAME,
        "claim completely supported by its evidence",
        "groundedness",
        [
            {
                "request_id": claim["claim_id"],
                "request": questions[claim["question_id"]],
                "response": claim["claim"],
                "retrieved_context": [{"content": text} for text in claim["evidence"]],
            }
            for claim in claims
        ],
        {claim["claim_id"]: float(claim["support"] == "Complete") for claim in claims},
        {claim["claim_id"]: claim["question_id"] for claim in claims},
        {},
    )


def _correctness(folder: Path, limit: int | None) -> OwnTask:
    answers = {answer["question_id"]: answer for answer in _answers(folder)}
    right, wrong = expertqa.CORRECTNESS[:2], expertqa.CORRECTNESS[3:5]
    rows = rows_of(set_folder(folder, "expertqa") / "claims.jsonl.gz")
    claims = [claim for claim in rows if claim["correctness"] in (*right, *wrong)][:limit]
    return OwnTask(
        expertqa.NAME,
        "claim correct, by the answer that the expert revised",
        "correctness",
        [
            {
                "request_id": claim["claim_id"],
                "request": answers[claim["question_id"]]["question"],
                "response": claim["claim"],
                "expected_response": answers[claim["question_id"]]["revised_answer"],
            }
            for claim in claims
        ],
        {claim["claim_id"]: float(claim["correctness"] in right) for claim in claims},
        {claim["claim_id"]: claim["question_id"] for claim in claims},
        {},
    )


def _safety(folder: Path, limit: int | None) -> OwnTask:
    answers = rows_of(set_folder(folder, "xstest") / "completions.jsonl.gz")
    unsafe = [row for row in answers if row["unsafe_prompt"]][:limit]
    items = xstest.rated_answers(unsafe, "final_label", xstest.not_compliant)
    return OwnTask(
        "XSTest",
        xstest.SAFETY,
        "safety",
        [
            {
                "request_id": item.case_id,
                "request": row["prompt"],
                "response": row["completion"],
            }
            for row, item in zip(unsafe, items, strict=True)
        ],
        {item.case_id: item.settled or 0.0 for item in items},
        {item.case_id: item.cluster for item in items},
        {item.case_id: item.people for item in items},
    )


def _relevance(folder: Path, limit: int | None) -> OwnTask:
    pairs = rows_of(set_folder(folder, "llmbar") / "pairs.jsonl")[:limit]
    return OwnTask(
        llmbar.NAME,
        llmbar.TASK,
        "relevance_to_query",
        [
            {
                "request_id": f"{pair['pair']}/{output}",
                "request": pair["input"],
                "response": pair[f"output_{output}"],
            }
            for pair in pairs
            for output in (1, 2)
        ],
        {str(pair["pair"]): float(pair["label"]) for pair in pairs},
        {},
        {},
    )


def _answers(folder: Path) -> Rows:
    return rows_of(set_folder(folder, "expertqa") / "answers.jsonl.gz")


def _pairs(
    task: OwnTask, grades: Outcome, judge: str, kind: Literal["floor", "model"]
) -> JudgedItems:
    # Each output is rated apart, so the order cannot matter; two equal ratings name no winner.
    items = []
    for pair, label in task.truth.items():
        sides = (f"{pair}/1", f"{pair}/2")
        first, second = (grades.get(side) for side in sides)
        winner = None
        if first is not None and second is not None and first != second:
            winner = 1 if first > second else 2
        is_missing = not all(side in grades for side in sides)
        grade = None if winner is None else float(winner)
        items.append(RatedItem(pair, pair, {"expert": label}, grade, missing=is_missing))
    return JudgedItems(task.dataset, task.task, judge, items, llmbar.CONFIG, kind=kind)
