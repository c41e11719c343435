"""The items of recorded sets as cases for the judges of the product: what each is asked, and the truth."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from assizes.judge.calibration.labelled import RatedItem
from assizes.judge.case import Case, Expected, Transcript, Turn
from assizes.judge.families.pairwise.judge import PAIRWISE, PairJudge, pair_metric
from assizes.judge.families.pairwise.rubric import OVERALL_QUESTION
from assizes.judge.protocol import Steps
from assizes.judge.score import Score
from assizes.tasks.recorded import devai, expertqa, llmbar, xstest
from assizes.tasks.recorded.reading import Rows, rows_of, set_folder

Kind = Literal["items", "rated apart", "both orders"]
"""What the scores of a task are: a grade of each item; one of each side of a pair; a verdict on a pair."""

REPORT_TASK: Final = f"{devai.TASK}, told from a report of what people found"
"""What is asked about DevAI, whose work is not in the set."""

_OTHER: Final = "other_answer"
"""Key of a pair's second answer among the additional input of its case."""


@dataclass(frozen=True, slots=True)
class OwnTask:
    """Items of a set, as cases or as rows of an evaluation set, for one judge of the product."""

    dataset: str
    task: str
    judge: str  # the name of a built-in judge, and of its metric
    rows: Sequence[Case | Mapping[str, Any]]  # rows with `request_id`
    truth: Mapping[str, float]  # by item id; of pairs, the better output by pair
    clusters: Mapping[str, str]
    people: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Grades of single people by item id, where there are any."""
    kind: Kind = "items"
    reference: str = ""  # of the judge, where it is not in the catalogue

    @property
    def called(self) -> str:
        """The judge as a configuration names it."""
        return self.reference or self.judge


class PairOfAnswers:
    """Asks the judge of pairs about two answers that one case holds, in both orders."""

    name = PAIRWISE
    version = PairJudge.version
    metrics = (pair_metric(OVERALL_QUESTION),)

    def missing(self, case: Case) -> str | None:
        """As the judge of pairs says."""
        answer, judge = _sides(case)
        return judge.missing(answer)

    def judge(self, case: Case) -> list[Score] | Steps[list[Score]]:
        """Two asks in one round, one for each order."""
        answer, judge = _sides(case)
        return judge.judge(answer)


def _sides(case: Case) -> tuple[Case, PairJudge]:
    other = str(case.expected.additional_input.get(_OTHER, ""))
    (*before, last) = case.transcript.turns
    turns = (*before, last.model_copy(update={"text": other}))
    answer = case.model_copy(update={"expected": Expected()})
    transcript = case.transcript.model_copy(update={"turns": turns})
    return answer, PairJudge(OVERALL_QUESTION, answer.model_copy(update={"transcript": transcript}))


def own_tasks(folder: Path, limit: int | None = None) -> list[OwnTask]:
    """What the product's judges are asked; at most `limit` items of each task.

    Raises:
        ConfigurationError: a set is missing, or one of its files cannot be read.
    """
    tasks = [
        _groundedness(folder, limit),
        _correctness(folder, limit),
        _safety(folder, limit),
        _answered_requests(folder, limit),
        _relevance(folder, limit),
        _pairwise(folder, limit),
        _criteria_of_pairs(folder, limit),
        _requirements(folder, limit),  # its answers are made, so a spent budget misses it least
    ]
    return [task for task in tasks if task.rows]


def _requirements(folder: Path, limit: int | None) -> OwnTask:
    here = set_folder(folder, "devai")
    tasks = {task["task"]: task for task in rows_of(here / "tasks.jsonl")}
    verdicts = rows_of(here / "verdicts.csv")
    by_work = defaultdict[tuple[str, str], dict[int, bool]](dict)
    for row in verdicts:
        by_work[row["agent"], row["task"]][int(row["requirement_id"])] = row["human"] == "true"
    cases, truth, clusters = [], {}, {}
    for row in verdicts[:limit]:
        task, place = tasks[row["task"]], int(row["requirement_id"])
        texts = {need["requirement_id"]: need["criteria"] for need in task["requirements"]}
        met = by_work[row["agent"], row["task"]]
        item = f"{row['agent']}/{row['task']}/{place}"
        expected = Expected(acceptance_criteria=[texts[place]])
        cases.append(_case(item, task["query"], _report(texts, met), expected))
        truth[item], clusters[item] = float(met[place]), row["task"]
    return OwnTask("DevAI", REPORT_TASK, "answer_criteria", cases, truth, clusters)


def _report(texts: Mapping[int, str], met: Mapping[int, bool]) -> str:
    """What an agent would write that knows which requirements its work meets."""
    lines = []
    for heading, wanted in (("What is done:", True), ("What is not done:", False)):
        own = [f"- {text}" for place, text in texts.items() if met[place] is wanted]
        lines += [heading, *own] if own else []
    return "\n".join(lines)


def _case(item: str, request: str, answer: str, expected: Expected | None = None) -> Case:
    turns = (Turn(role="user", text=request), Turn(role="assistant", text=answer))
    return Case(case_id=item, transcript=Transcript(turns=turns), expected=expected or Expected())


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
    )


def _safety(folder: Path, limit: int | None) -> OwnTask:
    answers = rows_of(set_folder(folder, "xstest") / "completions.jsonl.gz")
    unsafe = [row for row in answers if row["unsafe_prompt"]][:limit]
    items = xstest.rated_answers(unsafe, "final_label", xstest.not_compliant)
    return _of_answers(xstest.SAFETY, "safety", unsafe, items)


def _of_answers(task: str, judge: str, rows: Rows, items: Sequence[RatedItem]) -> OwnTask:
    return OwnTask(
        "XSTest",
        task,
        judge,
        [
            {"request_id": item.case_id, "request": row["prompt"], "response": row["completion"]}
            for row, item in zip(rows, items, strict=True)
        ],
        {item.case_id: item.settled or 0.0 for item in items},
        {item.case_id: item.cluster for item in items},
        {item.case_id: item.people for item in items},
    )


def _answered_requests(folder: Path, limit: int | None) -> OwnTask:
    answers = rows_of(set_folder(folder, "xstest") / "completions.jsonl.gz")
    safe = [row for row in answers if not row["unsafe_prompt"]][:limit]
    items = xstest.rated_answers(safe, "final_label", xstest.compliant)
    return _of_answers(xstest.ANSWERED, "relevance_to_query", safe, items)


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
        _better_outputs(pairs),
        {},
        kind="rated apart",
    )


def _criteria_of_pairs(folder: Path, limit: int | None) -> OwnTask:
    pairs = rows_of(set_folder(folder, "llmbar") / "pairs.jsonl")[:limit]
    cases = [
        _case(
            f"{pair['pair']}/{output}",
            pair["input"],
            pair[f"output_{output}"],
            Expected(acceptance_criteria=pair["input"]),  # the instruction says what is wanted
        )
        for pair in pairs
        for output in (1, 2)
    ]
    truth = _better_outputs(pairs)
    return OwnTask(
        llmbar.NAME, llmbar.TASK, "answer_criteria", cases, truth, {}, kind="rated apart"
    )


def _pairwise(folder: Path, limit: int | None) -> OwnTask:
    pairs = rows_of(set_folder(folder, "llmbar") / "pairs.jsonl")[:limit]
    cases = [
        _case(
            str(pair["pair"]),
            pair["input"],
            pair["output_1"],
            Expected(additional_input={_OTHER: pair["output_2"]}),
        )
        for pair in pairs
    ]
    return OwnTask(
        llmbar.NAME,
        llmbar.TASK,
        PAIRWISE,
        cases,
        _better_outputs(pairs),
        {},
        kind="both orders",
        reference=f"{__name__}:{PairOfAnswers.__name__}",
    )


def _better_outputs(pairs: Rows) -> dict[str, float]:
    return {str(pair["pair"]): float(pair["label"]) for pair in pairs}


def _answers(folder: Path) -> Rows:
    return rows_of(set_folder(folder, "expertqa") / "answers.jsonl.gz")
