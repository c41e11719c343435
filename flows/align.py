"""Aligns a judge with the labels of people: a better rubric is proposed, and proved or refused."""

from __future__ import annotations

from typing import Final

from prefect import flow
from prefect.artifacts import acreate_markdown_artifact
from prefect.client.schemas.objects import State
from prefect.states import Completed

from assizes.flows.server import finds_server
from assizes.judge.alignment.requested import edited_rubric
from assizes.judge.alignment.result import AlignmentRequest, AlignmentResult
from assizes.judge.config.run import RunConfig
from assizes.tasks.align import (
    nothing_found,
    plan_alignment,
    propose_rubric,
    prove_rubric,
    variant_gains,
)
from assizes.tasks.context.alignment import open_alignment
from assizes.tasks.context.artifacts import artifact_key, ignore_server_errors
from assizes.tasks.runtime.process import redacts_secrets
from assizes.tasks.store import existing_store

KEY: Final = "assizes-alignment"
"""Artifact key of an alignment's Markdown; the name of the metric follows it."""


@redacts_secrets
@finds_server
@flow(name="align", flow_run_name="align-{request.metric}", result_serializer="json")
async def align_judge(config: RunConfig, request: AlignmentRequest) -> State[AlignmentResult]:
    """Propose a better rubric for a metric, or try an edited one; nothing is written.

    The state is named `Better` or `NotShown`; its data is the `AlignmentResult`, whose `text` is
    the new rubric where it is shown to be better. Leaves a Markdown artifact
    `assizes-alignment-<metric>`.

    Args:
        config: names the labels ([calibration] labels), store, cache, prices and limits.
        request: the run and the metric, who proposes, and the budget.
    """
    wanted = edited_rubric(request)
    with existing_store(config.store) as store:
        async with open_alignment(config, request, store) as alignment:
            plan = plan_alignment(alignment)
            alignment.context.progress("aligning", 0, plan.hearings + plan.proposals)
            if wanted is not None:
                result = await prove_rubric(alignment, wanted, plan)
            else:
                choice = await propose_rubric(alignment)
                if choice.guidance.is_empty:
                    result = nothing_found(alignment, plan, choice)
                else:
                    candidate = alignment.candidate(choice.guidance)
                    proved = await prove_rubric(alignment, candidate, plan)
                    said = {"variants": variant_gains(choice), "refused": choice.refused}
                    result = proved.model_copy(update=said)
    lines = "\n".join(f"- {line}" for line in result.lines())
    shown = f"\n\n```diff\n{result.diff.replace('```', '`` `')}\n```" if result.diff else ""
    with ignore_server_errors("the alignment"):
        await acreate_markdown_artifact(
            f"{lines}{shown}", key=f"{KEY}-{artifact_key(request.metric)}"
        )
    name = "Better" if result.is_better else "NotShown"
    return Completed(name=name, message=result.why, data=result)
