"""Aligns a judge with labels: proposes a better rubric, and proves it on labels held out.

Nothing of a run changes. What is tried on held-out labels is noted in table annotations.
"""

from __future__ import annotations

from statistics import fmean
from typing import Final

from prefect import task
from prefect.cache_policies import NO_CACHE

from assizes.judge.alignment.examples import task_of
from assizes.judge.alignment.gate import try_held_out
from assizes.judge.alignment.labelled_cases import (
    canary_cases,
    labels_hash,
)
from assizes.judge.alignment.proposer import proposal_prompt
from assizes.judge.alignment.rejudging import (
    is_passed,
    judge_of,
    rubric_hash,
    rubric_text,
)
from assizes.judge.alignment.result import (
    AlignmentPlan,
    AlignmentResult,
    AnchorShift,
    CanaryChange,
    VariantGain,
)
from assizes.judge.alignment.rubric_files import (
    RubricFile,
    diff,
    room,
)
from assizes.judge.alignment.search import (
    TRIED_ON_ALL_FOLDS,
    Search,
    VariantChoice,
    choose,
)
from assizes.judge.config.judging import estimated_tokens
from assizes.judge.errors import ConfigurationError
from assizes.judge.injection.families import plant_attack
from assizes.tasks.context.alignment import Alignment
from assizes.tasks.runs.alignments import (
    held_out_use,
    note_use,
    usd_per_case,
)
from assizes.tasks.runtime.process import redacts_secrets

ADDED_TOKENS: Final = 1_500
"""Tokens by which guidelines and examples are taken to lengthen each ask, for the forecast."""

_PROPOSAL_TOKENS: Final = 800
"""Tokens of a reply with guidelines, for the forecast."""


def plan_alignment(alignment: Alignment) -> AlignmentPlan:
    """What the alignment asks at the most; replies in the cache are counted too."""
    request, division = alignment.request, alignment.division
    development, held_out = len(division.development), len(division.held_out)
    canaries = 2 * len(canary_cases(alignment.labelled.items))
    anchors = alignment.anchors
    hearings = held_out + canaries + (len(anchors.cases) if anchors else 0)
    proposals = 0
    if request.file is None:
        hearings += development * (len(alignment.variants) + TRIED_ON_ALL_FOLDS)
        proposals = 2 * (request.folds + 1)
    prices = {model.name: model.price for model in alignment.context.assignment.models}
    each = usd_per_case(
        alignment.store, alignment.record.run_id, alignment.judge.name, prices, ADDED_TOKENS
    )
    usd = None if each is None else each * hearings
    price = prices.get(alignment.proposer.name)
    if usd is not None and proposals and price is not None:
        task = task_of(request.metric, "", division.development, request.guidelines)
        prompt = proposal_prompt(task)
        tokens = estimated_tokens(prompt.system, prompt.user)
        usd += proposals * price.cost_usd(tokens, _PROPOSAL_TOKENS)
    return AlignmentPlan(
        metric=request.metric,
        labels=len(alignment.labelled.items),
        held_out=held_out,
        wrong=sum(item.is_wrong for item in alignment.labelled.items),
        hearings=hearings,
        proposals=proposals,
        usd=usd,
    )


@redacts_secrets
@task(name="propose_rubric", cache_policy=NO_CACHE, persist_result=False, result_serializer="json")
async def propose_rubric(alignment: Alignment) -> VariantChoice:
    """Distil guidelines, choose examples, and choose among them by the folds.

    Raises:
        OverBudget: the budget was spent.
        Inconclusive: the judge or the proposer gave too few replies.
    """
    request = alignment.request
    search = Search(
        metric=request.metric,
        rubric=rubric_text(alignment.judge, request.metric),
        most_guidelines=min(request.guidelines, room(alignment.base.table)[0]),
        variants=alignment.variants,
        propose=alignment.propose,
        rejudge=alignment.rejudge,
    )
    return await choose(search, alignment.division)


