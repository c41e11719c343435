"""What an alignment works with: labels, rubric, judge, engine and store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from assizes.judge.alignment.labelled_cases import LabelledCase, divide, labels_hash
from assizes.judge.alignment.proposer import PROPOSER, ProposalTask
from assizes.judge.alignment.rejudging import Rejudging, judge_of, rubric_hash
from assizes.judge.alignment.requested import proposer_of
from assizes.judge.alignment.result import AlignmentRequest
from assizes.judge.alignment.rubric_files import RubricFile, room, rubric_file
from assizes.judge.alignment.search import Guidance, Variant
from assizes.judge.catalog import resolve_judges
from assizes.judge.config.judging import OFFLINE_MODEL, JudgeConfig
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.model_assignment import ModelAssignment, assign_callable_models
from assizes.judge.model_factory import check_model, model_for
from assizes.judge.rubrics.guidance import AlignmentRecord, Guideline
from assizes.tasks.context.run_context import RunContext, progress_reporter
from assizes.tasks.intake.preprocessing import CasePreprocessor
from assizes.tasks.runs.alignments import judged_anchors, labelled_metric
from assizes.tasks.runs.stored_cases import run_config
from assizes.tasks.store import Store


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
        self.anchors = judged_anchors(store, self.record, self.judge.name, metric, self.config)
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
            "anchors": config.anchors,
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
