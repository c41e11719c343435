"""Proposals and their choice by cross-validation; the held-out part is not touched here.

For each fold, guidelines are distilled from the other folds and tried on it. The variant that gains
most over all folds is then made from all of them. If none gains, nothing is proposed.

A proposer says something useless now and then, so what it makes of all folds may be worse than what
has proved itself on a fold. Both are therefore tried on all folds, and the better one goes on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from assizes.judge.alignment.examples import chosen_examples, task_of
from assizes.judge.alignment.gate import gain_and_p
from assizes.judge.alignment.labelled_cases import Division, LabelledCase
from assizes.judge.alignment.proposer import ProposalTask, guideline_fault
from assizes.judge.rubrics.guidance import Guideline, JudgedExample

WORTH_TRYING: Final = 0.2
"""The highest one-sided p-value of the folds with which a variant is tried on held-out labels."""

TRIED_ON_ALL_FOLDS: Final = 2
"""How many additions are tried on all folds at the end: the last one made, and one of a fold."""


class Variant(NamedTuple):
    """What is added to a rubric."""

    has_guidelines: bool
    examples: int

    def words(self) -> str:
        """The variant in words."""
        shown = f"{self.examples} examples" if self.examples else ""
        return " and ".join(filter(None, ("guidelines" if self.has_guidelines else "", shown)))


@dataclass(frozen=True, slots=True)
class Guidance:
    """Guidelines and examples that may be added to a rubric."""

    guidelines: tuple[Guideline, ...] = ()
    examples: tuple[JudgedExample, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to add."""
        return not (self.guidelines or self.examples)


@dataclass(frozen=True, slots=True)
class VariantScore:
    """How a variant did over all folds."""

    variant: Variant
    gain: float  # in balanced accuracy
    p_value: float  # one-sided


@dataclass(frozen=True, slots=True)
class VariantChoice:
    """The variant that was chosen, and what it adds; `guidance` is empty where none gained."""

    guidance: Guidance
    scores: tuple[VariantScore, ...]
    variant: Variant | None = None
    refused: tuple[str, ...] = field(default=())  # guidelines that were left out, with the reason


Propose = Callable[[ProposalTask], Awaitable[Sequence[Guideline]]]
"""Asks a proposer."""

Rejudge = Callable[[Guidance, Sequence[LabelledCase]], Awaitable[list[bool | None]]]
"""Judges cases anew with something added to the rubric; `None` for a case without a verdict."""


@dataclass(frozen=True, slots=True)
class Search:
    """What a search works with."""

    metric: str
    rubric: str  # as the judge reads it
    most_guidelines: int
    variants: tuple[Variant, ...]
    propose: Propose
    rejudge: Rejudge

    async def guidance_of(self, cases: Sequence[LabelledCase]) -> tuple[list[Guideline], list[str]]:
        """The guidelines distilled from cases, and those that were refused, with the reason."""
        task = task_of(self.metric, self.rubric, cases, self.most_guidelines)
        if not task.wrong or not any(variant.has_guidelines for variant in self.variants):
            return [], []
        kept: list[Guideline] = []
        refused: list[str] = []
        # What stands first weighs most with a model: it reads the cases in both orders.
        for each in (task, replace(task, wrong=task.wrong[::-1])):
            for guideline in await self.propose(each):
                fault = guideline_fault(guideline, (*task.wrong, *task.right))
                if fault is not None:
                    refused.append(f"{guideline.title}: {fault}")
                elif guideline.text not in {other.text for other in kept}:
                    kept.append(guideline)
        return kept[: self.most_guidelines], refused

    def addition(
        self, variant: Variant, guidelines: Sequence[Guideline], cases: Sequence[LabelledCase]
    ) -> Guidance:
        """What a variant adds, from these guidelines and examples out of these cases."""
        return Guidance(
            tuple(guidelines) if variant.has_guidelines else (),
            tuple(chosen_examples(cases, variant.examples)),
        )


async def choose(search: Search, division: Division) -> VariantChoice:
    """Choose among the variants by the folds, and make the chosen one from all of them."""
    tried: dict[Variant, list[_FoldTrial]] = {variant: [] for variant in search.variants}
    for place, fold in enumerate(division.folds):
        others = division.others(place)
        guidelines, _ = await search.guidance_of(others)
        for variant in search.variants:
            added = search.addition(variant, guidelines, others)
            verdicts = await _verdicts(search, added, fold)
            tried[variant].append(_FoldTrial(added, fold, verdicts))
    scores = tuple(
        VariantScore(
            variant,
            *gain_and_p(
                [item for trial in trials for item in trial.fold],
                [verdict for trial in trials for verdict in trial.verdicts],
            ),
        )
        for variant, trials in tried.items()
    )
    # Of equal gains the one that adds least: what is added is paid for in every ask.
    best = min(scores, key=lambda item: (-item.gain, item.variant.examples))
    if best.gain <= 0 or best.p_value > WORTH_TRYING:
        return VariantChoice(Guidance(), scores)
    development = division.development
    guidelines, refused = await search.guidance_of(development)
    whole = search.addition(best.variant, guidelines, development)
    proved = max(tried[best.variant], key=lambda trial: trial.gain).added
    added = await _better(search, whole, proved, development)
    return VariantChoice(added, scores, best.variant, tuple(refused))


class _FoldTrial(NamedTuple):
    """What was made from the other folds, and the verdicts with it on this one."""

    added: Guidance
    fold: Sequence[LabelledCase]
    verdicts: list[bool | None]

    @property
    def gain(self) -> float:
        return gain_and_p(self.fold, self.verdicts)[0]


async def _verdicts(
    search: Search, added: Guidance, cases: Sequence[LabelledCase]
) -> list[bool | None]:
    if added.is_empty:
        return [item.judge for item in cases]
    return await search.rejudge(added, cases)


async def _better(
    search: Search, whole: Guidance, proved: Guidance, development: Sequence[LabelledCase]
) -> Guidance:
    """What gains more on the cases that neither shows as an example; of equal gains `whole`."""
    if whole == proved:
        return whole
    shown = {item.case_id for item in (*whole.examples, *proved.examples)}
    cases = [item for item in development if item.case.case_id[:500] not in shown]
    gains = [
        gain_and_p(cases, await _verdicts(search, added, cases))[0] for added in (whole, proved)
    ]
    return whole if gains[0] >= gains[1] else proved
