"""Aligns a judge with labels: proposes a better rubric, and proves it on labels held out.

Nothing of a run changes. What is tried on held-out labels is noted in table annotations.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from statistics import fmean
from typing import Final

from prefect import task
from prefect.cache_policies import NO_CACHE

from assizes.judge.alignment.examples import task_of
from assizes.judge.alignment.gate import try_held_out
from assizes.judge.alignment.labelled_cases import (
    LabelledCase,
    canary_cases,
    divide,
    labels_hash,
)
from assizes.judge.alignment.proposer import PROPOSER, ProposalTask, proposal_prompt
from assizes.judge.alignment.rejudging import (
    Rejudging,
    is_passed,
    judge_of,
    rubric_hash,
    rubric_text,
)
from assizes.judge.alignment.requested import proposer_of
from assizes.judge.alignment.result import (
    AlignmentPlan,
    AlignmentRequest,
    AlignmentResult,
    AnchorShift,
    CanaryChange,
    VariantGain,
)
from assizes.judge.alignment.rubric_files import (
    RubricFile,
    diff,
    room,
    rubric_file,
)
from assizes.judge.alignment.search import (
    TRIED_ON_ALL_FOLDS,
    Guidance,
    Search,
    Variant,
    VariantChoice,
    choose,
)
from assizes.judge.catalog import resolve_judges
from assizes.judge.config.judging import OFFLINE_MODEL, JudgeConfig, estimated_tokens
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.injection.families import plant_attack
from assizes.judge.model_assignment import ModelAssignment, assign_callable_models
from assizes.judge.model_factory import check_model, model_for
from assizes.judge.rubrics.guidance import AlignmentRecord, Guideline
from assizes.tasks.context.run_context import RunContext, progress_reporter
from assizes.tasks.intake.preprocessing import CasePreprocessor
from assizes.tasks.runs.alignments import (
    held_out_use,
    judged_anchors,
    labelled_metric,
    note_use,
    usd_per_case,
)
from assizes.tasks.runs.stored_cases import run_config
from assizes.tasks.runtime.process import redacts_secrets
from assizes.tasks.store import Store

ADDED_TOKENS: Final = 1_500
"""Tokens by which guidelines and examples are taken to lengthen each ask, for the forecast."""

_PROPOSAL_TOKENS: Final = 800
"""Tokens of a reply with guidelines, for the forecast."""


class Alignment:
    """What an alignment works with: labels, judge, engine and store.

    A plain class on purpose, as `RunContext`.
    """

    def __init__(self, store: Store, context: RunContext, request: AlignmentRequest) -> None:
        """Read the labels and the rubric; no model is asked.

        Raises:
            ConfigurationError: labels, metric or rubric cannot be used.
            Inconclusive: there are too few labels.
        """
        self.store, self.context, self.request = store, context, request
        self.config = context.config
        self.record = store.run(request.run)
        metric = request.metric
        self.labelled = labelled_metric(store, self.record, metric, self.config.calibration)
        self.division = divide(self.labelled.items, request.held_out, request.folds, request.seed)
        self.base = rubric_file(metric, self.config.judge.rubrics)
        self.judge = judge_of(self.config.judge, None, metric)
        self.hash = rubric_hash(self.judge, metric)
        if _model_of(context, self.judge.name) == OFFLINE_MODEL:
            raise ConfigurationError(
                f"{metric!r} was judged by {OFFLINE_MODEL}, which reads no guidelines; "
                "label a run that a language model judged"
            )
        self._check_same_judge()
        self.proposer = proposer_of(request)
        own_id = f"align-{self.record.run_id}-{metric}"
        engine = context.engine_for(own_id)
        report = context.progress
        self.engine = engine
        self.rejudging = Rejudging(engine, metric, lambda done: report("aligning", done, 0))

    def _check_same_judge(self) -> None:
        then = self.record.config.get("fingerprints", {}).get(f"metric:{self.request.metric}")
        if then is not None and then != self.hash:
            raise ConfigurationError(
                f"run {self.record.run_id} was judged by another rubric of {self.request.metric!r} "
                f"({then}) than stands there now ({self.hash}); judge the cases again first"
            )

    @property
    def variants(self) -> tuple[Variant, ...]:
        """What may be added: guidelines, examples, or both."""
        guidelines, examples = room(self.base.table)
        most, shown = min(self.request.guidelines, guidelines), min(self.request.examples, examples)
        wanted = (Variant(True, 0), Variant(False, shown), Variant(True, shown))
        return tuple(
            dict.fromkeys(
                variant._replace(has_guidelines=variant.has_guidelines and most > 0)
                for variant in wanted
                if (variant.has_guidelines and most > 0) or variant.examples
            )
        )

    def trial_record(self, use: int = 1, result: str = "not tried yet") -> AlignmentRecord:
        """The table `[alignment]` of a text that takes the place of the rubric as it is."""
        former = self.base.table.alignment
        return AlignmentRecord(
            parent=self.hash,
            version=1 if former is None else former.version + 1,
            metric=self.request.metric,
            run=self.record.run_id,
            labels=self.labelled.labels_hash,
            labelled_until=self.labelled.labelled_until,
            proposer=self.proposer.name,
            held_out=labels_hash(self.division.held_out),
            held_out_uses=use,
            result=result,
        )

    def candidate(self, guidance: Guidance) -> RubricFile:
        """The rubric with something added."""
        return self.base.with_guidance(guidance.guidelines, guidance.examples, self.trial_record())

    async def propose(self, wanted: ProposalTask) -> list[Guideline]:
        """Ask the proposer."""
        return await self.rejudging.proposal(self.proposer, wanted)

    async def verdicts(
        self, rubric: RubricFile, items: Sequence[LabelledCase]
    ) -> list[bool | None]:
        """The verdicts of the judge by another rubric."""
        judge = judge_of(self.config.judge, rubric, self.request.metric)
        return await self.rejudging.verdicts(judge, items)

    async def rejudge(self, guidance: Guidance, items: Sequence[LabelledCase]) -> list[bool | None]:
        """The verdicts of the judge with something added to its rubric."""
        return await self.verdicts(self.candidate(guidance), items)


def _model_of(context: RunContext, judge: str) -> str:
    model = context.assignment.own.get(judge, context.assignment.shared)
    return getattr(model, "name", "")


@asynccontextmanager
async def open_alignment(
    config: RunConfig, request: AlignmentRequest, store: Store
) -> AsyncIterator[Alignment]:
    """Open an alignment with the judge of the run, and the store, cache and limits of `config`.

    Raises:
        ConfigurationError: labels, rubric, models or prices cannot be used.
        Inconclusive: there are too few labels.
        UnknownRun: the store has no such run.
    """
    own = config_of_alignment(config, request, store)
    panel = resolve_judges(own.judge)
    assignment = await asyncio.to_thread(assign_callable_models, own, panel)
    if request.model is not None:
        judge = own.judge.model_copy(
            update={"model": request.model, "panel": [], "repeats": 1, "escalate_to": None}
        )
        assignment = await asyncio.to_thread(_with_proposer, own, judge, assignment)
    preprocessor = await asyncio.to_thread(CasePreprocessor.from_config, own)
    context = RunContext(own, panel, store, assignment, preprocessor, progress_reporter.get())
    try:
        yield await asyncio.to_thread(Alignment, store, context, request)
    finally:
        await context.aclose()


def config_of_alignment(config: RunConfig, request: AlignmentRequest, store: Store) -> RunConfig:
    """The configuration of an alignment: the judge of the run, in all else as configured now."""
    stored = run_config(store.run(request.run))
    limits = config.limits.model_copy(update={"budget_usd": request.budget_usd})
    return stored.model_copy(
        update={
            "limits": limits,
            "cache": config.cache,
            "store": config.store,
            "calibration": config.calibration,
        }
    )


def _with_proposer(
    config: RunConfig, judge: JudgeConfig, assignment: ModelAssignment
) -> ModelAssignment:
    check_model(judge)
    model = model_for(judge, config.limits)
    if model.price is None:
        raise ConfigurationError(
            f"--budget: no price is known for {model.name!r}; give it in "
            f'[limits.prices."{model.name}"] as input_usd_per_million and output_usd_per_million'
        )
    return ModelAssignment(assignment.shared, {**assignment.own, PROPOSER: model})


def plan_alignment(alignment: Alignment) -> AlignmentPlan:
    """What the alignment asks at the most; replies in the cache are counted too."""
    request, division = alignment.request, alignment.division
    development, held_out = len(division.development), len(division.held_out)
    canaries = 2 * len(canary_cases(alignment.labelled.items))
    anchors = judged_anchors(
        alignment.store, alignment.record, alignment.judge.name, request.metric
    )
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
    metric = alignment.request.metric
    anchors = await asyncio.to_thread(
        judged_anchors, alignment.store, alignment.record, alignment.judge.name, metric
    )
    if anchors is None or not anchors.cases:
        return None
    judge = judge_of(alignment.config.judge, trial, metric)
    scores = await alignment.rejudging.scores(judge, anchors.cases)
    moved = [
        100 * (score.value - old)
        for score, old in zip(scores, anchors.values, strict=True)
        if score.value is not None
    ]
    if not moved:
        return None
    return AnchorShift(run=anchors.run_id, cases=len(moved), points=fmean(moved))