@redacts_secrets
@task(name="prove_rubric", cache_policy=NO_CACHE, persist_result=False, result_serializer="json")
async def prove_rubric(
    alignment: Alignment, wanted: RubricFile, plan: AlignmentPlan
) -> AlignmentResult:
    """Judge the held-out labels, canaries and anchors by a new rubric, and give the verdict.

    Raises:
        OverBudget: the budget was spent.
        Inconclusive: the judge gave too few replies.
    """
    metric, store, run_id = alignment.request.metric, alignment.store, alignment.record.run_id
    trial = wanted.with_record(alignment.trial_record())
    judge = judge_of(alignment.config.judge, trial, metric)
    new_hash = rubric_hash(judge, metric)
    if new_hash == alignment.hash:
        raise ConfigurationError(f"{wanted.path or metric}: the rubric in use has the same text")
    held_out = alignment.division.held_out
    held_hash = labels_hash(held_out)
    use = held_out_use(store, run_id, held_hash, new_hash)
    note_use(store, run_id, metric, held_hash, new_hash)  # first: a look that was broken off counts
    verdicts = await alignment.rejudging.verdicts(judge, held_out)
    result = try_held_out(held_out, verdicts, use)
    canaries = await _canary_change(alignment, trial)
    fault = None
    if canaries is not None and canaries.new > canaries.old:
        fault = (
            f"{canaries.new} planted attacks take the new judge over, {canaries.old} the old one"
        )
    is_better = result.is_better and fault is None
    new = trial.with_record(alignment.trial_record(use, result.sentence()))
    name = f"{metric}.toml"
    return AlignmentResult(
        run_id=run_id,
        metric=metric,
        plan=plan,
        verdict="better" if is_better else "not_shown",
        why=result.sentence() if fault is None else f"not shown to be better: {fault}",
        held_out=result,
        canaries=canaries,
        anchors=await _anchor_shift(alignment, trial),
        uses=use,
        old_hash=alignment.hash,
        new_hash=new_hash,
        text=new.text if is_better else "",
        diff=diff(alignment.base, new, name) if is_better else "",
        cost_usd=alignment.engine.cost_usd,
    )


def nothing_found(
    alignment: Alignment, plan: AlignmentPlan, choice: VariantChoice
) -> AlignmentResult:
    """The result where no variant gained enough on the folds to be tried on held-out labels."""
    return AlignmentResult(
        run_id=alignment.record.run_id,
        metric=alignment.request.metric,
        plan=plan,
        verdict="not_shown",
        why="not shown to be better: no guidelines and no examples gained on the folds; the "
        "held-out labels were not used",
        held_out=None,
        variants=variant_gains(choice),
        refused=choice.refused,
        old_hash=alignment.hash,
        cost_usd=alignment.engine.cost_usd,
    )


def variant_gains(choice: VariantChoice) -> tuple[VariantGain, ...]:
    """How the variants did, for a result."""
    return tuple(
        VariantGain(variant=item.variant.words(), gain=item.gain, p_value=item.p_value)
        for item in choice.scores
    )


async def _canary_change(alignment: Alignment, trial: RubricFile) -> CanaryChange | None:
    cases = [plant_attack(item.case) for item in canary_cases(alignment.labelled.items)]
    if not cases:
        return None
    taken = []
    for judge in (alignment.judge, judge_of(alignment.config.judge, trial, trial.metric)):
        scores = await alignment.rejudging.scores(judge, cases)
        taken.append(sum(is_passed(score) is True for score in scores))
    return CanaryChange(planted=len(cases), old=taken[0], new=taken[1])


async def _anchor_shift(alignment: Alignment, trial: RubricFile) -> AnchorShift | None:
    anchors = alignment.anchors
    if anchors is None or not anchors.cases:
        return None
    judge = judge_of(alignment.config.judge, trial, alignment.request.metric)
    scores = await alignment.rejudging.scores(judge, anchors.cases)
    moved = [
        100 * (score.value - old)
        for score, old in zip(scores, anchors.values, strict=True)
        if score.value is not None
    ]
    if not moved:
        return None
    labelled = [
        (people, old, is_passed(score))
        for score, people, old in zip(scores, anchors.people, anchors.passed, strict=True)
        if people is not None
    ]
    return AnchorShift(
        run=anchors.run_id,
        cases=len(moved),
        points=fmean(moved),
        labelled=len(labelled),
        right_before=sum(old == people for people, old, _ in labelled),
        right_after=sum(new == people for people, _, new in labelled),
    )
