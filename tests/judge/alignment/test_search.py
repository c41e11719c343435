"""The search: what is made of all folds, and the best of one fold, are tried on all; the better goes on.

The judge is a real one with a scripted model behind a real engine; the division is real, too. The
proposer says what a test wrote down: first twice for each fold, then twice for all of them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import pytest

from assizes.judge.alignment.labelled_cases import Division, LabelledCase, divide
from assizes.judge.alignment.proposer import ProposalTask
from assizes.judge.alignment.rejudging import Rejudging, judge_of
from assizes.judge.alignment.rubric_files import RubricFile
from assizes.judge.alignment.search import Guidance, Search, Variant, VariantChoice, choose
from assizes.judge.config.judging import JudgeConfig, LimitsConfig
from assizes.judge.engine.hearings import Engine
from assizes.judge.families.rag import RatingEvidence
from assizes.judge.formats.readers.agent_evaluation import row_case
from assizes.judge.models.model import FREE, Completion
from assizes.judge.protocol import Ask
from assizes.judge.rubrics.guidance import AlignmentRecord, Guideline

METRIC: Final = "helpful"
RUBRIC: Final = 'kind = "ANSWER"\nname = "helpful"\ndescription = "d"\nquestion = "Is it good?"\n'
FOLDS: Final = 4
MENDS_ALL: Final = "Any length is fine."
MENDS_HALF: Final = "A list is fine."
USELESS: Final = "Be polite."


def labelled(number: int) -> LabelledCase:
    """Every second case passes; half of these are long, and the judge fails them."""
    passes, is_long = number % 2 == 0, number % 4 == 0
    list_or_text = "list" if number % 8 == 0 else "text"
    response = f"{'good' if passes else 'bad'} {list_or_text} {number} {'more ' * 40 * is_long}"
    row = {"request_id": f"case-{number}", "request": "Well?", "response": response}
    judge = passes and not is_long
    return LabelledCase(row_case(row), response, f"cluster-{number}", passes, judge)


class FailsLongAnswers:
    """A model that rates good answers yes, but no long one if no guideline speaks of it."""

    name = "scripted/judge"
    provider = "scripted"
    cache_key = None
    price = FREE

    def tokens(self, ask: Ask[Any], cap: int = 1) -> tuple[int, int]:
        """No tokens count here."""
        return 0, 0

    async def complete(
        self, ask: Ask[Any], *, complaint: str | None = None, cap: int = 1
    ) -> Completion:
        """Rate the answer by the guidelines of the real prompt."""
        assert isinstance(ask.evidence, RatingEvidence)
        text, system = ask.evidence.response or "", ask.prompt.system
        is_excused = MENDS_ALL in system or (MENDS_HALF in system and "list" in text)
        passes = "good" in text and (len(text) < 100 or is_excused)
        reply = {"reply_id": ask.reply_id, "rationale": "r", "rating": "yes" if passes else "no"}
        return Completion(json.dumps(reply), self.name, 1, 1, cost_usd=0.0, reply_id=ask.reply_id)

    async def aclose(self) -> None:
        """Nothing is open."""


class Trial:
    """A search over real parts; keeps what was tried on which cases."""

    def __init__(self, of_folds: Sequence[str], of_all: str, variant: Variant) -> None:
        self.proposals = [*(text for text in of_folds for _ in range(2)), of_all, of_all]
        self.tried: list[tuple[Guidance, list[str]]] = []
        self.variant = variant
        self.rejudging = Rejudging(
            Engine(FailsLongAnswers(), LimitsConfig()), METRIC, lambda _: None
        )

    async def propose(self, task: ProposalTask) -> list[Guideline]:
        text = self.proposals.pop(0)
        return [Guideline(title="Title", text=text)]

    async def rejudge(self, added: Guidance, cases: Sequence[LabelledCase]) -> list[bool | None]:
        self.tried.append((added, [item.case.case_id for item in cases]))
        record = AlignmentRecord(
            parent="-", version=1, metric=METRIC, run="-", labels="-", proposer="-",
            held_out="-", held_out_uses=1, result="-",
        )  # fmt: skip
        file = RubricFile(METRIC, RUBRIC, None)
        text = file.with_guidance(added.guidelines, added.examples, record)
        config = JudgeConfig(model="openai/scripted", judges=[METRIC])
        return await self.rejudging.verdicts(judge_of(config, text, METRIC), cases)

    async def choice(self, division: Division) -> VariantChoice:
        search = Search(METRIC, "d", 5, (self.variant,), self.propose, self.rejudge)
        result = await choose(search, division)
        assert self.proposals == []
        return result


DIVISION: Final = divide([labelled(number) for number in range(160)], 0.4, FOLDS, "")
ONLY_GUIDELINES: Final = Variant(has_guidelines=True, examples=0)


@pytest.mark.parametrize(
    ("of_folds", "of_all", "goes_on"),
    [
        ([MENDS_HALF] * 4, MENDS_ALL, MENDS_ALL),
        ([MENDS_ALL] * 4, USELESS, MENDS_ALL),
        ([MENDS_ALL] * 4, MENDS_HALF, MENDS_ALL),
        ([MENDS_HALF, MENDS_HALF, MENDS_ALL, USELESS], USELESS, MENDS_ALL),
        ([MENDS_HALF, MENDS_HALF, MENDS_ALL, USELESS], MENDS_ALL, MENDS_ALL),
        ([MENDS_HALF] * 4, USELESS, MENDS_HALF),
    ],
)
async def test_the_better_of_the_last_proposal_and_the_best_of_a_fold_goes_on(
    of_folds: list[str], of_all: str, goes_on: str
):
    choice = await Trial(of_folds, of_all, ONLY_GUIDELINES).choice(DIVISION)
    assert [item.text for item in choice.guidance.guidelines] == [goes_on]


async def test_both_are_tried_on_all_development_cases_and_on_no_other():
    trial = Trial([MENDS_ALL] * 4, USELESS, ONLY_GUIDELINES)
    await trial.choice(DIVISION)
    of_folds, (last, last_cases), (proved, proved_cases) = trial.tried[:FOLDS], *trial.tried[FOLDS:]
    for (_, cases), fold in zip(of_folds, DIVISION.folds, strict=True):
        assert cases == [item.case.case_id for item in fold]
    assert (last.guidelines[0].text, proved.guidelines[0].text) == (USELESS, MENDS_ALL)
    assert last_cases == proved_cases == [item.case.case_id for item in DIVISION.development]


async def test_of_equal_gains_the_last_proposal_goes_on():
    same = f"{MENDS_ALL} It is."
    choice = await Trial([MENDS_ALL] * 4, same, ONLY_GUIDELINES).choice(DIVISION)
    assert [item.text for item in choice.guidance.guidelines] == [same]


async def test_the_same_proposal_twice_is_not_judged_again():
    trial = Trial([MENDS_ALL] * 4, MENDS_ALL, ONLY_GUIDELINES)
    await trial.choice(DIVISION)
    assert len(trial.tried) == FOLDS


async def test_a_case_that_one_of_the_two_shows_as_an_example_counts_for_neither():
    trial = Trial([MENDS_ALL] * 4, USELESS, Variant(has_guidelines=True, examples=4))
    await trial.choice(DIVISION)
    (last, last_cases), (proved, proved_cases) = trial.tried[FOLDS:]
    shown = {example.case_id for added in (last, proved) for example in added.examples}
    assert len(shown) >= 4
    assert last.examples != proved.examples
    development = [item.case.case_id for item in DIVISION.development]
    assert last_cases == proved_cases == [name for name in development if name not in shown]
